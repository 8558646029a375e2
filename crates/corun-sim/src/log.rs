//! What policies did and why.

use corun_policy::{Action, Nanoseconds};

/// A step of a policy that changed something.
#[derive(Debug, Clone, PartialEq)]
pub struct LogEntry {
    /// When.
    pub at: Nanoseconds,
    /// Which policy.
    pub policy: String,
    /// What it did.
    pub action: Action,
    /// Why, in its own words.
    pub reason: String,
}
