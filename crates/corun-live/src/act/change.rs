//! One reversible change and how it is made and undone.

use std::fmt;
use std::path::{Path, PathBuf};

use corun_linux::cgroup::FolderIdentity;
use corun_linux::{Roots, Task};
use corun_machine::CpuSet;
use serde::{Deserialize, Serialize};

use super::cpusets::CpusetChange;
use super::{affinity, kernel, nice, pages, sched_cache};
use crate::resctrl::{GroupChange, SchemataChange, TaskChange};

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
    /// Where a thread runs as long as there is room (corun's scheduler in the kernel). It ends with corun, however
    /// corun ends: there is nothing to undo, and no journal has it.
    Prefer {
        /// The thread.
        task: Task,
        /// As it was.
        before: CpuSet,
        /// As it shall be.
        after: CpuSet,
    },
    /// Where the threads of a cgroup run as long as there is room, those that are born later too. As [`Self::Prefer`] it
    /// ends with corun.
    PreferGroup {
        /// The cgroup's path, as in `/proc/PID/cgroup`.
        group: String,
        /// Its folder: a cgroup that was made again at its path is another.
        folder: FolderIdentity,
        /// As it was.
        before: CpuSet,
        /// As it shall be.
        after: CpuSet,
    },
    /// A thread's scheduling policy (`sched_setscheduler`), by the kernel's number.
    SchedulingPolicy {
        /// The thread.
        task: Task,
        /// As it was.
        before: i32,
        /// As it shall be.
        after: i32,
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
        /// The cgroup's folder: a cgroup that was made again at its path is another.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<FolderIdentity>,
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
        /// As it was: `L3:0=7ff;1=7ff`; empty where the group is made in the same plan.
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
    /// The kernel's own scheduling by last-level caches (`SCHED_CACHE`): is it on?
    SchedCache {
        /// As it was.
        before: bool,
        /// As it shall be.
        after: bool,
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

/// What a change sets. Changes of one target are undone together, to the oldest state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ChangeTarget {
    Affinity(Task),
    Prefer(Task),
    PreferGroup(FolderIdentity),
    SchedulingPolicy(Task),
    Nice(Task),
    Cpuset(PathBuf),
    ResctrlGroup(PathBuf),
    /// The group and the name of the resource.
    ResctrlSchemata(PathBuf, String),
    ResctrlTask(Task),
    SchedCache,
    Pages(Task),
}

/// Whether an undo changes the machine, or only says what it would change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApplyMode {
    Apply,
    DryRun,
}

impl Change {
    /// Makes the change, if things are as `before` says.
    ///
    /// # Errors
    /// [`ActError::ChangedByOthers`] when they are not, [`ActError::Gone`] when what was to be
    /// changed is no more, [`ActError::Protected`] when it must not be touched; nothing is changed
    /// then. [`ActError::Kernel`] when the kernel refuses.
    pub fn apply(&self, roots: &Roots) -> Result<(), ActError> {
        match self {
            Self::Affinity { task, before, after } => affinity::apply(roots, task, before, after),
            Self::Prefer { task, .. } => Err(kernel::not_in_force(&format!("thread {task}"))),
            Self::PreferGroup { group, .. } => {
                Err(kernel::not_in_force(&format!("cgroup {group}")))
            }
            Self::SchedulingPolicy { task, before, after } => {
                kernel::set_policy(roots, task, *before, *after)
            }
            Self::Nice { task, before, after } => nice::apply(roots, task, *before, *after),
            Self::Cpuset { file, folder, before, after } => {
                CpusetChange { file, folder: folder.as_ref(), before, after }.apply(roots)
            }
            Self::ResctrlGroup { group } => GroupChange(group).apply(roots),
            Self::ResctrlSchemata { group, before, after } => {
                SchemataChange { group, before, after }.apply(roots)
            }
            Self::ResctrlTask { task, before, after } => {
                TaskChange { task, before, after }.apply(roots)
            }
            Self::SchedCache { before, after } => sched_cache::apply(roots, *before, *after),
            Self::Pages { task, to, .. } => pages::apply(roots, task, *to),
        }
    }

    /// Makes things as they were before, if they are as this change left them.
    ///
    /// # Errors
    /// [`ActError::Kernel`] when the kernel refuses: what was changed still is.
    pub fn revert(&self, roots: &Roots) -> Result<Reverted, ActError> {
        self.undone(roots, ApplyMode::Apply)
    }

    /// What [`Self::revert`] would answer; nothing is changed.
    ///
    /// # Errors
    /// When the present state cannot be read.
    pub(crate) fn would_revert(&self, roots: &Roots) -> Result<Reverted, ActError> {
        self.undone(roots, ApplyMode::DryRun)
    }

