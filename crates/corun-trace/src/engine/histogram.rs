//! Stack distances by size bucket.

use super::front::{FRONT_ENDS, FRONT_LINES};

/// Buckets a doubling above the front.
const STEPS: u64 = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();
const FIRST_BIT: u32 = FRONT_LINES.trailing_zeros();
/// Doublings above the front: to 8 GiB.
const DOUBLINGS: u32 = 18;
const DEEP: usize = (DOUBLINGS as usize) * STEPS as usize;

/// How many accesses had which stack distance (the number of distinct other lines since the last
/// access to the same line). An access of distance d hits in an LRU cache of more than d lines
/// (Mattson et al., IBM Systems Journal 1970).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    front: [u64; FRONT_ENDS.len()],
    deep: Vec<u64>,
    cold: u64,
    /// Accesses that left the front, sampled or not.
    below: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { front: [0; FRONT_ENDS.len()], deep: vec![0; DEEP], cold: 0, below: 0 }
    }

    #[inline]
    pub(crate) fn add_front(&mut self, group: usize) {
        self.front[group] += 1;
    }

    /// An access whose line was not in the front.
    pub(crate) fn add_below(&mut self) {
        self.below += 1;
    }

    /// A followed access of this distance, standing for `weight`.
    pub(crate) fn add_deep(&mut self, distance: u64, weight: u64) {
        self.deep[deep_bucket(distance)] += weight;
    }

    /// A followed first access, standing for `weight`.
    pub(crate) fn add_cold(&mut self, weight: u64) {
        self.cold += weight;
    }

    /// Adds another's accesses.
    pub(crate) fn merge(&mut self, other: &Self) {
        let add = |sums: &mut [u64], counts: &[u64]| {
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += count;
            }
        };
        add(&mut self.front, &other.front);
        add(&mut self.deep, &other.deep);
        self.cold += other.cold;
        self.below += other.below;
    }

    /// All accesses.
    pub fn accesses(&self) -> u64 {
        self.front.iter().sum::<u64>() + self.below
    }

    /// Distinct lines, estimated by the first accesses that were followed.
    pub fn distinct_lines(&self) -> u64 {
        self.cold
    }

    /// Misses of LRU caches by size in lines, ascending, from 16 lines up to the size where only
    /// first accesses miss, and the largest size of all (2^27 lines).
    ///
    /// What the sampled accesses sum to differs by chance from the accesses there were; the
    /// difference is given to the shortest sampled distances (SHARDS-adj, section 3.3 there).
    pub fn misses(&self) -> Vec<(u64, u64)> {
        let mut deep = self.deep.clone();
        let mut cold = self.cold;
        adjust(&mut deep, &mut cold, self.below);
        let mut misses = self.accesses();
        let mut points = Vec::new();
        for (end, count) in FRONT_ENDS.iter().zip(self.front) {
            misses -= count;
            points.push((u64::from(*end), misses));
        }
        for (bucket, count) in deep.iter().enumerate() {
            misses -= count;
            points.push((deep_end(bucket), misses));
        }
        let settled = points.iter().position(|point| point.1 == misses).unwrap_or(0);
        let last = points.len() - 1;
        if settled < last {
            points.drain(settled + 1..last);
        }
        points
    }
}

/// Makes `deep` and `cold` sum to `expected`.
fn adjust(deep: &mut [u64], cold: &mut u64, expected: u64) {
    let sampled = deep.iter().sum::<u64>() + *cold;
    if expected >= sampled {
        deep[0] += expected - sampled;
        return;
    }
    let mut surplus = sampled - expected;
    for count in deep.iter_mut().chain(std::iter::once(cold)) {
        let part = surplus.min(*count);
        *count -= part;
        surplus -= part;
    }
}

fn deep_bucket(distance: u64) -> usize {
    let distance = distance.max(FRONT_LINES as u64);
    let bit = distance.ilog2();
    let step = distance >> (bit - STEP_BITS) & (STEPS - 1);
    let bucket = u64::from(bit - FIRST_BIT) * STEPS + step;
    (bucket as usize).min(DEEP - 1)
}

/// The smallest cache, in lines, in which all accesses of a bucket hit.
fn deep_end(bucket: usize) -> u64 {
    let (doubling, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    (STEPS + step + 1) << (u64::from(FIRST_BIT - STEP_BITS) + doubling)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_meet() {
        for distance in 512..200_000u64 {
            let bucket = deep_bucket(distance);
            assert!(distance < deep_end(bucket), "{distance}");
            assert!(bucket == 0 || distance >= deep_end(bucket - 1), "{distance}");
        }
        assert_eq!(deep_end(DEEP - 1), 1 << 27);
        assert_eq!(deep_bucket(u64::MAX), DEEP - 1);
    }

    #[test]
    fn misses_fall_to_the_cold_ones() {
        let mut histogram = Histogram::new();
        for _ in 0..10 {
            histogram.add_front(0);
        }
        histogram.add_front(2);
        for distance in [600, 2000] {
            histogram.add_below();
            histogram.add_deep(distance, 1);
        }
        histogram.add_below();
        histogram.add_cold(1);
        let misses = histogram.misses();
        assert_eq!(histogram.accesses(), 14);
        assert_eq!(misses[..3], [(16, 4), (24, 4), (32, 3)]);
        assert_eq!(misses[misses.len() - 2..], [(2048, 1), (1 << 27, 1)]);
    }

    #[test]
    fn the_adjustment_goes_to_the_shortest() {
        let (mut deep, mut cold) = (vec![3, 4], 5);
        adjust(&mut deep, &mut cold, 15);
        assert_eq!((deep.as_slice(), cold), ([6, 4].as_slice(), 5));
        adjust(&mut deep, &mut cold, 7);
        assert_eq!((deep.as_slice(), cold), ([0, 2].as_slice(), 5));
    }
}
