//! Everything that is summed up over a window of instructions, and over a phase.

use super::histogram::Histogram;
use super::strata::Strata;
use super::touched::Touched;
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
    /// Floating-point and vector operations.
    pub floats: u64,
    /// First touches of pages, until they are given back.
    pub page_faults: u64,
    /// Those of them that map pages of a file.
    pub file_faults: u64,
    /// System calls.
    pub system_calls: u64,
    /// Those of them that touch neither files nor what memory is mapped to.
    pub light_calls: u64,
    /// Those of them that change what memory is mapped to.
    pub mapping_calls: u64,
    /// Those of them in which the thread slept.
    pub sleeping_calls: u64,
    /// Bytes that these read or wrote for the program.
    pub transferred_bytes: u64,
    /// Those of them that were written to files.
    pub file_written_bytes: u64,
}

/// What is looked at in bursts, each of which stands for as much as it has weight: of use as
/// shares of one another alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Observed {
    /// Branches that the predictor was tried on, times what each stands for.
    pub branches: u64,
    /// Those of them that it got wrong.
    pub mispredicted: u64,
    /// Those that a large predictor got wrong.
    pub mispredicted_large: u64,
    /// Misses of the private cache, data and code.
    pub private_misses: u64,
    /// Those of them that a stride prefetcher foresees.
    pub foreseen_misses: u64,
    /// Lines of the private cache.
    pub traffic: Traffic,
}

impl Observed {
    /// Adds another's sums, each so many times.
    pub(crate) fn add(&mut self, other: &Self, weight: u64) {
        self.branches += weight * other.branches;
        self.mispredicted += weight * other.mispredicted;
        self.mispredicted_large += weight * other.mispredicted_large;
        self.private_misses += weight * other.private_misses;
        self.foreseen_misses += weight * other.foreseen_misses;
        self.traffic.lines += weight * other.traffic.lines;
        self.traffic.dirty += weight * other.traffic.dirty;
    }

    /// Leaves out what tells of the misses of a cache that may not hold what it would.
    pub(crate) fn forget_misses(&mut self) {
        (self.private_misses, self.foreseen_misses) = (0, 0);
    }

    /// The shares of the branches that a small predictor gets wrong, and a large one.
    pub(crate) fn mispredicted_shares(&self) -> [f64; 2] {
        [self.mispredicted, self.mispredicted_large].map(|wrong| {
            // A branch of the window before may prove mispredicted in this one.
            wrong.min(self.branches) as f64 / self.branches.max(1) as f64
        })
    }
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
    /// How deep the lines lay in the same stack that the kernel cleared for the program. These are not
    /// among the others.
    pub cleared: Histogram,
    /// Those of code in a stack of its own.
    pub code: Histogram,
    /// Micro-traces.
    pub strata: Strata,
    /// What was looked at in bursts.
    pub observed: Observed,
    /// Lines touched by the program, or by the kernel that cleared them for it.
    pub touched: Touched,
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
        self.cleared.merge(&other.cleared);
        self.code.merge(&other.code);
        self.strata.merge(&other.strata);
        self.observed.add(&other.observed, 1);
        self.touched.merge(&other.touched);
        self.threads.merge(&other.threads);
    }
}

impl Figures {
    /// Branches that a small predictor gets wrong, and a large one, by the shares of those that they
    /// were tried on.
    pub fn mispredicted(&self) -> [u64; 2] {
        let branches = self.counters.branches as f64;
        self.observed.mispredicted_shares().map(|share| (share * branches).round() as u64)
    }
}

/// What the kernel did for the program. A system call is of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelWork {
    /// System calls that touch neither files nor what memory is mapped to.
    pub light_calls: u64,
    /// Those that change what memory is mapped to.
    pub mapping_calls: u64,
    /// Those in which the thread slept.
    pub sleeping_calls: u64,
    /// All other system calls.
    pub other_calls: u64,
    /// Bytes that system calls read or wrote, but for those written to files.
    pub other_transferred_bytes: u64,
    /// Bytes that system calls wrote to files.
    pub file_written_bytes: u64,
}

impl Counters {
    pub(super) fn add_kernel_work(&mut self, work: &KernelWork) {
        let KernelWork { light_calls, mapping_calls, sleeping_calls, other_calls, .. } = *work;
        self.system_calls += light_calls + mapping_calls + sleeping_calls + other_calls;
        self.light_calls += light_calls;
        self.mapping_calls += mapping_calls;
        self.sleeping_calls += sleeping_calls;
        self.transferred_bytes += work.other_transferred_bytes + work.file_written_bytes;
        self.file_written_bytes += work.file_written_bytes;
    }

    fn merge(&mut self, other: &Self) {
        self.instructions += other.instructions;
        self.loads += other.loads;
        self.stores += other.stores;
        self.branches += other.branches;
        self.floats += other.floats;
        self.page_faults += other.page_faults;
        self.file_faults += other.file_faults;
        self.system_calls += other.system_calls;
        self.light_calls += other.light_calls;
        self.mapping_calls += other.mapping_calls;
        self.sleeping_calls += other.sleeping_calls;
        self.transferred_bytes += other.transferred_bytes;
        self.file_written_bytes += other.file_written_bytes;
    }
}
