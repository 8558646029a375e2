//! What corun keeps of a thread beside what policies see of it.

use std::sync::Arc;

use corun_machine::CpuSet;
use corun_policy::{Counts, Nanoseconds, Rates, ThreadView};

use corun_linux::{Task, TaskFacts};

/// What corun keeps of a thread beside what policies see of it ([`ThreadView`]).
#[derive(Debug, Clone)]
pub struct ManagedThread {
    /// What the kernel said of it last.
    pub facts: TaskFacts,
    /// Index of its program among the targets.
    pub target: usize,
    /// The name of its program's profile; empty where its process's command line leads to one.
    pub profile: Arc<str>,
    /// Where its user allows it to run, CPUs that are off line included: nothing ever widens it.
    pub may_run_on: CpuSet,
    /// Where it is held, or shown to be in a dry run, CPUs that are off line included. Where its cgroup is
    /// held in its place, where the thread itself was sent.
    pub allowed: CpuSet,
    /// Somebody else moved it under us: from then on it is left alone.
    pub left_alone: bool,
    /// The cgroup that is held in its place.
    pub group: Option<HeldGroup>,
    /// Where corun's scheduler in the kernel has it, in the place of its affinity.
    pub(crate) preferred: Option<CpuSet>,
    /// Its scheduling policy before corun gave it another.
    pub(crate) policy_before: Option<i32>,
    /// Its affinity as corun last set or found it, CPUs that are off line included.
    pub(crate) expected: CpuSet,
    /// Since the tick before: how long it was on CPUs, and how long that was. Both 0 in its first tick.
    pub(crate) ran: Nanoseconds,
    pub(crate) elapsed: Nanoseconds,
    /// What was counted up to the tick before.
    pub(crate) before: Counts,
}

/// A cgroup that is held with all that is in it, by its cpuset or by corun's scheduler in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldGroup {
    /// Its path as in `/proc/PID/cgroup`: `/system.slice/x.service`.
    pub name: Arc<str>,
    /// Where it is held now.
    pub cpus: CpuSet,
    /// Held there by corun's scheduler in the kernel: its cpuset is as it was.
    pub is_preferred: bool,
}

impl ManagedThread {
    /// A thread that was found where its user put it.
    pub fn new(facts: TaskFacts, target: usize, profile: impl Into<Arc<str>>) -> Self {
        let found = &facts.affinity;
        Self {
            may_run_on: found.clone(),
            allowed: found.clone(),
            expected: found.clone(),
            facts,
            target,
            profile: profile.into(),
            left_alone: false,
            group: None,
            preferred: None,
            policy_before: None,
            ran: Nanoseconds(0),
            elapsed: Nanoseconds(0),
            before: Counts::default(),
        }
    }

    /// The thread, as the kernel tells it apart from others.
    pub fn task(&self) -> Task {
        self.facts.task
    }

    /// Time since the tick before; 0 in the thread's first tick.
    pub fn elapsed(&self) -> Nanoseconds {
        self.elapsed
    }

    /// Time on CPUs since the tick before; 0 in the thread's first tick.
    pub fn ran(&self) -> Nanoseconds {
        self.ran
    }

    /// Share of the time since the tick before that it was on a CPU, 0 to 1; none in its first tick.
    pub fn cpu_share(&self) -> Option<f64> {
        (self.elapsed.0 > 0).then(|| self.ran.0 as f64 / self.elapsed.0 as f64)
    }

    /// Somebody else moved it: where that was is all that counts, also where the scheduler in the kernel preferred others.
    pub(crate) fn follow_others(&mut self) {
        self.expected.clone_from(&self.facts.affinity);
        self.allowed.clone_from(&self.facts.affinity);
        self.may_run_on.clone_from(&self.facts.affinity);
        self.preferred = None;
    }

    /// The scheduler in the kernel was to prefer other CPUs for it, and does not: it is held as before. Where that was
    /// by its affinity, nothing is preferred for it.
    pub(crate) fn was_not_preferred(&mut self, before: &CpuSet) {
        self.allowed.clone_from(before);
        self.preferred = Some(before).filter(|before| **before != self.expected).cloned();
    }

    /// The rates since the tick before.
    pub(crate) fn rates(&self, view: &ThreadView) -> Rates {
        view.counts.since(&self.before)
    }

    /// A tick's counting begins: the kernel has said how long the thread ran.
    pub(crate) fn begin_count(&mut self, view: &mut ThreadView) {
        self.before = view.counts;
        let count = view.counts.cpu_time.get_or_insert_default();
        count.total += self.ran.0 as f64;
        count.known.0 += self.elapsed.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::fixture;

    #[test]
    fn a_preference_that_failed_leaves_the_one_before_or_none() {
        let cpus = |list: &str| list.parse::<CpuSet>().unwrap();
        let task = Task { pid: 7, tid: 7, start_ticks: 5 };
        let mut thread = ManagedThread::new(fixture::facts(task, &cpus("0-7")), 0, "p");
        let preferred = |thread: &mut ManagedThread, to: &str| {
            thread.allowed = cpus(to);
            thread.preferred = Some(cpus(to));
        };
        preferred(&mut thread, "1");
        thread.was_not_preferred(&cpus("0-7"));
        assert_eq!((&thread.allowed, &thread.preferred), (&cpus("0-7"), &None));
        preferred(&mut thread, "1");
        preferred(&mut thread, "2");
        thread.was_not_preferred(&cpus("1"));
        assert_eq!((&thread.allowed, &thread.preferred), (&cpus("1"), &Some(cpus("1"))));
    }

    #[test]
    fn for_a_thread_that_somebody_else_moved_nothing_is_preferred() {
        let cpus = |list: &str| list.parse::<CpuSet>().unwrap();
        let task = Task { pid: 1, tid: 1, start_ticks: 1 };
        let mut thread = ManagedThread::new(fixture::facts(task, &cpus("0-7")), 0, "p");
        (thread.preferred, thread.allowed) = (Some(cpus("0-1")), cpus("0-1"));
        thread.facts.affinity = cpus("4-5");
        thread.follow_others();
        assert_eq!(thread.preferred, None);
        for set in [&thread.allowed, &thread.expected, &thread.may_run_on] {
            assert_eq!(*set, cpus("4-5"));
        }
    }
}
