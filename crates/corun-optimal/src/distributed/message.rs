//! What a coordinator and its workers tell one another.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::objective::{Goal, Objective};
use crate::search::Candidate;

/// All placements in which some programs sit on given CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subproblem {
    /// CPU index of each program; none where it is not placed yet. Programs on one LLC are a whole
    /// group: nobody joins them.
    pub cpu: Vec<Option<usize>>,
    /// No placement in it has a lower score.
    pub bound: f64,
    /// Ways to place the others, mirror images counted: what it may cost.
    pub size: f64,
}

/// Which search of the tree: unfairness takes two, the second for the highest STP among the fairest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pass {
    /// What placements are judged by.
    pub objective: Objective,
    /// The best or the worst.
    pub goal: Goal,
    /// Placements of a higher unfairness are out.
    pub most_unfairness: Option<f64>,
    /// The best placement that was known when the pass began.
    pub start: Candidate,
}

/// Work for one worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// Which batch, for the report.
    pub id: u64,
    /// Which search it is part of.
    pub pass: Pass,
    /// What to look into, the most promising first.
    pub subproblems: Vec<Subproblem>,
    /// The best placement that is known.
    pub incumbent: Candidate,
    /// After so long the rest is given back, in seconds.
    pub seconds: f64,
    /// After so many nodes the rest is given back.
    pub nodes: u64,
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchReport {
    /// Which batch.
    pub id: u64,
    /// The best placement that is known now.
    pub best: Candidate,
    /// What was not looked into.
    pub left: Vec<Subproblem>,
    /// Nodes visited.
    pub nodes: u64,
    /// Nodes that a bound cut.
    pub pruned: u64,
}

/// A report that cannot be of this search.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "a worker's report is not of this search: {why}; its version of corun may differ from this one"
)]
pub struct BatchReportError {
    /// What is wrong with it.
    pub why: String,
}
