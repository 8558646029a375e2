//! The policies, one file each. A new one is its file, its `mod` line and its line in
//! [`registry`].

mod linux_default;
mod random;

use crate::PolicyEntry;

/// The policies there are, in the order in which they are shown.
pub fn registry() -> &'static [PolicyEntry] {
    static REGISTRY: &[PolicyEntry] = &[
        linux_default::ENTRY, //
        random::ENTRY,
    ];
    REGISTRY
}

#[cfg(test)]
mod tests;
