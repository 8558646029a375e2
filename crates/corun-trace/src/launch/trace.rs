//! The trace files around a run: what stands in them before, their place after.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, PipeWriter, Read, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use corun_profile::{behind_links, is_special};
use tempfile::NamedTempFile;

use super::{Request, TraceError};
use crate::control::{Control, TraceKind};
use crate::event::LINE_BYTES;
use crate::instruction_trace::RECORD_BYTES;
use crate::program::Program;
use crate::trace_file::{Ending, TraceHeader, TraceWriter};

/// Bytes that a relay takes over at a time, as many as a pipe holds.
const RELAYED_BYTES: usize = 64 << 10;

/// A trace that is being written.
struct Pending {
    kind: TraceKind,
    /// Where it was asked for.
    asked: PathBuf,
    place: Place,
}

/// Where a trace is written.
enum Place {
    /// A file beside the one that it replaces at the end.
    Beside { file: NamedTempFile, target: PathBuf },
    /// A device or a pipe, which nothing may replace.
    Special(Relay),
}

/// Hands what the plug-in writes on to a device or a pipe. The plug-in could write there itself, but if the reader of a pipe
/// ended, a signal would end the program.
struct Relay {
    path: PathBuf,
    /// What the plug-in opens; the relay ends when this and the plug-in's own are closed.
    writer: PipeWriter,
    relay: JoinHandle<io::Result<u64>>,
}

impl Relay {
    fn begin(mut target: File) -> io::Result<Self> {
        let (mut reader, writer) = io::pipe()?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd()).into();
        let relay = thread::spawn(move || {
            let mut bytes = vec![0; RELAYED_BYTES];
            let (mut count, mut written) = (0, Ok(()));
            loop {
                match reader.read(&mut bytes)? {
                    0 => return written.map(|()| count),
                    // The rest is read all the same: the program must not wait.
                    read if written.is_ok() => {
                        written = target.write_all(&bytes[..read]);
                        count += read as u64;
                    }
                    _ => {}
                }
            }
        });
        Ok(Self { path, writer, relay })
    }

    /// Waits until all is written, and tells how many bytes that was.
    fn end(self) -> io::Result<u64> {
        drop(self.writer);
        self.relay.join().unwrap_or_else(|_| Err(io::Error::other("the relay failed")))
    }
}

impl Pending {
    /// Begins with a header, if there is one.
    fn begin(
        path: &Path,
        kind: TraceKind,
        header: Option<&TraceHeader>,
    ) -> Result<Self, TraceError> {
        let place = Place::begin(path, header).map_err(|error| no_trace(path, error))?;
        Ok(Self { kind, asked: path.to_owned(), place })
    }

    /// The file that the plug-in adds to.
    fn path(&self) -> &Path {
        match &self.place {
            Place::Beside { file, .. } => file.path(),
            Place::Special(relay) => &relay.path,
        }
    }

    /// Gives it its place and tells how many bytes the plug-in has added, in whole records of `record` bytes; one that could
    /// not be written is removed.
    fn end(self, control: &Control, record: u64) -> Result<u64, TraceError> {
        let Self { kind, asked, place } = self;
        let failure = control.trace_failure(kind).map_or(Ok(()), Err);
        place.end(failure, record).map_err(|error| no_trace(&asked, error))
    }
}

impl Place {
    fn begin(path: &Path, header: Option<&TraceHeader>) -> io::Result<Self> {
        let begin = |file: &File| match header {
            Some(header) => TraceWriter::new(file, header).map(drop).map_err(io::Error::from),
            None => Ok(()),
        };
        if is_special(path) {
            let target = OpenOptions::new().write(true).open(path)?;
            begin(&target)?;
            return Relay::begin(target).map(Self::Special);
        }
        let target = behind_links(path);
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = tempfile::Builder::new()
            .prefix(".corun-trace-")
            // As the umask has it, like any other file.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder.unwrap_or(Path::new(".")))?;
        begin(file.as_file())?;
        Ok(Self::Beside { file, target })
    }

    fn end(self, failure: io::Result<()>, record: u64) -> io::Result<u64> {
        match self {
            Self::Beside { file, target } => {
                failure?;
                let bytes = file.as_file().metadata()?.len() / record * record;
                // What a program that was killed left of its last record is cut off.
                file.as_file().set_len(bytes)?;
                file.persist(&target).map_err(|error| error.error)?;
                Ok(bytes)
            }
            Self::Special(relay) => {
                let bytes = relay.end();
                failure.and(bytes)
            }
        }
    }
}

fn no_trace(path: &Path, reason: impl ToString) -> TraceError {
    TraceError::NoTrace { path: path.to_owned(), reason: reason.to_string() }
}

/// A trace of accesses.
pub(super) struct Trace(Pending);

impl Trace {
    pub(super) fn begin(
        path: &Path,
        request: &Request,
        program: &Program,
    ) -> Result<Self, TraceError> {
        let command = request.command.iter().map(|word| word.to_string_lossy().into_owned());
        let header = TraceHeader {
            line_bytes: LINE_BYTES,
            guest: program.qemu.trim_start_matches("qemu-").to_owned(),
            command: request.shown_command.clone().unwrap_or_else(|| command.collect()),
        };
        Pending::begin(path, TraceKind::Accesses, Some(&header)).map(Self)
    }

    /// The file that the plug-in adds to.
    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Gives it its place; one that the plug-in could not write is removed.
    pub(super) fn end(self, control: &Control) -> Result<Ending, TraceError> {
        self.0.end(control, 1)?;
        Ok(if control.trace_ended() { Ending::Whole } else { Ending::BrokenOff })
    }
}

/// A trace of instructions.
pub(super) struct InstructionTrace(Pending);

impl InstructionTrace {
    pub(super) fn begin(path: &Path) -> Result<Self, TraceError> {
        Pending::begin(path, TraceKind::Instructions, None).map(Self)
    }

    /// The file that the plug-in adds to.
    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Gives it its place and tells its instructions; one that the plug-in could not write is removed.
    pub(super) fn end(self, control: &Control) -> Result<u64, TraceError> {
        let record = RECORD_BYTES as u64;
        self.0.end(control, record).map(|bytes| bytes / record)
    }
}
