//! `hsp`: big cores for the threads of the highest speedup (Koufaty, Reddy and Hahn, EuroSys 2010; Saez
//! et al., as García García describes it in his thesis, UCM 2021, section 4.4.4).

use crate::asymmetric::policy::{Sharing, SharingPolicy};
use crate::asymmetric::progress::Programs;
use crate::asymmetric::sides::Sides;
use crate::asymmetric::speedup::{COUNTERS, IDEAL, Speedups};
use crate::asymmetric::{Cores, INTERVAL, Side};
use crate::{
    Build, BuildOptions, CounterKind, LiveForm, Parameter, ParameterKind, PolicyEntry, View,
};

const MARGIN: Parameter = Parameter {
    name: "margin",
    kind: ParameterKind::Number,
    default: 0.05,
    min: 0.0,
    max: 10.0,
    summary: "by what share a speedup factor must be above another for two threads to swap",
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: HighSpeedup::NAME,
    summary: "big cores for the threads that gain most by them (throughput)",
    source: "García García, thesis UCM 2021, section 4.4.4; Koufaty, Reddy and Hahn, EuroSys 2010",
    parameters: &[INTERVAL, IDEAL, MARGIN],
    build: Build::Policy(|options: &BuildOptions| {
        Box::new(SharingPolicy::new(options, HighSpeedup::new(options)))
    }),
    live: LiveForm::Untested { why: "in simulation as live it cost 4 % on big and small cores" },
};

struct HighSpeedup {
    margin: f64,
    speedups: Speedups,
}

impl HighSpeedup {
    fn new(options: &BuildOptions) -> Self {
        Self { margin: options.value(&MARGIN), speedups: Speedups::new(options.value(&IDEAL)) }
    }
}

impl Sharing for HighSpeedup {
    const NAME: &'static str = "hsp";

    fn counters(&self) -> Vec<CounterKind> {
        COUNTERS.to_vec()
    }

    fn solo_figures(&self) -> bool {
        self.speedups.is_ideal()
    }

    fn align(&mut self, view: &View<'_>, cores: &Cores) {
        self.speedups.align(view, cores);
    }

    fn measure(&mut self, view: &View<'_>, cores: &Cores) {
        self.speedups.measure(view, cores);
    }

    fn claims(&self, view: &View<'_>) -> Vec<f64> {
        let mut factors = self.speedups.factors.clone();
        Programs::of(view.threads).share_out(&mut factors);
        factors
    }

    /// While somebody on a small core gains more than somebody on a big one.
    fn swap(&mut self, view: &View<'_>, sides: &mut Sides<'_>) {
        let factors = self.claims(view);
        loop {
            let least = sides.highest(Side::Big, |one| -factors[one]);
            let most = sides.highest(Side::Small, |one| factors[one]);
            let (Some(least), Some(most)) = (least, most) else { return };
            if factors[most] <= factors[least] * (1.0 + self.margin) {
                return;
            }
            let why = format!(
                "{} runs {:.2} times as fast on a big core, {} {:.2} times",
                sides.threads[most].program,
                factors[most],
                sides.threads[least].program,
                factors[least],
            );
            sides.swap(least, most, why);
        }
    }
}

#[cfg(test)]
mod tests;
