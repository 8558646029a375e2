//! The list of all policies. Each folder lists its own; a new policy is its file, and its `mod` line and
//! its entry in the folder's list.

use std::sync::LazyLock;

use crate::{PolicyEntry, asymmetric, coscheduling, numa, partitioning, placement};

/// The policies there are, in the order in which they are shown: placement, then partitioning.
pub fn registry() -> &'static [PolicyEntry] {
    static ALL: LazyLock<Vec<PolicyEntry>> = LazyLock::new(|| {
        let folders = [
            placement::POLICIES,
            numa::POLICIES,
            coscheduling::POLICIES,
            asymmetric::POLICIES,
            partitioning::POLICIES,
        ];
        folders.concat()
    });
    &ALL
}

#[cfg(test)]
mod tests;
