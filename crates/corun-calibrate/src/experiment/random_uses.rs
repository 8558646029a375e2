//! Lines that are used at random, load by load: how many miss, and how long lines stay that were used once and again.

use std::time::{Duration, Instant};

use rand::{RngExt as _, SeedableRng};
use rand_pcg::Pcg64;

use super::idle::{hits_below_ns, load_ns};
use crate::CalibrateError;
use crate::analysis::isotonic::ascending;
use crate::kernel::LINE_BYTES;
use crate::neighbours::half_left_ms;
use crate::region::Region;
use corun_metrics::median;

/// Lines lie so many apart: many cores fetch the next one along.
const SPACING: usize = 3;
/// Uses between two looks whether it is over.
const BURST: usize = 64;
/// Uses go on for this long before they count, and while they do. Each line is used a few times in that.
const BEFORE: Duration = Duration::from_millis(20);
const COUNTED: Duration = Duration::from_millis(40);
/// Times between two uses of a line are sorted into classes, each so many times as long as the one before, from the first on.
const FIRST_CLASS_MS: f64 = 0.25;
const CLASS_RATIO: f64 = 1.3;
const CLASSES: usize = 20;
/// Fewer uses say nothing of a class.
const LEAST_USES: u32 = 20;
/// Loads that tell the time of a hit.
const NEAR_LOADS: usize = 200;

/// Lines that are used at random.
pub(crate) struct RandomUses {
    region: Region,
    lines: usize,
    random: Pcg64,
    /// By line, its latest use in microseconds, 0 if there was none, and whether that hit.
    latest: Vec<(u32, bool)>,
}

/// What uses found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Uses {
    /// The share of uses that missed; not a number where there was none.
    pub(crate) missed: f64,
    /// The time between two uses of a line on average, in ms.
    pub(crate) round_ms: f64,
    /// The time after which half of the lines are left that had missed when they were used last, by that of lines that had hit.
    /// None where more than half are left after the longest times.
    pub(crate) once_by_again: Option<f64>,
}

impl RandomUses {
    /// Of so many lines.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn new(lines: usize) -> Result<Self, CalibrateError> {
        let lines = lines.max(1);
        let region = Region::new(lines * SPACING * LINE_BYTES)?;
        Ok(Self {
            region,
            lines,
            random: Pcg64::seed_from_u64(17),
            latest: vec![(0, false); lines],
        })
    }

    /// Bytes of the lines.
    pub(crate) fn bytes(&self) -> f64 {
        (self.lines * LINE_BYTES) as f64
    }

    /// From what time on a load counts as a miss, where a fast miss takes so long.
    pub(crate) fn limit_ns(&self, miss_ns: f64) -> f64 {
        let zeros = self.region.lock();
        let near: Vec<f64> =
            (0..NEAR_LOADS).map(|_| load_ns(|| zeros.strided_chase(0, 1, 1))).collect();
        hits_below_ns(median(&near).unwrap_or(f64::NAN), miss_ns)
    }

    /// Uses lines for a while, with something else between bursts of uses. Loads that take less than the limit hit.
    pub(crate) fn watch(&mut self, limit_ns: f64, between: &mut dyn FnMut()) -> Uses {
        self.latest.fill((0, false));
        let zeros = self.region.lock();
        let mut seen = UsesSeen::default();
        let start = Instant::now();
        let mut counted_from = None;
        loop {
            let now = start.elapsed();
            if now >= BEFORE && counted_from.is_none() {
                counted_from = Some(now);
            }
            // From when the first counted use began, and not from the start: while this thread had no CPU nothing was used, and
            // a burst is counted however long that took.
            let counted = counted_from.map_or(Duration::ZERO, |from| now.saturating_sub(from));
            if counted >= COUNTED {
                return seen.told(counted, self.lines);
            }
            for _ in 0..BURST {
                let line = self.random.random_range(0..self.lines);
                let before_us = start.elapsed().as_micros().max(1) as u32;
                let hit = load_ns(|| zeros.strided_chase(line * SPACING, 1, 1)) < limit_ns;
                let (latest_us, had_hit) =
                    std::mem::replace(&mut self.latest[line], (before_us, hit));
                if counted_from.is_some() {
                    seen.uses += 1;
                    if latest_us > 0 {
                        seen.add(had_hit, f64::from(before_us - latest_us) * 1e-3, hit);
                    }
                }
            }
            between();
        }
    }
}

