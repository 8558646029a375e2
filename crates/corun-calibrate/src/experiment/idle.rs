//! How long lines of the last cache stay there while nobody here uses them: neighbours outside a
//! virtual machine share the cache and push them out.
//!
//! Lines that a program comes back to count, and those are used again and again from this cache. A cache
//! that takes that into account (as re-reference interval prediction does: Jaleel, Theobald, Steely and
//! Emer, ISCA 2010) gives lines away early that came from memory and were not used since, which says
//! nothing of the others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use corun_machine::CpuId;

use crate::CalibrateError;
use crate::analysis::isotonic::ascending;
use crate::bench::{Sample, pin, timed};
use crate::chains::{AT_ONCE, RandomChains};
use crate::estimate::{Estimator, Values};
use crate::figure::{CacheFigure, Figure};
use crate::kernel::{Chain, LINE_BYTES, dependent_adds};
use crate::neighbours::half_left_ms;
use crate::rounds::Experiment;
use corun_metrics::{median, quantile};

/// Pauses in ms. What is left after none is what the others are relative to.
pub(crate) const PAUSES_MS: [u32; 8] = [0, 1, 2, 3, 5, 10, 20, 50];
/// The part of the private caches that the lines fill whose stay is measured, so that all of them are
/// there before they are pushed out together.
const PROBED_SHARE: f64 = 0.5;
/// What pushes them out is so many times as large as the private caches: of twice as much, a cache
/// that resists cyclic visits keeps a part.
const PUSHING_TIMES: f64 = 3.0;
/// How often the lines are used from the last cache before, without a pause and with the pause between.
const USES: usize = 4;
const PAUSED_USES: usize = 2;
/// Lines whose loads are timed after a pause.
pub(super) const PROBED_LINES: usize = 2000;
/// Loads that tell the latency of memory.
const FAR_LOADS: usize = 200;
/// What a fast miss takes: so many loads of memory take less. A median would be too slow, since the
/// lines that are probed lie near to each other in memory, and those of the far chain do not.
const FAST_MISS: f64 = 0.1;
/// The part of a fast miss's further time from which on a load counts as a miss.
const MISS_SHARE: f64 = 0.4;
/// Additions between two looks at the clock: some 5 us.
pub(super) const PAUSE_ADDS: u64 = 20_000;
/// A cache that keeps at least this share over the longest pause has no other users.
const KEPT: f64 = 0.98;
/// The least life that a machine file has.
const LEAST_LIFE: f64 = 0.001;
/// Where less than this is left after no pause, nothing can be said of later.
pub(crate) const LEAST_LEFT: f64 = 0.1;

/// The lines of a core type's last cache that stay.
pub(crate) struct IdleSurvival {
    core_type: usize,
    cpu: CpuId,
    level: u32,
    lines: RestingLines,
}

impl IdleSurvival {
    /// `private_bytes` is the size of the largest cache before the last one, which is of this level.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn new(
        core_type: usize,
        cpu: CpuId,
        level: u32,
        private_bytes: f64,
        far: Chain,
    ) -> Result<Self, CalibrateError> {
        Ok(Self { core_type, cpu, level, lines: RestingLines::new(private_bytes, far)? })
    }
}

/// Lines that are brought to the last cache, rest there and are looked for.
pub(crate) struct RestingLines {
    /// A chain that the private caches hold.
    probed: Chain,
    /// Places at equal distances on a chain that the private caches do not hold.
    pushing: Vec<Chain>,
    /// A place on a chain over memory.
    far: Chain,
}

