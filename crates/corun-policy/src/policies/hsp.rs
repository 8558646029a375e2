//! `hsp`: big cores for the threads of the highest speedup (Koufaty, Reddy and Hahn, EuroSys 2010; Saez
//! et al., as García García describes it in his thesis, UCM 2021, section 4.4.4).

use corun_machine::Machine;

use crate::asymmetry::progress::of_programs;
use crate::asymmetry::sides::Sides;
use crate::asymmetry::speedup::{COUNTERS, IDEAL, Speedups};
use crate::asymmetry::{Cores, INTERVAL, Side, milliseconds, one_core_type};
use crate::{
    ActionKind, Build, BuildOptions, Event, Interval, Nanoseconds, Needs, Parameter, Plan, Policy,
    PolicyEntry, View,
};

const MARGIN: Parameter = Parameter {
    name: "margin",
    default: 0.05,
    min: 0.0,
    max: 10.0,
    summary: "by what share a speedup factor must be above another for two threads to swap",
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "hsp",
    summary: "big cores for the threads that gain most by them (throughput)",
    source: "García García, thesis UCM 2021, section 4.4.4; Koufaty, Reddy and Hahn, EuroSys 2010",
    parameters: &[INTERVAL, IDEAL, MARGIN],
    build: Build::Policy(|options: &BuildOptions| Box::new(HighSpeedup::new(options))),
};

struct HighSpeedup {
    interval: Nanoseconds,
    margin: f64,
    cores: Option<Cores>,
    speedups: Speedups,
}

impl HighSpeedup {
    fn new(options: &BuildOptions) -> Self {
        Self {
            interval: milliseconds(options.value(&INTERVAL)),
            margin: options.value(&MARGIN),
            cores: None,
            speedups: Speedups::new(options.value(&IDEAL)),
        }
    }

    fn plan(&mut self, view: &View<'_>, counted: bool) -> Plan {
        let Some(cores) = self.cores.take().or_else(|| Cores::of(view.machine)) else {
            return Plan::none();
        };
        self.speedups.align(view, &cores);
        if counted {
            self.speedups.measure(view, &cores);
        }
        let mut factors = self.speedups.factors.clone();
        of_programs(view.threads, &mut factors);
        let mut sides = Sides::new(view, &cores);
        sides.place_new();
        sides.balance(&factors);
        if counted {
            self.swap(&mut sides, &factors);
        }
        let plan = sides.plan;
        self.cores = Some(cores);
        plan
    }

    /// While somebody on a small core gains more than somebody on a big one.
    fn swap(&self, sides: &mut Sides<'_>, factors: &[f64]) {
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

impl Policy for HighSpeedup {
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
        matches!(event, Event::Arrived(_) | Event::Woke(_)).then(|| self.plan(view, false))
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.plan(view, true)
    }
}

#[cfg(test)]
mod tests;
