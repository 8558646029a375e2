//! `maximum-local`: every process near its memory (Majo and Gross, ISMM 2011, algorithm 2).

use corun_machine::Machine;

use crate::numa::{
    CHANGE, EPOCH, Epochs, LEAST_CHANGE, MOVE_PAGES, PROFILE_MPKI, REGRESSION, Refinement, one_node,
};
use crate::{Build, BuildOptions, Event, Needs, Plan, Policy, PolicyEntry, View};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "maximum-local",
    summary: "runs programs on the NUMA node of their memory, those first that suffer most elsewhere",
    source: "Majo and Gross, ISMM 2011, section 3.3, algorithm 2",
    parameters: &[EPOCH, CHANGE, LEAST_CHANGE, REGRESSION, PROFILE_MPKI, MOVE_PAGES],
    build: Build::Policy(|options: &BuildOptions| {
        Box::new(MaximumLocal(Epochs::new(options, Refinement::None)))
    }),
};

struct MaximumLocal(Epochs);

impl Policy for MaximumLocal {
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