    pub(crate) fn undone(&self, roots: &Roots, mode: ApplyMode) -> Result<Reverted, ActError> {
        let outcome = match self {
            Self::Affinity { task, before, after } => {
                affinity::revert(roots, task, before, after, mode)
            }
            // The kernel gave it back when the scheduler was detached.
            Self::Prefer { .. } | Self::PreferGroup { .. } => Ok(Reverted::AsBefore),
            Self::SchedulingPolicy { task, before, after } => {
                kernel::revert_policy(roots, task, *before, *after, mode)
            }
            Self::Nice { task, before, after } => nice::revert(roots, task, *before, *after, mode),
            Self::Cpuset { file, folder, before, after } => {
                CpusetChange { file, folder: folder.as_ref(), before, after }.revert(roots, mode)
            }
            Self::ResctrlGroup { group } => GroupChange(group).revert(roots, mode),
            Self::ResctrlSchemata { group, before, after } => {
                SchemataChange { group, before, after }.revert(roots, mode)
            }
            Self::ResctrlTask { task, before, after } => {
                TaskChange { task, before, after }.revert(roots, mode)
            }
            Self::SchedCache { before, .. } => sched_cache::revert(roots, *before, mode),
            Self::Pages { task, before, to } => pages::revert(roots, task, before, *to, mode),
        };
        match outcome {
            Err(ActError::Gone { .. }) => Ok(Reverted::Gone),
            other => other,
        }
    }

    /// What the change sets.
    pub(crate) fn target(&self) -> ChangeTarget {
        match self {
            Self::Affinity { task, .. } => ChangeTarget::Affinity(*task),
            Self::Prefer { task, .. } => ChangeTarget::Prefer(*task),
            Self::PreferGroup { folder, .. } => ChangeTarget::PreferGroup(*folder),
            Self::SchedulingPolicy { task, .. } => ChangeTarget::SchedulingPolicy(*task),
            Self::Nice { task, .. } => ChangeTarget::Nice(*task),
            Self::Cpuset { file, .. } => ChangeTarget::Cpuset(file.clone()),
            Self::ResctrlGroup { group } => ChangeTarget::ResctrlGroup(group.clone()),
            Self::ResctrlSchemata { group, after, .. } => {
                let resource = after.split(':').next().unwrap_or_default();
                ChangeTarget::ResctrlSchemata(group.clone(), resource.trim().to_owned())
            }
            Self::ResctrlTask { task, .. } => ChangeTarget::ResctrlTask(*task),
            Self::SchedCache { .. } => ChangeTarget::SchedCache,
            Self::Pages { task, .. } => ChangeTarget::Pages(*task),
        }
    }

    /// The thread whose end makes it needless to undo this.
    pub(crate) fn task(&self) -> Option<&Task> {
        match self {
            Self::Affinity { task, .. }
            | Self::Prefer { task, .. }
            | Self::SchedulingPolicy { task, .. }
            | Self::Nice { task, .. }
            | Self::ResctrlTask { task, .. }
            | Self::Pages { task, .. } => Some(task),
            Self::PreferGroup { .. }
            | Self::Cpuset { .. }
            | Self::ResctrlGroup { .. }
            | Self::ResctrlSchemata { .. }
            | Self::SchedCache { .. } => None,
        }
    }

    /// Does the change stay when corun ends without undoing it? What does not is in no journal.
    pub(crate) fn outlives_corun(&self) -> bool {
        !matches!(self, Self::Prefer { .. } | Self::PreferGroup { .. })
    }

    /// Is it back where it began? So is a whole history whose last change took back the others.
    pub fn leads_back(&self) -> bool {
        match self {
            Self::Affinity { before, after, .. }
            | Self::Prefer { before, after, .. }
            | Self::PreferGroup { before, after, .. } => before == after,
            Self::SchedulingPolicy { before, after, .. } | Self::Nice { before, after, .. } => {
                before == after
            }
            Self::SchedCache { before, after } => before == after,
            Self::Cpuset { before, after, .. } | Self::ResctrlSchemata { before, after, .. } => {
                before == after
            }
            Self::ResctrlTask { before, after, .. } => before == after,
            Self::ResctrlGroup { .. } | Self::Pages { .. } => false,
        }
    }

