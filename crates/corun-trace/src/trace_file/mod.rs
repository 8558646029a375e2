//! Recorded traces: a program's accesses in order, compressed. An access to the line of the one just
//! before it, which hits in any cache, is left out unless it is the first to write there.
//!
//! A trace file is a magic word, a version and a row of frames, each a letter, a length and a zstd
//! frame with a checksum: `H` the header, `C` a chunk of accesses, `E` the totals at the end. A file
//! without `E` belongs to a program that crashed or a disk that filled up; it is read up to its
//! last whole chunk. docs/replay.md describes every byte.
//!
//! An access is an operation (its kind, and how many instructions began since the access before)
//! and a line. The line is written as the difference to what a predictor expects, which
//! is 0 most of the time. Operations, long gaps and differences are three streams, which compress
//! better apart.

mod predict;
mod reader;
mod recorder;
mod writer;

#[cfg(test)]
mod tests;

pub use reader::{Ending, TraceReader};
pub use recorder::{Position, Recorder};
pub use writer::TraceWriter;

use std::io;

use serde::{Deserialize, Serialize};

/// The first bytes of every trace file.
pub const MAGIC: [u8; 8] = *b"corunTRC";

/// Version of the format.
pub const VERSION: u32 = 1;

/// Accesses of a chunk, at most.
const CHUNK_ACCESSES: usize = 256 * 1024;

/// Bytes that a chunk's streams take before compression, at most: every access at its longest.
const MOST_CHUNK_BYTES: usize = CHUNK_HEAD + CHUNK_ACCESSES * (1 + 2 * VARINT_BYTES);

/// Bytes of a header, at most, so that a damaged one cannot ask for all memory.
const MOST_HEADER_BYTES: usize = 4 << 20;

/// Accesses, bytes of gaps and bytes of lines, four bytes each.
const CHUNK_HEAD: usize = 12;

/// A 64-bit number in groups of 7 bits, at most.
const VARINT_BYTES: usize = 10;

/// A gap of so many instructions and more stands in the stream of gaps.
const LONG_GAP: u64 = 63;

/// What an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AccessKind {
    /// Reads data.
    Load = 0,
    /// Writes data.
    Store = 1,
    /// Reads code: the program runs on to another line.
    Fetch = 2,
}

impl AccessKind {
    fn of(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Load),
            1 => Some(Self::Store),
            2 => Some(Self::Fetch),
            _ => None,
        }
    }
}

/// One access to a cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Address / line bytes.
    pub line: u64,
    /// Instructions that began after the access before, up to and with the one that makes this.
    pub gap: u64,
    /// What it does.
    pub kind: AccessKind,
}

/// What stands at the front of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceHeader {
    /// Bytes of a line.
    pub line_bytes: u64,
    /// QEMU's name of the instruction set.
    pub guest: String,
    /// The command that was traced, word by word.
    pub command: Vec<String>,
}

/// What stands at the end of a trace, or was read up to where it breaks off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceTotals {
    /// Accesses of all kinds.
    pub accesses: u64,
    /// Instructions, those after the last access too.
    pub instructions: u64,
}

impl From<TraceFileError> for io::Error {
    fn from(error: TraceFileError) -> Self {
        match error {
            TraceFileError::Io(error) => error,
            other => Self::other(other),
        }
    }
}

/// Why a trace cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceFileError {
    /// The file cannot be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Not such a file.
    #[error("is no trace: expected a file that begins with `corunTRC`")]
    NotATrace,
    /// A file of another version.
    #[error("is a trace of version {found}: expected {VERSION}")]
    Version {
        /// What the file says.
        found: u32,
    },
    /// Bytes that cannot be.
    #[error("frame {frame}: {reason}")]
    Damaged {
        /// Which frame, the header being 0.
        frame: u64,
        /// What was found.
        reason: String,
    },
}
