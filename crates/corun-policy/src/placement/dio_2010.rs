//! `dio-2010`: Distributed Intensity Online as published (Blagodurov et al., TOCS 2010, section 4.2).

pub(super) mod isolation;

use self::isolation::Domain;
use crate::placement::running_averages::{HALF_LIFE, RunningAverages};
use crate::placement::spread::{Memory, Places, Spread};
use crate::{
    ActionKind, Build, BuildOptions, CounterKind, Event, Interval, LiveForm, Needs, Parameter,
    ParameterKind, Plan, Policy, PolicyEntry, View,
};

pub(super) const INTERVAL: Parameter = Parameter {
    name: "interval-cycles",
    kind: ParameterKind::Number,
    default: super::BILLION_CYCLES as f64,
    min: 1e6,
    max: 1e12,
    summary: "cycles between two looks at the counters",
};

pub(crate) const MIN_GAIN: Parameter = Parameter {
    name: "min-gain-mpki",
    kind: ParameterKind::Number,
    default: 0.0,
    min: 0.0,
    max: 1e6,
    summary: "fall of the most loaded LLC's total below which nobody moves; 0: as published",
};

/// Misses per 1000 instructions from which on a thread is intensive: a devil in the paper's words
/// (algorithm 3: 2000 misses in a million instructions).
pub(crate) const DEVIL: Parameter = Parameter {
    name: "devil-mpki",
    kind: ParameterKind::Number,
    default: 2.0,
    min: 0.0,
    max: 1e6,
    summary: "misses per 1000 instructions from which on a thread counts as intensive",
};

pub(super) const ISOLATE_IN: Parameter = Parameter {
    name: "isolate-in",
    kind: ParameterKind::Choice(&["nothing", "llc", "package"]),
    default: 1.0,
    min: 0.0,
    max: 2.0,
    summary: "what an important, intensive thread shares with no other such: 1 an LLC, 2 a package, 0 nothing",
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "dio-2010",
    summary: "spreads the miss rates measured online over packages, LLCs and cores, as published",
    source: "Blagodurov et al., TOCS 2010, section 4.2; priorities: section 5.3",
    parameters: &[INTERVAL, HALF_LIFE, MIN_GAIN, DEVIL, ISOLATE_IN],
    build: Build::Policy(|options: &BuildOptions| Box::new(Dio2010::new(options))),
    live: LiveForm::AS_LIVE,
};

/// The policy with its parameters.
pub(crate) struct Dio2010 {
    interval_cycles: u64,
    min_gain_mpki: f64,
    devil_mpki: f64,
    isolate_in: Option<Domain>,
    running: RunningAverages,
    memory: Memory,
}

pub(super) const MEASURE: &str = "MPKI";

impl Dio2010 {
    pub(crate) fn new(options: &BuildOptions) -> Self {
        Self {
            interval_cycles: options.value(&INTERVAL) as u64,
            min_gain_mpki: options.value(&MIN_GAIN),
            devil_mpki: options.value(&DEVIL),
            isolate_in: Domain::of(options.value(&ISOLATE_IN)),
            running: RunningAverages::of_mpki(options.value(&HALF_LIFE)),
            memory: Memory::default(),
        }
    }

    fn is_worth_it(&self, spread: &Spread<'_>, places: &Places) -> bool {
        // A thread without a place has to get one.
        let Some(now) = spread.unchanged() else { return true };
        let gain = spread.heaviest_llc_mpki(&now) - spread.heaviest_llc_mpki(places);
        self.min_gain_mpki == 0.0 || gain >= self.min_gain_mpki
    }

    /// The order of the paper, with important threads kept apart.
    fn isolated(&mut self, view: &View<'_>, mpki: &[Option<f64>]) -> Option<Plan> {
        let cpus = isolation::cpus(view, mpki, self.devil_mpki, self.isolate_in?)?;
        let spread = Spread::within(view, mpki, |thread| &cpus[thread], &mut self.memory);
        let places = spread.sorted(&mut self.memory);
        Some(spread.plan(&places, MEASURE))
    }
}

/// What a policy needs that measures misses per 1000 instructions online and places threads by them.
pub(super) fn needs(interval_cycles: u64) -> Needs {
    Needs {
        interval: Interval::Cycles(interval_cycles),
        counters: vec![CounterKind::Instructions, CounterKind::LlcMisses],
        controls: vec![ActionKind::Place],
        ..Needs::default()
    }
}

/// A thread that arrives without a place gets the emptiest one and moves nobody: nothing is known of it
/// yet.
pub(super) fn plan_for_arrivals(
    event: &Event,
    view: &View<'_>,
    running: &RunningAverages,
    memory: &mut Memory,
) -> Option<Plan> {
    if !matches!(event, Event::Arrived(_)) {
        return None;
    }
    let averages = running.by_thread(view);
    let spread = Spread::new(view, &averages, memory);
    Some(spread.plan_for_newcomers(&spread.arrived(), MEASURE))
}

impl Policy for Dio2010 {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn needs(&self) -> Needs {
        needs(self.interval_cycles)
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        plan_for_arrivals(event, view, &self.running, &mut self.memory)
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.running.measure(view);
        if self.running.is_empty() {
            return Plan::none();
        }
        let averages = self.running.by_thread(view);
        if let Some(plan) = self.isolated(view, &averages) {
            return plan;
        }
        let spread = Spread::new(view, &averages, &mut self.memory);
        let places = spread.sorted(&mut self.memory);
        if !self.is_worth_it(&spread, &places) {
            return Plan::none();
        }
        spread.plan(&places, MEASURE)
    }
}

#[cfg(test)]
mod tests;
