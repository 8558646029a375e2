//! `linux-default`: leaves everything to the host's own scheduler.
//!
//! It is also the template for a new policy: copy the file, rename it, fill in the hooks.
//! ARCHITECTURE.md walks through that.

use crate::{Build, BuildOptions, LiveForm, Needs, Plan, Policy, PolicyEntry, View};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "linux-default",
    summary: "leaves placement to the default scheduler, which does not look at contention",
    source: "the baseline of every paper (DEFAULT in Blagodurov et al., TOCS 2010, section 5.1)",
    parameters: &[],
    build: Build::Policy(|_: &BuildOptions| Box::new(LinuxDefault)),
    live: LiveForm::AS_LIVE,
};

/// Does nothing.
///
/// A policy that places threads keeps here what it has to remember between calls: averages, what
/// it decided last, its random generator.
struct LinuxDefault;

impl Policy for LinuxDefault {
    fn name(&self) -> &str {
        ENTRY.name
    }

    /// No interval, no counters, no controls, no profiles: any host can run it.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    // `on_event` keeps its default, which leaves all as it is. A policy that places a thread the
    // moment it arrives overrides it, matches on `Event::Arrived` and returns `Some(plan)`; one
    // that remembers threads forgets them on `Event::Exited`.

    /// A policy with an interval compares here what it sees with what it wants, and returns only
    /// what has to change.
    fn decide(&mut self, _view: &View<'_>) -> Plan {
        Plan::none()
    }
}
