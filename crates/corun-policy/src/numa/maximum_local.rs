//! `maximum-local`: every process near its memory (Majo and Gross, ISMM 2011, algorithm 2).

use crate::numa::{
    CHANGE, EPOCH, Epochs, LEAST_CHANGE, MOVE_PAGES, NodePolicy, PROFILE_MPKI, REGRESSION,
    Refinement,
};
use crate::{Build, BuildOptions, LiveForm, PolicyEntry};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "maximum-local",
    summary: "runs programs on the NUMA node of their memory, those first that suffer most elsewhere",
    source: "Majo and Gross, ISMM 2011, section 3.3, algorithm 2",
    parameters: &[EPOCH, CHANGE, LEAST_CHANGE, REGRESSION, PROFILE_MPKI, MOVE_PAGES],
    build: Build::Policy(|options: &BuildOptions| {
        let epochs = Epochs::new(options, Refinement::None);
        Box::new(NodePolicy { name: ENTRY.name, epochs })
    }),
    live: LiveForm::AS_LIVE,
};

#[cfg(test)]
mod tests;
