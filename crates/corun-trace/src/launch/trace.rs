//! The trace file around a run: its header before, its place after.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::{Request, TraceError};
use crate::event::LINE_BYTES;
use crate::program::Program;
use crate::report::TRACE_FAILURE;
use crate::trace_file::{self, Ending, TraceHeader, TraceWriter};

/// A trace that is being written beside its place, and moved there at the end.
pub(super) struct Trace {
    file: NamedTempFile,
    target: PathBuf,
}

impl Trace {
    pub(super) fn begin(
        path: &Path,
        request: &Request,
        program: &Program,
    ) -> Result<Self, TraceError> {
        let no_trace = |reason: String| TraceError::NoTrace { path: path.to_owned(), reason };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = tempfile::Builder::new()
            .prefix(".corun-trace-")
            // As the umask has it, like any other file.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder.unwrap_or(Path::new(".")))
            .map_err(|error| no_trace(error.to_string()))?;
        let command = request.command.iter().map(|word| word.to_string_lossy().into_owned());
        let header = TraceHeader {
            line_bytes: LINE_BYTES,
            guest: program.qemu.trim_start_matches("qemu-").to_owned(),
            command: request.shown_command.clone().unwrap_or_else(|| command.collect()),
        };
        TraceWriter::new(file.as_file(), &header).map_err(|error| no_trace(error.to_string()))?;
        Ok(Self { file, target: path.to_owned() })
    }

    /// The file that the plug-in adds to.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Moves it to its place; one that the plug-in could not write is removed. `reports`: the folder
    /// of its reports.
    pub(super) fn end(self, reports: &Path) -> Result<Ending, TraceError> {
        let path = self.target.clone();
        let no_trace = |reason: String| TraceError::NoTrace { path: path.clone(), reason };
        let ending = File::open(self.file.path()).and_then(trace_file::ending);
        let ending = ending.map_err(|error| no_trace(error.to_string()))?.ok_or_else(|| {
            let reason = std::fs::read_to_string(reports.join(TRACE_FAILURE));
            no_trace(reason.unwrap_or_else(|_| "it could not be written whole".to_owned()))
        })?;
        self.file.persist(&self.target).map_err(|error| no_trace(error.to_string()))?;
        Ok(ending)
    }
}
