//! A program alone with 1, 2, 3 .. ways of an LLC: what partitioning policies look at.

use serde::{Deserialize, Serialize};

/// Figures of a program alone with some ways of an LLC.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaysPoint {
    /// Speed with all ways / speed with these.
    pub slowdown: f64,
    /// Instructions per cycle.
    pub ipc: f64,
    /// LLC misses per 1000 instructions.
    pub llc_mpki: f64,
    /// LLC references per 1000 instructions; 0: not known.
    #[serde(default)]
    pub llc_apki: f64,
    /// LLC misses per 1000 cycles.
    pub llc_mpkc: f64,
    /// Memory traffic in bytes a second.
    pub bytes_per_s: f64,
    /// Share of cycles stalled with a miss of the private cache outstanding, 0 to 1.
    pub l2_miss_stalls: f64,
    /// Share of cycles stalled on memory, 0 to 1.
    pub memory_stalls: f64,
    /// Share of cycles stalled for any reason, 0 to 1.
    pub total_stalls: f64,
}

impl WaysPoint {
    /// The same with another value for each figure.
    pub fn map(&self, of: impl Fn(f64) -> f64) -> Self {
        Self {
            slowdown: of(self.slowdown),
            ipc: of(self.ipc),
            llc_mpki: of(self.llc_mpki),
            llc_apki: of(self.llc_apki),
            llc_mpkc: of(self.llc_mpkc),
            bytes_per_s: of(self.bytes_per_s),
            l2_miss_stalls: of(self.l2_miss_stalls),
            memory_stalls: of(self.memory_stalls),
            total_stalls: of(self.total_stalls),
        }
    }
}

/// A program's figures with each number of ways, from 1 to all.
#[derive(Debug, Clone, PartialEq)]
pub struct WaysCurve {
    points: Vec<WaysPoint>,
}

impl WaysCurve {
    /// The figures with 1, 2, 3 .. ways; none when there are none.
    pub fn new(points: Vec<WaysPoint>) -> Option<Self> {
        (!points.is_empty()).then_some(Self { points })
    }

    /// How many ways the last point has.
    pub fn ways(&self) -> u32 {
        self.points.len() as u32
    }

    /// The figures with so many ways; those of the nearest end beyond 1 and [`Self::ways`].
    pub fn at(&self, ways: u32) -> &WaysPoint {
        let last = self.points.len() - 1;
        &self.points[(ways.max(1) as usize - 1).min(last)]
    }

    /// The figures from 1 way up.
    pub fn points(&self) -> &[WaysPoint] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_read_by_ways() {
        let point = |slowdown| WaysPoint { slowdown, ..WaysPoint::default() };
        let curve = WaysCurve::new(vec![point(2.0), point(1.5), point(1.0)]).unwrap();
        let read = [0, 1, 2, 3, 9].map(|ways| curve.at(ways).slowdown);
        assert_eq!((curve.ways(), read), (3, [2.0, 2.0, 1.5, 1.0, 1.0]));
        assert_eq!(WaysCurve::new(vec![]), None);
    }
}
