//! Who is in which cgroup, counted once a plan.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use corun_machine::{CpuId, CpuSet};
use corun_policy::ThreadId;

use super::Refusal;
use crate::{ManagedThread, Threads};

/// The threads of each cgroup that is held, and where they are sent, as a plan goes on. Looking at
/// all threads again at each step would take a plan's time times their number.
#[derive(Debug)]
pub(super) struct Members {
    groups: BTreeMap<Arc<str>, Group>,
    /// By place in the list of threads: where each was sent, as the groups count it.
    counted: Vec<CpuSet>,
    /// Places of the threads that were asked about since the groups were last counted.
    asked: Vec<usize>,
}

#[derive(Debug, Default)]
struct Group {
    /// Places of its threads in the list of threads.
    threads: Vec<usize>,
    /// By CPU: how many of its threads were sent there.
    sent: Vec<u32>,
    /// Why it must not be touched at all, once that was found out.
    verdict: Option<Result<(), Refusal>>,
}

impl Group {
    fn count(&mut self, cpus: &CpuSet) {
        for cpu in cpus.iter() {
            let place = cpu.0 as usize;
            if place >= self.sent.len() {
                self.sent.resize(place + 1, 0);
            }
            self.sent[place] += 1;
        }
    }

    fn discount(&mut self, cpus: &CpuSet) {
        for cpu in cpus.iter() {
            self.sent[cpu.0 as usize] -= 1;
        }
    }
}

impl Members {
    /// Those of these threads that are held by their cgroups.
    pub(super) fn new(threads: &Threads) -> Self {
        let mut groups: BTreeMap<Arc<str>, Group> = BTreeMap::new();
        for (place, (_, one)) in threads.iter().enumerate() {
            if let Some(group) = &one.group {
                let own = groups.entry(group.name.clone()).or_default();
                own.threads.push(place);
                own.count(&one.allowed);
            }
        }
        let counted = threads.iter().map(|(_, one)| one.allowed.clone()).collect();
        Self { groups, counted, asked: Vec::new() }
    }

    /// Are these the threads that were counted?
    pub(super) fn are_of(&self, threads: &Threads) -> bool {
        self.counted.len() == threads.len()
    }

    /// Counts those anew that were asked about and sent somewhere since.
    pub(super) fn catch_up(&mut self, threads: &Threads) {
        for place in std::mem::take(&mut self.asked) {
            let thread = threads.at(place).1;
            let (now, before) = (&thread.allowed, &mut self.counted[place]);
            let name = thread.group.as_ref().map(|group| &group.name);
            if let Some(group) = name.and_then(|name| self.groups.get_mut(name))
                && now != before
            {
                group.discount(before);
                group.count(now);
                before.clone_from(now);
            }
        }
    }

    /// The CPUs that a group needs when one of its threads is sent to `cpus`; where that is may be
    /// counted anew at the next step.
    pub(super) fn needs(
        &mut self,
        name: &str,
        thread: ThreadId,
        cpus: &CpuSet,
        threads: &Threads,
    ) -> CpuSet {
        let own = threads.index_of(thread).expect("the thread is one of them");
        self.asked.push(own);
        let group = &self.groups[name];
        let alone = |cpu: CpuId| u32::from(self.counted[own].contains(cpu));
        let others = (0..).map(CpuId).zip(&group.sent);
        let others = others.filter(|&(cpu, &sent)| sent > alone(cpu)).map(|(cpu, _)| cpu);
        cpus.union(&CpuSet::from_iter(others))
    }

    /// Is there a group below this one?
    pub(super) fn has_below(&self, name: &str) -> bool {
        let below = format!("{name}/");
        let from = (Bound::Included(below.as_str()), Bound::Unbounded);
        self.groups.range::<str, _>(from).next().is_some_and(|(next, _)| next.starts_with(&below))
    }

    /// Why a group must not be touched, which `look` finds out once.
    pub(super) fn verdict(
        &mut self,
        name: &str,
        threads: &Threads,
        look: impl FnOnce(&[&ManagedThread]) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let group = self.groups.get_mut(name).expect("one of the threads is in it");
        let members = || group.threads.iter().map(|&place| threads.at(place).1).collect::<Vec<_>>();
        group.verdict.get_or_insert_with(|| look(&members())).clone()
    }
}
