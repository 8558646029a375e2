//! One reversible change and how it is made and undone.

use std::path::PathBuf;

use corun_machine::CpuSet;
use serde::{Deserialize, Serialize};

use crate::Task;

/// One change to the machine, with what was there before: a line of the journal holds a plan's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Change {
    /// Where a thread may run (`sched_setaffinity`).
    Affinity {
        /// The thread.
        task: Task,
        /// As it was.
        before: CpuSet,
        /// As it shall be.
        after: CpuSet,
    },
    /// A thread's nice value.
    Nice {
        /// The thread.
        task: Task,
        /// As it was.
        before: i32,
        /// As it shall be.
        after: i32,
    },
    /// The CPUs of a cgroup (`cpuset.cpus`, v1 or v2).
    Cpuset {
        /// The file, below the root of cgroups.
        file: PathBuf,
        /// As it was, in the kernel's words.
        before: String,
        /// As it shall be.
        after: String,
    },
    /// A resctrl group that corun makes; undone by removing it, its tasks fall back to the root's.
    ResctrlGroup {
        /// Its path below the root of resctrl: `corun-1`, `mon_groups/corun-2`.
        group: PathBuf,
    },
    /// A line of a group's schemata, for one resource.
    ResctrlSchemata {
        /// The group's path below the root of resctrl; empty: the root group.
        group: PathBuf,
        /// As it was: `L3:0=7ff;1=7ff`.
        before: String,
        /// As it shall be.
        after: String,
    },
    /// The resctrl group that a thread is in.
    ResctrlTask {
        /// The thread.
        task: Task,
        /// The group it was in.
        before: PathBuf,
        /// The group it shall be in.
        after: PathBuf,
    },
    /// The NUMA node of a process's pages.
    Pages {
        /// The process's first thread.
        task: Task,
        /// Pages by node number before.
        before: Vec<(u32, u64)>,
        /// The node that gets them.
        to: u32,
    },
}

/// How an undoing went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Reverted {
    /// It is as it was before.
    Done,
    /// It was so already: the change was never made, or is undone.
    AsBefore,
    /// What was changed is no more: the thread ended, the group was removed.
    Gone,
    /// Somebody else changed it since; it is left as found.
    ChangedByOthers {
        /// What was found.
        found: String,
    },
}

/// Why a change could not be made or undone.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// What was to be changed is no more: the thread ended, the group was removed.
    #[error("{what}: it is no more")]
    Gone {
        /// What.
        what: String,
    },
    /// It is not as it was when the change was prepared.
    #[error("{what}: it is {found} now, not {expected}: somebody else changed it")]
    ChangedByOthers {
        /// What.
        what: String,
        /// What was found.
        found: String,
        /// What was there when the change was prepared.
        expected: String,
    },
    /// The kernel said no.
    #[error("{what}: {reason}{}", .advice.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default())]
    Kernel {
        /// What was tried.
        what: String,
        /// The kernel's answer.
        #[source]
        reason: std::io::Error,
        /// What the kernel adds (resctrl's `last_cmd_status`) or what would help.
        advice: Option<String>,
    },
}
