//! Everything that is summed up over a window of instructions, and over a phase.

use super::histogram::Histogram;
use super::parallelism::Parallelism;
use super::sketch::LineSketch;
use crate::phases::{Behaviour, BehaviourVector};

/// Plain counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Instructions. A repeated string instruction counts once.
    pub instructions: u64,
    /// Loading instructions that ran.
    pub loads: u64,
    /// Storing instructions that ran.
    pub stores: u64,
    /// Branches of any kind.
    pub branches: u64,
    /// Branches that the predictor was tried on.
    pub watched_branches: u64,
    /// Those of them that it got wrong.
    pub watched_mispredicted: u64,
    /// Floating-point and vector operations.
    pub floats: u64,
    /// Misses of the private cache, data and code.
    pub private_misses: u64,
    /// Those of them that a stride prefetcher foresees.
    pub foreseen_misses: u64,
    /// Parallelism of the missing loads.
    pub parallelism: Parallelism,
}

/// What passed between the private cache and what lies behind it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Lines brought in.
    pub lines: u64,
    /// Lines held that were written, each counted once until it leaves.
    pub dirty: u64,
}

/// Threads by the order of their start. The 1024th and all after it count as one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadSet {
    words: [u64; 16],
}

impl ThreadSet {
    pub(crate) fn insert(&mut self, thread: usize) {
        let at = thread.min(64 * self.words.len() - 1);
        self.words[at / 64] |= 1 << (at % 64);
    }

    /// How many.
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    fn merge(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(other.words) {
            *word |= other;
        }
    }
}

/// The sums of a window or a phase. Those of two add up to those of both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Plain counts.
    pub counters: Counters,
    /// Stack distances. Each stands in it with its weight, so the sampling rate may change.
    pub histogram: Histogram,
    /// Lines of the private cache.
    pub traffic: Traffic,
    /// Lines touched.
    pub touched: LineSketch,
    /// Threads that ran.
    pub threads: ThreadSet,
}

impl Behaviour for Figures {
    fn vector(&self) -> BehaviourVector {
        BehaviourVector::of_figures(self)
    }

    fn instructions(&self) -> u64 {
        self.counters.instructions
    }

    fn merge(&mut self, other: &Self) {
        self.counters.merge(&other.counters);
        self.histogram.merge(&other.histogram);
        self.traffic.lines += other.traffic.lines;
        self.traffic.dirty += other.traffic.dirty;
        self.touched.merge(&other.touched);
        self.threads.merge(&other.threads);
    }
}

impl Counters {
    /// Branches that the predictor gets wrong, by the share of those it was tried on.
    pub fn mispredicted(&self) -> u64 {
        // A branch of the window before may prove mispredicted in this one.
        let wrong = self.watched_mispredicted.min(self.watched_branches);
        let share = wrong as f64 / self.watched_branches.max(1) as f64;
        (share * self.branches as f64).round() as u64
    }

    fn merge(&mut self, other: &Self) {
        self.instructions += other.instructions;
        self.loads += other.loads;
        self.stores += other.stores;
        self.branches += other.branches;
        self.watched_branches += other.watched_branches;
        self.watched_mispredicted += other.watched_mispredicted;
        self.floats += other.floats;
        self.private_misses += other.private_misses;
        self.foreseen_misses += other.foreseen_misses;
        self.parallelism.misses += other.parallelism.misses;
        self.parallelism.chained += other.parallelism.chained;
    }
}
