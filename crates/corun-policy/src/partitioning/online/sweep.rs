//! Measuring a program with one number of ways after the other.

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

/// A program's samples so far.
#[derive(Debug)]
pub(crate) struct Sweep {
    direction: Direction,
    all: u32,
    least: u32,
    ways: u32,
    /// By ascending time.
    samples: Vec<(u32, Sample)>,
}

impl Sweep {
    /// A sweep over the ways of an LLC that leaves everybody else `least` at any time; none where the
    /// LLC has too few ways for two partitions.
    pub(crate) fn new(direction: Direction, all: u32, least: u32) -> Option<Self> {
        let least = least.max(1);
        (all >= 2 * least).then(|| Self {
            direction,
            all,
            least,
            ways: if direction == Direction::Growing { least } else { all - least },
            samples: Vec::new(),
        })
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

    /// Notes the figures with the present ways and goes to the next. Is it over?
    /// `is_enough` looks at the samples so far, each with its ways.
    pub(crate) fn note(
        &mut self,
        sample: Sample,
        is_enough: impl FnOnce(&[(u32, Sample)]) -> bool,
    ) -> bool {
        self.samples.push((self.ways, sample));
        let is_last = match self.direction {
            Direction::Growing => self.ways + self.least >= self.all,
            Direction::Shrinking => self.ways <= self.least,
        };
        if is_last || is_enough(&self.samples) {
            return true;
        }
        match self.direction {
            Direction::Growing => self.ways += 1,
            Direction::Shrinking => self.ways -= 1,
        }
        false
    }

    /// The curve by ways; a number of ways that was not tried has the figures of the nearest one.
    /// Slowdowns are against the most ways that were tried. None without a sample.
    pub(crate) fn curve(&self) -> Option<WaysCurve> {
        let most = self.samples.iter().max_by_key(|(ways, _)| *ways)?.1;
        let at = |ways: u32| {
            let nearest = self.samples.iter().min_by_key(|(tried, _)| tried.abs_diff(ways));
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
        WaysCurve::new((1..=self.all).map(|ways| point(at(ways))).collect())
    }
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

    /// Eight ways in steps of one; two are the least.
    #[test]
    fn ways_grow_to_all_but_the_least() {
        let mut sweep = Sweep::new(Direction::Growing, 8, 2).unwrap();
        let mut tried = Vec::new();
        loop {
            tried.push((sweep.ways(), sweep.masks()));
            if sweep.note(sample(f64::from(sweep.ways())), |_| false) {
                break;
            }
        }
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
        let curve = sweep.curve().unwrap();
        let slowdowns: Vec<f64> = curve.points().iter().map(|one| one.slowdown).collect();
        // One way was not tried and counts as two; 7 and 8 as 6.
        assert_eq!(slowdowns, [3.0, 3.0, 2.0, 1.5, 1.2, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn a_sweep_that_is_cut_short_ends_in_its_last_sample() {
        let mut sweep = Sweep::new(Direction::Growing, 11, 1).unwrap();
        assert!(!sweep.note(sample(1.0), |_| false));
        assert!(sweep.note(sample(2.0), |samples| samples.len() == 2));
        let curve = sweep.curve().unwrap();
        assert_eq!([1, 2, 3, 11].map(|ways| curve.at(ways).slowdown), [2.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn ways_shrink_from_all_but_one() {
        let mut sweep = Sweep::new(Direction::Shrinking, 4, 1).unwrap();
        let mut ways = vec![sweep.ways()];
        while !sweep.note(sample(f64::from(sweep.ways())), |_| false) {
            ways.push(sweep.ways());
        }
        assert_eq!(ways, [3, 2, 1]);
        assert_eq!(sweep.curve().unwrap().points().len(), 4);
        assert!(Sweep::new(Direction::Shrinking, 3, 2).is_none());
    }
}
