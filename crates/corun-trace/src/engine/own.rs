//! Threads by themselves, as if each had its caches alone.

use std::ops::Range;

use corun_profile::EngineKind;

use super::distances::Distances;
use super::histogram::Histogram;
use super::options::{EngineOptions, SamplingRate};

/// Threads with figures of their own at most; those that start later have none.
pub const MOST_OWN_THREADS: usize = 64;

/// Lines followed for one thread, in fixed size. One less than a power of two, as its table has
/// room for twice as many.
const THREAD_LINES: usize = 4095;

/// What one thread did, and its stack distances in a stack of its own.
#[derive(Debug, Clone)]
pub struct OwnFigures {
    /// Instructions.
    pub instructions: u64,
    /// Loads and stores.
    pub data_accesses: u64,
    /// Its stack distances.
    pub histogram: Histogram,
    distances: Distances,
    /// The last burst it was in.
    burst: Option<u64>,
}

impl OwnFigures {
    /// Those of a thread that has done nothing.
    pub(super) fn new() -> Self {
        let options = EngineOptions {
            kind: EngineKind::FixedSize,
            lines: THREAD_LINES,
            ..EngineOptions::default()
        };
        let distances = Distances::new(&options);
        Self {
            instructions: 0,
            data_accesses: 0,
            histogram: Histogram::default(),
            distances,
            burst: None,
        }
    }

    /// Those of a thread that was alone until now.
    pub(super) fn alone(
        (instructions, data_accesses): (u64, u64),
        histogram: Histogram,
        (shared, burst): (&Distances, u64),
    ) -> Self {
        let distances = shared.limited(THREAD_LINES);
        Self { instructions, data_accesses, histogram, distances, burst: Some(burst) }
    }

    /// It does without what the others of the same run do without: see [`Distances::take_apart`].
    pub(super) fn take_apart(&mut self, rate: SamplingRate) {
        if !self.distances.is_apart() {
            self.distances.take_apart();
        }
        self.distances.follow_at_most(rate);
    }

    /// It is in the burst of this number.
    pub(super) fn join_burst(&mut self, number: u64, weight: u64, whole: bool) {
        if self.burst != Some(number) {
            self.burst = Some(number);
            self.distances.begin_burst(weight, whole);
        }
    }

    #[inline(never)]
    pub(super) fn access(&mut self, line: u64, store: bool) {
        self.distances.access(line, store, &mut self.histogram);
    }

    /// The kernel clears these lines for it, which is no access of its own.
    pub(super) fn clear(&mut self, lines: Range<u64>) {
        self.distances.clear(lines, &mut self.histogram, None, |_, _| ());
    }

    /// The same of one that may be followed.
    pub(super) fn clear_followed(&mut self, line: u64) {
        self.distances.clear_followed(line, None);
    }

    /// An access to a line that may be followed.
    pub(super) fn follow(&mut self, line: u64) {
        self.distances.follow(line, &mut self.histogram);
    }

    /// Brings the histogram up to date: so many instructions passed, each of which stands for `weight`; 0: only followed
    /// lines were seen.
    pub(super) fn settle(&mut self, instructions: u64, weight: u64) {
        self.instructions += instructions;
        self.histogram.add_time(instructions, weight);
        if weight > 0 {
            self.distances.settle(&mut self.histogram);
        }
    }
}
