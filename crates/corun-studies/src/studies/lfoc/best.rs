//! Policies with known curves beside the exact best clustering.

use corun_app::{Error, Result};
use corun_optimal::partition::{Kind, PartitionObjective};
use corun_optimal::{Goal, SearchLimits};

use crate::harness::StudyInputs;
use crate::studies::partitioning::PartitionedLlc;

/// Nodes to look at for the best clustering of a mix: mixes of 8 and 12 are far from it.
const MOST: u64 = 20_000_000;

/// Unfairness by the model, and how far the best is proven.
#[derive(Debug, Clone, Copy)]
pub(super) struct BesideBest {
    pub(super) programs: usize,
    pub(super) stock: f64,
    pub(super) dunn: f64,
    pub(super) kpart: f64,
    pub(super) lfoc: f64,
    pub(super) fair_clusters: f64,
    pub(super) best: f64,
    pub(super) proven: bool,
    /// How far above the true best that is at most, as a part of its bound; none where not known.
    pub(super) gap: Option<f64>,
}

pub(super) fn beside_best(
    inputs: &StudyInputs,
    llc: &PartitionedLlc,
    mixes: &[Vec<usize>],
) -> Result<Vec<BesideBest>> {
    // The search itself uses all processors, and has so much time in each mix.
    mixes.iter().map(|mix| one(inputs, llc, mix)).collect()
}

fn one(inputs: &StudyInputs, llc: &PartitionedLlc, mix: &[usize]) -> Result<BesideBest> {
    inputs.cancel.check()?;
    let problem = llc.problem(mix, Kind::Cluster)?;
    let limits =
        SearchLimits { nodes: MOST, cancel: Some(inputs.cancel.flag()), ..SearchLimits::default() };
    let best =
        problem.solve(PartitionObjective::Unfairness, Goal::Best, &limits).map_err(Error::input)?;
    let unfairness = |clusters: &[Vec<usize>], ways: &[u32]| -> Result<f64> {
        let outcomes = problem.evaluate(clusters, ways).map_err(Error::input)?;
        let slowdowns: Vec<f64> = outcomes.iter().map(|one| one.slowdown).collect();
        Ok(corun_metrics::unfairness(&slowdowns).unwrap_or(f64::NAN))
    };
    let decided = |policy: &str, parameters: &[(&str, f64)]| -> Result<f64> {
        let found = llc.decided(mix, policy, parameters)?;
        let mut clusters = vec![Vec::new(); found.masks.len()];
        for (program, &cluster) in found.cluster.iter().enumerate() {
            clusters[cluster].push(program);
        }
        let ways: Vec<u32> = found.masks.iter().map(|mask| mask.count_ones()).collect();
        unfairness(&clusters, &ways)
    };
    Ok(BesideBest {
        programs: mix.len(),
        stock: unfairness(&[(0..mix.len()).collect()], &[llc.ways])?,
        dunn: decided("dunn", &[("overlap", 0.0)])?,
        kpart: decided("kpart", &[])?,
        lfoc: decided("lfoc", &[])?,
        fair_clusters: decided("fair-clusters", &[])?,
        best: best.value,
        proven: best.proven,
        gap: best.gap,
    })
}
