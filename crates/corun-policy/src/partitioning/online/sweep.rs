//! Measuring a program with one number of ways after the other.

use super::Cache;
use super::window::Sample;
use crate::{WaysCurve, WaysPoint};

/// The order in which numbers of ways are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the fewest up: it can be cut short.
    Growing,
    /// From the most down: one after the other to the end.
    Shrinking,
}

impl Direction {
    /// The ways to try after these; none at the end. Everybody else has the fewest ways of a partition at any time.
    pub(crate) fn next(self, samples: &[(u32, Sample)], cache: &Cache) -> Option<u32> {
        let (least, most) = (cache.least_ways, cache.most_sampled_ways());
        let next = match (self, samples.last()) {
            (Self::Growing, None) => least,
            (Self::Growing, Some((last, _))) => last + 1,
            (Self::Shrinking, None) => most,
            (Self::Shrinking, Some((last, _))) => last - 1,
        };
        (least..=most).contains(&next).then_some(next)
    }
}

/// A program's samples so far.
#[derive(Debug)]
pub(crate) struct Sweep {
    all: u32,
    ways: u32,
    /// By ascending time.
    samples: Vec<(u32, Sample)>,
}

impl Sweep {
    /// A sweep that begins with so many ways of an LLC.
    pub(crate) fn new(cache: &Cache, ways: u32) -> Self {
        Self { all: cache.ways, ways, samples: Vec::new() }
    }

    /// The ways that the program has now.
    pub(crate) fn ways(&self) -> u32 {
        self.ways
    }

    /// The sampling partition and its complement.
    pub(crate) fn masks(&self) -> [u64; 2] {
        use crate::partitioning::mask;
        [mask(0, self.ways), mask(self.ways, self.all - self.ways)]
    }

    /// Notes the figures with the present ways.
    pub(crate) fn note(&mut self, sample: Sample) {
        self.samples.push((self.ways, sample));
    }

    /// Goes on to another number of ways.
    pub(crate) fn go_to(&mut self, ways: u32) {
        self.ways = ways;
    }

    /// The figures so far, each with its ways.
    pub(crate) fn samples(&self) -> &[(u32, Sample)] {
        &self.samples
    }
}

/// The curve by ways, from 1 to `all`, of samples; a number of ways that was not tried has the figures of the nearest
/// one. Slowdowns are against the most ways that were tried. None without a sample.
pub(crate) fn curve(samples: &[(u32, Sample)], all: u32) -> Option<WaysCurve> {
    let most = samples.iter().max_by_key(|(ways, _)| *ways)?.1;
    let at = |ways: u32| {
        let nearest = samples.iter().min_by_key(|(tried, _)| tried.abs_diff(ways));
        nearest.map_or(most, |(_, sample)| *sample)
    };
    let point = |sample: Sample| WaysPoint {
        slowdown: if sample.ipc > 0.0 { most.ipc / sample.ipc } else { 1.0 },
        ipc: sample.ipc,
        llc_mpki: sample.llc_mpki,
        llc_mpkc: sample.llc_mpkc,
        bytes_per_s: sample.bytes_per_s,
        memory_stalls: sample.memory_stalls.unwrap_or(0.0),
        ..WaysPoint::default()
    };
    WaysCurve::new((1..=all).map(|ways| point(at(ways))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ipc: f64) -> Sample {
        Sample {
            ipc,
            llc_mpki: 1.0,
            llc_apki: None,
            llc_mpkc: ipc,
            bytes_per_s: 0.0,
            memory_stalls: None,
        }
    }

    fn cache(ways: u32, least_ways: u32) -> Cache {
        Cache { ways, least_ways, bytes: 1.0, private_bytes: 0.0, peak_bytes_per_s: None }
    }

    /// The masks of a sweep to its end, each with its ways, and its curve.
    fn swept(direction: Direction, cache: &Cache) -> (Vec<(u32, [u64; 2])>, WaysCurve) {
        let mut sweep = Sweep::new(cache, direction.next(&[], cache).unwrap());
        let mut tried = Vec::new();
        loop {
            tried.push((sweep.ways(), sweep.masks()));
            sweep.note(sample(f64::from(sweep.ways())));
            match direction.next(sweep.samples(), cache) {
                Some(ways) => sweep.go_to(ways),
                None => return (tried, curve(sweep.samples(), cache.ways).unwrap()),
            }
        }
    }

    /// Eight ways in steps of one; two are the least.
    #[test]
    fn ways_grow_to_all_but_the_least() {
        let (tried, curve) = swept(Direction::Growing, &cache(8, 2));
        let masks = |first, second| [first, second];
        assert_eq!(
            tried,
            [
                (2, masks(0x03, 0xfc)),
                (3, masks(0x07, 0xf8)),
                (4, masks(0x0f, 0xf0)),
                (5, masks(0x1f, 0xe0)),
                (6, masks(0x3f, 0xc0)),
            ]
        );
        let slowdowns: Vec<f64> = curve.points().iter().map(|one| one.slowdown).collect();
        // One way was not tried and counts as two; 7 and 8 as 6.
        assert_eq!(slowdowns, [3.0, 3.0, 2.0, 1.5, 1.2, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn a_sweep_that_is_cut_short_ends_in_its_last_sample() {
        let curve = curve(&[(1, sample(1.0)), (2, sample(2.0))], 11).unwrap();
        assert_eq!([1, 2, 3, 11].map(|ways| curve.at(ways).slowdown), [2.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn ways_shrink_from_all_but_one() {
        let (tried, curve) = swept(Direction::Shrinking, &cache(4, 1));
        let ways: Vec<u32> = tried.iter().map(|(ways, _)| *ways).collect();
        assert_eq!((ways, curve.points().len()), (vec![3, 2, 1], 4));
        assert_eq!(Direction::Shrinking.next(&[], &cache(3, 2)), None);
        assert_eq!(Direction::Growing.next(&[], &cache(3, 2)), None);
    }
}
