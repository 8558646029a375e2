//! What a policy sees.

use std::sync::Arc;

use corun_machine::{CpuId, CpuSet, Machine};

use crate::WaysCurve;

/// A moment or a length of time, in nanoseconds since the host started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanoseconds(pub u64);

impl Nanoseconds {
    /// The time in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// The nearest whole number of nanoseconds to so many seconds; negative times become 0.
    pub fn from_secs_f64(seconds: f64) -> Self {
        Self((seconds * 1e9).round() as u64)
    }
}

/// A thread, as its host names it: stable for the thread's life, not reused while a policy lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u64);

/// A process: its threads share memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u64);

/// All that a policy sees at one moment.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The threads that the host was told to schedule, by ascending id.
    pub threads: &'a [ThreadView],
    /// The time.
    pub now: Nanoseconds,
}

impl View<'_> {
    /// A thread by its id.
    pub fn thread(&self, id: ThreadId) -> Option<&ThreadView> {
        let place = self.threads.binary_search_by_key(&id, |thread| thread.id).ok()?;
        Some(&self.threads[place])
    }
}

/// A thread as a policy sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadView {
    /// The thread.
    pub id: ThreadId,
    /// Its process.
    pub process: ProcessId,
    /// Its program's name, for reasons and logs.
    pub program: String,
    /// Its weight in the scheduler; 1 is that of nice 0.
    pub weight: f64,
    /// Did the user mark it as one to protect?
    pub important: bool,
    /// What it is doing.
    pub state: ThreadState,
    /// Where it runs, or ran last; none before its first run.
    pub cpu: Option<CpuId>,
    /// Where it may run: what the user allowed, whatever policies have narrowed it to.
    pub may_run_on: CpuSet,
    /// Where it is held now, by the policy's own earlier actions or the user's.
    pub allowed: CpuSet,
    /// What was counted since the last interval.
    pub counters: Counters,
    /// What was counted since the thread came, up to now; a host that counts at moments of its own
    /// says it of the last of them.
    pub counted: Counted,
    /// Does it wait for other threads in a loop on its CPU? None where nobody tells its host.
    pub spinning: Option<Spinning>,
    /// Known beforehand from a stored profile, for this machine.
    pub solo: Option<SoloFigures>,
    /// Its program alone with each number of ways of the LLC it is on, from a stored profile. A host
    /// gives it to policies that say that they need it.
    pub by_ways: Option<Arc<WaysCurve>>,
    /// Bytes of the LLC that hold its lines, where the host can tell.
    pub llc_occupancy_bytes: Option<f64>,
    /// Share of its pages on each NUMA node, in the order of [`Machine::nodes`]; empty: unknown.
    pub pages_by_node: Vec<f64>,
}

/// What a thread's runtime tells of waiting in a loop (spin notification).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spinning {
    /// Does it spin at this moment?
    pub now: bool,
    /// Share of its CPU time since the last interval in which it did, 0 to 1. Its counters hold what the
    /// loop retired.
    pub share: f64,
}

/// What a thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ThreadState {
    /// On a CPU.
    Running,
    /// In a run queue.
    Runnable,
    /// Waiting for something else than a CPU.
    Sleeping,
}

/// Figures of a program alone on this machine, from a stored profile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoloFigures {
    /// LLC misses per 1000 instructions, demand and prefetch.
    pub llc_mpki: f64,
    /// LLC references per 1000 instructions.
    pub llc_apki: f64,
    /// Instructions a second.
    pub instructions_per_s: f64,
    /// Memory traffic in bytes a second.
    pub memory_bytes_per_s: f64,
    /// Cycles per instruction with all memory on another node / with local memory; none on a
    /// machine of one node.
    pub numa_penalty: Option<f64>,
    /// Instructions a second on a core of the fastest type / on one of the slowest, alone; none on a
    /// machine of one core type.
    pub speedup_factor: Option<f64>,
}

/// What a count of cache events covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Demand loads and stores alone.
    Demand,
    /// Demand and hardware prefetches.
    DemandAndPrefetch,
}

/// A rate of cache events a second, and what it covers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScopedRate {
    /// Events a second.
    pub per_s: f64,
    /// What is counted.
    pub scope: Scope,
}

/// What was counted for a thread since the last interval, as rates over the wall-clock time of
/// the interval. Absent is unknown, never zero; a thread that did not run has rates of zero.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Counters {
    /// Share of the interval that the thread was on a CPU, 0 to 1.
    pub cpu_share: Option<f64>,
    /// Instructions retired a second.
    pub instructions_per_s: Option<f64>,
    /// Core cycles a second.
    pub cycles_per_s: Option<f64>,
    /// LLC references a second.
    pub llc_references: Option<ScopedRate>,
    /// LLC misses a second: lines brought from memory.
    pub llc_misses: Option<ScopedRate>,
    /// L1 data accesses a second.
    pub l1_accesses_per_s: Option<f64>,
    /// Branches a second.
    pub branches_per_s: Option<f64>,
    /// Memory traffic in bytes a second.
    pub memory_bytes_per_s: Option<f64>,
    /// Share of cycles stalled on memory, 0 to 1.
    pub memory_stall_share: Option<f64>,
    /// Memory requests of [`REQUEST_BYTES`] a second that found the controller's buffer full and had
    /// to be sent again.
    pub memory_retries_per_s: Option<f64>,
}

/// What was counted for a thread since it came. Differences between two looks are what happened
/// between them, which rates over a policy's interval cannot say. Absent is unknown, never zero.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Counted {
    /// Time on CPUs, in seconds.
    pub cpu_s: Option<f64>,
    /// Instructions retired.
    pub instructions: Option<f64>,
    /// Core cycles.
    pub cycles: Option<f64>,
    /// LLC references.
    pub llc_references: Option<f64>,
    /// LLC misses: lines brought from memory.
    pub llc_misses: Option<f64>,
    /// Core cycles stalled on memory.
    pub memory_stall_cycles: Option<f64>,
}

/// Bytes of a memory request: a cache line.
pub const REQUEST_BYTES: f64 = 64.0;

impl Counters {
    /// LLC misses per 1000 instructions; none when unknown or when no instruction was retired.
    pub fn llc_mpki(&self) -> Option<f64> {
        per_1000(self.llc_misses?.per_s, self.instructions_per_s?)
    }

    /// LLC references per 1000 instructions.
    pub fn llc_apki(&self) -> Option<f64> {
        per_1000(self.llc_references?.per_s, self.instructions_per_s?)
    }

    /// LLC misses per 1000 cycles.
    pub fn llc_mpkc(&self) -> Option<f64> {
        per_1000(self.llc_misses?.per_s, self.cycles_per_s?)
    }

    /// Instructions per cycle.
    pub fn ipc(&self) -> Option<f64> {
        per_1000(self.instructions_per_s?, self.cycles_per_s?).map(|pkc| pkc / 1000.0)
    }
}

fn per_1000(events_per_s: f64, base_per_s: f64) -> Option<f64> {
    (base_per_s > 0.0).then(|| 1000.0 * events_per_s / base_per_s)
}
