//! What was done to each thing, from the oldest state to the latest.

use std::collections::HashMap;

use super::{Restored, in_words};
use crate::act::thread_stat::still_there;
use crate::act::{Doing, Thing};
use crate::{ActError, Change, Reverted, Roots};

/// All things that were changed. Of each only the oldest state and the latest change are kept: a
/// thing is in the state after its latest change or, if that one was never made, before it.
#[derive(Debug, Default)]
pub(crate) struct Trails {
    of: HashMap<Thing, Trail>,
    added: u64,
}

#[derive(Debug)]
struct Trail {
    oldest: Change,
    latest: Change,
    /// Which addition was the latest.
    added: u64,
}

impl Trails {
    pub(crate) fn add(&mut self, change: Change) {
        self.added += 1;
        let added = self.added;
        self.of
            .entry(change.thing())
            .and_modify(|trail| (trail.latest, trail.added) = (change.clone(), added))
            .or_insert_with(|| Trail { oldest: change.clone(), latest: change, added });
    }

    /// Undoes everything, newest first.
    pub(crate) fn undo(&self, roots: &Roots, doing: Doing) -> Vec<Restored> {
        self.newest_first().into_iter().map(|trail| trail.undo(roots, doing)).collect()
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

    /// Forgets threads that ended: nothing is left to undo for them.
    pub(crate) fn forget_ended(&mut self, roots: &Roots) {
        self.of.retain(|_, trail| match trail.latest.task() {
            Some(task) => !matches!(still_there(roots, task), Err(ActError::Gone { .. })),
            None => true,
        });
    }

    fn newest_first(&self) -> Vec<&Trail> {
        let mut trails: Vec<&Trail> = self.of.values().collect();
        trails.sort_by_key(|trail| std::cmp::Reverse(trail.added));
        trails
    }
}

impl Trail {
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
