//! `di`: Distributed Intensity (Blagodurov et al., TOCS 2010, section 4.1).

use crate::placement::spread::{Memory, Spread};
use crate::{
    ActionKind, Build, BuildOptions, Event, Interval, LiveForm, Needs, Plan, Policy, PolicyEntry,
    View,
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "di",
    summary: "spreads the miss rates known from profiles evenly over packages, LLCs and cores",
    source: "Blagodurov et al., TOCS 2010, section 4.1, algorithms 1 and 2",
    parameters: &[],
    build: Build::Policy(|_: &BuildOptions| Box::<DistributedIntensity>::default()),
    live: LiveForm::AS_LIVE,
};

#[derive(Default)]
struct DistributedIntensity {
    memory: Memory,
}

impl Policy for DistributedIntensity {
    fn name(&self) -> &str {
        ENTRY.name
    }

    /// The interval is that of DIO (section 4.2). Between intervals arrivals alone make DI act: a
    /// program that ends is often started again at once.
    fn needs(&self) -> Needs {
        Needs {
            interval: Interval::Cycles(super::BILLION_CYCLES),
            controls: vec![ActionKind::Place],
            solo_figures: true,
            ..Needs::default()
        }
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        matches!(event, Event::Arrived(_)).then(|| self.decide(view))
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        let mpki: Vec<Option<f64>> =
            view.threads.iter().map(|thread| thread.solo.map(|solo| solo.llc_mpki)).collect();
        let spread = Spread::new(view, &mpki, &mut self.memory);
        spread.plan(&spread.sorted(&mut self.memory), "MPKI solo")
    }
}

#[cfg(test)]
mod tests;
