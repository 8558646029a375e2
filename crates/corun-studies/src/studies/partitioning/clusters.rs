//! What the optimal clustering looks like: beside optimal partitioning by the number of programs
//! (thesis, Fig. 6.2), and which classes sit in clusters of which size (Fig. 6.3).

use corun_app::{Cancel, Error, Result};
use corun_optimal::partition::{Kind, PartitionObjective, PartitionResult};
use corun_optimal::{Goal, SearchLimits};
use corun_policy::CacheClass;
use corun_report::round;
use serde::Serialize;

use super::llc::PartitionedLlc;

/// Programs of a mix, from one a core of a small machine to one a way.
const PROGRAMS: std::ops::RangeInclusive<usize> = 4..=11;
/// Programs of the mixes of Fig. 6.3.
const LOOKED_INTO: usize = 10;

/// Mixes of one size.
#[derive(Debug, Serialize)]
pub(super) struct KindsCompared {
    pub(super) programs: usize,
    /// Mean over the mixes.
    pub(super) unfairness_clustering: f64,
    pub(super) unfairness_partitioning: f64,
    /// Mean over the mixes of partitioning's unfairness / clustering's.
    pub(super) partitioning_to_clustering: f64,
    pub(super) all_proven: bool,
    pub(super) longest_solver_seconds: f64,
}

/// Clusters of one size in the fairest clusterings of the mixes of [`LOOKED_INTO`] programs.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ClustersOfSize {
    pub(super) ways: u32,
    /// Clusters of that size a mix, on average.
    pub(super) clusters: f64,
    /// Programs in such clusters a mix, by class.
    pub(super) streaming: f64,
    pub(super) sensitive: f64,
    pub(super) light_sharing: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Clustered {
    pub(super) compared: Vec<KindsCompared>,
    pub(super) looked_into: usize,
    pub(super) sizes: Vec<ClustersOfSize>,
    /// Share of the streaming programs in clusters of 1 way and of at most 2, of the sensitive ones
    /// in clusters of 4 or more, 0 to 1. (The thesis: 0.87, 1 and 0.77.)
    pub(super) streaming_in_1_way: f64,
    pub(super) streaming_in_2_ways: f64,
    pub(super) sensitive_in_4_ways: f64,
}

pub(super) fn clustered(
    llc: &PartitionedLlc,
    mixes: u32,
    seed: u64,
    cancel: &Cancel,
) -> Result<Clustered> {
    let empty = |ways| ClustersOfSize {
        ways,
        clusters: 0.0,
        streaming: 0.0,
        sensitive: 0.0,
        light_sharing: 0.0,
    };
    let mut sizes: Vec<ClustersOfSize> = (1..=llc.ways).map(empty).collect();
    let mut compared = Vec::new();
    for programs in PROGRAMS.filter(|&programs| programs as u32 <= llc.ways) {
        let mixes = llc.mixes(programs, mixes, seed);
        let count = mixes.len() as f64;
        let mut row = KindsCompared {
            programs,
            unfairness_clustering: 0.0,
            unfairness_partitioning: 0.0,
            partitioning_to_clustering: 0.0,
            all_proven: true,
            longest_solver_seconds: 0.0,
        };
        for mix in &mixes {
            let strict = fairest(llc, mix, Kind::Strict, cancel)?;
            let cluster = fairest(llc, mix, Kind::Cluster, cancel)?;
            row.unfairness_partitioning += strict.value / count;
            row.unfairness_clustering += cluster.value / count;
            row.partitioning_to_clustering += strict.value / cluster.value / count;
            row.all_proven &= strict.proven && cluster.proven;
            row.longest_solver_seconds = row.longest_solver_seconds.max(cluster.solver_seconds);
            if programs == LOOKED_INTO {
                look_into(llc, mix, &cluster, 1.0 / count, &mut sizes);
            }
        }
        for figure in [
            &mut row.unfairness_clustering,
            &mut row.unfairness_partitioning,
            &mut row.partitioning_to_clustering,
        ] {
            *figure = round(*figure, 4);
        }
        compared.push(row);
    }
    Ok(Clustered::new(compared, sizes))
}

fn fairest(
    llc: &PartitionedLlc,
    mix: &[usize],
    kind: Kind,
    cancel: &Cancel,
) -> Result<PartitionResult> {
    let problem = llc.problem(mix, kind)?;
    let limits = SearchLimits { cancel: Some(cancel.flag()), ..SearchLimits::default() };
    let found =
        problem.solve(PartitionObjective::Unfairness, Goal::Best, &limits).map_err(Error::input)?;
    cancel.check()?;
    Ok(found)
}

fn look_into(
    llc: &PartitionedLlc,
    mix: &[usize],
    found: &PartitionResult,
    weight: f64,
    sizes: &mut [ClustersOfSize],
) {
    for (cluster, &ways) in found.clusters.iter().zip(&found.ways) {
        let size = &mut sizes[ways as usize - 1];
        size.clusters += weight;
        for &member in cluster {
            *size.class(llc.classes[mix[member]]) += weight;
        }
    }
}

impl ClustersOfSize {
    fn class(&mut self, class: CacheClass) -> &mut f64 {
        match class {
            CacheClass::Streaming => &mut self.streaming,
            CacheClass::Sensitive => &mut self.sensitive,
            CacheClass::LightSharing => &mut self.light_sharing,
        }
    }
}

impl Clustered {
    fn new(compared: Vec<KindsCompared>, mut sizes: Vec<ClustersOfSize>) -> Self {
        let share = |class: fn(&ClustersOfSize) -> f64, within: std::ops::RangeInclusive<u32>| {
            let sum =
                |sizes: &mut dyn Iterator<Item = &ClustersOfSize>| sizes.map(class).sum::<f64>();
            let inside = sum(&mut sizes.iter().filter(|size| within.contains(&size.ways)));
            round(inside / sum(&mut sizes.iter()).max(1e-9), 4)
        };
        let streaming_in_1_way = share(|size| size.streaming, 1..=1);
        let streaming_in_2_ways = share(|size| size.streaming, 1..=2);
        let sensitive_in_4_ways = share(|size| size.sensitive, 4..=u32::MAX);
        for size in &mut sizes {
            for figure in [
                &mut size.clusters,
                &mut size.streaming,
                &mut size.sensitive,
                &mut size.light_sharing,
            ] {
                *figure = round(*figure, 4);
            }
        }
        Self {
            compared,
            looked_into: LOOKED_INTO,
            sizes,
            streaming_in_1_way,
            streaming_in_2_ways,
            sensitive_in_4_ways,
        }
    }
}
