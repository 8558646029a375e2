//! Stack distances of code alone, as a first-level instruction cache sees it.

use corun_profile::EngineKind;

use super::distances::Distances;
use super::histogram::Histogram;
use super::options::{EngineOptions, SamplingRate};

/// Lines of code followed. One less than a power of two, as the table has room for twice as many.
const CODE_LINES: usize = 8191;

/// An LRU stack of code lines.
#[derive(Debug, Clone)]
pub(crate) struct CodeDistances {
    distances: Distances,
}

impl CodeDistances {
    pub(crate) fn new(options: &EngineOptions) -> Self {
        let kind = match options.kind {
            EngineKind::Exact => EngineKind::Exact,
            EngineKind::FixedRate | EngineKind::FixedSize => EngineKind::FixedSize,
        };
        let options = EngineOptions { kind, lines: CODE_LINES, ..*options };
        Self { distances: Distances::new(&options) }
    }

    /// Code moves on to another line.
    #[inline]
    pub(crate) fn access(&mut self, line: u64, histogram: &mut Histogram) {
        if self.distances.is_apart() {
            self.distances.follow(line, histogram);
        }
        self.distances.access(line, false, histogram);
    }

    /// The same while only followed lines are seen.
    pub(crate) fn follow(&mut self, line: u64, histogram: &mut Histogram) {
        self.distances.follow(line, histogram);
    }

    /// Brings the histogram up to date: so many instructions passed, each of which stands for `weight`; 0: only followed
    /// lines were seen.
    pub(crate) fn settle(&mut self, histogram: &mut Histogram, instructions: u64, weight: u64) {
        histogram.add_time(instructions, weight);
        if weight > 0 {
            self.distances.settle(histogram);
        }
    }

    /// It does without what the shared stack does without: see [`Distances::take_apart`].
    pub(crate) fn take_apart(&mut self, rate: SamplingRate) {
        self.distances.follow_at_most(rate);
        if !self.distances.is_apart() {
            self.distances.take_apart();
        }
    }

    /// See [`Distances::begin_burst`].
    pub(crate) fn begin_burst(&mut self, weight: u64, whole: bool) {
        self.distances.begin_burst(weight, whole);
    }
}
