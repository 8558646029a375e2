//! Which lines were touched, of which only the number can be told.
//!
//! Where every access is seen, by HyperLogLog. Where only followed lines are seen for a time, from
//! the smallest hashes of lines (bottom-k: Cohen and Kaplan, VLDB 2008): all lines whose hash is
//! at most a bound were noted, and the share of hashes below it is known. The greater of the two
//! holds, as what was seen was touched.

use super::sample::spatial_hash;
use super::sketch::LineSketch;

/// Hashes kept: a standard error of 3 % at most, less where lines are neighbours.
const KEPT: usize = 1024;
/// Hashes inserted of late that are told to come again.
const RECENT: usize = 64;

/// A set of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    seen: LineSketch,
    smallest: Smallest,
    /// Lines with hashes above this were not noted at all times.
    bound: u64,
}

impl Default for Touched {
    fn default() -> Self {
        Self { seen: LineSketch::default(), smallest: Smallest::default(), bound: u64::MAX }
    }
}

impl Touched {
    #[inline]
    pub(crate) fn insert(&mut self, line: u64) {
        self.seen.insert(line);
        self.smallest.insert(spatial_hash(line));
    }

    /// A line of this hash, at most the bound that is in force.
    #[inline]
    pub(crate) fn insert_followed(&mut self, hash: u64) {
        self.smallest.insert(hash);
    }

    /// Lines with greater hashes are not noted for a time.
    pub(crate) fn bound(&mut self, hash: u64) {
        self.bound = self.bound.min(hash);
    }

    /// Adds another set's lines.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.seen.merge(&other.seen);
        other.smallest.hashes.iter().for_each(|&hash| self.smallest.insert(hash));
        self.bound(other.bound);
    }

    /// The lines, estimated.
    pub fn distinct_lines(&self) -> u64 {
        let seen = self.seen.distinct_lines();
        if self.bound == u64::MAX {
            return seen;
        }
        let mut hashes = self.smallest.sorted();
        hashes.retain(|&hash| hash <= self.bound);
        let share = |hash: u64| hash as f64 / u64::MAX as f64;
        let estimate = if hashes.len() < KEPT {
            hashes.len() as f64 / share(self.bound)
        } else {
            (KEPT - 1) as f64 / share(hashes[KEPT - 1])
        };
        seen.max(estimate.round() as u64)
    }
}

/// The smallest of the numbers inserted.
#[derive(Debug, Clone)]
struct Smallest {
    /// Some more than those, in no order, some twice.
    hashes: Vec<u64>,
    /// Greater ones are none of the smallest.
    most: u64,
    /// Some that were inserted, in places of their own.
    recent: [u64; RECENT],
}

impl Default for Smallest {
    fn default() -> Self {
        // Each place holds a hash that belongs to another one: 0 belongs to the first, 1 does not.
        let mut recent = [0; RECENT];
        recent[0] = 1;
        Self { hashes: Vec::new(), most: u64::MAX, recent }
    }
}

impl PartialEq for Smallest {
    fn eq(&self, other: &Self) -> bool {
        self.sorted() == other.sorted()
    }
}

impl Eq for Smallest {}

impl Smallest {
    #[inline]
    fn insert(&mut self, hash: u64) {
        if hash <= self.most {
            self.keep(hash);
        }
    }

    fn keep(&mut self, hash: u64) {
        // A few lines are touched again and again.
        let place = (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT.ilog2())) as usize;
        if std::mem::replace(&mut self.recent[place], hash) == hash {
            return;
        }
        self.hashes.push(hash);
        if self.hashes.len() == 2 * KEPT {
            self.hashes = self.sorted();
            if let Some(&most) = self.hashes.get(KEPT - 1) {
                self.most = most;
            }
        }
    }

    fn sorted(&self) -> Vec<u64> {
        let mut hashes = self.hashes.clone();
        // The first half is sorted mostly, which this sort finds.
        hashes.sort();
        hashes.dedup();
        hashes.truncate(KEPT);
        hashes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::SamplingRate;

    /// Lines of which only 1 in 100 is seen for most of the time.
    fn followed(lines: std::ops::Range<u64>) -> Touched {
        let threshold = SamplingRate::of_one_in(100).threshold();
        let mut touched = Touched::default();
        touched.bound(threshold);
        for line in lines.clone().chain(lines) {
            let hash = spatial_hash(line);
            if hash <= threshold {
                touched.insert_followed(hash);
            }
        }
        touched
    }

    #[test]
    fn followed_lines_stand_for_the_others() {
        for count in [5000, 90_000, 300_000, 2_000_000] {
            let found = followed(7000..7000 + count).distinct_lines() as f64;
            assert!((found / count as f64 - 1.0).abs() < 0.05, "{count}: {found}");
        }
    }

    #[test]
    fn what_was_seen_counts_at_least() {
        let mut touched = followed(1_000_000..1_000_003);
        (0..2000).for_each(|line| touched.insert(line));
        let found = touched.distinct_lines() as f64;
        assert!((found / 2000.0 - 1.0).abs() < 0.06, "{found}");
    }

    #[test]
    fn the_smallest_are_those_of_a_sorted_list() {
        let mut smallest = Smallest::default();
        // Each 40 times, with others in between.
        let hashes: Vec<u64> = (0..40_000).map(|at| spatial_hash(at % 1000 * (at % 7))).collect();
        hashes.iter().for_each(|&hash| smallest.insert(hash));
        let mut all = [hashes, vec![0, 1]].concat();
        all.sort();
        all.dedup();
        [0, 1, 0].iter().for_each(|&hash| smallest.insert(hash));
        assert!(all.len() > KEPT);
        assert_eq!(smallest.sorted(), all[..KEPT]);
    }

    #[test]
    fn a_union_counts_once() {
        let mut union = followed(0..200_000);
        union.merge(&followed(150_000..260_000));
        assert_eq!(union, followed(0..260_000));
    }
}
