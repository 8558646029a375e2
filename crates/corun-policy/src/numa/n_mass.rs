//! `n-mass`: every process near its memory, unless a cache is under more pressure than another
//! (Majo and Gross, ISMM 2011, algorithms 1 to 3).

use crate::numa::{
    CHANGE, EPOCH, Epochs, LEAST_CHANGE, MOVE_PAGES, NodePolicy, PROFILE_MPKI, REGRESSION,
    Refinement, THRESHOLD,
};
use crate::{Build, BuildOptions, LiveForm, PolicyEntry};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "n-mass",
    summary: "as maximum-local, and then moves programs off the cache under the highest pressure",
    source: "Majo and Gross, ISMM 2011, section 3.3, algorithms 1 to 3",
    parameters: &[EPOCH, CHANGE, LEAST_CHANGE, REGRESSION, PROFILE_MPKI, THRESHOLD, MOVE_PAGES],
    build: Build::Policy(|options: &BuildOptions| {
        let threshold_mpki = Some(options.value(&THRESHOLD)).filter(|&mpki| mpki > 0.0);
        let epochs = Epochs::new(options, Refinement::Balanced { threshold_mpki });
        Box::new(NodePolicy { name: ENTRY.name, epochs })
    }),
    live: LiveForm::AS_LIVE,
};

#[cfg(test)]
mod tests;
