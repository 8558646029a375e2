//! The recorded traces of a program, where they were asked for.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;

use crate::control::{Control, TraceKind};
use crate::engine::Engine;
use crate::event::TraceEvent;
use crate::instruction_trace::InstructionRecorder;
use crate::trace_file::{Position, Recorder, TraceFileError, TraceWriter};

/// Writes into a trace file. At the first error it tells why whoever started the recording, and does nothing more: the
/// program and its profile must not suffer.
struct Tap<R> {
    kind: TraceKind,
    control: Arc<Control>,
    recorder: Option<R>,
}

impl<R> Tap<R> {
    fn new<E: From<io::Error> + Into<io::Error>>(
        file: &Path,
        kind: TraceKind,
        control: &Arc<Control>,
        begin: impl FnOnce(File) -> Result<R, E>,
    ) -> Self {
        let mut tap = Self { kind, control: Arc::clone(control), recorder: None };
        let begun = OpenOptions::new().append(true).open(file).map_err(E::from).and_then(begin);
        tap.recorder = tap.kept(begun);
        tap
    }

    fn go_on<E: Into<io::Error>>(&mut self, step: impl FnOnce(&mut R) -> Result<(), E>) {
        let Some(mut recorder) = self.recorder.take() else { return };
        let result = step(&mut recorder);
        self.recorder = self.kept(result).map(|()| recorder);
    }

    fn kept<T, E: Into<io::Error>>(&self, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.control.set_trace_failure(self.kind, &error.into())).ok()
    }
}

/// The trace of accesses, whose file has its header already.
pub(super) struct AccessTap(Tap<Recorder<File>>);

impl AccessTap {
    pub(super) fn new(file: &Path, control: &Arc<Control>) -> Self {
        Self(Tap::new(file, TraceKind::Accesses, control, |file| {
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
        if let Some(recorder) = self.0.recorder.take()
            && self.0.kept::<_, TraceFileError>(recorder.finish()).is_some()
        {
            self.0.control.set_trace_ended();
        }
    }
}

/// The trace of instructions.
pub(super) struct InstructionTap(Tap<InstructionRecorder<BufWriter<File>>>);

impl InstructionTap {
    pub(super) fn new(file: &Path, control: &Arc<Control>) -> Self {
        Self(Tap::new(file, TraceKind::Instructions, control, |file| {
            Ok::<_, io::Error>(InstructionRecorder::new(BufWriter::new(file)))
        }))
    }

    /// Takes in what the engine has just taken in of the program's first thread.
    pub(super) fn record(&mut self, events: &[TraceEvent], limit: u64, engine: &Engine) {
        self.0.go_on(|recorder| recorder.record(events, limit, |id| engine.known_block(id)));
    }

    /// The thread's last block has run to its end.
    pub(super) fn end(&mut self, limit: u64, engine: &Engine) {
        self.0.go_on(|recorder| recorder.end(limit, |id| engine.known_block(id)));
    }

    pub(super) fn flush(&mut self) {
        self.0.go_on(InstructionRecorder::flush);
    }
}
