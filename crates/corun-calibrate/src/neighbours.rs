//! How long lines of a last cache stay there just now while nobody here uses it.
//!
//! Neighbours outside a virtual machine come and go: what they left of the cache when it was calibrated says little of
//! a minute later.

use std::time::Duration;

use corun_metrics::median;
use serde::{Deserialize, Serialize};

use crate::CalibrateError;
use crate::chains::RandomChains;
use crate::experiment::idle::{LEAST_LEFT, PAUSES_MS, RestingLines, survival};
use crate::kernel::LINE_BYTES;

/// Looks now and then, each time after another pause, by the calling thread on the CPU that it is on.
pub struct NeighbourLooks {
    lines: RestingLines,
    /// By pause, the shares of lines that were left.
    left: [Vec<f64>; PAUSES_MS.len()],
    next: usize,
}

/// What looks at the neighbours told.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NeighbourUse {
    /// Looks.
    pub looks: usize,
    /// Of lines that were used again, the share that is left after so many ms of rest, by rising times, as in a machine
    /// file (`idle_survival`); empty where nobody takes them.
    pub idle_survival: Vec<(f64, f64)>,
}

impl NeighbourLooks {
    /// For a last cache of so many bytes behind private caches of which the largest has `private_bytes`.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn new(private_bytes: f64, llc_bytes: f64) -> Result<Self, CalibrateError> {
        let lines = (llc_bytes as usize / LINE_BYTES).max(1);
        let far = RandomChains::side_by_side(vec![lines])?.chain(0);
        let lines = RestingLines::new(private_bytes, far)?;
        Ok(Self { lines, left: Default::default(), next: 0 })
    }

    /// Looks once: a few ms, and three times the pause, which is 50 ms at most.
    pub fn look(&mut self) {
        let share = self.lines.share_left(Duration::from_millis(u64::from(PAUSES_MS[self.next])));
        if share.is_finite() {
            self.left[self.next].push(share);
        }
        self.next = (self.next + 1) % PAUSES_MS.len();
    }

    /// What all looks together tell: medians, as `corun calibrate` has them. None where there was not one after each
    /// pause, or where lines do not come to stay.
    pub fn told(&self) -> Option<NeighbourUse> {
        told(&self.left)
    }
}

/// The share of lines at which their life ends.
const HALF: f64 = 0.5;

/// When half of the lines are left, in ms, straight between the points (ms, share) and from all at first; none where more
/// is left after the last.
pub fn half_left_ms(idle_survival: &[(f64, f64)]) -> Option<f64> {
    let mut before = (0.0, 1.0);
    for &(ms, share) in idle_survival {
        if share <= HALF {
            let part = (before.1 - HALF) / (before.1 - share);
            return Some(before.0 + part * (ms - before.0));
        }
        before = (ms, share);
    }
    None
}

fn told(left: &[Vec<f64>; PAUSES_MS.len()]) -> Option<NeighbourUse> {
    let typical: Option<Vec<f64>> = left.iter().map(|shares| median(shares)).collect();
    let typical = typical.filter(|typical| typical[0] >= LEAST_LEFT)?;
    Some(NeighbourUse { looks: left.iter().map(Vec::len).sum(), idle_survival: survival(&typical) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_medians_after_each_pause_count() {
        let mut left: [Vec<f64>; PAUSES_MS.len()] = Default::default();
        assert_eq!(told(&left), None, "nobody has looked");
        for (pause, shares) in left.iter_mut().enumerate() {
            // 0.8 is left at once, and 0.1 less after each pause; one look met a burst.
            *shares = vec![0.8 - 0.1 * pause as f64, 0.0, 0.8 - 0.1 * pause as f64];
        }
        let found = told(&left).unwrap();
        assert_eq!((found.looks, found.idle_survival.len()), (24, 7));
        let (ms, share) = found.idle_survival[3];
        assert!(ms == 5.0 && (share - 0.5).abs() < 1e-12, "{found:?}");
        left[0] = vec![0.05];
        assert_eq!(told(&left), None, "no line comes to stay");
    }

    #[test]
    fn a_quiet_cache_has_no_neighbours() {
        let left = std::array::from_fn(|_| vec![0.99]);
        assert_eq!(told(&left), Some(NeighbourUse { looks: 8, idle_survival: Vec::new() }));
    }

    #[test]
    fn half_of_the_lines_are_left_between_two_points() {
        assert_eq!(half_left_ms(&[(2.0, 0.9), (5.0, 0.75), (10.0, 0.25)]), Some(7.5));
        assert_eq!(half_left_ms(&[(2.0, 0.9), (5.0, 0.75)]), None);
        assert_eq!(half_left_ms(&[]), None);
    }

    #[test]
    fn looks_go_through_the_pauses() {
        let mut looks = NeighbourLooks::new(65536.0, 1048576.0).unwrap();
        assert_eq!(looks.told(), None);
        looks.look();
        looks.look();
        assert_eq!(looks.next, 2);
        assert!(looks.left[0].len() <= 1 && looks.left[2].is_empty());
    }
}
