//! The Pareto front of STP and unfairness.

use std::time::Instant;

use corun_model::Outcome;

use crate::objective::Goal;
use crate::partition::enumeration::Effort;
use crate::partition::error::PartitionSearchError;
use crate::partition::fair::{Fair, FairGoal};
use crate::partition::objective::PartitionObjective;
use crate::partition::problem::{PartitionProblem, judged};
use crate::partition::table::ClusterWays;
use crate::placement::SearchLimits;

/// The next partition of a front is fairer than the last by so much of its unfairness.
pub const FRONT_STEP: f64 = 1e-6;

/// A partition than which none is both of higher STP and fairer.
#[derive(Debug, Clone, PartialEq)]
pub struct ParetoPoint {
    /// The programs of each cluster, ascending; clusters by their lowest program.
    pub clusters: Vec<Vec<usize>>,
    /// The ways of each cluster.
    pub ways: Vec<u32>,
    /// The model's figures of each program.
    pub outcomes: Vec<Outcome>,
    /// Slowdown of each program.
    pub slowdowns: Vec<f64>,
    /// System throughput.
    pub stp: f64,
    /// Max slowdown / min slowdown.
    pub unfairness: f64,
}

/// The Pareto front.
#[derive(Debug, Clone, PartialEq)]
pub struct ParetoFront {
    /// By falling STP and falling unfairness.
    pub points: Vec<ParetoPoint>,
    /// Is the front whole, but for partitions within [`FRONT_STEP`] of another's unfairness? Else
    /// its points from the highest STP on, of which the last may not be the best of its kind.
    pub proven: bool,
    /// States and regions of the searches that were visited.
    pub nodes: u64,
    /// Time the searches took.
    pub solver_seconds: f64,
}

impl PartitionProblem<'_> {
    /// The partitions than which none is both of higher STP and fairer: the highest STP, then each
    /// time the highest STP at an unfairness below that of the last. The limits hold for all
    /// searches together.
    ///
    /// # Errors
    /// None; the signature is that of [`Self::solve`].
    pub fn pareto_front(
        &self,
        limits: &SearchLimits<'_>,
    ) -> Result<ParetoFront, PartitionSearchError> {
        let started = Instant::now();
        let first = self.solve(PartitionObjective::Stp, Goal::Best, limits)?;
        let mut effort = Effort { nodes: first.nodes, ..Effort::default() };
        let mut proven = first.proven;
        let mut last = self.partition(&first.clusters, &first.ways);
        let mut points = vec![self.point(&last)];
        let stop = limits.stop(started);
        let table = if proven { self.table(&stop) } else { None };
        while let Some(table) = table {
            let below = points[points.len() - 1].unfairness * (1.0 - FRONT_STEP);
            let mut search = Fair::new(table, FairGoal::Throughput(below), last.clone(), &stop);
            search.effort = effort;
            proven &= search.run().is_none();
            effort = search.effort;
            let Some(best) = search.stp.best else { break };
            last = best.partition;
            let point = self.point(&last);
            if points.last().is_some_and(|before| before.stp <= point.stp) {
                points.pop();
            }
            points.push(point);
            if !proven {
                break;
            }
        }
        let solver_seconds = started.elapsed().as_secs_f64();
        Ok(ParetoFront { points, proven, nodes: effort.nodes, solver_seconds })
    }

    fn point(&self, partition: &ClusterWays) -> ParetoPoint {
        let clusters = self.clusters(partition);
        let outcomes = self.outcomes(&clusters);
        let (slowdowns, stp) = judged(PartitionObjective::Stp, &outcomes);
        let (_, unfairness) = judged(PartitionObjective::Unfairness, &outcomes);
        let (clusters, ways) = clusters.into_iter().unzip();
        ParetoPoint { clusters, ways, outcomes, slowdowns, stp, unfairness }
    }
}