impl RestingLines {
    /// `private_bytes` is the size of the largest cache before the last one.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn new(private_bytes: f64, far: Chain) -> Result<Self, CalibrateError> {
        let of = |share: f64| {
            let lines = (private_bytes * share) as usize / LINE_BYTES;
            RandomChains::side_by_side(vec![lines.max(AT_ONCE)])
        };
        let pushing = of(PUSHING_TIMES)?.places(0, AT_ONCE);
        Ok(Self { probed: of(PROBED_SHARE)?.chain(0), pushing, far })
    }

    /// Moves the probed lines from the private caches to the last one.
    fn push_out(&self) {
        let part = self.pushing[0].lines() / self.pushing.len();
        Chain::follow_together(&mut self.pushing.clone(), part as u64);
    }

    /// The share of lines that hit the last cache after a pause; not a number where it cannot be told.
    pub(crate) fn share_left(&mut self, pause: Duration) -> f64 {
        let lines = self.probed.lines();
        self.probed.clone().follow(2 * lines as u64);
        for pause in [Duration::ZERO; USES].into_iter().chain([pause; PAUSED_USES]) {
            self.push_out();
            rest(pause);
            self.probed.clone().follow(lines as u64);
        }
        self.push_out();
        rest(pause);
        let loads = PROBED_LINES.min(lines);
        let times = load_times(&mut self.probed.clone(), loads);
        // The same lines again: now in the private caches.
        let near = median(&load_times(&mut self.probed.clone(), loads)).unwrap_or(f64::NAN);
        hits(&times, near, miss_ns(&mut self.far))
    }

    /// The share of lines that hit the last cache after a pause, of those that came from memory and were used once.
    fn share_left_of_new(&mut self, pause: Duration) -> f64 {
        let lines = self.far.clone();
        self.far.follow(PROBED_LINES as u64);
        self.push_out();
        rest(pause);
        let times = load_times(&mut lines.clone(), PROBED_LINES);
        let near = median(&load_times(&mut lines.clone(), PROBED_LINES)).unwrap_or(f64::NAN);
        hits(&times, near, miss_ns(&mut self.far))
    }
}

/// What a fast load from memory takes, by the next loads of a chain over memory.
pub(super) fn miss_ns(far: &mut Chain) -> f64 {
    quantile(&load_times(far, FAR_LOADS), FAST_MISS).unwrap_or(f64::NAN)
}

/// Lets so much time go by without a load.
pub(super) fn rest(pause: Duration) {
    let start = Instant::now();
    while start.elapsed() < pause {
        dependent_adds(PAUSE_ADDS);
    }
}

/// The times of single loads in ns, each with a look at the clock.
pub(super) fn load_times(chain: &mut Chain, loads: usize) -> Vec<f64> {
    (0..loads).map(|_| load_ns(|| chain.follow_one())).collect()
}

/// The time of a single load in ns, with a look at the clock.
pub(super) fn load_ns(load: impl FnOnce()) -> f64 {
    let start = Instant::now();
    load();
    start.elapsed().as_nanos() as f64
}

/// The time from which on a load is a miss, given that of a load near the core and of a miss.
pub(super) fn hits_below_ns(near: f64, far: f64) -> f64 {
    near + MISS_SHARE * (far - near)
}

/// The share of loads that are no misses, given the times of a load near the core and of a miss.
pub(super) fn hits(times: &[f64], near: f64, far: f64) -> f64 {
    let miss = hits_below_ns(near, far);
    let hits = times.iter().filter(|ns| **ns < miss).count();
    if miss.is_finite() { hits as f64 / times.len() as f64 } else { f64::NAN }
}

/// By pause in ms, what is left of what is left after none, which stands first in `left`; it never rises. Empty where it
/// is all, or where too little is left at once.
pub(crate) fn survival(left: &[f64]) -> Vec<(f64, f64)> {
    let Some((first, rest)) = left.split_first() else { return Vec::new() };
    if !left.iter().all(|share| share.is_finite()) || *first < LEAST_LEFT {
        return Vec::new();
    }
    let lost: Vec<f64> = rest.iter().map(|share| 1.0 - (share / first).clamp(0.0, 1.0)).collect();
    let kept: Vec<f64> = ascending(&lost).into_iter().map(|lost| 1.0 - lost).collect();
    if kept.last().is_none_or(|share| *share >= KEPT) {
        return Vec::new();
    }
    PAUSES_MS[1..].iter().map(|&ms| f64::from(ms)).zip(kept).collect()
}

