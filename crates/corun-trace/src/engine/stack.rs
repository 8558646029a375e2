//! The LRU stack below the front, by spatial sampling with a bounded number of lines.
//!
//! SHARDS of fixed size (Waldspurger et al., FAST 2015, sections 3.1 and 3.2): a line is followed
//! when the hash of its number lies below a threshold; distances among followed lines, divided by
//! the rate, estimate distances among all. The rate starts at 1 and is halved whenever the set is
//! full, so a small footprint stays exact. (The paper lowers the threshold one line at a time;
//! halving keeps the weights whole numbers.)

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::ranks::Ranks;

/// What the stack knows of a line that is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Not followed.
    Unsampled,
    /// Followed, and never seen before.
    Cold,
    /// Lines of this stack that are more recent, estimated.
    Lines(u64),
}

/// The sampled stack.
#[derive(Debug, Clone)]
pub(crate) struct SampledStack {
    /// A line is followed when the low bits of its hash under this mask are 0.
    mask: u64,
    limit: usize,
    place: HashMap<u64, u32, FxBuildHasher>,
    /// The line of each moment; what a cleared mark leaves here is stale.
    lines: Vec<u64>,
    ranks: Ranks,
    now: u32,
}

impl SampledStack {
    /// Follows at most `limit` lines (at least 2).
    pub(crate) fn new(limit: usize) -> Self {
        let limit = limit.max(2);
        let moments = 2 * limit;
        Self {
            mask: 0,
            limit,
            place: HashMap::with_capacity_and_hasher(limit + 1, FxBuildHasher),
            lines: vec![0; moments],
            ranks: Ranks::new(moments),
            now: 0,
        }
    }

    /// What one followed line stands for: 1 / rate, a power of two.
    pub(crate) fn weight(&self) -> u64 {
        self.mask + 1
    }

    #[inline]
    fn follows(&self, line: u64) -> bool {
        self.mask == 0 || mix(line) & self.mask == 0
    }

    /// Takes a line out and says how deep it lay.
    pub(crate) fn take(&mut self, line: u64) -> Depth {
        if !self.follows(line) {
            return Depth::Unsampled;
        }
        match self.place.remove(&line) {
            None => Depth::Cold,
            Some(at) => {
                let above = self.ranks.after(at);
                self.ranks.clear(at);
                Depth::Lines(u64::from(above) * self.weight())
            }
        }
    }

    /// Puts a line that is not in it on top.
    pub(crate) fn push(&mut self, line: u64) {
        if !self.follows(line) {
            return;
        }
        if self.place.len() == self.limit {
            self.halve();
            if !self.follows(line) {
                return;
            }
        }
        if self.now as usize == self.lines.len() {
            self.compact();
        }
        self.lines[self.now as usize] = line;
        self.ranks.mark(self.now);
        self.place.insert(line, self.now);
        self.now += 1;
    }

    /// Halves the rate until there is room.
    fn halve(&mut self) {
        while self.place.len() == self.limit {
            self.mask = self.mask << 1 | 1;
            let mask = self.mask;
            self.place.retain(|&line, _| mix(line) & mask == 0);
        }
        self.compact();
    }

    /// Renumbers the followed lines from 0 in their order.
    fn compact(&mut self) {
        let mut kept = 0;
        self.ranks.reset();
        for at in 0..self.now {
            let line = self.lines[at as usize];
            let Some(place) = self.place.get_mut(&line).filter(|place| **place == at) else {
                continue;
            };
            *place = kept;
            self.lines[kept as usize] = line;
            self.ranks.mark(kept);
            kept += 1;
        }
        self.now = kept;
    }
}

/// The finaliser of `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014): spreads neighbouring lines.
fn mix(line: u64) -> u64 {
    let mut hash = line.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_until_full_and_compacts() {
        let mut stack = SampledStack::new(100);
        for round in 0..50 {
            for line in 0..100 {
                let expected = if round == 0 { Depth::Cold } else { Depth::Lines(99) };
                assert_eq!(stack.take(line), expected);
                stack.push(line);
            }
        }
        assert_eq!(stack.weight(), 1);
    }

    #[test]
    fn rate_falls_when_full_and_distances_hold() {
        let mut stack = SampledStack::new(1000);
        let (mut sum, mut seen) = (0.0, 0u64);
        for round in 0..4 {
            for line in 0..20_000 {
                match stack.take(line) {
                    Depth::Lines(lines) if round > 1 => {
                        sum += lines as f64;
                        seen += 1;
                    }
                    _ => {}
                }
                stack.push(line);
            }
        }
        assert_eq!(stack.weight(), 32);
        assert!(stack.place.len() <= 1000);
        let mean = sum / seen as f64;
        assert!((mean / 19_999.0 - 1.0).abs() < 0.08, "{mean}");
    }
}
