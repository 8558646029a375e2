//! Signs that a program's class has changed (thesis, section 6.3.2).

use std::collections::VecDeque;

use crate::WaysCurve;
use crate::partitioning::CacheClass;
use crate::partitioning::online::Seen;

/// The most that back-off makes of the periods.
const LONGEST: f64 = 64.0;

/// The heuristics' limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limits {
    /// Misses per 1000 cycles above which a program is memory-intensive.
    pub(super) high_mpkc: f64,
    /// The same below which it does not stream.
    pub(super) low_mpkc: f64,
    /// Share of cycles stalled on memory above which it is memory-intensive.
    pub(super) memory_stalls: f64,
    /// Windows that are averaged.
    pub(super) periods: usize,
    /// Factor on these after a sign that was wrong.
    pub(super) back_off: f64,
    /// A sensitive program has its critical size where it slows down by less than this.
    pub(super) critical_slowdown: f64,
}

/// What is kept of a program's windows.
#[derive(Debug, Clone, Default)]
pub(super) struct Watched {
    /// Misses per 1000 cycles, memory stalls and bytes held of the last windows.
    recent: VecDeque<(f64, Option<f64>, f64)>,
    /// Of a sensitive program, in bytes.
    critical_bytes: f64,
    /// How many times as many windows as usual; 0 counts as 1.
    patience: f64,
}

impl Watched {
    /// It was sampled. `confirmed`: the class is what it was before, so that the sign was wrong.
    pub(super) fn sampled(
        &mut self,
        confirmed: bool,
        curve: &WaysCurve,
        way_bytes: f64,
        limits: &Limits,
    ) {
        self.recent.clear();
        let is_critical = |ways: &u32| curve.at(*ways).slowdown < limits.critical_slowdown;
        let ways = (1..=curve.ways()).find(is_critical).unwrap_or(curve.ways());
        self.critical_bytes = f64::from(ways) * way_bytes;
        let patience = if confirmed { self.patience.max(1.0) * limits.back_off } else { 1.0 };
        self.patience = patience.min(LONGEST);
    }

    /// Takes in a window. Has the class likely changed?
    pub(super) fn has_changed(&mut self, class: CacheClass, seen: &Seen, limits: &Limits) -> bool {
        let sample = &seen.sample;
        self.recent.push_back((sample.llc_mpkc, sample.memory_stalls, seen.held_bytes));
        let periods = (limits.periods as f64 * self.patience.max(1.0)) as usize;
        while self.recent.len() > periods {
            self.recent.pop_front();
        }
        if self.recent.len() < periods {
            return false;
        }
        let count = periods as f64;
        let mpkc = self.recent.iter().map(|one| one.0).sum::<f64>() / count;
        let held = self.recent.iter().map(|one| one.2).sum::<f64>() / count;
        // Stalls that nobody counts are no sign.
        let stalls: Option<f64> = self.recent.iter().map(|one| one.1).sum();
        let stalled = stalls.is_some_and(|sum| sum / count > limits.memory_stalls);
        let is_intensive = mpkc > limits.high_mpkc || stalled;
        let changed = match class {
            CacheClass::LightSharing => is_intensive,
            CacheClass::Streaming => mpkc < limits.low_mpkc,
            CacheClass::Sensitive => {
                !is_intensive && held < self.critical_bytes
                    || mpkc > limits.high_mpkc && held > self.critical_bytes
            }
        };
        if changed {
            self.recent.clear();
        }
        changed
    }
}

#[cfg(test)]
mod tests;
