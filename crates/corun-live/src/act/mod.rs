//! Acting on threads, caches and memory, each step with what was there before.

mod affinity;
mod change;
mod cpusets;
mod members;
mod nice;
mod on_paper;
mod pages;
mod placement;
#[cfg(test)]
pub(crate) mod sleeper;
mod syscalls;
pub(crate) mod thread_stat;

use corun_machine::Machine;
use corun_policy::{Action, ActionKind, Nanoseconds, ThreadId};

pub use change::{ActError, Change, Reverted};
pub(crate) use change::{Doing, Thing};
pub(crate) use cpusets::{group_of, names_of};
pub use nice::Nice;
pub use on_paper::OnPaper;
pub use pages::Pages;
pub(crate) use pages::bytes_by_node;
pub use placement::Placement;

use crate::Task;

/// A thread in the host's care, as an actuator sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// The host's name of it.
    pub id: ThreadId,
    /// The thread.
    pub task: Task,
    /// Its program's name.
    pub program: std::sync::Arc<str>,
    /// Where it was allowed to run before corun came: nothing ever widens it.
    pub may_run_on: corun_machine::CpuSet,
    /// Where it is held now.
    pub allowed: corun_machine::CpuSet,
    /// Where it runs, or ran last.
    pub cpu: corun_machine::CpuId,
    /// Somebody else moved it under us: from then on it is left alone.
    pub left_alone: bool,
    /// The cgroup that is held in its place; `allowed` is then where the thread itself was sent.
    pub group: Option<HeldGroup>,
}

/// A cgroup that is held by its cpuset, with all that is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldGroup {
    /// Its path as in `/proc/PID/cgroup`: `/system.slice/x.service`.
    pub name: std::sync::Arc<str>,
    /// Where it is held now.
    pub cpus: corun_machine::CpuSet,
}

/// Turns one kind of action into changes. It reads what is there and changes nothing itself.
pub trait Actuator: Send {
    /// What it is called in messages: "affinity", "resctrl", "pages", "nice", "cpuset".
    fn name(&self) -> &'static str;

    /// Kinds of action that it carries out.
    fn kinds(&self) -> Vec<ActionKind>;

    /// The changes that an action asks for, in the order in which they have to be made; empty when
    /// all is already as asked. `held` is in ascending order of id.
    ///
    /// # Errors
    ///
    /// When the action cannot be carried out here, or must not.
    fn prepare(
        &mut self,
        action: &Action,
        machine: &Machine,
        held: &[Held],
        now: Nanoseconds,
    ) -> Result<Vec<Change>, Refusal>;

    /// A plan's actions are prepared from now on: what the kernel says to all of them alike may be
    /// read once. Until the next plan `held` has the same threads, and between two actions only
    /// those that the first of them named are sent elsewhere.
    fn begin_plan(&mut self) {}

    /// Changes that became due by time alone, such as a priority that expires.
    fn due(&mut self, _now: Nanoseconds) -> Vec<Change> {
        Vec::new()
    }
}

/// Why an action is not carried out. The host logs it and goes on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl Refusal {
    pub(crate) fn not_by(actuator: &str) -> Self {
        Self(format!("this is no action of `{actuator}`"))
    }
}

/// A thread of a plan, if it may be acted on.
pub(crate) fn held_thread(held: &[Held], id: ThreadId) -> Result<&Held, Refusal> {
    let place = held.binary_search_by_key(&id, |thread| thread.id);
    let Ok(thread) = place.map(|place| &held[place]) else {
        return Err(Refusal(format!("thread {} is none of ours, or ended", id.0)));
    };
    if thread.left_alone {
        let (task, program) = (thread.task, &thread.program);
        return Err(Refusal(format!(
            "thread {task} ({program}) was changed by somebody else and is left alone"
        )));
    }
    Ok(thread)
}
