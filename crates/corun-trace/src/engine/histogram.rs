//! Stack distances by size bucket.

use super::front::FRONT_LINES;

/// Buckets a doubling above the front.
const STEPS: u64 = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();
const FIRST_BIT: u32 = FRONT_LINES.trailing_zeros();
/// Doublings above the front: to 8 GiB.
const DOUBLINGS: u32 = 18;
const DEEP: usize = (DOUBLINGS as usize) * STEPS as usize;
/// Largest cache that is asked for, in lines.
const LARGEST: u64 = 1 << (FIRST_BIT + DOUBLINGS);
/// Smallest cache that is asked for, in lines: 1 KiB.
const SMALLEST: usize = 16;
/// Positions of a page.
const PAGE: usize = 512;

/// Counts by position, in pages that are there where there is something to count.
type Pages = Vec<Option<Box<[u64; PAGE]>>>;

/// How many accesses had which stack distance (the number of distinct other lines since the last
/// access to the same line). An access of distance d hits in an LRU cache of more than d lines
/// (Mattson et al., IBM Systems Journal 1970).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// By position.
    front: Box<[u64; FRONT_LINES]>,
    /// By bucket.
    deep: Vec<u64>,
    /// By position behind the front, of an engine that knows each.
    exact: Pages,
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
        Self {
            front: Box::new([0; FRONT_LINES]),
            deep: vec![0; DEEP],
            exact: Vec::new(),
            cold: 0,
            below: 0,
        }
    }

    #[inline]
    pub(crate) fn add_front(&mut self, distance: usize) {
        // The remainder changes nothing and spares the check.
        self.front[distance % FRONT_LINES] += 1;
    }

    /// An access whose line was not in the front.
    pub(crate) fn add_below(&mut self) {
        self.below += 1;
    }

    /// A followed access of this distance, standing for `weight`.
    pub(crate) fn add_deep(&mut self, distance: u64, weight: u64) {
        self.deep[deep_bucket(distance)] += weight;
    }

    /// An access of this distance, at least that of the front, that is to be told from all others.
    pub(crate) fn add_exact(&mut self, distance: u64) {
        let at = distance as usize - FRONT_LINES;
        if at / PAGE >= self.exact.len() {
            self.exact.resize(at / PAGE + 1, None);
        }
        let page = self.exact[at / PAGE].get_or_insert_with(|| Box::new([0; PAGE]));
        page[at % PAGE] += 1;
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
        add(&mut self.front[..], &other.front[..]);
        add(&mut self.deep, &other.deep);
        if self.exact.len() < other.exact.len() {
            self.exact.resize(other.exact.len(), None);
        }
        for (sums, counts) in self.exact.iter_mut().zip(&other.exact) {
            let Some(counts) = counts else { continue };
            add(&mut sums.get_or_insert_with(|| Box::new([0; PAGE]))[..], &counts[..]);
        }
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
    /// first accesses miss, and the largest size of all (2^27 lines). Between two sizes the misses
    /// are on a line; an exact engine gives every size where they change, and the one before.
    ///
    /// What the sampled accesses sum to differs by chance from the accesses there were; the
    /// difference is given to the shortest sampled distances (SHARDS-adj, section 3.3 there).
    pub fn misses(&self) -> Vec<(u64, u64)> {
        let mut deep = self.deep.clone();
        let mut cold = self.cold;
        let exact: u64 = self.exact.iter().flatten().flat_map(|page| page.iter()).sum();
        adjust(&mut deep, &mut cold, self.below - exact);
        if self.is_sampled() {
            self.positions().for_each(|(distance, count)| deep[deep_bucket(distance)] += count);
        }
        let mut misses = self.accesses();
        let mut points = Vec::new();
        for (at, count) in self.front.iter().enumerate() {
            misses -= count;
            if at + 1 >= SMALLEST {
                points.push((at as u64 + 1, misses));
            }
        }
        if exact > 0 && !self.is_sampled() {
            self.exact_misses(&mut misses, &mut points);
        } else {
            for (bucket, count) in deep.iter().enumerate() {
                misses -= count;
                points.push((deep_end(bucket), misses));
            }
        }
        let settled = points.iter().position(|point| point.1 == misses).unwrap_or(0);
        points.truncate(settled + 1);
        if points[settled].0 < LARGEST {
            points.push((LARGEST, misses));
        }
        points
    }

    /// Is there any distance that stands in a bucket?
    fn is_sampled(&self) -> bool {
        self.deep.iter().any(|&count| count > 0)
    }

    /// The distances behind the front that are known exactly, and how many accesses had each.
    fn positions(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let pages = self.exact.iter().enumerate();
        let positions = pages.flat_map(|(at, page)| {
            let counts = page.iter().flat_map(|page| page.iter().enumerate());
            counts.map(move |(offset, &count)| ((FRONT_LINES + at * PAGE + offset) as u64, count))
        });
        positions.filter(|one| one.1 > 0)
    }

    fn exact_misses(&self, misses: &mut u64, points: &mut Vec<(u64, u64)>) {
        for (distance, count) in self.positions() {
            if points.last().is_some_and(|last| last.0 < distance) {
                points.push((distance, *misses));
            }
            *misses -= count;
            points.push((distance + 1, *misses));
        }
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
        histogram.add_front(24);
        for distance in [600, 2000] {
            histogram.add_below();
            histogram.add_deep(distance, 1);
        }
        histogram.add_below();
        histogram.add_cold(1);
        let misses = histogram.misses();
        assert_eq!(histogram.accesses(), 14);
        assert_eq!(misses[0], (16, 4));
        assert_eq!(misses[8..10], [(24, 4), (25, 3)]);
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