/// Uses, and hits of them, by the time since the line was used before.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct ByTime([(u32, u32); CLASSES]);

/// What was seen of uses.
#[derive(Debug, Default)]
struct UsesSeen {
    /// All uses.
    uses: u64,
    /// Of lines that missed before, and of those that hit.
    after: [ByTime; 2],
}

impl UsesSeen {
    fn add(&mut self, had_hit: bool, since_ms: f64, hit: bool) {
        let class = (since_ms / FIRST_CLASS_MS).ln() / CLASS_RATIO.ln() + 1.0;
        let class = (class.max(0.0) as usize).min(CLASSES - 1);
        let (uses, hits) = &mut self.after[usize::from(had_hit)].0[class];
        *uses += 1;
        *hits += u32::from(hit);
    }

    fn told(&self, counted: Duration, lines: usize) -> Uses {
        let classes = || self.after.iter().flat_map(|after| after.0);
        let sum = |count: fn((u32, u32)) -> u32| classes().map(count).map(f64::from).sum::<f64>();
        let round_ms = counted.as_secs_f64() * 1e3 * lines as f64 / self.uses as f64;
        let [once, again] = self.after.map(|after| half_left_ms(&after.left()));
        Uses {
            missed: 1.0 - sum(|(_, hits)| hits) / sum(|(uses, _)| uses),
            round_ms,
            once_by_again: once.zip(again).map(|(once, again)| (once / again).min(1.0)),
        }
    }
}

impl ByTime {
    /// The shares that are left, by time in ms: they never rise.
    fn left(&self) -> Vec<(f64, f64)> {
        let known = self.0.iter().enumerate().filter(|(_, (uses, _))| *uses >= LEAST_USES);
        let (times, lost): (Vec<f64>, Vec<f64>) = known
            .map(|(class, &(uses, hits))| {
                let middle = FIRST_CLASS_MS * CLASS_RATIO.powf(class as f64 - 0.5);
                (middle, 1.0 - f64::from(hits) / f64::from(uses))
            })
            .unzip();
        times.into_iter().zip(ascending(&lost).into_iter().map(|lost| 1.0 - lost)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_leave_by_the_time_since_their_use() {
        // Lines that missed before are gone from 2 ms on, others from 5 ms on.
        let mut seen = UsesSeen { uses: 80_000, ..UsesSeen::default() };
        for (had_hit, life) in [(false, 2.0), (true, 5.0)] {
            for use_ in 0..10_000 {
                let since = f64::from(use_) * 1e-3;
                seen.add(had_hit, since, since < life);
            }
        }
        let told = seen.told(Duration::from_millis(40), 4000);
        assert!((told.missed - 0.65).abs() < 1e-12, "{told:?}");
        // 80,000 uses of 4000 lines in 40 ms.
        assert!((told.round_ms - 2.0).abs() < 1e-12, "{told:?}");
        // To within a class.
        let ratio = told.once_by_again.unwrap();
        assert!((ratio / 0.4).ln().abs() < CLASS_RATIO.ln(), "{ratio}");
    }

    #[test]
    fn where_lines_stay_nothing_is_said_of_their_lives() {
        let mut seen = UsesSeen { uses: 1000, ..UsesSeen::default() };
        (0..1000).for_each(|use_| seen.add(true, f64::from(use_) * 1e-2, true));
        let told = seen.told(Duration::from_millis(40), 100);
        assert_eq!((told.missed, told.once_by_again), (0.0, None));
        assert!(UsesSeen::default().told(Duration::ZERO, 100).missed.is_nan());
    }

    #[test]
    fn uses_go_on_for_their_time_and_lines_come_again() {
        let mut uses = RandomUses::new(64).unwrap();
        let mut bursts = 0;
        let told = uses.watch(f64::INFINITY, &mut || bursts += 1);
        assert_eq!(told.missed, 0.0);
        assert!(bursts > 0 && told.round_ms > 0.0);
        assert_eq!(uses.bytes(), 4096.0);
    }

    /// The thread has no CPU from before the time that counts until after it.
    #[test]
    fn uses_are_counted_however_late_the_thread_is() {
        let mut uses = RandomUses::new(64).unwrap();
        let mut stall = Some(2 * (BEFORE + COUNTED));
        let mut between = || stall.take().into_iter().for_each(std::thread::sleep);
        let told = uses.watch(f64::INFINITY, &mut between);
        assert_eq!(told.missed, 0.0);
        assert!(told.round_ms.is_finite(), "{told:?}");
    }
}
