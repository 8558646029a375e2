//! A cache of either form.

use crate::full::FullyAssociative;
use crate::geometry::CacheConfig;
use crate::sets::SetAssociative;

/// A line: its number within a process, and which process. Two processes share nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessLine(pub(crate) u64);

impl ProcessLine {
    /// Lines are known modulo 2^48, processes modulo 2^16.
    #[inline]
    pub(crate) fn new(line: u64, process: u64) -> Self {
        Self(line & 0xffff_ffff_ffff | process << 48)
    }
}

/// What an access found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessOutcome {
    /// The line was there.
    Hit,
    /// It was not, and came in. Somebody's line may have left for it.
    Miss {
        /// Whose, by number.
        evicted: Option<usize>,
    },
}

/// A cache with LRU over all lines, or with sets.
#[derive(Debug, Clone)]
pub enum ReplayedCache {
    /// With sets.
    Sets(SetAssociative),
    /// One set of all lines.
    Full(FullyAssociative),
}

impl ReplayedCache {
    /// An empty cache of a checked shape.
    pub fn new(shape: &CacheConfig) -> Self {
        match shape.geometry.ways {
            Some(_) => Self::Sets(SetAssociative::new(shape)),
            None => Self::Full(FullyAssociative::new(shape.geometry.lines())),
        }
    }

    /// `owner` touches a line of a process; where it misses, it may fill the ways of the mask.
    #[inline]
    pub fn access(&mut self, line: u64, process: u64, owner: usize, mask: u64) -> AccessOutcome {
        match self {
            Self::Sets(sets) => sets.access(line, process, owner, mask),
            Self::Full(full) => full.access(line, process, owner),
        }
    }
}
