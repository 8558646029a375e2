//! A set-associative cache, in flat arrays.

use crate::cache::{AccessOutcome, ProcessLine};
use crate::geometry::{CacheConfig, Indexing};
use crate::replacement::ReplacementOrder;

/// No line: processes are numbered from 0, and a line of all ones is no user's address.
const EMPTY: u64 = u64::MAX;

/// Sets of ways.
#[derive(Debug, Clone)]
pub struct SetAssociative {
    sets: u64,
    ways: usize,
    indexing: Indexing,
    lines: Vec<u64>,
    owners: Vec<u16>,
    /// The way of each set that was used last: most accesses find it again.
    last: Vec<u8>,
    ranks: ReplacementOrder,
}

impl SetAssociative {
    /// An empty cache of a checked shape with ways.
    pub fn new(shape: &CacheConfig) -> Self {
        let sets = shape.geometry.sets();
        let ways = shape.geometry.ways.unwrap_or(1) as usize;
        let places = sets as usize * ways;
        Self {
            sets,
            ways,
            indexing: shape.indexing,
            lines: vec![EMPTY; places],
            owners: vec![0; places],
            last: vec![0; sets as usize],
            ranks: ReplacementOrder::new(shape.replacement, sets as usize, ways),
        }
    }

    #[inline]
    fn set(&self, line: u64, whole: ProcessLine) -> usize {
        let set = match self.indexing {
            Indexing::Modulo if self.sets.is_power_of_two() => line & (self.sets - 1),
            Indexing::Modulo => line % self.sets,
            Indexing::Hashed => {
                // Two rounds of a multiplicative hash, then a share of the sets (Lemire, 2019).
                let mixed = whole.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
                ((u128::from(mixed) * u128::from(self.sets)) >> 64) as u64
            }
        };
        set as usize
    }

    /// `owner` touches a line of a process: a hit in any way counts, a miss fills a way of the
    /// mask, the lowest empty one first.
    #[inline]
    pub fn access(&mut self, line: u64, process: u64, owner: usize, mask: u64) -> AccessOutcome {
        let whole = ProcessLine::new(line, process);
        let set = self.set(line, whole);
        let first = set * self.ways;
        let last = usize::from(self.last[set]);
        if self.lines[first + last] == whole.0 {
            self.ranks.touch_again(first + last);
            return AccessOutcome::Hit;
        }
        let lines = &self.lines[first..first + self.ways];
        if let Some(way) = lines.iter().position(|&one| one == whole.0) {
            self.ranks.touch(set, way, self.ways, true);
            self.last[set] = way as u8;
            return AccessOutcome::Hit;
        }
        self.fill(set, whole, owner, mask)
    }

    fn fill(&mut self, set: usize, line: ProcessLine, owner: usize, mask: u64) -> AccessOutcome {
        let first = set * self.ways;
        let lines = &self.lines[first..first + self.ways];
        let mut ways = 0..self.ways;
        let empty = ways.find(|&way| mask >> way & 1 != 0 && lines[way] == EMPTY);
        let way = match empty {
            Some(way) => way,
            None => self.ranks.victim(set, self.ways, mask),
        };
        let owner = std::mem::replace(&mut self.owners[first + way], owner as u16);
        self.lines[first + way] = line.0;
        self.last[set] = way as u8;
        self.ranks.touch(set, way, self.ways, false);
        AccessOutcome::Miss { evicted: empty.is_none().then_some(usize::from(owner)) }
    }
}

#[cfg(test)]
#[path = "sets_tests.rs"]
mod tests;
