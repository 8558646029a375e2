//! The best and the worst partition there is.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use corun_optimal::partition::{Kind, PartitionObjective, PartitionProblem, PartitionSearchError};
use corun_optimal::{Goal, SearchLimits};
use corun_policy::Partition;

use super::document::PartitionEntry;
use super::scenario::PartitionScenario;
use crate::{Error, Result, check};

/// Its name in documents: without clusters as on the command line.
pub(super) fn name(goal: Goal, kind: Kind) -> &'static str {
    match (goal, kind) {
        (Goal::Best, Kind::Strict) => "optimal",
        (Goal::Best, Kind::Cluster) => "optimal-cluster",
        (Goal::Worst, Kind::Strict) => "worst",
        (Goal::Worst, Kind::Cluster) => "worst-cluster",
    }
}

/// Searches for it, with a proof or within the time limit.
pub(super) fn search(
    ground: &PartitionScenario,
    objective: PartitionObjective,
    time_limit_s: Option<f64>,
    (goal, kind): (Goal, Kind),
    stop: &AtomicBool,
) -> Result<PartitionEntry> {
    let members = ground.members();
    let model = &ground.scenario.model;
    let problem = PartitionProblem::new(model, &members, ground.ways, ground.least_ways, kind)
        .map_err(refused)?;
    let limits = SearchLimits {
        time: time_limit_s.map(Duration::from_secs_f64),
        cancel: Some(stop),
        ..SearchLimits::default()
    };
    let found = problem.solve(objective, goal, &limits).map_err(refused)?;
    check(stop)?;
    let mut cluster = vec![0; members.len()];
    for (number, programs) in found.clusters.iter().enumerate() {
        programs.iter().for_each(|&program| cluster[program] = number);
    }
    let partition = Partition::of_clusters(&cluster, &found.ways);
    let mut entry = PartitionEntry::new(ground, name(goal, kind), objective, &partition);
    entry.gap = found.gap;
    entry.proven = Some(found.proven);
    entry.solver_seconds = Some(found.solver_seconds);
    Ok(entry)
}

fn refused(error: PartitionSearchError) -> Error {
    let failure = Error::input(&error);
    match error {
        PartitionSearchError::TooFewWays { .. } => failure.hint("--cluster"),
        PartitionSearchError::TooManyPrograms { .. } => {
            failure.hint("fewer --apps, or --policy lfoc")
        }
        _ => failure,
    }
}
