//! What was done to each target, from the oldest state to the latest.

use std::collections::{HashMap, HashSet};

use corun_linux::procfs::Process;
use corun_linux::{Roots, Task};
use corun_machine::CpuSet;

use super::inherited::{self, HeldProcesses};
use super::{Restored, in_words};
use crate::act::{ApplyMode, ChangeTarget, still_there};
use crate::{ActError, Change, Reverted};

/// How often threads are looked for that began held: while some are let go, they may start others.
const GENERATIONS: usize = 64;

/// All things that were changed. Of each only the oldest state and the latest change are kept: a
/// target is in the state after its latest change or, if that one was never made, before it.
#[derive(Debug, Default)]
pub(crate) struct UndoState {
    of: HashMap<ChangeTarget, TargetHistory>,
    added: u64,
    held: HeldProcesses,
    /// When their corun started, in clock ticks since boot.
    since_ticks: u64,
}

#[derive(Debug)]
struct TargetHistory {
    oldest: Change,
    latest: Change,
    /// Which addition was the latest.
    added: u64,
}

impl UndoState {
    /// None yet, of a corun that started then.
    pub(crate) fn since(start_ticks: u64) -> Self {
        Self { since_ticks: start_ticks, ..Self::default() }
    }

    pub(crate) fn add(&mut self, change: Change) {
        self.added += 1;
        if let Change::Affinity { task, before, after } = &change {
            let is_new = !self.of.contains_key(&change.target());
            self.held.entry(task.pid).or_default().add(is_new.then_some(before), after);
        }
        let added = self.added;
        self.of
            .entry(change.target())
            .and_modify(|history| (history.latest, history.added) = (change.clone(), added))
            .or_insert_with(|| TargetHistory { oldest: change.clone(), latest: change, added });
    }

    /// Undoes everything, newest first, threads that were started by held ones at last.
    pub(crate) fn undo(&self, roots: &Roots, mode: ApplyMode) -> Vec<Restored> {
        let mut restored: Vec<Restored> =
            self.newest_first().into_iter().map(|history| history.undo(roots, mode)).collect();
        // What those that plans named start meanwhile is born free: they are let go by now. What was
        // born held before may have started others until it was let go itself.
        let mut treated: HashSet<Task> = HashSet::new();
        for _ in 0..GENERATIONS {
            let is_known = |task: &Task| {
                treated.contains(task) || self.of.contains_key(&ChangeTarget::Affinity(*task))
            };
            let found = inherited::all(&self.held, roots, self.since_ticks, is_known);
            let none = found.changes.is_empty() && !found.missed;
            treated.extend(found.changes.iter().filter_map(Change::task));
            restored.extend(found.changes.into_iter().map(|change| {
                let outcome = in_words(change.undone(roots, mode));
                Restored { change, outcome }
            }));
            if none || mode != ApplyMode::Apply {
                break;
            }
        }
        restored
    }

    /// The change by which a thread is held that no plan has named, if it is.
    pub(crate) fn inherited(
        &self,
        roots: &Roots,
        task: &Task,
        affinity: &CpuSet,
    ) -> Option<Change> {
        if self.of.contains_key(&ChangeTarget::Affinity(*task)) {
            return None;
        }
        inherited::change_of(&self.held, roots, task, affinity, self.since_ticks)
    }

    /// Changes that undo the same, in an order that can be written again.
    pub(crate) fn shortest(&self) -> Vec<Change> {
        let mut histories = self.newest_first();
        histories.reverse();
        let one = |history: &TargetHistory| {
            let first = (history.oldest != history.latest)
                .then(|| history.latest.until(&history.oldest).unwrap_or(history.oldest.clone()));
            first.into_iter().chain([history.latest.clone()]).collect::<Vec<_>>()
        };
        histories.into_iter().flat_map(one).collect()
    }

    /// Forgets threads that ended: nothing is left to undo for them. What they may have started is
    /// known by them, so that while their process runs one stays of those that were held alike.
    pub(crate) fn forget_ended(&mut self, roots: &Roots) {
        let runs = |task: &Task| !matches!(still_there(roots, task), Err(ActError::Gone { .. }));
        let (mut ended, mut told) = (Vec::new(), HashSet::new());
        for history in self.newest_first() {
            match history.latest.task() {
                Some(task) if !runs(task) => ended.push((history.latest.target(), history.sent())),
                _ => told.extend(history.sent()),
            }
        }
        for (target, sent) in ended {
            let tells = sent.is_some_and(|sent| process_runs(roots, &target) && told.insert(sent));
            if !tells {
                self.of.remove(&target);
            }
        }
        let left: HashSet<u32> =
            self.of.values().filter_map(|history| Some(history.latest.task()?.pid)).collect();
        self.held.retain(|pid, _| left.contains(pid));
    }

    fn newest_first(&self) -> Vec<&TargetHistory> {
        let mut histories: Vec<&TargetHistory> = self.of.values().collect();
        histories.sort_by_key(|history| std::cmp::Reverse(history.added));
        histories
    }
}

/// Is the process of an affinity's thread still the one in which the thread was?
fn process_runs(roots: &Roots, target: &ChangeTarget) -> bool {
    let ChangeTarget::Affinity(task) = target else { return false };
    let stat = Process::new(roots, task.pid).stat().ok().flatten();
    stat.is_some_and(|stat| !stat.is_over() && stat.start_ticks <= task.start_ticks)
}

/// A thread's process, where the thread could run before, and where it was sent.
type Sent = (u32, String, String);

impl TargetHistory {
    fn sent(&self) -> Option<Sent> {
        match self.latest.since(&self.oldest) {
            Change::Affinity { task, before, after } => {
                Some((task.pid, before.to_string(), after.to_string()))
            }
            _ => None,
        }
    }

    fn undo(&self, roots: &Roots, mode: ApplyMode) -> Restored {
        let whole = self.latest.since(&self.oldest);
        let mut outcome = whole.undone(roots, mode);
        if let (Ok(Reverted::ChangedByOthers { .. }), Some(earlier)) =
            (&outcome, self.latest.until(&self.oldest))
        {
            outcome = earlier.undone(roots, mode);
        }
        Restored { change: whole, outcome: in_words(outcome) }
    }
}
