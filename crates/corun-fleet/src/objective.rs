//! What a fleet's plan is judged by.

use serde::{Deserialize, Serialize};

/// The power of slowdowns whose sum stands in for the worst of them.
const STEEP: i32 = 8;

/// What a fleet's plan is judged by. A program that asks for n CPUs counts as n threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Mean slowdown of all threads.
    #[default]
    MeanSlowdown,
    /// Share of the CPUs' work that is lost to interference: the mean of 1 - 1 / slowdown.
    LostWork,
    /// The slowdown of the thread that suffers most.
    WorstSlowdown,
    /// Nodes in use, with no thread slower than the bound on slowdown.
    Machines,
}

impl Objective {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::MeanSlowdown => "mean-slowdown",
            Self::LostWork => "lost-work",
            Self::WorstSlowdown => "worst-slowdown",
            Self::Machines => "machines",
        }
    }

    /// What a thread of this slowdown adds to the sum that placement keeps low; 0 alone. For the worst slowdown the sum is of
    /// the slowdowns' powers, which the slowest threads dominate; a thread that is hardly slowed down costs what it does for
    /// the mean slowdown.
    pub fn thread_cost(self, slowdown: f64) -> f64 {
        match self {
            Self::WorstSlowdown => (slowdown.powi(STEEP) - 1.0) / f64::from(STEEP),
            _ => self.scored_cost(slowdown),
        }
    }

    /// The same for scores, which add up what each neighbour costs by itself.
    pub(crate) fn scored_cost(self, slowdown: f64) -> f64 {
        match self {
            Self::LostWork => 1.0 - 1.0 / slowdown,
            _ => slowdown - 1.0,
        }
    }

    /// The objective's value of a whole fleet.
    pub(crate) fn value(self, cost: Cost, threads: u32, nodes_used: usize) -> f64 {
        let mean = cost.sum / f64::from(threads.max(1));
        match self {
            Self::MeanSlowdown => 1.0 + mean,
            Self::LostWork => mean,
            Self::WorstSlowdown => cost.worst,
            Self::Machines => nodes_used as f64,
        }
    }
}

/// What some threads cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Sum of [`Objective::thread_cost`].
    pub sum: f64,
    /// The worst slowdown; 1 where nobody runs.
    pub worst: f64,
}

impl Default for Cost {
    fn default() -> Self {
        Self { sum: 0.0, worst: 1.0 }
    }
}

impl Cost {
    /// With one more thread.
    #[must_use]
    pub fn with(self, objective: Objective, slowdown: f64) -> Self {
        let sum = self.sum + objective.thread_cost(slowdown);
        Self { sum, worst: self.worst.max(slowdown) }
    }

    /// Of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { sum: self.sum + other.sum, worst: self.worst.max(other.worst) }
    }
}
