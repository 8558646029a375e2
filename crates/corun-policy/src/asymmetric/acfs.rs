//! `acfs`: equal progress by speedup factors, blind to contention (Saez, Pousa, Castro, Chaver and
//! Prieto-Matias, ACFS, ACM SAC 2015, as García García describes it in his thesis, UCM 2021, sections
//! 4.2, 4.3.3 and 4.3.6).

use crate::asymmetric::policy::{Sharing, SharingPolicy};
use crate::asymmetric::progress::{Programs, Progress, Worth, dynamic_weights};
use crate::asymmetric::sides::Sides;
use crate::asymmetric::speedup::{COUNTERS, IDEAL, Speedups, side_of};
use crate::asymmetric::{AMP_THRESHOLD, Cores, INTERVAL, Side, UNFAIRNESS_FACTOR};
use crate::{Build, BuildOptions, CounterKind, LiveForm, PolicyEntry, ThreadId, ThreadView, View};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: Acfs::NAME,
    summary: "shares big cores so that threads progress alike, by speedup factors alone",
    source: "Saez et al., ACFS, SAC 2015; García García, thesis UCM 2021, sections 4.2 and 4.3",
    parameters: &[INTERVAL, AMP_THRESHOLD, UNFAIRNESS_FACTOR, IDEAL],
    build: Build::Policy(|options: &BuildOptions| {
        Box::new(SharingPolicy::new(options, Acfs::new(options)))
    }),
    live: LiveForm::AS_LIVE,
};

struct Acfs {
    unfairness_factor: f64,
    speedups: Speedups,
    progress: Progress,
}

impl Acfs {
    fn new(options: &BuildOptions) -> Self {
        Self {
            unfairness_factor: options.value(&UNFAIRNESS_FACTOR),
            speedups: Speedups::new(options.value(&IDEAL)),
            progress: Progress::new(options.value(&AMP_THRESHOLD)),
        }
    }
}

impl Sharing for Acfs {
    const NAME: &'static str = "acfs";

    fn counters(&self) -> Vec<CounterKind> {
        COUNTERS.to_vec()
    }

    fn solo_figures(&self) -> bool {
        self.speedups.is_ideal()
    }

    fn align(&mut self, view: &View<'_>, cores: &Cores) {
        self.speedups.align(view, cores);
        self.progress.align(view);
    }

    /// On a big core nobody is slowed down, on a small one by his speedup factor.
    fn measure(&mut self, view: &View<'_>, cores: &Cores) {
        self.speedups.measure(view, cores);
        let mut speedups = self.speedups.factors.clone();
        Programs::of(view.threads).share_out(&mut speedups);
        let weights = dynamic_weights(view.threads, self.unfairness_factor, &speedups);
        let slowdown = |(thread, &speedup): (&ThreadView, &f64)| {
            if side_of(thread, cores) == Some(Side::Small) { speedup } else { 1.0 }
        };
        let slowdowns: Vec<f64> = view.threads.iter().zip(&speedups).map(slowdown).collect();
        let worth = Worth { slowdowns: &slowdowns, speedups: &speedups, weights: &weights };
        self.progress.advance(view, cores, worth);
    }

    fn slept(&mut self, id: ThreadId, view: &View<'_>) {
        self.progress.slept(id, view.now);
    }

    fn woke(&mut self, id: ThreadId, view: &View<'_>) {
        self.progress.woke(id, view);
    }

    fn claims(&self, _view: &View<'_>) -> Vec<f64> {
        self.progress.claims()
    }

    fn swap(&mut self, view: &View<'_>, sides: &mut Sides<'_>) {
        let threshold_ms = self.progress.threshold_ms(view.machine);
        sides.even_out(&self.progress.progress_ms, threshold_ms, |_, behind| behind[0]);
    }
}

#[cfg(test)]
mod tests;
