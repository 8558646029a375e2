//! Stack distances by size bucket.

use super::front::FRONT_LINES;
use super::survival::Seen;

/// Buckets a doubling above the front: a cliff inside one is smeared over it.
const STEPS: u64 = 64;
const STEP_BITS: u32 = STEPS.trailing_zeros();
const FIRST_BIT: u32 = FRONT_LINES.trailing_zeros();
/// Doublings above the front: to 8 GiB.
const DOUBLINGS: u32 = 18;
const DEEP: usize = (DOUBLINGS as usize) * STEPS as usize;
/// Largest cache that is asked for, in lines.
const LARGEST: u64 = 1 << (FIRST_BIT + DOUBLINGS);
/// Smallest cache that is asked for, in lines: 1 KiB.
const SMALLEST: usize = 16;
/// Counts that are looked at together.
const RUN: usize = 32;
/// Positions of a page.
const PAGE: usize = 512;

/// So few followed lines tell nothing that bursts do not tell better.
const FEW_LINES: f64 = 16.0;
/// So many tell all.
const MANY_LINES: f64 = 64.0;
/// A share of the misses that is too small to go by.
const LITTLE_SEEN: f64 = 0.125;
/// A share that is large enough.
const ENOUGH_SEEN: f64 = 0.375;
/// As good as all.
const ALL_BUT_NOTHING: f64 = 0.999;

/// Counts by position, in pages that are there where there is something to count.
type Pages = Vec<Option<Box<[u64; PAGE]>>>;

