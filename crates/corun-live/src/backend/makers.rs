//! Whose affinity and scheduling policy a thread was born with.

use std::collections::HashMap;
use std::sync::Arc;

use corun_linux::{Task, TaskFacts};
use corun_machine::{CpuId, CpuSet};
use corun_policy::ThreadId;

use super::{HeldGroup, ManagedThread, Threads};
use crate::act::inherited_policy;

/// The threads of the table by what a thread inherits that they make. Built once for all threads that are found new at
/// one look: each of them then takes one or two look-ups, however many there are.
#[derive(Debug)]
pub(super) struct Makers {
    online: CpuSet,
    /// Of each family and each affinity that corun set in it, the first thread that has it.
    affinities: HashMap<(Family, Vec<CpuId>), HeldMaker>,
    /// By process: its first thread whose scheduling policy corun set, and the policy before.
    policies: HashMap<u32, (ThreadId, i32)>,
}

/// Who has an affinity in common from birth.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Family {
    Process(u32),
    Cgroup(Arc<str>),
}

#[derive(Debug)]
struct HeldMaker {
    id: ThreadId,
    may_run_on: CpuSet,
}

impl Makers {
    pub(super) fn new(table: &Threads, online: &CpuSet) -> Self {
        let mut makers =
            Self { online: online.clone(), affinities: HashMap::new(), policies: HashMap::new() };
        for (view, thread) in table.iter() {
            makers.add(view.id, thread);
        }
        makers
    }

    /// One more thread, whose id is above all others'.
    pub(super) fn add(&mut self, id: ThreadId, thread: &ManagedThread) {
        #[cfg(test)]
        tests::LOOKED_AT.set(tests::LOOKED_AT.get() + 1);
        let pid = thread.task().pid;
        if let Some(before) = thread.policy_before {
            self.policies.entry(pid).or_insert((id, before));
        }
        if thread.left_alone || thread.may_run_on == thread.expected {
            return;
        }
        let shown = thread.expected.intersection(&self.online);
        let cgroup = thread.group.as_ref().map(|group| Family::Cgroup(group.name.clone()));
        for family in [Some(Family::Process(pid)), cgroup].into_iter().flatten() {
            let maker = || HeldMaker { id, may_run_on: thread.may_run_on.clone() };
            self.affinities.entry((family, shown.iter().collect())).or_insert_with(maker);
        }
    }

    /// A thread is born with its maker's affinity, and in a cgroup with the group's. Where that is one that corun set,
    /// what the user allowed is what he allowed the maker.
    pub(super) fn allowed(&self, facts: &TaskFacts, group: Option<&HeldGroup>) -> Option<CpuSet> {
        let cpus: Vec<CpuId> = facts.affinity.iter().collect();
        let maker = |family| self.affinities.get(&(family, cpus.clone()));
        let maker = match group {
            Some(group) => maker(Family::Cgroup(group.name.clone())),
            None => {
                let family = [facts.task.pid, facts.parent].map(Family::Process);
                family.into_iter().filter_map(maker).min_by_key(|maker| maker.id)
            }
        };
        maker.map(|maker| maker.may_run_on.clone())
    }

    /// What a thread's scheduling policy would be, had corun not given another to the thread that made it.
    pub(super) fn policy(&self, task: &Task, parent: u32) -> Option<i32> {
        let makers = [task.pid, parent].into_iter().filter_map(|pid| self.policies.get(&pid));
        makers.min_by_key(|(id, _)| *id).map(|&(_, before)| inherited_policy(before))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::backend::fixture;

    thread_local! {
        /// How many threads were looked at to find makers.
        pub(crate) static LOOKED_AT: Cell<usize> = const { Cell::new(0) };
    }

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    fn found(pid: u32, tid: u32, parent: u32, affinity: &str) -> TaskFacts {
        let task = Task { pid, tid, start_ticks: 5 };
        TaskFacts { parent, ..fixture::facts(task, &cpus(affinity)) }
    }

    /// A thread that may run on CPUs 0 to 7 and is held on some of them.
    fn held(pid: u32, tid: u32, on: &str) -> ManagedThread {
        let thread = ManagedThread::new(found(pid, tid, 1, "0-7"), 0, "p");
        ManagedThread { expected: cpus(on), ..thread }
    }

    fn makers(threads: Vec<ManagedThread>) -> Makers {
        Makers::new(&fixture::table((0..).zip(threads)), &cpus("0-3,5"))
    }

    #[test]
    fn an_affinity_that_corun_set_is_the_maker_s_or_its_parent_s() {
        let narrow = ManagedThread { may_run_on: cpus("2-3"), ..held(8, 8, "2") };
        let makers = makers(vec![held(7, 7, "1"), held(7, 9, "2,6"), narrow]);
        let allowed = |pid, parent, on| makers.allowed(&found(pid, pid + 90, parent, on), None);
        assert_eq!(allowed(7, 1, "1"), Some(cpus("0-7")));
        assert_eq!(allowed(50, 7, "1"), Some(cpus("0-7")), "of the process that made its process");
        assert_eq!(allowed(50, 8, "1"), None, "of no thread of that process");
        assert_eq!(allowed(50, 51, "1"), None);
        assert_eq!(allowed(7, 1, "3"), None, "corun set it nowhere");
        assert_eq!(
            allowed(8, 7, "2"),
            Some(cpus("0-7")),
            "CPU 6 is off line; who came first counts"
        );
        assert_eq!(allowed(8, 1, "2"), Some(cpus("2-3")));
    }

    #[test]
    fn whom_nobody_holds_and_who_is_left_alone_hand_nothing_on() {
        let left = ManagedThread { left_alone: true, ..held(7, 8, "1") };
        let makers = makers(vec![left, held(7, 9, "0-7")]);
        assert_eq!(makers.allowed(&found(7, 10, 1, "1"), None), None);
        assert_eq!(makers.allowed(&found(7, 10, 1, "0-3,5"), None), None);
    }

    #[test]
    fn in_a_cgroup_the_group_s_threads_are_the_makers() {
        let group =
            |name: &str| HeldGroup { name: name.into(), cpus: cpus("1"), is_preferred: false };
        let member = ManagedThread { group: Some(group("/a")), ..held(7, 7, "1") };
        let makers = makers(vec![member, held(8, 8, "2")]);
        let allowed = |name, on| makers.allowed(&found(50, 50, 8, on), Some(&group(name)));
        assert_eq!(allowed("/a", "1"), Some(cpus("0-7")));
        assert_eq!(allowed("/b", "1"), None);
        assert_eq!(allowed("/a", "2"), None, "its parent is of no such group");
    }

    #[test]
    fn the_policy_before_is_that_of_the_first_maker_whose_policy_was_set() {
        const BATCH: i32 = 3;
        let set = |pid, tid, before| ManagedThread { policy_before: before, ..held(pid, tid, "1") };
        let mut makers = makers(vec![set(7, 7, None), set(8, 8, Some(BATCH)), set(7, 9, Some(0))]);
        let policy = |makers: &Makers, pid, parent| {
            makers.policy(&Task { pid, tid: pid, start_ticks: 5 }, parent)
        };
        assert_eq!(policy(&makers, 7, 1), Some(0));
        assert_eq!(policy(&makers, 7, 8), Some(BATCH));
        assert_eq!(policy(&makers, 50, 1), None);
        makers.add(ThreadId(3), &set(50, 50, Some(BATCH)));
        assert_eq!(policy(&makers, 51, 50), Some(BATCH));
    }
}
