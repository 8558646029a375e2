//! Where accesses come from.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use corun_trace::trace_file::{Access, Ending, TraceFileError, TraceHeader, TraceReader};

/// The accesses of one run of a program, as often as it is run.
pub trait AccessSource {
    /// Why there is no next access.
    type Error;

    /// The next access of this run; `None` at its end.
    ///
    /// # Errors
    /// As the source says.
    fn next_access(&mut self) -> Result<Option<Access>, Self::Error>;

    /// At the end of a run: instructions after the last access.
    fn instructions_left(&self) -> u64;

    /// Begins again.
    ///
    /// # Errors
    /// As the source says.
    fn restart(&mut self) -> Result<(), Self::Error>;
}

impl<S: AccessSource> AccessSource for &mut S {
    type Error = S::Error;

    #[inline]
    fn next_access(&mut self) -> Result<Option<Access>, S::Error> {
        (**self).next_access()
    }

    fn instructions_left(&self) -> u64 {
        (**self).instructions_left()
    }

    fn restart(&mut self) -> Result<(), S::Error> {
        (**self).restart()
    }
}

/// A trace file that cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct TraceSourceError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub source: TraceFileError,
}

/// A trace file, read again for every run.
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    reader: TraceReader<BufReader<File>>,
    instructions: u64,
    broken_off: bool,
}

impl TraceFile {
    /// Opens a trace.
    ///
    /// # Errors
    /// When it cannot be read or is none.
    pub fn open(path: &Path) -> Result<Self, TraceSourceError> {
        let reader = File::open(path)
            .map_err(TraceFileError::from)
            .and_then(|file| TraceReader::new(BufReader::with_capacity(1 << 18, file)))
            .map_err(|source| TraceSourceError { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), reader, instructions: 0, broken_off: false })
    }

    /// What stands at its front.
    pub fn header(&self) -> &TraceHeader {
        self.reader.header()
    }

    /// Did a run so far end where the file breaks off?
    pub fn broken_off(&self) -> bool {
        self.broken_off
    }
}

impl AccessSource for TraceFile {
    type Error = TraceSourceError;

    #[inline]
    fn next_access(&mut self) -> Result<Option<Access>, TraceSourceError> {
        match self.reader.next_access() {
            Ok(Some(access)) => {
                self.instructions += access.gap;
                Ok(Some(access))
            }
            Ok(None) => {
                self.broken_off |= self.reader.ending() == Some(Ending::BrokenOff);
                Ok(None)
            }
            Err(source) => Err(TraceSourceError { path: self.path.clone(), source }),
        }
    }

    fn instructions_left(&self) -> u64 {
        self.reader.totals().instructions.saturating_sub(self.instructions)
    }

    fn restart(&mut self) -> Result<(), TraceSourceError> {
        let broken_off = self.broken_off;
        *self = Self { broken_off, ..Self::open(&self.path)? };
        Ok(())
    }
}
