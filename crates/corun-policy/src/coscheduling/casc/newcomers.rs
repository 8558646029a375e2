//! The secondary measurement (CASC, section 4.2.2.2): threads that were no part of the initial one are measured beside
//! known threads, one at a time on the first CPU.

use std::collections::BTreeMap;

use super::measure::{Mean, Measured};
use super::{Casc, can_measure, placeable};
use crate::{Nanoseconds, Plan, ThreadId, ThreadState, ThreadView, View};

/// A newcomer is estimated from its own ratio when none became known for so long (the paper: 0.5 s a thread).
const PATIENCE: Nanoseconds = Nanoseconds(2_000_000_000);

/// Threads that are not known yet.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    estimates: BTreeMap<ThreadId, Mean>,
    /// How long newcomers have been held since the last became known.
    held: Nanoseconds,
}

impl Newcomers {
    pub(super) fn forget(&mut self, id: ThreadId) {
        self.estimates.remove(&id);
    }
}

impl Casc {
    /// A newcomer was measured beside known threads (equation 2).
    pub(super) fn add_newcomer(&mut self, measured: &Measured, view: &View<'_>, plan: &mut Plan) {
        let mut unknown = measured.members.iter().filter(|id| !self.pcmr.contains_key(id));
        let (Some(&id), None) = (unknown.next(), unknown.next()) else { return };
        let known: f64 = measured.members.iter().filter_map(|id| self.pcmr.get(id)).sum();
        let pcmr = measured.members.len() as f64 * measured.miss_ratio - known;
        let mean = self.newcomers.estimates.entry(id).or_default();
        mean.add(pcmr, measured.seconds);
        if mean.seconds >= self.min_run_s {
            let pcmr = mean.value().unwrap_or(0.0);
            self.learn(id, pcmr, view, plan);
        }
    }

    /// A look at the newcomers. While too few threads are awake for a group, newcomers are free. Where no group runs for
    /// long all the same, they are estimated from their own ratios.
    pub(super) fn look_at_newcomers(&mut self, view: &View<'_>, plan: &mut Plan) {
        let unknown = |(thread, _): &(&ThreadView, _)| {
            thread.state != ThreadState::Sleeping && !self.pcmr.contains_key(&thread.id)
        };
        let first = placeable(view).find(unknown).map(|(thread, _)| thread);
        let Some(first) = first.filter(|_| self.buckets.is_some()) else { return };
        if can_measure(view) {
            self.newcomers.held.0 += self.look.0;
        }
        if self.newcomers.held < PATIENCE {
            return self.hold(view, plan);
        }
        let known = self.pcmr.values().sum::<f64>() / self.pcmr.len().max(1) as f64;
        self.learn(first.id, own_ratio(first).unwrap_or(known), view, plan);
    }

    fn learn(&mut self, id: ThreadId, pcmr: f64, view: &View<'_>, plan: &mut Plan) {
        let pcmr = pcmr.clamp(0.0, 100.0);
        self.newcomers.forget(id);
        self.newcomers.held = Nanoseconds(0);
        let highest = self.pcmr.values().copied().fold(0.0, f64::max);
        self.pcmr.insert(id, pcmr);
        self.watch = super::Watch::default();
        let met = self.buckets.as_ref().is_some_and(|buckets| buckets.met);
        if pcmr > highest || !met {
            self.divide(view, plan);
        } else {
            self.hold(view, plan);
        }
    }
}

/// Misses per 100 references of a thread since it came, whoever ran beside it.
fn own_ratio(thread: &ThreadView) -> Option<f64> {
    let (references, misses) = (thread.counts.llc_references?, thread.counts.llc_misses?);
    (references.total > 0.0).then(|| 100.0 * misses.total / references.total)
}
