//! From a latency ladder to caches whose sizes Linux tells: what a hit takes in each, and how much of
//! each a program really gets.

use super::isotonic::ascending;
use super::ladder::Level;
use corun_metrics::median;

/// The least share of hits from which a capacity is told.
const LEAST_HITS: f64 = 0.5;
/// Steps between two points of a ladder in which the share of hits is interpolated.
const STEPS_BETWEEN: u32 = 8;

/// A latency ladder: sizes in bytes, ascending, with latencies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CacheLadder<'a> {
    /// The sizes.
    pub(crate) sizes: &'a [f64],
    /// Latencies that only a disturbance exceeds.
    pub(crate) floor: &'a [f64],
    /// Latencies that programs meet.
    pub(crate) typical: &'a [f64],
    /// What a hit in the last cache takes more than one in the cache before: in a shared cache there
    /// may be no size at which all hit.
    pub(crate) last_hit_more: f64,
}

impl CacheLadder<'_> {
    /// The caches, nearest first, given their nominal sizes in bytes, and memory behind them.
    ///
    /// - A private cache's latency is the median of the sets between twice the size of the cache
    ///   before and half its own: there nearly all hit.
    /// - Memory's latency is the median of the sets beyond 1.5 times the size of the last cache, and
    ///   up to four times that.
    /// - With the latencies l and l' of a cache and what is behind it, a latency in between is a mix
    ///   of hits and misses: the share of hits is h = (l' - latency) / (l' - l). A cache holds the
    ///   largest size x h: all of a set that fits, and what is left of one that does not. Sets of
    ///   which less than half hits are left out: a small error of l' counts for much there.
    ///
    /// None where the ladder is too short.
    pub(crate) fn levels(&self, caches: &[f64]) -> Option<Vec<Level>> {
        let (last, private) = caches.split_last()?;
        let floor = ascending(self.floor);
        let typical = ascending(self.typical);
        let mut latencies = Vec::new();
        let mut below = 0.0;
        for size in private {
            latencies.push(self.within(&floor, 2.0 * below, 0.5 * size)?);
            below = *size;
        }
        let before_last = latencies.last().copied().unwrap_or(0.0);
        if !self.last_hit_more.is_finite() {
            return None;
        }
        latencies.push(before_last + self.last_hit_more);
        latencies.push(self.within(&typical, 1.5 * last, 4.0 * last)?);
        let ordered = ascending(&latencies);
        let mut levels = Vec::new();
        let mut least = 0.0f64;
        for (place, pair) in ordered.windows(2).enumerate() {
            let from = place.checked_sub(1).map_or(0.0, |before| caches[before]);
            let held = self.held(&typical, pair[0], pair[1], from, 1.5 * caches[place]);
            least = least.max(held.min(caches[place]));
            levels.push(Level { latency: pair[0], capacity: Some(least) });
        }
        levels.push(Level { latency: *ordered.last()?, capacity: None });
        Some(levels)
    }

    /// The median of the sets in a range of sizes.
    fn within(&self, latencies: &[f64], from: f64, to: f64) -> Option<f64> {
        let inside =
            self.sizes.iter().zip(latencies).filter(|(size, _)| (from..=to).contains(*size));
        median(&inside.map(|(_, latency)| *latency).collect::<Vec<_>>())
    }

    /// The largest size x share of hits of the sets in a range of sizes.
    fn held(&self, latencies: &[f64], hit: f64, miss: f64, from: f64, to: f64) -> f64 {
        let hits = |latency: f64| match miss > hit {
            true => ((miss - latency) / (miss - hit)).min(1.0),
            false => 1.0,
        };
        let mut most = 0.0f64;
        for point in 1..self.sizes.len() {
            if self.sizes[point] < from || self.sizes[point - 1] > to {
                continue;
            }
            for step in 0..=STEPS_BETWEEN {
                let share = f64::from(step) / f64::from(STEPS_BETWEEN);
                let at = |values: &[f64]| {
                    values[point - 1] + share * (values[point] - values[point - 1])
                };
                let size = at(self.sizes);
                let share = hits(at(latencies));
                if (from..=to).contains(&size) && share >= LEAST_HITS {
                    most = most.max(size * share);
                }
            }
        }
        most
    }
}

#[cfg(test)]
#[path = "caches_tests.rs"]
mod tests;
