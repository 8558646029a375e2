//! Reading a trace.

use std::io::{ErrorKind, Read};

use zstd::bulk::Decompressor;

use super::predict::Predictor;
use super::{
    Access, AccessKind, CHUNK_ACCESSES, CHUNK_HEAD, LONG_GAP, MAGIC, MOST_CHUNK_BYTES,
    MOST_HEADER_BYTES, TraceFileError, TraceHeader, TraceTotals, VARINT_BYTES, VERSION,
};

/// How a trace ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// As its writer ended it.
    Whole,
    /// In the middle: the program crashed, or the rest of the file was lost.
    BrokenOff,
}

/// Reads accesses one by one. Memory is bounded whatever the file says: one chunk.
///
/// Iteration ends after an error.
pub struct TraceReader<R: Read> {
    input: R,
    decompressor: Decompressor<'static>,
    header: TraceHeader,
    predictor: Predictor,
    compressed: Vec<u8>,
    raw: Vec<u8>,
    /// Where the three streams of the chunk in `raw` are read next, and end.
    operations: Cursor,
    gaps: Cursor,
    lines: Cursor,
    read: TraceTotals,
    /// Frames read.
    frames: u64,
    ending: Option<Ending>,
    failed: bool,
}

impl<R: Read> std::fmt::Debug for TraceReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceReader")
            .field("header", &self.header)
            .field("read", &self.read)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    at: usize,
    end: usize,
}

