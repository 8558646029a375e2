//! `acfs`: equal progress by speedup factors, blind to contention (Saez, Pousa, Castro, Chaver and
//! Prieto-Matias, ACFS, ACM SAC 2015, as García García describes it in his thesis, UCM 2021, sections
//! 4.2, 4.3.3 and 4.3.6).

use corun_machine::Machine;

use crate::asymmetry::progress::{Progress, dynamic_weights, of_programs};
use crate::asymmetry::sides::Sides;
use crate::asymmetry::speedup::{COUNTERS, IDEAL, Speedups, side_of};
use crate::asymmetry::{
    AMP_THRESHOLD, Cores, INTERVAL, Side, UNFAIRNESS_FACTOR, amp_threshold_ms, milliseconds,
    one_core_type,
};
use crate::{
    ActionKind, Build, BuildOptions, Event, Interval, Nanoseconds, Needs, Plan, Policy,
    PolicyEntry, View,
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "acfs",
    summary: "shares big cores so that threads progress alike, by speedup factors alone",
    source: "Saez et al., ACFS, SAC 2015; García García, thesis UCM 2021, sections 4.2 and 4.3",
    parameters: &[INTERVAL, AMP_THRESHOLD, UNFAIRNESS_FACTOR, IDEAL],
    build: Build::Policy(|options: &BuildOptions| Box::new(Acfs::new(options))),
};

struct Acfs {
    interval: Nanoseconds,
    threshold_asked_ms: f64,
    unfairness_factor: f64,
    cores: Option<Cores>,
    speedups: Speedups,
    progress: Progress,
}

impl Acfs {
    fn new(options: &BuildOptions) -> Self {
        Self {
            interval: milliseconds(options.value(&INTERVAL)),
            threshold_asked_ms: options.value(&AMP_THRESHOLD),
            unfairness_factor: options.value(&UNFAIRNESS_FACTOR),
            cores: None,
            speedups: Speedups::new(options.value(&IDEAL)),
            progress: Progress::default(),
        }
    }

    fn plan(&mut self, view: &View<'_>, counted: bool) -> Plan {
        let Some(cores) = self.cores.take().or_else(|| Cores::of(view.machine)) else {
            return Plan::none();
        };
        self.speedups.align(view, &cores);
        self.progress.align(view);
        if counted {
            self.speedups.measure(view, &cores);
            self.advance(view, &cores);
        }
        let mut sides = Sides::new(view, &cores);
        sides.place_new();
        let claims: Vec<f64> = self.progress.progress_ms.iter().map(|progress| -progress).collect();
        sides.balance(&claims);
        if counted {
            let threshold_ms = amp_threshold_ms(view.machine, self.threshold_asked_ms);
            sides.even_out(&self.progress.progress_ms, threshold_ms, |_, behind| behind[0]);
        }
        let plan = sides.plan;
        self.cores = Some(cores);
        plan
    }

    /// On a big core nobody is slowed down, on a small one by his speedup factor.
    fn advance(&mut self, view: &View<'_>, cores: &Cores) {
        let mut factors = self.speedups.factors.clone();
        of_programs(view.threads, &mut factors);
        let weights = dynamic_weights(view.threads, self.unfairness_factor, &factors);
        for (thread, factor) in view.threads.iter().zip(&mut factors) {
            if side_of(thread, cores) != Some(Side::Small) {
                *factor = 1.0;
            }
        }
        self.progress.advance(view, &factors, &weights);
    }
}

impl Policy for Acfs {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn needs(&self) -> Needs {
        Needs {
            interval: Interval::Time(self.interval),
            counters: COUNTERS.to_vec(),
            controls: vec![ActionKind::Place],
            solo_figures: self.speedups.is_ideal(),
            by_ways: false,
        }
    }

    fn unfit_for(&self, machine: &Machine) -> Option<String> {
        one_core_type(machine)
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        match event {
            Event::Arrived(_) => Some(self.plan(view, false)),
            Event::Slept(id) => {
                self.progress.slept(*id, view.now);
                None
            }
            Event::Woke(id) => {
                let threshold_ms = amp_threshold_ms(view.machine, self.threshold_asked_ms);
                self.progress.align(view);
                self.progress.woke(*id, view.now, threshold_ms);
                Some(self.plan(view, false))
            }
            Event::Exited(_) | Event::Switched { .. } => None,
        }
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.plan(view, true)
    }
}

#[cfg(test)]
mod tests;