/// The pause in ms after which half is left, of what is left of lines that are used again, or were once; none where
/// more is left after the longest.
fn half_life(left: &[f64]) -> Option<f64> {
    half_left_ms(&survival(left))
}

impl Experiment for IdleSurvival {
    fn name(&self) -> &'static str {
        "idle lines of the last cache"
    }

    fn points(&self) -> usize {
        2 * PAUSES_MS.len()
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        pin(self.cpu)?;
        let (is_new, point) = (point / PAUSES_MS.len() == 1, point % PAUSES_MS.len());
        let pause = Duration::from_millis(u64::from(PAUSES_MS[point]));
        let mut share = f64::NAN;
        let reading = timed(|| {
            let lines = &mut self.lines;
            share = if is_new { lines.share_left_of_new(pause) } else { lines.share_left(pause) };
        });
        // A clock that drifts over a long pause harms nothing.
        Ok(Sample::new(share, reading.disturbed && point == 0))
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let left = values.of(0..PAUSES_MS.len(), Estimator::Typical);
        let figure = |(ms, share): (f64, f64)| {
            let what = CacheFigure::IdleSurvival(ms as u32);
            (Figure::Cache(self.core_type, self.level, what), share)
        };
        let mut figures: BTreeMap<Figure, f64> = survival(&left).into_iter().map(figure).collect();
        let at_once = Figure::Cache(self.core_type, self.level, CacheFigure::LeftAtOnce);
        figures.insert(at_once, left[0]);
        let new = values.of(PAUSES_MS.len()..2 * PAUSES_MS.len(), Estimator::Typical);
        if let (Some(again), Some(once)) = (half_life(&left), half_life(&new)) {
            let life = Figure::Cache(self.core_type, self.level, CacheFigure::RandomUseLife);
            figures.insert(life, (once / again).clamp(LEAST_LIFE, 1.0));
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn loads_nearer_to_memory_than_to_the_core_are_misses() {
        // The limit is 20 + 0.4 x 100 = 60.
        assert_eq!(hits(&[30.0, 59.0, 60.0, 150.0], 20.0, 120.0), 0.5);
        assert!(hits(&[30.0], 20.0, f64::NAN).is_nan());
    }

    #[test]
    fn what_is_left_is_relative_to_no_pause() {
        // 0, 0.5, 0.375 and 0.75 are lost: the two in the middle become the lower one.
        let kept = survival(&[0.8, 0.8, 0.4, 0.5, 0.2]);
        assert_eq!(kept, [(1.0, 1.0), (2.0, 0.625), (3.0, 0.625), (5.0, 0.25)]);
        assert!(survival(&[0.9, 0.9, 0.89]).is_empty(), "nobody else");
        assert!(survival(&[0.09, 0.01]).is_empty(), "no line comes to stay");
        assert!(survival(&[0.5, f64::NAN]).is_empty());
        assert!(survival(&[]).is_empty());
    }

    #[test]
    fn half_of_the_lines_are_left_after_their_life() {
        // Of 0.8 half is 0.4: between 5 ms, with 0.6, and 10, with 0.2.
        let left = [0.8, 0.8, 0.8, 0.7, 0.6, 0.2, 0.0, 0.0];
        assert!((half_life(&left).unwrap() - 7.5).abs() < 1e-12);
        assert_eq!(half_life(&[0.8, 0.8, 0.8, 0.7, 0.6, 0.5, 0.5, 0.5]), None, "more is left");
        assert_eq!(half_life(&[0.9; 8]), None, "nobody else");
    }

    proptest! {
        #[test]
        fn shares_never_rise(left in prop::collection::vec(0.0..1.0f64, 0..9)) {
            let kept = survival(&left);
            prop_assert!(kept.iter().all(|(_, share)| (0.0..=1.0).contains(share)));
            prop_assert!(kept.windows(2).all(|pair| pair[0].1 >= pair[1].1));
        }
    }
}
