//! A thread of this machine.

use std::fmt;

use corun_machine::{CpuId, CpuSet};
use corun_policy::ThreadState;
use serde::{Deserialize, Serialize};

/// A thread, told apart from a later one to which the kernel gave the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Task {
    /// Its process (the kernel's thread-group id).
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When it started, in clock ticks since boot (field 22 of `/proc/PID/task/TID/stat`).
    pub start_ticks: u64,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.tid)?;
        if self.tid != self.pid { write!(f, " of {}", self.pid) } else { Ok(()) }
    }
}

/// What the kernel says of a thread at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskFacts {
    /// The thread.
    pub task: Task,
    /// The process that made its process; 1 or a reaper once that ended.
    pub parent: u32,
    /// Its name, as the kernel cuts it (15 bytes).
    pub name: String,
    /// What it is doing.
    pub state: ThreadState,
    /// Where it runs, or ran last.
    pub cpu: CpuId,
    /// Time on CPUs since it started, in nanoseconds.
    pub cpu_ns: u64,
    /// Its nice value, -20 to 19.
    pub nice: i32,
    /// How the kernel schedules it.
    pub scheduling: Scheduling,
    /// Where it may run now.
    pub affinity: CpuSet,
}

/// How the kernel schedules a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    /// By fair shares (`SCHED_OTHER`, `SCHED_BATCH`, `SCHED_IDLE`).
    Fair,
    /// By priority or deadline (`SCHED_FIFO`, `SCHED_RR`, `SCHED_DEADLINE`); never touched.
    RealTime,
}
