//! A trace in memory.

use std::convert::Infallible;
use std::path::Path;

use corun_trace::trace_file::{Access, AccessKind, TraceHeader};

use crate::source::{AccessSource, TraceFile, TraceSourceError};

/// Gaps from here on stand in a list of their own.
const LONG_GAP: u64 = (1 << GAP_BITS) - 1;

const KIND_BITS: u32 = 2;
const GAP_BITS: u32 = 14;

/// A whole trace in memory, 8 bytes an access, for those who replay it many times: decoding it costs
/// more than replaying it. Lines are known modulo 2^48, as in the caches.
#[derive(Debug)]
pub struct LoadedTrace {
    header: TraceHeader,
    /// Line, gap and kind, from the top.
    steps: Vec<u64>,
    long_gaps: Vec<u64>,
    instructions_left: u64,
}

impl LoadedTrace {
    /// Reads a trace file.
    ///
    /// # Errors
    /// When it cannot be read or is none.
    pub fn read(path: &Path) -> Result<Self, TraceSourceError> {
        let mut file = TraceFile::open(path)?;
        let mut loaded = Self {
            header: file.header().clone(),
            steps: Vec::new(),
            long_gaps: Vec::new(),
            instructions_left: 0,
        };
        while let Some(access) = file.next_access()? {
            loaded.push(access);
        }
        loaded.steps.shrink_to_fit();
        loaded.instructions_left = file.instructions_left();
        Ok(loaded)
    }

    fn push(&mut self, access: Access) {
        let gap = access.gap.min(LONG_GAP);
        if gap == LONG_GAP {
            self.long_gaps.push(access.gap);
        }
        let below = gap << KIND_BITS | access.kind as u64;
        self.steps.push(access.line << (GAP_BITS + KIND_BITS) | below);
    }

    /// What stood at its front.
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// The accesses from the first.
    pub fn accesses(&self) -> LoadedAccesses<'_> {
        LoadedAccesses { trace: self, at: 0, long_gaps: 0 }
    }
}

/// The accesses of a [`LoadedTrace`] in their order.
#[derive(Debug, Clone)]
pub struct LoadedAccesses<'a> {
    trace: &'a LoadedTrace,
    at: usize,
    /// Long gaps so far.
    long_gaps: usize,
}

impl AccessSource for LoadedAccesses<'_> {
    type Error = Infallible;

    #[inline]
    fn next_access(&mut self) -> Result<Option<Access>, Infallible> {
        let Some(&step) = self.trace.steps.get(self.at) else { return Ok(None) };
        self.at += 1;
        let mut gap = step >> KIND_BITS & LONG_GAP;
        if gap == LONG_GAP {
            gap = self.trace.long_gaps[self.long_gaps];
            self.long_gaps += 1;
        }
        let kind = match step & 3 {
            0 => AccessKind::Load,
            1 => AccessKind::Store,
            _ => AccessKind::Fetch,
        };
        Ok(Some(Access { line: step >> (GAP_BITS + KIND_BITS), gap, kind }))
    }

    fn instructions_left(&self) -> u64 {
        self.trace.instructions_left
    }

    fn restart(&mut self) -> Result<(), Infallible> {
        *self = self.trace.accesses();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use corun_trace::trace_file::TraceWriter;

    use super::*;

    /// Every access of both runs, and what is behind the last.
    fn all<S: AccessSource>(mut source: S) -> (Vec<Access>, u64)
    where
        S::Error: std::fmt::Debug,
    {
        let mut found = Vec::new();
        for _ in 0..2 {
            while let Some(access) = source.next_access().unwrap() {
                found.push(access);
            }
            source.restart().unwrap();
        }
        while source.next_access().unwrap().is_some() {}
        (found, source.instructions_left())
    }

    #[test]
    fn it_is_what_the_file_is() {
        let header =
            TraceHeader { line_bytes: 64, guest: "x86_64".to_owned(), command: Vec::new() };
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = TraceWriter::new(file.as_file(), &header).unwrap();
        let kinds = [AccessKind::Load, AccessKind::Store, AccessKind::Fetch];
        let gaps = [0, 1, 62, 63, LONG_GAP - 1, LONG_GAP, LONG_GAP + 1, 1 << 40];
        let mut sum = 0;
        for at in 0..100 {
            let line = if at % 7 == 0 { (1 << 48) - 1 - at } else { at * at };
            let gap = gaps[at as usize % gaps.len()];
            sum += gap;
            writer.push(Access { line, gap, kind: kinds[at as usize % 3] }).unwrap();
        }
        writer.finish(sum + 5).unwrap();
        let loaded = LoadedTrace::read(file.path()).unwrap();
        let (found, left) = all(loaded.accesses());
        assert_eq!((found.len(), left), (200, 5));
        assert_eq!((found, left), all(TraceFile::open(file.path()).unwrap()));
        assert_eq!(loaded.header(), &header);
    }
}
