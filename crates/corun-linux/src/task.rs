//! A thread, as the kernel numbers it.

use std::fmt;

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
