//! `ucp-slowdown`: lookahead on slowdown curves (García García, thesis, UCM 2021, section 5.5).

use super::ucp::{Measure, Ucp};
use crate::PolicyEntry;

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry::partitioning(
    "ucp-slowdown",
    "gives each program ways of its own where they save most slowdown",
    "García García, thesis, UCM 2021, section 5.5",
    &[],
    |_| Box::new(Ucp::new(Measure::Slowdown)),
);
