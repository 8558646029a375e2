//! Policies that say which threads run at the same time: more threads than CPUs share caches and
//! bandwidth over time.

mod casc;
mod mlb;
mod vbsc;

pub use casc::{CascFindings, casc_observed};

use crate::PolicyEntry;

pub(crate) const POLICIES: &[PolicyEntry] = &[casc::ENTRY, mlb::ENTRY, vbsc::ENTRY];
