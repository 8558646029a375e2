//! The recorded trace of a program, where one was asked for.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use crate::engine::Engine;
use crate::event::TraceEvent;
use crate::report::TRACE_FAILURE;
use crate::trace_file::{Position, Recorder, TraceFileError, TraceWriter};

/// Writes the events into a trace file that already has its header. At the first error it empties
/// the file, says why beside the reports, and does nothing more: the program and its profile must
/// not suffer.
pub(super) struct Tap {
    file: PathBuf,
    failure: PathBuf,
    recorder: Option<Recorder<File>>,
}

impl Tap {
    pub(super) fn new(file: &Path, reports: &Path) -> Self {
        let failure = reports.join(TRACE_FAILURE);
        let mut tap = Self { file: file.to_owned(), failure, recorder: None };
        let begun = OpenOptions::new()
            .append(true)
            .open(file)
            .map_err(TraceFileError::from)
            .and_then(TraceWriter::behind_header);
        tap.recorder = tap.kept(begun).map(Recorder::new);
        tap
    }

    /// Takes in what the engine has just taken in.
    pub(super) fn record(
        &mut self,
        position: &mut Position,
        events: &[TraceEvent],
        engine: &Engine,
    ) {
        let limit = if engine.is_full() { engine.instructions() } else { u64::MAX };
        self.go_on(|recorder| {
            recorder.record(position, events, limit, |id| engine.known_block(id))
        });
    }

    pub(super) fn flush(&mut self) {
        self.go_on(Recorder::flush);
    }

    pub(super) fn finish(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            self.kept(recorder.finish());
        }
    }

    fn go_on(&mut self, step: impl FnOnce(&mut Recorder<File>) -> Result<(), TraceFileError>) {
        let Some(mut recorder) = self.recorder.take() else { return };
        let result = step(&mut recorder);
        self.recorder = self.kept(result).map(|()| recorder);
    }

    fn kept<T>(&self, result: Result<T, TraceFileError>) -> Option<T> {
        result
            .map_err(|error| {
                // An empty file says enough if nothing else can be written.
                let _ = File::create(&self.file);
                let _ = fs::write(&self.failure, error.to_string());
            })
            .ok()
    }
}
