//! What an experiment gives.

use corun_policy::{Nanoseconds, ProcessId, ThreadId};

use crate::{Energy, LogEntry};

/// The outcome of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// Per program, in the order of the experiment.
    pub apps: Vec<AppResult>,
    /// Every thread that lived, by ascending id.
    pub threads: Vec<ThreadLife>,
    /// Where threads were put, by time; a thread stays until its next entry or its end.
    pub placements: Vec<Placement>,
    /// Placements that were not kept because there were more than the limit.
    pub placements_dropped: u64,
    /// How long threads waited for a CPU when they woke, by the time they came onto one; as many as
    /// [`crate::SimulationSettings::wake_ups`] says.
    pub wake_ups: Vec<WakeUp>,
    /// Wake-ups that were not kept because there were more than the limit.
    pub wake_ups_dropped: u64,
    /// The steps of policies that changed something, by time.
    pub log: Vec<LogEntry>,
    /// Length of the experiment in simulated seconds.
    pub simulated_s: f64,
    /// What the machine drew; none where its power is not known.
    pub energy: Option<Energy>,
    /// Events handled.
    pub events: u64,
    /// How often the machine's rates were computed anew.
    pub rate_evaluations: u64,
}

impl RunResult {
    /// Instructions of all programs.
    pub fn instructions(&self) -> f64 {
        self.apps.iter().map(|app| app.instructions).sum()
    }

    /// Mean power above idle in W.
    pub fn power_w(&self) -> Option<f64> {
        Some(self.energy?.above_idle_j() / self.simulated_s)
    }
}

/// The outcome for one program.
#[derive(Debug, Clone, PartialEq)]
pub struct AppResult {
    /// The name shown.
    pub name: String,
    /// Completion time of each complete run in seconds, from its start (or restart) to its end.
    pub completion_s: Vec<f64>,
    /// Geometric mean of the complete runs' times in seconds (thesis, section 5.6); none when no
    /// run was complete.
    pub mean_completion_s: Option<f64>,
    /// Completion time alone on this machine in seconds.
    pub solo_completion_s: f64,
    /// Completion time / solo completion time; of a service, CPU time / the CPU time that the same instructions take
    /// alone at best; in a window, time there / the solo time of the
    /// progress made in it. None when nothing was completed (a window: when nothing was done).
    pub slowdown: Option<f64>,
    /// Complete runs' worth of progress, with the part of the last run.
    pub progress_runs: f64,
    /// Moves to another CPU after a thread had run.
    pub migrations: u64,
    /// Of these, to another LLC.
    pub llc_migrations: u64,
    /// CPU time / (threads x time there), 0 to 1.
    pub cpu_share: f64,
    /// CPU time in seconds, all threads and runs together.
    pub cpu_s: f64,
    /// Of it, the time in which threads waited at barriers on a CPU.
    pub spin_s: f64,
    /// Instructions retired, all threads and runs together, without those of such waits.
    pub instructions: f64,
    /// LLC references per 1000 instructions over the whole experiment; none without instructions.
    pub llc_apki: Option<f64>,
    /// LLC misses per 1000 instructions over the whole experiment; none without instructions.
    pub llc_mpki: Option<f64>,
    /// Was a figure read outside the range its profile was measured in?
    pub extrapolated: bool,
    /// What came of its requests; none for a program that is no service.
    pub service: Option<ServiceResult>,
}

/// What came of a service's requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServiceResult {
    /// Requests a second that were to come.
    pub requests_per_s: f64,
    /// Requests a second that were answered, those of the warm-up with them.
    pub answered_per_s: f64,
    /// The percentile of [`Self::latency_ms`].
    pub percentile: f64,
    /// The percentile of the time from the arrival of a request to its answer in ms, over the requests that arrived after
    /// the warm-up. A request that was not answered at the end counts with its age. None where no request counts.
    pub latency_ms: Option<f64>,
    /// Their mean in ms.
    pub mean_latency_ms: Option<f64>,
    /// What the percentile should not exceed, in ms.
    pub target_ms: f64,
    /// Requests a second at which all threads would have a request all the time, if each took as long as it did in this
    /// experiment: answered requests / share of the time that threads had one. None where none was answered.
    pub saturated_per_s: Option<f64>,
    /// Requests that count.
    pub counted: u64,
}

impl ServiceResult {
    /// Did the percentile stay within the target? Of no request at all it did.
    pub fn is_met(&self) -> bool {
        self.latency_ms.is_none_or(|latency| latency <= self.target_ms)
    }
}

/// A thread that lived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadLife {
    /// Its id.
    pub id: ThreadId,
    /// Its process: one a run of a program.
    pub process: ProcessId,
    /// Index of its program in the experiment.
    pub app: usize,
    /// Which thread of its program, from 0.
    pub index: u32,
    /// Which run of its program, from 0.
    pub run: u32,
    /// When it started.
    pub start: Nanoseconds,
    /// When it ended; none when the experiment ended first.
    pub end: Option<Nanoseconds>,
}

/// A thread came onto another CPU than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// When it first ran there.
    pub at: Nanoseconds,
    /// The thread.
    pub thread: ThreadId,
    /// CPU index (a place in [`corun_machine::Machine::cpus`]).
    pub cpu: usize,
}

/// A thread woke and came onto a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeUp {
    /// When it became runnable.
    pub at: Nanoseconds,
    /// The thread.
    pub thread: ThreadId,
    /// How long it waited for a CPU: its wake-up latency, without what the wake-up itself takes.
    pub waited: Nanoseconds,
}
