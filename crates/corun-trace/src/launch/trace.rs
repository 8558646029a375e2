//! The trace files around a run: what stands in them before, their place after.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::{Request, TraceError};
use crate::event::LINE_BYTES;
use crate::instruction_trace::RECORD_BYTES;
use crate::program::Program;
use crate::report::{INSTRUCTION_TRACE_FAILURE, TRACE_FAILURE};
use crate::trace_file::{self, Ending, TraceHeader, TraceWriter};

/// A file that is being written beside its place, and moved there at the end.
struct Pending {
    file: NamedTempFile,
    target: PathBuf,
}

impl Pending {
    fn begin(path: &Path) -> Result<Self, TraceError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = tempfile::Builder::new()
            .prefix(".corun-trace-")
            // As the umask has it, like any other file.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder.unwrap_or(Path::new(".")))
            .map_err(|error| no_trace(path, error.to_string()))?;
        Ok(Self { file, target: path.to_owned() })
    }

    fn failed(&self, error: impl ToString) -> TraceError {
        no_trace(&self.target, error.to_string())
    }

    fn persist(self) -> Result<(), TraceError> {
        let Self { file, target } = self;
        file.persist(&target).map_err(|error| no_trace(&target, error.to_string()))?;
        Ok(())
    }
}

fn no_trace(path: &Path, reason: String) -> TraceError {
    TraceError::NoTrace { path: path.to_owned(), reason }
}

/// A trace of accesses.
pub(super) struct Trace(Pending);

impl Trace {
    pub(super) fn begin(
        path: &Path,
        request: &Request,
        program: &Program,
    ) -> Result<Self, TraceError> {
        let pending = Pending::begin(path)?;
        let command = request.command.iter().map(|word| word.to_string_lossy().into_owned());
        let header = TraceHeader {
            line_bytes: LINE_BYTES,
            guest: program.qemu.trim_start_matches("qemu-").to_owned(),
            command: request.shown_command.clone().unwrap_or_else(|| command.collect()),
        };
        TraceWriter::new(pending.file.as_file(), &header).map_err(|error| pending.failed(error))?;
        Ok(Self(pending))
    }

    /// The file that the plug-in adds to.
    pub(super) fn path(&self) -> &Path {
        self.0.file.path()
    }

    /// Moves it to its place; one that the plug-in could not write is removed. `reports`: the folder
    /// of its reports.
    pub(super) fn end(self, reports: &Path) -> Result<Ending, TraceError> {
        let ending = File::open(self.path()).and_then(trace_file::ending);
        let ending = ending.map_err(|error| self.0.failed(error))?.ok_or_else(|| {
            let reason = std::fs::read_to_string(reports.join(TRACE_FAILURE));
            self.0.failed(reason.unwrap_or_else(|_| "it could not be written whole".to_owned()))
        })?;
        self.0.persist()?;
        Ok(ending)
    }
}

pub(super) struct InstructionTrace(Pending);

impl InstructionTrace {
    pub(super) fn begin(path: &Path) -> Result<Self, TraceError> {
        Pending::begin(path).map(Self)
    }

    /// The file that the plug-in adds to.
    pub(super) fn path(&self) -> &Path {
        self.0.file.path()
    }

    /// Moves it to its place and tells its instructions; one that the plug-in could not write is removed. What a program
    /// that was killed left of its last instruction is cut off.
    pub(super) fn end(self, reports: &Path) -> Result<u64, TraceError> {
        if let Ok(reason) = std::fs::read_to_string(reports.join(INSTRUCTION_TRACE_FAILURE)) {
            return Err(self.0.failed(reason));
        }
        let instructions = self.cut().map_err(|error| self.0.failed(error))?;
        self.0.persist()?;
        Ok(instructions)
    }

    fn cut(&self) -> io::Result<u64> {
        let file = self.0.file.as_file();
        let instructions = file.metadata()?.len() / RECORD_BYTES as u64;
        file.set_len(instructions * RECORD_BYTES as u64)?;
        Ok(instructions)
    }
}
