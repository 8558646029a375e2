//! The recorded traces of a program, where they were asked for.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use crate::engine::Engine;
use crate::event::TraceEvent;
use crate::instruction_trace::InstructionRecorder;
use crate::report::{INSTRUCTION_TRACE_FAILURE, TRACE_FAILURE};
use crate::trace_file::{Position, Recorder, TraceFileError, TraceWriter};

/// Writes into a trace file. At the first error it empties the file, says why beside the reports, and does nothing more:
/// the program and its profile must not suffer.
struct Tap<R> {
    file: PathBuf,
    failure: PathBuf,
    recorder: Option<R>,
}

impl<R> Tap<R> {
    fn new<E: From<io::Error> + ToString>(
        file: &Path,
        failure: PathBuf,
        begin: impl FnOnce(File) -> Result<R, E>,
    ) -> Self {
        let mut tap = Self { file: file.to_owned(), failure, recorder: None };
        let begun = OpenOptions::new().append(true).open(file).map_err(E::from).and_then(begin);
        tap.recorder = tap.kept(begun);
        tap
    }

    fn go_on<E: ToString>(&mut self, step: impl FnOnce(&mut R) -> Result<(), E>) {
        let Some(mut recorder) = self.recorder.take() else { return };
        let result = step(&mut recorder);
        self.recorder = self.kept(result).map(|()| recorder);
    }

    fn kept<T, E: ToString>(&self, result: Result<T, E>) -> Option<T> {
        result
            .map_err(|error| {
                // An empty file says enough if nothing else can be written.
                let _ = File::create(&self.file);
                let _ = fs::write(&self.failure, error.to_string());
            })
            .ok()
    }
}

/// The trace of accesses, whose file has its header already.
pub(super) struct AccessTap(Tap<Recorder<File>>);

impl AccessTap {
    pub(super) fn new(file: &Path, reports: &Path) -> Self {
        Self(Tap::new(file, reports.join(TRACE_FAILURE), |file| {
            TraceWriter::behind_header(file).map(Recorder::new)
        }))
    }

    /// Takes in what the engine has just taken in.
    pub(super) fn record(
        &mut self,
        position: &mut Position,
        events: &[TraceEvent],
        engine: &Engine,
    ) {
        let limit = if engine.is_full() { engine.instructions() } else { u64::MAX };
        self.0.go_on(|recorder| {
            recorder.record(position, events, limit, |id| engine.known_block(id))
        });
    }

    pub(super) fn flush(&mut self) {
        self.0.go_on(Recorder::flush);
    }

    pub(super) fn finish(&mut self) {
        if let Some(recorder) = self.0.recorder.take() {
            self.0.kept::<_, TraceFileError>(recorder.finish());
        }
    }
}

/// The trace of instructions.
pub(super) struct InstructionTap(Tap<InstructionRecorder<BufWriter<File>>>);

impl InstructionTap {
    pub(super) fn new(file: &Path, reports: &Path) -> Self {
        Self(Tap::new(file, reports.join(INSTRUCTION_TRACE_FAILURE), |file| {
            Ok::<_, io::Error>(InstructionRecorder::new(BufWriter::new(file)))
        }))
    }

    /// Takes in what the engine has just taken in of the program's first thread.
    pub(super) fn record(&mut self, events: &[TraceEvent], limit: u64, engine: &Engine) {
        self.0.go_on(|recorder| recorder.record(events, limit, |id| engine.known_block(id)));
    }

    pub(super) fn flush(&mut self) {
        self.0.go_on(InstructionRecorder::flush);
    }
}
