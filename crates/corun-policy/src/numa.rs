//! Processes on NUMA nodes: near their memory, yet not all under one cache (Majo and Gross, ISMM
//! 2011). What `maximum-local` and `n-mass` have in common: processors, NUMA penalties, the
//! mapping of their algorithms 1 to 3, and when to map anew.

mod epochs;
mod mapping;
mod penalty;
mod policy;
mod processors;
mod words;

pub(crate) use epochs::{
    CHANGE, EPOCH, LEAST_CHANGE, MOVE_PAGES, PROFILE_MPKI, REGRESSION, THRESHOLD,
};
pub(crate) use epochs::{Epochs, Refinement, one_node};
pub(crate) use policy::NodePolicy;

#[cfg(test)]
mod tests;
