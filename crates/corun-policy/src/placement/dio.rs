//! `dio`: Distributed Intensity Online (Blagodurov et al., TOCS 2010, section 4.2) for machines of today:
//! threads that cannot be told apart stay where they are, nobody leaves the node of its memory, and a new
//! order must save more misses than it costs. `dio-2010` is the rule as published.

mod homes;

use crate::placement::dio_2010::isolation::{self, Domain};
use crate::placement::dio_2010::{DEVIL, INTERVAL, ISOLATE_IN, MEASURE, needs, plan_for_arrivals};
use crate::placement::running_averages::{HALF_LIFE, RunningAverages};
use crate::placement::spread::{Memory, Places, Spread};
use crate::{
    Build, BuildOptions, Event, LiveForm, Needs, Parameter, ParameterKind, Plan, Policy,
    PolicyEntry, View,
};

const HORIZON: Parameter = Parameter {
    name: "horizon-intervals",
    kind: ParameterKind::Number,
    default: 10.0,
    min: 0.01,
    max: 1e6,
    summary: "intervals over which a new order must save more misses than moved threads fetch anew",
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "dio",
    summary: "spreads the miss rates measured online over the LLCs of each node, where it pays",
    source: "corun, after Blagodurov et al., TOCS 2010, section 4.2, and USENIX ATC 2011; priorities: section 5.3",
    parameters: &[INTERVAL, HALF_LIFE, HORIZON, DEVIL, ISOLATE_IN],
    build: Build::Policy(|options: &BuildOptions| Box::new(Dio::new(options))),
    live: LiveForm::AS_LIVE,
};

const LINE_BYTES: f64 = 64.0;

/// The policy with its parameters.
struct Dio {
    interval_cycles: u64,
    horizon_intervals: f64,
    devil_mpki: f64,
    isolate_in: Option<Domain>,
    running: RunningAverages,
    memory: Memory,
}

impl Dio {
    fn new(options: &BuildOptions) -> Self {
        Self {
            interval_cycles: options.value(&INTERVAL) as u64,
            horizon_intervals: options.value(&HORIZON),
            devil_mpki: options.value(&DEVIL),
            isolate_in: Domain::of(options.value(&ISOLATE_IN)),
            running: RunningAverages::of_mpki(options.value(&HALF_LIFE)),
            memory: Memory::default(),
        }
    }

    /// Does a new order save more misses over the horizon than moved threads fetch anew?
    fn is_worth_it(&self, view: &View<'_>, spread: &Spread<'_>, places: &Places) -> bool {
        // A thread without a place has to get one.
        let Some(now) = spread.unchanged() else { return true };
        let clock_mhz = view.machine.core_types().first().map_or(1e3, |core| core.clock_mhz);
        let seconds = self.horizon_intervals * self.interval_cycles as f64 / (clock_mhz * 1e6);
        let saved_mpki = spread.competing_mpki(&now) - spread.competing_mpki(places);
        let saved = saved_mpki * 1e-3 * spread.instructions_per_s() * seconds;
        saved > spread.refilled_bytes(&now, places) / LINE_BYTES
    }
}

impl Policy for Dio {
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
        let mpki = self.running.told_apart(view);
        if mpki.iter().all(Option::is_none) {
            return Plan::none();
        }
        let isolated = self
            .isolate_in
            .and_then(|domain| isolation::cpus(view, &mpki, self.devil_mpki, domain));
        if let Some(cpus) = isolated {
            let spread = Spread::within(view, &mpki, |thread| &cpus[thread], &mut self.memory);
            let places = spread.sorted(&mut self.memory);
            return spread.plan(&places, MEASURE);
        }
        let homes = homes::cpus(view);
        let of = |thread: usize| match &homes {
            Some(cpus) => &cpus[thread],
            None => &view.threads[thread].may_run_on,
        };
        let spread = Spread::within(view, &mpki, of, &mut self.memory);
        let places = spread.sorted(&mut self.memory);
        if !self.is_worth_it(view, &spread, &places) {
            return Plan::none();
        }
        spread.plan(&places, MEASURE)
    }
}

#[cfg(test)]
mod tests;
