//! Acting on threads, caches and memory, each step with what was there before.

mod affinity;
mod change;
mod cpusets;
mod dry_run;
mod kernel;
mod members;
mod nice;
mod pages;
mod placement;
mod sched_cache;
#[cfg(test)]
pub(crate) mod sleeper;
mod still_there;
mod syscalls;

use corun_linux::Task;
use corun_machine::{CpuSet, Machine};
use corun_policy::{Action, ActionKind, Nanoseconds, ThreadId, ThreadView};
use corun_runtime::NotAnnounced;
use corun_scx::Stint;

pub(crate) use affinity::{asked_for, other_than};
pub use change::{ActError, Change, Reverted};
pub(crate) use change::{ApplyMode, ChangeTarget};
pub(crate) use cpusets::names_of;
pub use dry_run::DryRunActuator;
pub use kernel::KernelPlacement;
pub(crate) use kernel::inherited_policy;
pub use nice::Nice;
pub use pages::Pages;
pub use placement::PlacementActuator;
pub(crate) use sched_cache::is_on as sched_cache_is_on;
pub(crate) use still_there::{still_there, touchable};

use crate::{ManagedThread, Threads};

/// Turns one kind of action into changes. It reads what is there and changes nothing itself.
pub trait Actuator: Send {
    /// What it is called in messages: "affinity", "resctrl", "pages", "nice", "cpuset".
    fn name(&self) -> &'static str;

    /// Kinds of action that it carries out.
    fn kinds(&self) -> Vec<ActionKind>;

    /// The changes that an action asks for, in the order in which they have to be made; empty when
    /// all is already as asked.
    ///
    /// # Errors
    ///
    /// When the action cannot be carried out here, or must not.
    fn prepare(
        &mut self,
        action: &Action,
        machine: &Machine,
        threads: &Threads,
        now: Nanoseconds,
    ) -> Result<Vec<Change>, Refusal>;

    /// A plan's actions are prepared from now on: what the kernel says to all of them alike may be
    /// read once. Until the next plan the table has the same threads, and between two actions only
    /// those that the first of them named are sent elsewhere.
    fn begin_plan(&mut self) {}

    /// An action that this actuator prepared is not in force: its changes failed, or were taken back. What was before it
    /// is.
    fn not_in_force(&mut self, _action: &Action) {}

    /// Makes a change that only this actuator can make; none where [`Change::apply`] makes it.
    fn make(&mut self, _change: &Change) -> Option<Result<(), ActError>> {
        None
    }

    /// Where this actuator holds a thread that was just found, because the thread was born held.
    fn held(&mut self, _task: &Task) -> Option<CpuSet> {
        None
    }

    /// The table is up to date. The answer is why all that [`Self::make`] did is no longer in force, once.
    fn scanned(&mut self, _threads: &Threads) -> Option<String> {
        None
    }

    /// When its threads were on CPUs since this was last asked, as [`corun_scx::Scheduler::take_stints`] says.
    ///
    /// # Errors
    /// Why that is not known.
    fn stints(&mut self) -> std::io::Result<Vec<Stint>> {
        Ok(Vec::new())
    }

    /// What this actuator saw since it began, for people at the end.
    fn told(&mut self) -> Option<String> {
        None
    }

    /// Changes that no plan asks for: those that became due by time, such as a priority that expires, and those that
    /// threads found by the last scan need.
    fn due(&mut self, _now: Nanoseconds) -> Vec<Change> {
        Vec::new()
    }
}

/// Why an action is not carried out. The host logs it and goes on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl From<NotAnnounced> for Refusal {
    fn from(refused: NotAnnounced) -> Self {
        Self(refused.to_string())
    }
}

impl Refusal {
    pub(crate) fn not_by(actuator: &str) -> Self {
        Self(format!("this is no action of `{actuator}`"))
    }
}

/// The CPUs that a swap asks for the first and for the second thread, each given with the CPUs it is held on; none
/// where the threads have nothing to exchange.
pub(crate) fn exchanged(
    (first, first_held): (&ManagedThread, &CpuSet),
    (second, second_held): (&ManagedThread, &CpuSet),
) -> Option<[CpuSet; 2]> {
    let group = |of: &ManagedThread| of.group.as_ref().map(|group| group.name.clone());
    let is_same = first_held == second_held;
    let by_groups = first.group.is_some() || second.group.is_some();
    // Groups with the same set exchange nothing; all in a group are where it is.
    if by_groups && (is_same || group(first) == group(second)) {
        return None;
    }
    // Threads with the same set would exchange nothing by it: each gets the other's CPU.
    let cpu_of = |of: &ManagedThread| CpuSet::from_iter([of.facts.cpu]);
    Some(match is_same {
        true => [cpu_of(second), cpu_of(first)],
        false => [second_held.clone(), first_held.clone()],
    })
}

/// A thread of a plan, if it may be acted on.
pub(crate) fn managed(
    threads: &Threads,
    id: ThreadId,
) -> Result<(&ThreadView, &ManagedThread), Refusal> {
    let Some(index) = threads.index_of(id) else {
        return Err(Refusal(format!("thread {} is none of ours, or ended", id.0)));
    };
    let (view, thread) = threads.at(index);
    if thread.left_alone {
        let (task, program) = (thread.task(), &view.program);
        return Err(Refusal(format!(
            "thread {task} ({program}) was changed by somebody else and is left alone"
        )));
    }
    Ok((view, thread))
}
