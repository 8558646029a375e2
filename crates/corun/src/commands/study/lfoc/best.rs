//! LFOC with known curves beside the exact best clustering.

use corun_optimal::partition::{Kind, PartitionObjective, PartitionProblem};
use corun_optimal::{Goal, Limits};
use corun_policy::{BuildOptions, Input, Partition, WaysCurve, build_partitioner};

use crate::commands::study::paper;
use crate::commands::study::partitioning::ground::Ground;
use crate::failure::{Failure, Outcome};

/// Nodes to look at for the best clustering of a mix: mixes of 8 and 12 are far from it.
const MOST: u64 = 20_000_000;

/// Unfairness by the model, and how far the best is proven.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beside {
    pub(super) programs: usize,
    pub(super) stock: f64,
    pub(super) dunn: f64,
    pub(super) kpart: f64,
    pub(super) lfoc: f64,
    pub(super) best: f64,
    pub(super) proven: bool,
    /// How far above the true best that is at most, as a part of its bound; none where not known.
    pub(super) gap: Option<f64>,
}

pub(super) fn beside_best(
    study: &paper::Ground,
    ground: &Ground,
    mixes: &[Vec<usize>],
) -> Outcome<Vec<Beside>> {
    // The search itself uses all processors, and has so much time in each mix.
    mixes.iter().map(|mix| one(study, ground, mix)).collect()
}

fn one(study: &paper::Ground, ground: &Ground, mix: &[usize]) -> Outcome<Beside> {
    study.cancel.check()?;
    let members = ground.members(mix);
    let problem = PartitionProblem::new(&ground.model, &members, ground.ways, 1, Kind::Cluster)
        .map_err(|error| Failure::input(error.to_string()))?;
    let limits = Limits { nodes: MOST, cancel: Some(study.cancel.flag()), ..Limits::default() };
    let best = problem
        .solve(PartitionObjective::Unfairness, Goal::Best, &limits)
        .map_err(|error| Failure::input(error.to_string()))?;
    let unfairness = |clusters: &[Vec<usize>], ways: &[u32]| -> Outcome<f64> {
        let outcomes =
            problem.evaluate(clusters, ways).map_err(|error| Failure::input(error.to_string()))?;
        let slowdowns: Vec<f64> = outcomes.iter().map(|one| one.slowdown).collect();
        Ok(corun_metrics::unfairness(&slowdowns).unwrap_or(f64::NAN))
    };
    let decided = |policy: &str, parameters: &[(&str, f64)]| -> Outcome<f64> {
        let parameters = parameters.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        let options = BuildOptions { seed: 1, parameters };
        let mut partitioner = build_partitioner(policy, &options)
            .map_err(|error| Failure::input(error.to_string()))?;
        let curves: Vec<&WaysCurve> = mix.iter().map(|&program| &ground.curves[program]).collect();
        let ways = ground.ways;
        let input = Input { curves: &curves, ways, least_ways: 1, peak_bytes_per_s: None };
        let mut found = Partition::default();
        partitioner
            .partition(&input, &mut found)
            .map_err(|error| Failure::input(error.to_string()))?;
        let mut clusters = vec![Vec::new(); found.masks.len()];
        for (program, &cluster) in found.cluster.iter().enumerate() {
            clusters[cluster].push(program);
        }
        let ways: Vec<u32> = found.masks.iter().map(|mask| mask.count_ones()).collect();
        unfairness(&clusters, &ways)
    };
    Ok(Beside {
        programs: mix.len(),
        stock: unfairness(&[(0..mix.len()).collect()], &[ground.ways])?,
        dunn: decided("dunn", &[("overlap", 0.0)])?,
        kpart: decided("kpart", &[])?,
        lfoc: decided("lfoc", &[])?,
        best: best.value,
        proven: best.proven,
        gap: best.gap,
    })
}
