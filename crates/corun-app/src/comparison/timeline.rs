//! One run's history as it is drawn.

use serde::Serialize;

/// One run's migrations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timeline {
    /// How long the run took, in simulated seconds.
    pub seconds: f64,
    /// For each program, the moments from which it was on an LLC (index over the machine), in
    /// seconds, the first at its start.
    pub lanes: Vec<Vec<(f64, usize)>>,
    /// The moves that were logged, in order.
    pub moves: Vec<Migration>,
}

/// A move and its reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Migration {
    /// When, in simulated seconds.
    pub at_s: f64,
    /// The program's place in the list of programs.
    pub program: usize,
    /// The CPU it left.
    pub from_cpu: u32,
    /// The CPU it went to.
    pub to_cpu: u32,
    /// Why, in the policy's words.
    pub reason: String,
}
