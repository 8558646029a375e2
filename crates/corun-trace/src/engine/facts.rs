//! What the engine reads of a block every time it runs, in 32 bytes.

use super::figures::Counters;
use crate::block::{Block, Exit};

/// Code lines are numbered by 58 bits; the rest holds how many more the block lies on.
const MORE_SHIFT: u32 = 57;
const LINE_MASK: u64 = (1 << MORE_SHIFT) - 1;
const SUMS: usize = 8;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// Instructions, loads, stores, branches and floats; the rest 0.
    counts: [u16; SUMS],
    lines: u64,
    /// Does it end with a repeated instruction?
    pub(crate) repeats: bool,
}

impl Facts {
    pub(crate) fn new(block: &Block) -> Self {
        let (first, last) = block.lines();
        let Block { instructions, loads, stores, branches, floats, .. } = block;
        let mut counts = [0; SUMS];
        for (count, value) in counts.iter_mut().zip([instructions, loads, stores, branches, floats])
        {
            // QEMU's blocks end at 512 instructions.
            *count = u16::try_from(*value).unwrap_or(u16::MAX);
        }
        let lines = (last - first).min(u64::MAX >> MORE_SHIFT) << MORE_SHIFT | first & LINE_MASK;
        Self { counts, lines, repeats: block.exit == Exit::Repeat }
    }

    /// The first code line, and how many follow.
    #[inline(always)]
    pub(crate) fn lines(&self) -> (u64, u64) {
        (self.lines & LINE_MASK, self.lines >> MORE_SHIFT)
    }
}

/// Sums over blocks that ran.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums([u32; SUMS]);

impl Sums {
    #[inline(always)]
    pub(crate) fn add(&mut self, facts: &Facts) {
        for (sum, count) in self.0.iter_mut().zip(facts.counts) {
            *sum += u32::from(count);
        }
    }

    #[inline(always)]
    pub(crate) fn instructions(&self) -> u32 {
        self.0[0]
    }

    /// One instruction was none: a repeated one counts once.
    pub(crate) fn drop_instruction(&mut self) {
        self.0[0] -= 1;
    }

    /// Of instructions, loads, stores, branches and floats.
    pub(crate) fn new(counts: [u32; 5]) -> Self {
        let mut sums = Self::default();
        sums.0[..counts.len()].copy_from_slice(&counts);
        sums
    }

    /// Moves the sums to the counters.
    pub(crate) fn settle(&mut self, counters: &mut Counters) {
        let [instructions, loads, stores, branches, floats, ..] = self.0.map(u64::from);
        counters.instructions += instructions;
        counters.loads += loads;
        counters.stores += stores;
        counters.branches += branches;
        counters.floats += floats;
        *self = Self::default();
    }
}