impl<R: Read> TraceReader<R> {
    /// Begins to read; the input should be buffered.
    ///
    /// # Errors
    /// [`TraceFileError`] when it is no trace or its header is damaged.
    pub fn new(mut input: R) -> Result<Self, TraceFileError> {
        let mut start = [0; 12];
        input.read_exact(&mut start).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => TraceFileError::NotATrace,
            _ => error.into(),
        })?;
        if start[..8] != MAGIC {
            return Err(TraceFileError::NotATrace);
        }
        let found = u32::from_le_bytes([start[8], start[9], start[10], start[11]]);
        if found != VERSION {
            return Err(TraceFileError::Version { found });
        }
        let mut reader = Self {
            input,
            decompressor: Decompressor::new()?,
            header: TraceHeader { line_bytes: 0, guest: String::new(), command: Vec::new() },
            predictor: Predictor::new(),
            compressed: Vec::new(),
            raw: Vec::new(),
            operations: Cursor::default(),
            gaps: Cursor::default(),
            lines: Cursor::default(),
            read: TraceTotals::default(),
            frames: 0,
            ending: None,
            failed: false,
        };
        if reader.frame(MOST_HEADER_BYTES)? != Some(b'H') {
            return Err(reader.damaged("expected the header"));
        }
        reader.header = reader.text()?;
        if reader.header.line_bytes == 0 {
            return Err(reader.damaged("line_bytes is 0: expected at least 1"));
        }
        reader.frames = 1;
        Ok(reader)
    }

    /// What stands at its front.
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// What was read so far; at the end of a whole trace its totals.
    pub fn totals(&self) -> TraceTotals {
        self.read
    }

    /// How it ends; `None` before the end and after an error.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// The next access; `None` at the end.
    ///
    /// # Errors
    /// [`TraceFileError`] when the file cannot be read or holds what cannot be.
    #[inline]
    pub fn next_access(&mut self) -> Result<Option<Access>, TraceFileError> {
        while self.operations.at == self.operations.end {
            if !self.next_chunk()? {
                return Ok(None);
            }
        }
        let operation = self.raw[self.operations.at];
        self.operations.at += 1;
        let Some(kind) = AccessKind::of(operation & 3) else {
            return Err(self.damaged("an access of no kind"));
        };
        let mut gap = u64::from(operation >> 2);
        if gap == LONG_GAP {
            let more = varint(&self.raw, &mut self.gaps);
            let Some(all) = more.and_then(|more| gap.checked_add(more)) else {
                return Err(self.damaged("a gap that is no number"));
            };
            gap = all;
        }
        let (slot, expected) = self.predictor.expected(operation, kind);
        let Some(zigzag) = varint(&self.raw, &mut self.lines) else {
            return Err(self.damaged("a line that is no number"));
        };
        let difference = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
        let line = expected.wrapping_add(difference);
        self.predictor.learn(slot, operation, kind, line);
        self.read.accesses += 1;
        self.read.instructions = self.read.instructions.saturating_add(gap);
        Ok(Some(Access { line, gap, kind }))
    }

    /// Goes on to the next chunk; false at the end.
    #[cold]
    fn next_chunk(&mut self) -> Result<bool, TraceFileError> {
        if self.ending.is_some() || self.failed {
            return Ok(false);
        }
        if self.gaps.at != self.gaps.end || self.lines.at != self.lines.end {
            return Err(self.damaged("more gaps or lines than accesses"));
        }
        match self.frame(MOST_CHUNK_BYTES)? {
            Some(b'C') => self.chunk(),
            Some(b'E') => {
                let totals: TraceTotals = self.text()?;
                let read = self.read;
                if totals.accesses != read.accesses || totals.instructions < read.instructions {
                    let reason = format!("totals {totals:?} do not fit what was read: {read:?}");
                    return Err(self.damaged(&reason));
                }
                if self.fill(&mut [0])? {
                    self.frames += 1;
                    return Err(self.damaged("found more behind the end, which is the last frame"));
                }
                self.read = totals;
                self.ending = Some(Ending::Whole);
                Ok(false)
            }
            None => {
                self.ending = Some(Ending::BrokenOff);
                Ok(false)
            }
            Some(_) => Err(self.damaged("expected a chunk or the end")),
        }
    }

    fn chunk(&mut self) -> Result<bool, TraceFileError> {
        let count = |at: usize| {
            let bytes = self.raw.get(4 * at..4 * at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
        };
        let (Some(operations), Some(gaps), Some(lines)) = (count(0), count(1), count(2)) else {
            return Err(self.damaged("a chunk without its lengths"));
        };
        let fits = operations <= CHUNK_ACCESSES
            && CHUNK_HEAD as u64 + operations as u64 + gaps as u64 + lines as u64
                == self.raw.len() as u64;
        if !fits {
            return Err(self.damaged("a chunk whose lengths do not fit"));
        }
        let mut at = CHUNK_HEAD;
        let mut stretch = |length: usize| {
            let cursor = Cursor { at, end: at + length };
            at += length;
            cursor
        };
        self.operations = stretch(operations);
        self.gaps = stretch(gaps);
        self.lines = stretch(lines);
        self.frames += 1;
        Ok(true)
    }

    /// Reads a frame of at most so many bytes into `raw`; its letter, or `None` where the file
    /// breaks off.
    fn frame(&mut self, most: usize) -> Result<Option<u8>, TraceFileError> {
        let mut head = [0; 5];
        if !self.fill(&mut head)? {
            return Ok(None);
        }
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if length > zstd::zstd_safe::compress_bound(most) {
            return Err(self.damaged("a frame longer than any that is written"));
        }
        // Grows with what is there, not with what is claimed.
        self.compressed.clear();
        (&mut self.input).take(length as u64).read_to_end(&mut self.compressed)?;
        if self.compressed.len() < length {
            return Ok(None);
        }
        let raw_bytes = zstd::zstd_safe::get_frame_content_size(&self.compressed);
        let Ok(Some(raw_bytes)) = raw_bytes else {
            return Err(self.damaged("a frame that is not compressed by zstd"));
        };
        if raw_bytes > most as u64 {
            return Err(self.damaged("a frame that holds more than any that is written"));
        }
        self.raw.clear();
        self.raw.reserve(raw_bytes as usize);
        self.decompressor
            .decompress_to_buffer(&self.compressed, &mut self.raw)
            .map_err(|error| self.damaged(&error.to_string()))?;
        Ok(Some(head[0]))
    }

    /// Fills a buffer; false where the file ends before.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<bool, TraceFileError> {
        match self.input.read_exact(buffer) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn text<T: serde::de::DeserializeOwned>(&self) -> Result<T, TraceFileError> {
        let text = std::str::from_utf8(&self.raw).map_err(|error| self.damaged_by(&error))?;
        toml::from_str(text).map_err(|error| self.damaged_by(&error))
    }

    #[cold]
    fn damaged(&mut self, reason: &str) -> TraceFileError {
        self.failed = true;
        TraceFileError::Damaged { frame: self.frames, reason: reason.to_owned() }
    }

    fn damaged_by(&self, error: &dyn std::fmt::Display) -> TraceFileError {
        let reason = error.to_string().trim_end().replace('\n', " ");
        TraceFileError::Damaged { frame: self.frames, reason }
    }
}

impl<R: Read> Iterator for TraceReader<R> {
    type Item = Result<Access, TraceFileError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.next_access().transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

/// A number as the writer's `varint` leaves it; `None` when the stream ends in it or it is too long.
#[inline]
fn varint(raw: &[u8], cursor: &mut Cursor) -> Option<u64> {
    let stream = raw.get(cursor.at..cursor.end)?;
    let first = *stream.first()?;
    if first < 0x80 {
        cursor.at += 1;
        return Some(u64::from(first));
    }
    let mut number = 0u64;
    for (at, &byte) in stream.iter().take(VARINT_BYTES).enumerate() {
        let bits = u64::from(byte & 0x7f);
        // The tenth group has room for one bit.
        if at + 1 == VARINT_BYTES && bits > 1 {
            return None;
        }
        number |= bits << (7 * at);
        if byte < 0x80 {
            cursor.at += at + 1;
            return Some(number);
        }
    }
    None
}
