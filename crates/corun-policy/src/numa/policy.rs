//! The policy object that `maximum-local` and `n-mass` are.

use corun_machine::Machine;

use super::{Epochs, one_node};
use crate::{Event, Needs, Plan, Policy, View};

/// Maps on arrivals and after each epoch.
pub(crate) struct NodePolicy {
    pub(crate) name: &'static str,
    pub(crate) epochs: Epochs,
}

impl Policy for NodePolicy {
    fn name(&self) -> &str {
        self.name
    }

    fn needs(&self) -> Needs {
        self.epochs.needs()
    }

    fn unfit_for(&self, machine: &Machine) -> Option<String> {
        one_node(machine)
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        matches!(event, Event::Arrived(_)).then(|| self.epochs.arrived(view))
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.epochs.epoch(view)
    }
}
