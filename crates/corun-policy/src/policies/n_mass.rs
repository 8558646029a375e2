//! `n-mass`: every process near its memory, unless a cache is under more pressure than another
//! (Majo and Gross, ISMM 2011, algorithms 1 to 3).

use corun_machine::Machine;

use crate::numa::{
    CHANGE, EPOCH, Epochs, LEAST_CHANGE, MOVE_PAGES, PROFILE_MPKI, REGRESSION, Refinement,
    THRESHOLD, one_node,
};
use crate::{Build, BuildOptions, Event, Needs, Plan, Policy, PolicyEntry, View};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "n-mass",
    summary: "as maximum-local, and then moves programs off the cache under the highest pressure",
    source: "Majo and Gross, ISMM 2011, section 3.3, algorithms 1 to 3",
    parameters: &[EPOCH, CHANGE, LEAST_CHANGE, REGRESSION, PROFILE_MPKI, THRESHOLD, MOVE_PAGES],
    build: Build::Policy(|options: &BuildOptions| {
        let threshold_mpki = Some(options.value(&THRESHOLD)).filter(|&mpki| mpki > 0.0);
        Box::new(NMass(Epochs::new(options, Refinement::Balanced { threshold_mpki })))
    }),
};

struct NMass(Epochs);

impl Policy for NMass {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn needs(&self) -> Needs {
        self.0.needs()
    }

    fn unfit_for(&self, machine: &Machine) -> Option<String> {
        one_node(machine)
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        matches!(event, Event::Arrived(_)).then(|| self.0.arrived(view))
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.0.epoch(view)
    }
}

#[cfg(test)]
mod tests;
