//! The best and the worst partition there is.

use std::time::Duration;

use corun_optimal::partition::{Kind, PartitionError, PartitionProblem};
use corun_optimal::{Goal, Limits};
use corun_policy::Partition;

use super::document::Entry;
use super::ground::Ground;
use crate::cancel::Cancel;
use crate::cli::PartitionArgs;
use crate::failure::{Failure, Outcome};

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
    ground: &Ground,
    arguments: &PartitionArgs,
    goal: Goal,
    kind: Kind,
    cancel: &Cancel,
) -> Outcome<Entry> {
    let members = ground.members();
    let model = &ground.scenario.model;
    let problem = PartitionProblem::new(model, &members, ground.ways, ground.least_ways, kind)
        .map_err(refused)?;
    let limits = Limits {
        time: arguments.time_limit.map(Duration::from_secs_f64),
        cancel: Some(cancel.flag()),
        ..Limits::default()
    };
    let objective = arguments.objective;
    let found = problem.solve(objective.objective(), goal, &limits).map_err(refused)?;
    cancel.check()?;
    let mut cluster = vec![0; members.len()];
    for (number, programs) in found.clusters.iter().enumerate() {
        programs.iter().for_each(|&program| cluster[program] = number);
    }
    let partition = Partition::of_clusters(&cluster, &found.ways);
    let mut entry = Entry::new(ground, name(goal, kind), objective, &partition);
    entry.gap = found.gap;
    entry.proven = Some(found.proven);
    entry.solver_seconds = Some(found.solver_seconds);
    Ok(entry)
}

fn refused(error: PartitionError) -> Failure {
    let failure = Failure::input(&error);
    match error {
        PartitionError::TooFewWays { .. } => failure.hint("--cluster"),
        PartitionError::TooManyPrograms { .. } => failure.hint("fewer --apps, or --policy lfoc"),
        _ => failure,
    }
}
