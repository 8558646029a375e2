//! Processes on NUMA nodes: near their memory, yet not all under one cache (Majo and Gross, ISMM
//! 2011). What `maximum-local` and `n-mass` have in common: processors, NUMA penalties, the
//! mapping of their algorithms 1 to 3, and when to map anew.

mod epochs;
mod mapping;
mod penalty;
mod policy;
mod processors;
mod words;

mod maximum_local;
mod n_mass;

pub(crate) use epochs::{
    CHANGE, EPOCH, LEAST_CHANGE, MOVE_PAGES, PROFILE_MPKI, REGRESSION, THRESHOLD,
};
pub(crate) use epochs::{Epochs, Refinement, one_node};
pub(crate) use policy::NodePolicy;

use crate::PolicyEntry;

pub(crate) const POLICIES: &[PolicyEntry] = &[maximum_local::ENTRY, n_mass::ENTRY];

#[cfg(test)]
mod tests;
