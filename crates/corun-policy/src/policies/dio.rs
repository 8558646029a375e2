//! `dio`: Distributed Intensity Online (Blagodurov et al., TOCS 2010, section 4.2).

use crate::spread::{Memory, Places, Spread};
use crate::{
    ActionKind, Build, BuildOptions, CounterKind, Event, Interval, Needs, Parameter, Plan, Policy,
    PolicyEntry, ThreadId, ThreadView, View,
};

const INTERVAL: Parameter = Parameter {
    name: "interval-cycles",
    default: super::BILLION_CYCLES as f64,
    min: 1e6,
    max: 1e12,
    summary: "cycles between two looks at the counters",
};

const HALF_LIFE: Parameter = Parameter {
    name: "half-life-intervals",
    default: 4.0,
    min: 0.01,
    max: 1e6,
    summary: "intervals after which a measurement counts half in the running average",
};

const MIN_GAIN: Parameter = Parameter {
    name: "min-gain-mpki",
    default: 0.0,
    min: 0.0,
    max: 1e6,
    summary: "fall of the most loaded LLC's total below which nobody moves; 0: as published",
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "dio",
    summary: "spreads the miss rates measured online evenly over packages, LLCs and cores",
    source: "Blagodurov et al., TOCS 2010, section 4.2",
    parameters: &[INTERVAL, HALF_LIFE, MIN_GAIN],
    build: Build::Policy(|options: &BuildOptions| Box::new(Dio::new(options))),
};

struct Dio {
    interval_cycles: u64,
    /// Weight of the past in the running average, an interval on.
    decay: f64,
    min_gain_mpki: f64,
    /// Running average of each thread that was measured, in misses per 1000 instructions, by
    /// ascending id.
    mpki: Vec<(ThreadId, f64)>,
    memory: Memory,
}

const MEASURE: &str = "MPKI";

impl Dio {
    fn new(options: &BuildOptions) -> Self {
        Self {
            interval_cycles: options.value(&INTERVAL) as u64,
            decay: 0.5f64.powf(1.0 / options.value(&HALF_LIFE)),
            min_gain_mpki: options.value(&MIN_GAIN),
            mpki: Vec::new(),
            memory: Memory::default(),
        }
    }

    /// Takes in an interval's counts. A thread that retired nothing keeps its average.
    fn measure(&mut self, view: &View<'_>) {
        let averages = self.averages(view);
        self.mpki.clear();
        for (thread, average) in view.threads.iter().zip(averages) {
            let measured = thread.counters.llc_mpki().filter(|mpki| mpki.is_finite());
            let average = match measured {
                Some(mpki) => {
                    let average = average.unwrap_or(mpki);
                    Some(self.decay * average + (1.0 - self.decay) * mpki)
                }
                None => average,
            };
            self.mpki.extend(average.map(|mpki| (thread.id, mpki)));
        }
    }

    /// In the order of the view's threads, which is that of the ids too.
    fn averages(&self, view: &View<'_>) -> Vec<Option<f64>> {
        let mut known = self.mpki.iter().peekable();
        let average = |thread: &ThreadView| {
            while known.next_if(|(id, _)| *id < thread.id).is_some() {}
            known.next_if(|(id, _)| *id == thread.id).map(|&(_, mpki)| mpki)
        };
        view.threads.iter().map(average).collect()
    }

    fn is_worth_it(&self, spread: &Spread<'_>, places: &Places) -> bool {
        // A thread without a place has to get one.
        let Some(now) = spread.unchanged() else { return true };
        let gain = spread.heaviest_llc_mpki(&now) - spread.heaviest_llc_mpki(places);
        self.min_gain_mpki == 0.0 || gain >= self.min_gain_mpki
    }
}

impl Policy for Dio {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn needs(&self) -> Needs {
        Needs {
            interval: Interval::Cycles(self.interval_cycles),
            counters: vec![CounterKind::Instructions, CounterKind::LlcMisses],
            controls: vec![ActionKind::Place],
            solo_figures: false,
            by_ways: false,
        }
    }

    /// A thread that arrives without a place gets the emptiest one and moves nobody: nothing is
    /// known of it yet.
    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        if !matches!(event, Event::Arrived(_)) {
            return None;
        }
        let averages = self.averages(view);
        let spread = Spread::new(view, &averages, &mut self.memory);
        Some(spread.plan_for_newcomers(&spread.arrived(), MEASURE))
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.measure(view);
        if self.mpki.is_empty() {
            return Plan::none();
        }
        let averages = self.averages(view);
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
