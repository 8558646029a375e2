//! Where accesses come from.

use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use corun_trace::trace_file::{Access, Ending, MAGIC, TraceFileError, TraceHeader, TraceReader};
use tempfile::NamedTempFile;

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

/// A trace that several replays read, each for itself.
#[derive(Debug)]
pub struct TraceInput {
    path: PathBuf,
    /// What came out of a pipe, which can be read only once.
    kept: Option<NamedTempFile>,
}

impl TraceInput {
    /// Looks whether it is a trace. A pipe is read to its end.
    ///
    /// # Errors
    /// When it cannot be read or is none.
    pub fn new(path: &Path) -> Result<Self, TraceSourceError> {
        let wrong = |source| TraceSourceError { path: path.to_owned(), source };
        // A folder is refused when it is read.
        let is_pipe = fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        let kept = is_pipe.then(|| keep(path)).transpose().map_err(wrong)?;
        let input = Self { path: path.to_owned(), kept };
        input.open().map(|_| input)
    }

    /// Begins to read.
    ///
    /// # Errors
    /// As of [`TraceFile::open`].
    pub fn open(&self) -> Result<TraceFile, TraceSourceError> {
        let place = self.kept.as_ref().map_or(self.path.as_path(), NamedTempFile::path);
        TraceFile::open_as(place, &self.path)
    }
}

/// Copies what a pipe gives, if it is a trace: another thing may have no end.
fn keep(path: &Path) -> Result<NamedTempFile, TraceFileError> {
    let pipe = File::open(path)?;
    let mut start = Vec::new();
    (&pipe).take(MAGIC.len() as u64).read_to_end(&mut start)?;
    if start != MAGIC {
        return Err(TraceFileError::NotATrace);
    }
    let mut kept = tempfile::Builder::new().prefix("corun-replay-").tempfile()?;
    kept.write_all(&start)?;
    io::copy(&mut &pipe, kept.as_file_mut())?;
    Ok(kept)
}

/// A trace file, read again for every run.
#[derive(Debug)]
pub struct TraceFile {
    /// What it is called.
    path: PathBuf,
    /// Where it is read.
    place: PathBuf,
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
        Self::open_as(path, path)
    }

    fn open_as(place: &Path, path: &Path) -> Result<Self, TraceSourceError> {
        let reader = File::open(place)
            .map_err(TraceFileError::from)
            .and_then(|file| TraceReader::new(BufReader::with_capacity(1 << 18, file)))
            .map_err(|source| TraceSourceError { path: path.to_owned(), source })?;
        let (path, place) = (path.to_owned(), place.to_owned());
        Ok(Self { path, place, reader, instructions: 0, broken_off: false })
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
        *self = Self { broken_off, ..Self::open_as(&self.place, &self.path)? };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use corun_trace::trace_file::{AccessKind, TraceWriter};

    use super::*;

    fn fed(bytes: Vec<u8>) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        thread::spawn({
            let pipe = pipe.clone();
            // Its reader may stop before the end.
            move || fs::write(pipe, bytes)
        });
        (folder, pipe)
    }

    #[test]
    fn a_pipe_is_read_once_and_replayed_often() {
        let header =
            TraceHeader { line_bytes: 64, guest: "x86_64".to_owned(), command: Vec::new() };
        let mut writer = TraceWriter::new(Vec::new(), &header).unwrap();
        let access = |line| Access { line, gap: 1, kind: AccessKind::Load };
        (0..1000).for_each(|line| writer.push(access(line)).unwrap());
        let (_folder, pipe) = fed(writer.finish(1000).unwrap());
        let input = TraceInput::new(&pipe).unwrap();
        for _ in 0..2 {
            let mut file = input.open().unwrap();
            for _ in 0..2 {
                let mut lines = 0;
                while let Some(access) = file.next_access().unwrap() {
                    assert_eq!(access.line, lines);
                    lines += 1;
                }
                assert_eq!((lines, file.broken_off()), (1000, false));
                file.restart().unwrap();
            }
        }
    }

    #[test]
    fn what_comes_through_a_pipe_and_is_no_trace_is_refused_by_its_name() {
        let (_folder, pipe) = fed(vec![b'x'; 1 << 20]);
        let error = TraceInput::new(&pipe).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: is no trace", pipe.display())), "{error}");
    }
}
