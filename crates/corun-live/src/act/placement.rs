//! Where threads run: each by its own affinity, or by its cgroup's cpuset.

use corun_linux::Roots;
use corun_linux::sysfs::online_cpus;
use corun_machine::{CpuSet, Machine};
use corun_policy::{Action, ActionKind, Nanoseconds, ThreadView};

use super::cpusets::Cpusets;
use super::{Actuator, Change, Refusal, affinity, exchanged, managed};
use crate::{ManagedThread, Threads};

/// Holds threads on CPUs, never beyond where they were allowed to run before: one at a time with
/// `sched_setaffinity`, or the cgroup that a thread is in, where its program is to be held so.
#[derive(Debug)]
pub struct PlacementActuator {
    roots: Roots,
    cpusets: Cpusets,
    /// The CPUs that were on line when the present plan was begun.
    online: Option<CpuSet>,
}

impl PlacementActuator {
    /// For the machine whose file systems are there; `sys` says which CPUs are on line.
    pub fn new(roots: &Roots) -> Self {
        Self { roots: roots.clone(), cpusets: Cpusets::new(roots), online: None }
    }

    /// The change that holds a thread where it is asked to be, or its cgroup; none where it is held so already.
    pub(super) fn place(
        &mut self,
        thread: (&ThreadView, &ManagedThread),
        asked: &CpuSet,
        threads: &Threads,
        online: &CpuSet,
    ) -> Result<Option<Change>, Refusal> {
        match &thread.1.group {
            Some(group) => self.cpusets.hold(thread, group, asked, threads, online),
            None => affinity::hold(thread, asked, online),
        }
    }
}

impl Actuator for PlacementActuator {
    fn name(&self) -> &'static str {
        "placement"
    }

    fn kinds(&self) -> Vec<ActionKind> {
        vec![ActionKind::Place]
    }

    fn begin_plan(&mut self) {
        self.online = online_cpus(&self.roots).ok();
        self.cpusets.begin_plan();
    }

    fn prepare(
        &mut self,
        action: &Action,
        machine: &Machine,
        threads: &Threads,
        _now: Nanoseconds,
    ) -> Result<Vec<Change>, Refusal> {
        let online = self.online.clone().or_else(|| online_cpus(&self.roots).ok());
        let online = online.unwrap_or_else(|| machine.cpu_set());
        match action {
            Action::Allow { thread, cpus } => {
                let thread = managed(threads, *thread)?;
                Ok(self.place(thread, cpus, threads, &online)?.into_iter().collect())
            }
            Action::Swap { first, second } => {
                let (first, second) = (managed(threads, *first)?, managed(threads, *second)?);
                let held = (&first.1.allowed, &second.1.allowed);
                let exchanged = exchanged((first.1, held.0), (second.1, held.1));
                let Some([to_first, to_second]) = exchanged else {
                    return Ok(Vec::new());
                };
                let there = self.place(first, &to_first, threads, &online)?;
                let back = self.place(second, &to_second, threads, &online)?;
                Ok(there.into_iter().chain(back).collect())
            }
            _ => Err(Refusal::not_by(self.name())),
        }
    }
}
