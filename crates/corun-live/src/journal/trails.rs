//! What was done to each thing, from the oldest state to the latest.

use std::collections::{HashMap, HashSet};

use corun_linux::procfs::Process;
use corun_linux::{Roots, Task};
use corun_machine::CpuSet;

use super::heirs::{self, HeldProcesses};
use super::{Restored, in_words};
use crate::act::{Doing, Thing, still_there};
use crate::{ActError, Change, Reverted};

/// How often threads are looked for that began held: while some are let go, they may start others.
const GENERATIONS: usize = 64;

/// All things that were changed. Of each only the oldest state and the latest change are kept: a
/// thing is in the state after its latest change or, if that one was never made, before it.
#[derive(Debug, Default)]
pub(crate) struct Trails {
    of: HashMap<Thing, Trail>,
    added: u64,
    held: HeldProcesses,
    /// When their corun started, in clock ticks since boot.
    since_ticks: u64,
}

#[derive(Debug)]
struct Trail {
    oldest: Change,
    latest: Change,
    /// Which addition was the latest.
    added: u64,
}

impl Trails {
    /// None yet, of a corun that started then.
    pub(crate) fn since(start_ticks: u64) -> Self {
        Self { since_ticks: start_ticks, ..Self::default() }
    }

    pub(crate) fn add(&mut self, change: Change) {
        self.added += 1;
        if let Change::Affinity { task, before, after } = &change {
            let is_new = !self.of.contains_key(&change.thing());
            self.held.entry(task.pid).or_default().add(is_new.then_some(before), after);
        }
        let added = self.added;
        self.of
            .entry(change.thing())
            .and_modify(|trail| (trail.latest, trail.added) = (change.clone(), added))
            .or_insert_with(|| Trail { oldest: change.clone(), latest: change, added });
    }

    /// Undoes everything, newest first, threads that were started by held ones at last.
    pub(crate) fn undo(&self, roots: &Roots, doing: Doing) -> Vec<Restored> {
        let mut restored: Vec<Restored> =
            self.newest_first().into_iter().map(|trail| trail.undo(roots, doing)).collect();
        // What those that plans named start meanwhile is born free: they are let go by now. What was
        // born held before may have started others until it was let go itself.
        let mut treated: HashSet<Task> = HashSet::new();
        for _ in 0..GENERATIONS {
            let is_known = |task: &Task| {
                treated.contains(task) || self.of.contains_key(&Thing::Affinity(*task))
            };
            let heirs = heirs::all(&self.held, roots, self.since_ticks, is_known);
            let none = heirs.changes.is_empty() && !heirs.missed;
            treated.extend(heirs.changes.iter().filter_map(Change::task));
            restored.extend(heirs.changes.into_iter().map(|change| {
                let outcome = in_words(change.undone(roots, doing));
                Restored { change, outcome }
            }));
            if none || doing != Doing::Act {
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
        if self.of.contains_key(&Thing::Affinity(*task)) {
            return None;
        }
        heirs::change_of(&self.held, roots, task, affinity, self.since_ticks)
    }

    /// Changes that undo the same, in an order that can be written again.
    pub(crate) fn shortest(&self) -> Vec<Change> {
        let mut trails = self.newest_first();
        trails.reverse();
        let one = |trail: &Trail| {
            let first = (trail.oldest != trail.latest)
                .then(|| trail.latest.until(&trail.oldest).unwrap_or(trail.oldest.clone()));
            first.into_iter().chain([trail.latest.clone()]).collect::<Vec<_>>()
        };
        trails.into_iter().flat_map(one).collect()
    }

    /// Forgets threads that ended: nothing is left to undo for them. What they may have started is
    /// known by them, so that while their process runs one stays of those that were held alike.
    pub(crate) fn forget_ended(&mut self, roots: &Roots) {
        let runs = |task: &Task| !matches!(still_there(roots, task), Err(ActError::Gone { .. }));
        let (mut ended, mut told) = (Vec::new(), HashSet::new());
        for trail in self.newest_first() {
            match trail.latest.task() {
                Some(task) if !runs(task) => ended.push((trail.latest.thing(), trail.sent())),
                _ => told.extend(trail.sent()),
            }
        }
        for (thing, sent) in ended {
            let tells = sent.is_some_and(|sent| process_runs(roots, &thing) && told.insert(sent));
            if !tells {
                self.of.remove(&thing);
            }
        }
        let left: HashSet<u32> =
            self.of.values().filter_map(|trail| Some(trail.latest.task()?.pid)).collect();
        self.held.retain(|pid, _| left.contains(pid));
    }

    fn newest_first(&self) -> Vec<&Trail> {
        let mut trails: Vec<&Trail> = self.of.values().collect();
        trails.sort_by_key(|trail| std::cmp::Reverse(trail.added));
        trails
    }
}

/// Is the process of an affinity's thread still the one in which the thread was?
fn process_runs(roots: &Roots, thing: &Thing) -> bool {
    let Thing::Affinity(task) = thing else { return false };
    let stat = Process::new(roots, task.pid).stat().ok().flatten();
    stat.is_some_and(|stat| !stat.is_over() && stat.start_ticks <= task.start_ticks)
}

/// A thread's process, where the thread could run before, and where it was sent.
type Sent = (u32, String, String);

impl Trail {
    fn sent(&self) -> Option<Sent> {
        match self.latest.since(&self.oldest) {
            Change::Affinity { task, before, after } => {
                Some((task.pid, before.to_string(), after.to_string()))
            }
            _ => None,
        }
    }

    fn undo(&self, roots: &Roots, doing: Doing) -> Restored {
        let whole = self.latest.since(&self.oldest);
        let mut outcome = whole.undone(roots, doing);
        if let (Ok(Reverted::ChangedByOthers { .. }), Some(earlier)) =
            (&outcome, self.latest.until(&self.oldest))
        {
            outcome = earlier.undone(roots, doing);
        }
        Restored { change: whole, outcome: in_words(outcome) }
    }
}
