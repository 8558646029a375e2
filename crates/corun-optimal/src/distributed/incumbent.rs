//! The best placement that is known, shared while a search runs.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::objective::key;
use crate::search::Candidate;

/// The best placement that is known. Whoever searches prunes by it; anybody may tighten it.
pub struct Incumbent {
    /// The score on the grid of ties, so that a look costs no lock.
    key: AtomicI64,
    best: Mutex<Candidate>,
    tell: Option<Box<Tell>>,
}

/// Hears of placements that are found here.
type Tell = dyn Fn(&Candidate) + Send + Sync;

impl fmt::Debug for Incumbent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incumbent").field("best", &self.best).finish_non_exhaustive()
    }
}

impl Incumbent {
    /// Starts from a placement.
    pub fn new(start: Candidate) -> Self {
        Self { key: AtomicI64::new(key(start.score)), best: Mutex::new(start), tell: None }
    }

    /// Tells `hear` of every better placement that a search here finds, as it is found.
    #[must_use]
    pub fn telling(mut self, hear: impl Fn(&Candidate) + Send + Sync + 'static) -> Self {
        self.tell = Some(Box::new(hear));
        self
    }

    /// Takes what a search here found, and tells of it.
    pub(crate) fn found(&self, found: &Candidate) {
        if self.tighten(found)
            && let Some(tell) = &self.tell
        {
            tell(found);
        }
    }

    /// Takes a placement if it is preferred to the one that is known; says whether it was.
    pub fn tighten(&self, found: &Candidate) -> bool {
        let mut best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        let is_better = found.beats(&best);
        if is_better {
            best.clone_from(found);
            self.key.store(key(found.score), Ordering::Release);
        }
        is_better
    }

    /// The best placement that is known.
    pub fn best(&self) -> Candidate {
        self.best.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The best placement that is known, where it is preferred to `known`.
    pub(crate) fn better_than(&self, known: Option<&Candidate>) -> Option<Candidate> {
        let worth_a_lock =
            known.is_none_or(|known| self.key.load(Ordering::Acquire) <= key(known.score));
        let best = worth_a_lock.then(|| self.best())?;
        known.is_none_or(|known| best.beats(known)).then_some(best)
    }
}
