//! Cgroups that corun's scheduler in the kernel holds, with all threads that are in them or will be born there.

use std::collections::{BTreeMap, BTreeSet};

use corun_linux::cgroup::{self, FolderIdentity, version_2_folder};
use corun_linux::{Roots, Task};
use corun_machine::CpuSet;
use corun_policy::ThreadView;
use corun_scx::{PlanError, Scheduler};

use super::super::members::Members;
use super::super::{Change, Refusal};
use super::{none_there, plan_failed};
use crate::{ActError, HeldGroup, ManagedThread, Threads};

/// What the scheduler knows of cgroups, and who is in them while a plan is prepared. A cgroup may use what its threads
/// were sent to, all together. Other than with a cpuset, threads with an affinity of their own, threads in real time and
/// cgroups below it do not matter: none of them is touched.
#[derive(Debug, Default)]
pub(super) struct KernelGroups {
    members: Option<Members>,
    /// By path: the cgroup that has a plan.
    planned: BTreeMap<String, FolderIdentity>,
}

impl KernelGroups {
    /// A plan begins: who is in each cgroup is looked up once in it.
    pub(super) fn begin_plan(&mut self) {
        self.members = None;
    }

    /// The change that holds a thread's cgroup where the thread is asked to be and the others of the cgroup are; none
    /// where it is held so already.
    pub(super) fn hold(
        &mut self,
        (view, thread): (&ThreadView, &ManagedThread),
        (held, folder): (&HeldGroup, FolderIdentity),
        asked: &CpuSet,
        threads: &Threads,
        online: &CpuSet,
    ) -> Result<Option<Change>, Refusal> {
        let known = self.members.take().filter(|members| members.are_of(threads));
        let mut members = known.unwrap_or_else(|| Members::new(threads));
        members.catch_up(threads);
        let after = members.needs(&held.name, view.id, asked, threads).intersection(online);
        self.members = Some(members);
        if asked.intersection(&thread.may_run_on).is_disjoint(online) {
            return Err(none_there((view, thread), asked));
        }
        let is_known = held.is_preferred && self.planned.get(&*held.name) == Some(&folder);
        if is_known && held.cpus == after {
            return Ok(None);
        }
        let (group, before) = (held.name.to_string(), held.cpus.clone());
        Ok(Some(Change::PreferGroup { group, folder, before, after }))
    }

    /// Gives a cgroup its plan, if it is the one that was meant.
    pub(super) fn plan(
        &mut self,
        roots: &Roots,
        scheduler: &mut Scheduler,
        (group, folder): (&str, &FolderIdentity),
        plan: corun_scx::Plan<'_>,
    ) -> Result<(), ActError> {
        let what = || format!("cgroup {group}");
        if version_2_folder(roots, group).as_ref() != Some(folder) {
            return Err(ActError::Gone { what: what() });
        }
        let cpus = plan.cpus;
        scheduler.plan_group(folder.inode, plan).map_err(|error| match error {
            PlanError::Gone => ActError::Gone { what: what() },
            other => plan_failed(&what(), cpus, other),
        })?;
        self.planned.insert(group.to_owned(), *folder);
        Ok(())
    }

    /// Has the cgroup of this thread a plan?
    pub(super) fn has(&self, thread: &ManagedThread) -> bool {
        let group = thread.group.as_ref().filter(|group| group.is_preferred);
        group.is_some_and(|group| self.planned.contains_key(&*group.name))
    }

    /// Is the thread in a cgroup that has a plan?
    pub(super) fn covers(&self, roots: &Roots, scheduler: &Scheduler, task: &Task) -> bool {
        if self.planned.is_empty() {
            return false;
        }
        let folder = cgroup::of_thread(roots, task).ok().flatten();
        let folder = folder.and_then(|path| self.planned.get(&path));
        folder.is_some_and(|folder| scheduler.cpus_of_group(folder.inode).is_some())
    }

    /// Cgroups that have no threads any more lose their plans.
    pub(super) fn forget_empty(&mut self, scheduler: &mut Scheduler, threads: &Threads) {
        if self.planned.is_empty() {
            return;
        }
        let groups = threads.iter().filter_map(|(_, thread)| thread.group.as_ref());
        let there: BTreeSet<&str> = groups.map(|group| &*group.name).collect();
        self.planned.retain(|group, folder| {
            let stays = there.contains(group.as_str());
            if !stays && let Err(why) = scheduler.forget_group(folder.inode) {
                tracing::warn!("the plan of cgroup {group}, which has no threads: {why}");
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use corun_linux::Task;
    use corun_policy::ThreadId;

    use super::*;
    use crate::backend::fixture;

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    /// Threads 0 and 1 of a cgroup that may use CPUs 0 to 7; thread 1 was sent to these.
    fn threads(second: &str, held: &HeldGroup) -> Threads {
        let member = |tid: u32, sent: &str| {
            let task = Task { pid: 9, tid, start_ticks: 5 };
            let thread = ManagedThread::new(fixture::facts(task, &cpus("0-7")), 0, "p");
            ManagedThread { group: Some(held.clone()), allowed: cpus(sent), ..thread }
        };
        fixture::table([(0, member(9, "0-7")), (1, member(10, second))])
    }

    #[test]
    fn a_cgroup_has_the_cpus_of_all_its_threads() {
        let folder = FolderIdentity { inode: 7, made_ns: None };
        let mut held = HeldGroup { name: "/box".into(), cpus: cpus("0-7"), is_preferred: false };
        let mut groups = KernelGroups::default();
        let asked = |held: &HeldGroup, second: &str, to: &str, groups: &mut KernelGroups| {
            let threads = threads(second, held);
            let thread = threads.at(threads.index_of(ThreadId(0)).unwrap());
            groups.begin_plan();
            groups.hold(thread, (held, folder), &cpus(to), &threads, &cpus("0-5"))
        };
        let to = |before: &str, after: &str| {
            let (before, after) = (cpus(before), cpus(after));
            Ok(Some(Change::PreferGroup { group: "/box".to_owned(), folder, before, after }))
        };
        // Until the other one was sent somewhere, all that is on line is the cgroup's.
        assert_eq!(asked(&held, "0-7", "1", &mut groups), to("0-7", "0-5"));
        assert_eq!(asked(&held, "2", "1", &mut groups), to("0-7", "1-2"));
        (held.cpus, held.is_preferred) = (cpus("1-2"), true);
        groups.planned.insert("/box".to_owned(), folder);
        assert_eq!(asked(&held, "2", "1", &mut groups), Ok(None));
        // The cgroup was removed and made again.
        groups.planned.insert("/box".to_owned(), FolderIdentity { inode: 8, made_ns: None });
        assert_eq!(asked(&held, "2", "1", &mut groups), to("1-2", "1-2"));
        let refused = asked(&held, "2", "6-7", &mut groups).unwrap_err().to_string();
        assert!(refused.contains("none of 6-7 is on line"), "{refused}");
    }
}
