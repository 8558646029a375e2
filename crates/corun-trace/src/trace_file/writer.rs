//! Writing a trace.

use std::io::Write;

use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use super::predict::Predictor;
use super::{
    Access, CHUNK_ACCESSES, LONG_GAP, MAGIC, TraceFileError, TraceHeader, TraceTotals, VERSION,
};

/// The fastest of the usual levels: the tracer waits for it.
const LEVEL: i32 = 1;

/// Writes accesses to a file as they come, a chunk at a time.
pub struct TraceWriter<W: Write> {
    out: W,
    compressor: Compressor<'static>,
    predictor: Predictor,
    operations: Vec<u8>,
    gaps: Vec<u8>,
    lines: Vec<u8>,
    raw: Vec<u8>,
    totals: TraceTotals,
}

impl<W: Write> std::fmt::Debug for TraceWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceWriter").field("totals", &self.totals).finish_non_exhaustive()
    }
}

impl<W: Write> TraceWriter<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(out: W, header: &TraceHeader) -> Result<Self, TraceFileError> {
        let mut writer = Self::behind_header(out)?;
        writer.out.write_all(&MAGIC)?;
        writer.out.write_all(&VERSION.to_le_bytes())?;
        writer.raw.extend(to_toml(header)?.as_bytes());
        writer.frame(b'H')?;
        Ok(writer)
    }

    /// Goes on with a trace of which somebody else has written the header, and nothing more.
    ///
    /// # Errors
    /// When there is no memory for the compression.
    pub(crate) fn behind_header(out: W) -> Result<Self, TraceFileError> {
        let mut compressor = Compressor::new(LEVEL)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        Ok(Self {
            out,
            compressor,
            predictor: Predictor::new(),
            operations: Vec::with_capacity(CHUNK_ACCESSES),
            gaps: Vec::new(),
            lines: Vec::with_capacity(2 * CHUNK_ACCESSES),
            raw: Vec::new(),
            totals: TraceTotals::default(),
        })
    }

    /// Adds an access.
    ///
    /// # Errors
    /// When a chunk is full and cannot be written. The trace is of no use then.
    #[inline]
    pub fn push(&mut self, access: Access) -> Result<(), TraceFileError> {
        let Access { line, gap, kind } = access;
        let operation = (gap.min(LONG_GAP) as u8) << 2 | kind as u8;
        self.operations.push(operation);
        if gap >= LONG_GAP {
            varint(&mut self.gaps, gap - LONG_GAP);
        }
        let (slot, expected) = self.predictor.expected(operation, kind);
        let difference = line.wrapping_sub(expected) as i64;
        // Zigzag: small differences of either sign become small numbers.
        varint(&mut self.lines, (difference << 1 ^ difference >> 63) as u64);
        self.predictor.learn(slot, operation, kind, line);
        self.totals.instructions += gap;
        if self.operations.len() < CHUNK_ACCESSES { Ok(()) } else { self.flush() }
    }

    /// Writes what was added so far, so that it can be read whatever happens next.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn flush(&mut self) -> Result<(), TraceFileError> {
        if !self.operations.is_empty() {
            let counts = [self.operations.len(), self.gaps.len(), self.lines.len()];
            self.raw.extend(counts.iter().flat_map(|&count| (count as u32).to_le_bytes()));
            self.totals.accesses += self.operations.len() as u64;
            for stream in [&mut self.operations, &mut self.gaps, &mut self.lines] {
                self.raw.append(stream);
            }
            self.frame(b'C')?;
        }
        Ok(self.out.flush()?)
    }

    /// Ends the trace of a program that ran so many instructions in all. What it wrote to is given
    /// back.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self, instructions: u64) -> Result<W, TraceFileError> {
        self.flush()?;
        self.totals.instructions = self.totals.instructions.max(instructions);
        self.raw.extend(to_toml(&self.totals)?.as_bytes());
        self.frame(b'E')?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn frame(&mut self, letter: u8) -> Result<(), TraceFileError> {
        let frame = self.compressor.compress(&self.raw)?;
        self.raw.clear();
        self.out.write_all(&[letter])?;
        self.out.write_all(&(frame.len() as u32).to_le_bytes())?;
        Ok(self.out.write_all(&frame)?)
    }
}

fn to_toml<T: serde::Serialize>(what: &T) -> Result<String, TraceFileError> {
    toml::to_string(what).map_err(|error| std::io::Error::other(error).into())
}

/// Seven bits a byte, the lowest first; the top bit says that more follow (LEB128).
#[inline]
fn varint(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}