    /// The change from what was there before `oldest` to what this one, of the same thing, made.
    pub(crate) fn since(&self, oldest: &Self) -> Self {
        let mut whole = self.clone();
        match (&mut whole, oldest) {
            (Self::Affinity { before, .. }, Self::Affinity { before: old, .. })
            | (Self::Prefer { before, .. }, Self::Prefer { before: old, .. })
            | (Self::PreferGroup { before, .. }, Self::PreferGroup { before: old, .. }) => {
                *before = old.clone();
            }
            (Self::Nice { before, .. }, Self::Nice { before: old, .. })
            | (Self::SchedulingPolicy { before, .. }, Self::SchedulingPolicy { before: old, .. }) => {
                *before = *old
            }
            (Self::Cpuset { before, .. }, Self::Cpuset { before: old, .. })
            | (Self::ResctrlSchemata { before, .. }, Self::ResctrlSchemata { before: old, .. }) => {
                *before = old.clone();
            }
            (Self::ResctrlTask { before, .. }, Self::ResctrlTask { before: old, .. }) => {
                *before = old.clone();
            }
            (Self::SchedCache { before, .. }, Self::SchedCache { before: old, .. }) => {
                *before = *old
            }
            (Self::Pages { before, .. }, Self::Pages { before: old, .. }) => *before = old.clone(),
            _ => {}
        }
        whole
    }

    /// The change from what was there before `oldest` to what was there before this one; none
    /// where they are the same, or where what was before is no state that was set.
    pub(crate) fn until(&self, oldest: &Self) -> Option<Self> {
        let mut whole = self.since(oldest);
        match (&mut whole, self) {
            (Self::Affinity { before, after, .. }, Self::Affinity { before: then, .. }) => {
                *after = then.clone();
                (before != after).then_some(whole)
            }
            (Self::Nice { before, after, .. }, Self::Nice { before: then, .. })
            | (
                Self::SchedulingPolicy { before, after, .. },
                Self::SchedulingPolicy { before: then, .. },
            ) => {
                *after = *then;
                (before != after).then_some(whole)
            }
            (Self::SchedCache { before, after }, Self::SchedCache { before: then, .. }) => {
                *after = *then;
                (before != after).then_some(whole)
            }
            (Self::Cpuset { before, after, .. }, Self::Cpuset { before: then, .. })
            | (
                Self::ResctrlSchemata { before, after, .. },
                Self::ResctrlSchemata { before: then, .. },
            ) => {
                *after = then.clone();
                (before != after).then_some(whole)
            }
            (Self::ResctrlTask { before, after, .. }, Self::ResctrlTask { before: then, .. }) => {
                *after = then.clone();
                (before != after).then_some(whole)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Affinity { task, before, after } => {
                write!(f, "affinity of thread {task}: {before} to {after}")
            }
            Self::Prefer { task, before, after } => {
                write!(f, "preferred CPUs of thread {task}: {before} to {after}")
            }
            Self::PreferGroup { group, before, after, .. } => {
                write!(f, "preferred CPUs of cgroup {group}: {before} to {after}")
            }
            Self::SchedulingPolicy { task, before, after } => {
                let (before, after) = (kernel::policy_name(*before), kernel::policy_name(*after));
                write!(f, "scheduling policy of thread {task}: {before} to {after}")
            }
            Self::Nice { task, before, after } => {
                write!(f, "nice value of thread {task}: {before} to {after}")
            }
            Self::Cpuset { file, before, after, .. } => {
                write!(f, "{}: {} to {}", file.display(), before.trim(), after.trim())
            }
            Self::ResctrlGroup { group } => write!(f, "resctrl group {}: made", group.display()),
            Self::ResctrlSchemata { group, before, after } => {
                let (before, after) = (before.trim(), after.trim());
                write!(f, "schemata of {}: {before} to {after}", group_name(group))
            }
            Self::ResctrlTask { task, before, after } => {
                let (before, after) = (group_name(before), group_name(after));
                write!(f, "resctrl group of thread {task}: {before} to {after}")
            }
            Self::SchedCache { before, after } => {
                let (before, after) = (sched_cache::word(*before), sched_cache::word(*after));
                write!(f, "SCHED_CACHE: {before} to {after}")
            }
            Self::Pages { task, to, .. } => {
                write!(f, "pages of process {}: to node {to}", task.pid)
            }
        }
    }
}

fn group_name(group: &Path) -> String {
    match group.as_os_str().is_empty() {
        true => "the root group".to_owned(),
        false => group.display().to_string(),
    }
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
    /// It is as corun may have left it, or somebody else chose the same; it is left as found.
    Unclear {
        /// What was found.
        why: String,
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
    /// It is one of the threads that are never touched.
    #[error("{what}: {why}, and never touched")]
    Protected {
        /// What.
        what: String,
        /// What it is.
        why: &'static str,
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
