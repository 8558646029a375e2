//! One row of the results.

use serde::{Deserialize, Serialize};

/// What came out of a task: a row of the Parquet file, whose columns have these names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct SweepRow {
    /// The machine's name.
    pub machine: String,
    /// The mix's name.
    pub mix: String,
    /// The programs' names, all different.
    pub apps: Vec<String>,
    /// The policy with its parameters; for bounds their kind.
    pub policy: String,
    /// `run`, `optimal`, `expected` or `worst`.
    pub kind: String,
    /// The run's seed; none for bounds.
    pub seed: Option<u64>,
    /// Mean slowdown (ANTT), >= 1 as a rule.
    pub mean_slowdown: Option<f64>,
    /// Sum of 1 / slowdown.
    pub stp: Option<f64>,
    /// Largest / smallest slowdown.
    pub unfairness: Option<f64>,
    /// Largest slowdown.
    pub worst_slowdown: Option<f64>,
    /// Moves of threads to another CPU.
    pub migrations: Option<f64>,
    /// Of these to another LLC.
    pub llc_migrations: Option<f64>,
    /// Standard error of the mean slowdown, where placements were drawn.
    pub standard_error: Option<f64>,
    /// Is the bound proven? None for runs.
    pub proven: Option<bool>,
    /// Each program's slowdown.
    pub slowdown: Vec<f64>,
    /// Why there are no figures.
    pub error: Option<String>,
    /// Hash of the machine file.
    pub machine_hash: String,
    /// Hash of the mix and its profiles.
    pub mix_hash: String,
    /// Hash of the policy and its parameters; empty for bounds.
    pub policy_hash: String,
    /// Hash of everything that the row depends on.
    pub hash: String,
    /// The version of corun that computed it.
    pub version: String,
}