/// How many accesses had which stack distance (the number of distinct other lines since the last
/// access to the same line). An access of distance d hits in an LRU cache of more than d lines
/// (Mattson et al., IBM Systems Journal 1970).
///
/// It is taken from two sides, which an engine feeds as far as it can: accesses seen in turn, all
/// of them or those of bursts, each standing for as many as it has weight; and accesses to the
/// lines that are followed at all times, each standing for those to the lines that are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// Seen, by position.
    front: Box<[u64; FRONT_LINES]>,
    /// Seen behind the front, by bucket.
    found: Vec<u64>,
    /// Seen behind the front, by position, of an engine that knows each.
    exact: Pages,
    /// Seen, and known to lie no less deep than this: by position, and by bucket behind the front.
    left: (Box<[u64; FRONT_LINES]>, Vec<u64>),
    /// Seen, and the first to their lines.
    lasting: u64,
    /// To followed lines behind the front, by bucket.
    followed: Vec<u64>,
    /// To followed lines, and the first to them.
    cold: u64,
    /// Lines that a followed one stands for, at most.
    coarsest: u64,
    instructions: u64,
    /// Those of the time when all accesses are seen, by weight.
    watched: u64,
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
            found: vec![0; DEEP],
            exact: Vec::new(),
            left: (Box::new([0; FRONT_LINES]), vec![0; DEEP]),
            lasting: 0,
            followed: vec![0; DEEP],
            cold: 0,
            coarsest: 1,
            instructions: 0,
            watched: 0,
        }
    }

    /// Seen in the front.
    #[inline]
    pub(crate) fn add_front(&mut self, distance: usize) {
        // The remainder changes nothing and spares the check.
        self.front[distance % FRONT_LINES] += 1;
    }

    /// Seen behind the front, at this distance.
    pub(crate) fn add_found(&mut self, distance: u64) {
        self.found[deep_bucket(distance)] += 1;
    }

    /// Seen behind the front at this distance, after so many distinct lines: the whole bucket has
    /// to lie within them, or deep ones would count that shallower ones cannot stand against.
    pub(crate) fn add_found_within(&mut self, distance: u64, lines: u64) {
        let bucket = deep_bucket(distance);
        if deep_end(bucket) <= lines {
            self.found[bucket] += 1;
        } else {
            self.left.1[bucket] += 1;
        }
    }

    /// Seen behind the front, at this distance, which is to be told from all others.
    pub(crate) fn add_exact(&mut self, distance: u64) {
        let at = distance as usize - FRONT_LINES;
        if at / PAGE >= self.exact.len() {
            self.exact.resize(at / PAGE + 1, None);
        }
        let page = self.exact[at / PAGE].get_or_insert_with(|| Box::new([0; PAGE]));
        page[at % PAGE] += 1;
    }

    /// Seen, and known to lie at least this deep.
    pub(crate) fn add_left(&mut self, distance: u64) {
        if distance < FRONT_LINES as u64 {
            self.left.0[distance as usize] += 1;
        } else {
            self.left.1[deep_bucket(distance)] += 1;
        }
    }

    /// Seen, and the first to its line.
    pub(crate) fn add_lasting(&mut self) {
        self.lasting += 1;
    }

    /// To a followed line, of this distance, standing for `weight`.
    pub(crate) fn add_followed(&mut self, distance: u64, weight: u64) {
        if distance >= FRONT_LINES as u64 {
            self.followed[deep_bucket(distance)] += weight;
            self.coarsest = self.coarsest.max(weight);
        }
    }

    /// To a followed line, and the first, standing for `weight`.
    pub(crate) fn add_cold(&mut self, weight: u64) {
        self.cold += weight;
        self.coarsest = self.coarsest.max(weight);
    }

    /// So many instructions passed; `weight` says how many each stands for of those of the time when
    /// all accesses are seen, 0 at any other time.
    pub(crate) fn add_time(&mut self, instructions: u64, weight: u64) {
        self.instructions += instructions;
        self.watched += weight * instructions;
    }

    /// Takes what another one saw out of it, each access standing for `weight`.
    pub(crate) fn take_seen(&mut self, other: &mut Self, weight: u64) {
        let take = |sums: &mut [u64], counts: &mut [u64]| {
            for (sums, counts) in sums.chunks_mut(RUN).zip(counts.chunks_mut(RUN)) {
                // Most distances were not seen since the last time.
                if counts.iter().fold(0, |any, count| any | count) == 0 {
                    continue;
                }
                for (sum, count) in sums.iter_mut().zip(counts) {
                    *sum += weight * std::mem::take(count);
                }
            }
        };
        take(&mut self.front[..], &mut other.front[..]);
        take(&mut self.found, &mut other.found);
        take(&mut self.left.0[..], &mut other.left.0[..]);
        take(&mut self.left.1, &mut other.left.1);
        self.lasting += weight * std::mem::take(&mut other.lasting);
    }

    /// Adds another's accesses.
    pub(crate) fn merge(&mut self, other: &Self) {
        let add = |sums: &mut [u64], counts: &[u64]| {
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += count;
            }
        };
        add(&mut self.front[..], &other.front[..]);
        add(&mut self.found, &other.found);
        add(&mut self.left.0[..], &other.left.0[..]);
        add(&mut self.left.1, &other.left.1);
        add(&mut self.followed, &other.followed);
        if self.exact.len() < other.exact.len() {
            self.exact.resize(other.exact.len(), None);
        }
        for (sums, counts) in self.exact.iter_mut().zip(&other.exact) {
            let Some(counts) = counts else { continue };
            add(&mut sums.get_or_insert_with(|| Box::new([0; PAGE]))[..], &counts[..]);
        }
        self.lasting += other.lasting;
        self.cold += other.cold;
        self.coarsest = self.coarsest.max(other.coarsest);
        self.instructions += other.instructions;
        self.watched += other.watched;
    }

    /// All accesses: those seen, or as many as they stand for.
    pub fn accesses(&self) -> u64 {
        self.seen(&self.found).accesses() + self.positions().map(|one| one.1).sum::<u64>()
    }

    /// Misses of LRU caches by size in lines, ascending, from 16 lines up to the size where only
    /// first accesses miss, and the largest size of all (2^27 lines). Between two sizes the misses
    /// are on a line; an exact engine gives every size where they change, and the one before.
    pub fn misses(&self) -> Vec<(u64, u64)> {
        let mut points =
            if self.is_exact() { self.exact_misses() } else { self.estimated_misses() };
        let least = points.last().map_or(0, |point| point.1);
        let settled = points.iter().position(|point| point.1 == least).unwrap_or(0);
        points.truncate(settled + 1);
        if points[settled].0 < LARGEST {
            points.push((LARGEST, least));
        }
        points
    }

    fn seen<'a>(&'a self, found: &'a [u64]) -> Seen<'a> {
        let left = (&self.left.0[..], &self.left.1[..]);
        Seen { found: (&self.front[..], found), left, lasting: self.lasting }
    }

    /// Is the position of every access known?
    fn is_exact(&self) -> bool {
        let none = |counts: &[u64]| counts.iter().all(|&count| count == 0);
        let only_positions = none(&self.left.0[..]) && none(&self.left.1) && none(&self.found);
        only_positions && none(&self.followed) && self.instructions == self.watched
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

    fn exact_misses(&self) -> Vec<(u64, u64)> {
        let mut misses = self.accesses();
        let mut points = Vec::new();
        for (at, count) in self.front.iter().enumerate() {
            misses -= count;
            if at + 1 >= SMALLEST {
                points.push((at as u64 + 1, misses));
            }
        }
        for (distance, count) in self.positions() {
            if points.last().is_some_and(|last| last.0 < distance) {
                points.push((distance, misses));
            }
            misses -= count;
            points.push((distance + 1, misses));
        }
        points
    }

    /// What was seen tells of small caches, what was followed of large ones, and both of those
    /// between, where more than [`FEW_LINES`] followed ones and less than [`MANY_LINES`] fit in.
    fn estimated_misses(&self) -> Vec<(u64, u64)> {
        let (mut found, mut followed) = (self.found.clone(), self.followed.clone());
        for (distance, count) in self.positions() {
            found[deep_bucket(distance)] += count;
            followed[deep_bucket(distance)] += count;
        }
        let seen = self.seen(&found);
        let time = self.instructions as f64 / self.watched.max(1) as f64;
        let all = seen.accesses() as f64 * if self.watched > 0 { time } else { 1.0 };
        let all_seen = self.watched >= self.instructions;
        let mut by_followed = followed.iter().sum::<u64>() + self.cold;
        let mut least = f64::INFINITY;
        let mut points = Vec::new();
        for (at, survival) in seen.survivals().enumerate() {
            let bucket = at.checked_sub(FRONT_LINES);
            let lines = bucket.map_or(at as u64 + 1, deep_end);
            by_followed -= bucket.map_or(0, |bucket| followed[bucket]);
            let trust = match bucket {
                _ if all == 0.0 => 0.0,
                None => 1.0,
                Some(_) => self.trust(lines, survival.observed, all_seen),
            };
            let misses = trust * survival.share * all + (1.0 - trust) * by_followed as f64;
            least = least.min(misses);
            if lines >= SMALLEST as u64 {
                points.push((lines, least.round() as u64));
            }
        }
        points
    }

    /// How much what was seen tells of a cache of so many lines, where this share of its misses was
    /// seen; the rest is for what was followed to say.
    fn trust(&self, lines: u64, observed: f64, all_seen: bool) -> f64 {
        if all_seen && observed >= ALL_BUT_NOTHING {
            return 1.0;
        }
        let followed = lines as f64 / self.coarsest as f64;
        let few = (MANY_LINES / followed).log2() / (MANY_LINES / FEW_LINES).log2();
        let seen = (observed - LITTLE_SEEN) / (ENOUGH_SEEN - LITTLE_SEEN);
        few.clamp(0.0, 1.0) * seen.clamp(0.0, 1.0)
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
            histogram.add_found(distance);
        }
        histogram.add_lasting();
        let misses = histogram.misses();
        assert_eq!(histogram.accesses(), 14);
        assert_eq!(misses[0], (16, 4));
        assert_eq!(misses[8..10], [(24, 4), (25, 3)]);
        assert_eq!(misses[misses.len() - 2..], [(2016, 1), (1 << 27, 1)]);
    }

    /// A burst of an eighth of the time saw 100 accesses, 20 of them to lines it had not seen when
    /// it knew 600; at all times 1 line in 100 was followed, and 2 accesses to such lie at 300,000.
    #[test]
    fn bursts_tell_of_small_caches_and_followed_lines_of_large_ones() {
        let (mut histogram, mut burst) = (Histogram::new(), Histogram::new());
        (0..80).for_each(|at| burst.add_front(at % 20));
        (0..20).for_each(|_| burst.add_left(600));
        histogram.take_seen(&mut burst, 8);
        histogram.add_time(100, 8);
        histogram.add_time(700, 0);
        (0..2).for_each(|_| histogram.add_followed(300_000, 100));
        let misses = histogram.misses();
        let at = |lines: u64| misses.iter().rfind(|point| point.0 <= lines).unwrap().1;
        assert_eq!(histogram.accesses(), 800);
        assert_eq!((at(16), at(20), at(512)), (288, 160, 160));
        // Nobody saw anything of them, and more followed ones say so than were to be expected.
        assert_eq!((at(200_000), at(310_000)), (160, 0));
        assert_eq!(burst, Histogram::new());
    }

    #[test]
    fn a_bucket_that_a_burst_knows_in_part_is_left_out() {
        let mut histogram = Histogram::new();
        // Its bucket ends at 528.
        histogram.add_found_within(520, 527);
        histogram.add_found_within(520, 528);
        assert_eq!((histogram.found[1], histogram.left.1[1]), (1, 1));
    }
}
