//! One question of a sweep.

use serde::{Deserialize, Serialize};

/// A placement that encloses the policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The best placement, simulated as policies are.
    Optimal,
    /// The mean over random placements, by the model.
    Expected,
    /// The worst placement, simulated as policies are.
    Worst,
}

impl Bound {
    /// The name in rows' column `kind`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Optimal => "optimal",
            Self::Expected => "expected",
            Self::Worst => "worst",
        }
    }
}

/// What is asked of a mix on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskKind {
    /// The bounds, which are computed together.
    Bounds,
    /// A run.
    Run {
        /// Index of the policy in the plan.
        policy: usize,
        /// The run's seed.
        seed: u64,
    },
}

/// One question: a machine, a mix, and a run or the bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SweepTask {
    /// Index of the machine in the plan.
    pub machine: usize,
    /// Index of the mix in the plan.
    pub mix: usize,
    /// What is asked.
    pub ask: TaskKind,
}
