//! The best and the worst partition there is.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use corun_model::Member;
use corun_optimal::partition::{
    Kind, ParetoPoint, PartitionObjective, PartitionProblem, PartitionSearchError,
};
use corun_optimal::{Goal, SearchLimits};
use corun_policy::Partition;

use super::document::{ParetoDocument, ParetoEntry, PartitionEntry};
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
    let problem = problem(ground, &members, kind)?;
    let limits = limits(time_limit_s, stop);
    let found = problem.solve(objective, goal, &limits).map_err(refused)?;
    check(stop)?;
    let partition = partition(&found.clusters, &found.ways);
    let mut entry = PartitionEntry::new(ground, name(goal, kind), objective, &partition);
    entry.gap = found.gap;
    entry.proven = Some(found.proven);
    entry.solver_seconds = Some(found.solver_seconds);
    Ok(entry)
}

/// The partitions than which none is both of higher STP and fairer.
pub(super) fn front(
    ground: &PartitionScenario,
    time_limit_s: Option<f64>,
    kind: Kind,
    stop: &AtomicBool,
) -> Result<ParetoDocument> {
    let members = ground.members();
    let problem = problem(ground, &members, kind)?;
    let found = problem.pareto_front(&limits(time_limit_s, stop)).map_err(refused)?;
    check(stop)?;
    let entry = |point: &ParetoPoint| ParetoEntry::new(ground, point);
    Ok(ParetoDocument {
        clusters: kind == Kind::Cluster,
        proven: found.proven,
        solver_seconds: found.solver_seconds,
        points: found.points.iter().map(entry).collect(),
    })
}

fn problem<'a>(
    ground: &'a PartitionScenario,
    members: &[Member<'a>],
    kind: Kind,
) -> Result<PartitionProblem<'a>> {
    let model = &ground.scenario.model;
    PartitionProblem::new(model, members, ground.ways, ground.least_ways, kind).map_err(refused)
}

fn limits(time_limit_s: Option<f64>, stop: &AtomicBool) -> SearchLimits<'_> {
    SearchLimits {
        time: time_limit_s.map(Duration::from_secs_f64),
        cancel: Some(stop),
        ..SearchLimits::default()
    }
}

/// Clusters by their programs, as a partition.
pub(super) fn partition(clusters: &[Vec<usize>], ways: &[u32]) -> Partition {
    let mut cluster = vec![0; clusters.iter().map(Vec::len).sum()];
    for (number, programs) in clusters.iter().enumerate() {
        programs.iter().for_each(|&program| cluster[program] = number);
    }
    Partition::of_clusters(&cluster, ways)
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
