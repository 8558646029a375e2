//! What a policy sees.

use std::sync::Arc;

use corun_machine::{CpuId, CpuSet, Machine};
use serde::{Deserialize, Serialize};

use super::counters::{Counts, Rates};
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
        let index = self.threads.binary_search_by_key(&id, |thread| thread.id).ok()?;
        Some(&self.threads[index])
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
    /// What was counted in the policy's last interval, as rates. Unknown until the end of the policy's
    /// first interval with this thread.
    pub rates: Rates,
    /// What was counted since the thread came. In the simulator up to now, on a real machine up to the
    /// last time that counters were read.
    pub counts: Counts,
    /// Does it wait for other threads in a loop on its CPU at this moment? None where its runtime does not
    /// say (spin notification).
    pub spins: Option<bool>,
    /// Known beforehand from a stored profile, for this machine.
    pub solo: Option<SoloFigures>,
    /// The name of its program's stored profile, where the host found one: what [`crate::Predictor::profiled`]
    /// is asked for.
    pub profile: Option<Arc<str>>,
    /// Its program alone with each number of ways of the LLC it is on, from a stored profile. A host
    /// gives it to policies that say that they need it.
    pub by_ways: Option<Arc<WaysCurve>>,
    /// How long its program's requests take, where the program is a service and the host can tell.
    pub latency: Option<ServiceLatency>,
    /// Bytes of the LLC that hold its lines, where the host can tell.
    pub llc_occupancy_bytes: Option<f64>,
    /// Share of its pages on each NUMA node, in the order of [`Machine::nodes`]; empty: unknown.
    pub pages_by_node: Vec<f64>,
    /// Which of the threads woke it and how often since that was first counted, ascending by thread. Empty: none did,
    /// or nobody counts it ([`crate::Policy::hears_wakers`]).
    pub woken_by: Vec<Waker>,
}

/// How long the requests of a service take, and how long they may.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServiceLatency {
    /// The percentile of the latency that its target is for, in ms, over the requests that were answered since a policy
    /// last decided. None where nothing is known of that time.
    pub tail_ms: Option<f64>,
    /// What it shall not exceed, in ms.
    pub target_ms: f64,
}

impl ServiceLatency {
    /// What is left of the target, as a share of it: 0.2 where the latency is 80 % of the target, below 0 where it
    /// exceeds the target. None where the latency is not known, or one of the figures cannot be.
    pub fn slack(&self) -> Option<f64> {
        let slack = 1.0 - self.tail_ms? / self.target_ms;
        (self.target_ms > 0.0 && slack.is_finite()).then_some(slack)
    }
}

/// A thread that woke another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waker {
    /// The thread that woke the other.
    pub thread: ThreadId,
    /// How often since that was first counted.
    pub count: u64,
}

impl ThreadView {
    /// A thread of weight 1 that may run on these CPUs and was not seen running yet. All else is unknown.
    pub fn new(
        id: ThreadId,
        process: ProcessId,
        program: impl Into<String>,
        cpus: &CpuSet,
    ) -> Self {
        Self {
            id,
            process,
            program: program.into(),
            weight: 1.0,
            important: false,
            state: ThreadState::Runnable,
            cpu: None,
            may_run_on: cpus.clone(),
            allowed: cpus.clone(),
            rates: Rates::default(),
            counts: Counts::default(),
            spins: None,
            solo: None,
            profile: None,
            by_ways: None,
            latency: None,
            llc_occupancy_bytes: None,
            pages_by_node: Vec::new(),
            woken_by: Vec::new(),
        }
    }

    /// Does it sleep now, and was on a CPU for less than half of the last interval? Such a thread leaves its
    /// core to others. Where its time on CPUs is unknown, the present moment alone tells.
    pub(crate) fn is_mostly_asleep(&self) -> bool {
        self.state == ThreadState::Sleeping && self.rates.cpu_share.is_none_or(|share| share < 0.5)
    }
}

impl SoloFigures {
    /// The same with another value for each figure.
    pub fn map(&self, of: impl Fn(f64) -> f64) -> Self {
        Self {
            llc_mpki: of(self.llc_mpki),
            llc_apki: of(self.llc_apki),
            instructions_per_s: of(self.instructions_per_s),
            memory_bytes_per_s: of(self.memory_bytes_per_s),
            numa_penalty: self.numa_penalty.map(&of),
            speedup_factor: self.speedup_factor.map(&of),
        }
    }
}

/// What a thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThreadState {
    /// On a CPU.
    Running,
    /// In a run queue.
    Runnable,
    /// Waiting for something else than a CPU.
    Sleeping,
}

/// Figures of a program alone on this machine, from a stored profile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_penalty: Option<f64>,
    /// Instructions a second on a core of the fastest type / on one of the slowest, alone; none on a
    /// machine of one core type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speedup_factor: Option<f64>,
}

/// Bytes of a memory request: a cache line.
pub const REQUEST_BYTES: f64 = 64.0;
