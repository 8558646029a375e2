//! Who comes from whom, also after the parents ended.

use std::collections::BTreeMap;

use corun_linux::Task;
use corun_linux::procfs::Stat;

use super::{ProcessSelector, Target};

/// What a process tells of whom it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kin {
    pub(super) pid: u32,
    /// Its process group.
    pub(super) group: u32,
    pub(super) session: u32,
}

impl Kin {
    pub(super) fn of(stat: &Stat) -> Self {
        Self { pid: stat.pid, group: stat.group, session: stat.session }
    }
}

/// What tells that a new process comes from a target's: sessions and process groups that its
/// processes made outlive them, and the kernel gives their numbers to nobody else meanwhile.
#[derive(Debug)]
pub(super) struct Lineage {
    /// The first process by target; none where the target is a rule.
    first: Vec<Option<Task>>,
    /// Sessions and groups by target and number; the round in which a process of theirs was seen.
    made: Vec<BTreeMap<u32, u64>>,
}

impl Lineage {
    pub(super) fn new(targets: &[Target]) -> Self {
        let mut own = Self { first: Vec::new(), made: Vec::new() };
        targets.iter().for_each(|target| own.add(target));
        own
    }

    pub(super) fn add(&mut self, target: &Target) {
        self.first.push(match &target.processes {
            ProcessSelector::Descendants(task) => Some(*task),
            ProcessSelector::Rule(_) => None,
        });
        self.made.push(BTreeMap::new());
    }

    /// A process of a target was seen.
    pub(super) fn saw(&mut self, target: usize, kin: Kin, round: u64) {
        let made = &mut self.made[target];
        for number in [kin.session, kin.group] {
            // Its own, or one that an earlier process of the target made.
            if number == kin.pid || made.contains_key(&number) {
                made.insert(number, round);
            }
        }
    }

    /// Sessions and groups that were seen last before this round may be others' by now.
    pub(super) fn forget_before(&mut self, round: u64) {
        for made in &mut self.made {
            made.retain(|_, seen| *seen >= round);
        }
    }

    /// Does a process come from a target's that may have ended?
    pub(super) fn includes(&self, target: usize, stat: &Stat) -> bool {
        let first = self.first[target]
            .is_some_and(|task| task.pid == stat.pid && task.start_ticks == stat.start_ticks);
        let made = &self.made[target];
        first || made.contains_key(&stat.session) || made.contains_key(&stat.group)
    }
}
