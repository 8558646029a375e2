//! `rr`: the big cores to all threads by turns (the asymmetry-aware round robin of Becchi and Crowley,
//! CF 2006, as García García describes it in his thesis, UCM 2021, section 4.4.4).

use crate::asymmetric::by_thread::ByThread;
use crate::asymmetric::policy::{Sharing, SharingPolicy};
use crate::asymmetric::sides::Sides;
use crate::asymmetric::{Clock, Cores, INTERVAL, SWAP_EVERY, Side, milliseconds};
use crate::{Build, BuildOptions, LiveForm, Nanoseconds, PolicyEntry, View};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: RoundRobin::NAME,
    summary: "gives all threads the big cores by turns, whatever they gain by them",
    source: "García García, thesis UCM 2021, section 4.4.4; Becchi and Crowley, CF 2006",
    parameters: &[INTERVAL, SWAP_EVERY],
    build: Build::Policy(|options: &BuildOptions| {
        Box::new(SharingPolicy::new(options, RoundRobin::new(options)))
    }),
    live: LiveForm::AS_LIVE,
};

struct RoundRobin {
    turns: Clock,
    /// Which side each thread is on, and since when.
    stays: ByThread<(Option<Side>, Nanoseconds)>,
}

impl RoundRobin {
    fn new(options: &BuildOptions) -> Self {
        Self {
            turns: Clock::new(milliseconds(options.value(&SWAP_EVERY))),
            stays: ByThread::default(),
        }
    }

    /// How long each thread has been on its side, in ns.
    fn waits(&self, now: Nanoseconds) -> Vec<f64> {
        self.stays.values().iter().map(|stay| now.0.saturating_sub(stay.1.0) as f64).collect()
    }
}

impl Sharing for RoundRobin {
    const NAME: &'static str = "rr";

    fn align(&mut self, view: &View<'_>, _cores: &Cores) {
        self.stays.align(view.threads, |_| (None, view.now));
    }

    /// Of those on big cores who came last stays: a short stay is a high claim.
    fn claims(&self, view: &View<'_>) -> Vec<f64> {
        let mut claims = self.waits(view.now);
        for (claim, stay) in claims.iter_mut().zip(self.stays.values()) {
            if stay.0 == Some(Side::Big) {
                *claim = -*claim;
            }
        }
        claims
    }

    /// Who has been longest on a big core changes with who has been longest on a small one.
    fn swap(&mut self, view: &View<'_>, sides: &mut Sides<'_>) {
        if !self.turns.strikes(view.now) {
            return;
        }
        let waits = self.waits(view.now);
        let longest = |side: Side| sides.highest(side, |one| waits[one]);
        let (Some(big), Some(small)) = (longest(Side::Big), longest(Side::Small)) else { return };
        let why = format!(
            "{}'s turn on a big core, after {:.0} ms on small ones; {} had it for {:.0} ms",
            sides.threads[small].program,
            waits[small] * 1e-6,
            sides.threads[big].program,
            waits[big] * 1e-6,
        );
        sides.swap(big, small, why);
    }

    fn planned(&mut self, view: &View<'_>, sides: &Sides<'_>, _counted: bool) {
        for (place, stay) in self.stays.values_mut().iter_mut().enumerate() {
            let side = sides.side(place);
            if stay.0 != side {
                *stay = (side, view.now);
            }
        }
    }
}

#[cfg(test)]
mod tests;
