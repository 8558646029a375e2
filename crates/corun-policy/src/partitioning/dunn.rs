//! `dunn`: k-means on stalls, more ways to those who stall more (Selfa et al., PACT 2017; García García,
//! thesis, UCM 2021, sections 6.4.1 and 6.4.2).

mod k_means;

use self::k_means::KMeans;
use crate::partitioning::{Input, Partition, PartitionError, Partitioner};
use crate::{BuildOptions, Parameter, ParameterKind, PolicyEntry, WaysCurve};

const OVERLAP: Parameter = Parameter {
    name: "overlap",
    kind: ParameterKind::SWITCH,
    default: 1.0,
    min: 0.0,
    max: 1.0,
    summary: "1: the clusters' ways may overlap, as published; 0: they may not",
};

const CURVATURE: Parameter = Parameter {
    name: "curvature",
    kind: ParameterKind::Number,
    default: 1.0,
    min: 0.01,
    max: 20.0,
    summary: "how late ways rise with stalls, where clusters overlap: ways grow as exp(c x stalls)",
};

const LEAST_WAYS: Parameter = Parameter {
    name: "least-ways",
    kind: ParameterKind::WholeNumber,
    default: 2.0,
    min: 1.0,
    max: 64.0,
    summary: "ways of the cluster that stalls least, where clusters overlap",
};

/// What can be set.
pub(super) const PARAMETERS: &[Parameter] = &[OVERLAP, CURVATURE, LEAST_WAYS];

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry::partitioning(
    "dunn",
    "clusters programs by their stalls on misses of the L2 and gives more ways where they are more",
    "Selfa et al., PACT 2017; García García, thesis, UCM 2021, section 6.4",
    PARAMETERS,
    |options: &BuildOptions| Box::new(Dunn::new(options)),
);

/// Dunn's algorithm with its parameters.
pub(super) struct Dunn {
    overlap: bool,
    curvature: f64,
    least_ways: u32,
    k_means: KMeans,
}

impl Partitioner for Dunn {
    fn partition(&mut self, input: &Input<'_>, out: &mut Partition) -> Result<(), PartitionError> {
        input.check()?;
        // The stalls that a program would show with an equal share.
        let equal = (input.ways / input.curves.len().max(1) as u32).max(1);
        let stalls: Vec<f64> =
            input.curves.iter().map(|curve| curve.at(equal).l2_miss_stalls).collect();
        self.cluster(&stalls, input.ways, input.least_ways, out);
        Ok(())
    }

    fn reason(&self, curve: &WaysCurve, ways: u32) -> String {
        format!("{:.0} % of cycles stalled on L2 misses", 100.0 * curve.at(ways).l2_miss_stalls)
    }
}

impl Dunn {
    pub(super) fn new(options: &BuildOptions) -> Self {
        Self {
            overlap: options.is_on(&OVERLAP),
            curvature: options.value(&CURVATURE),
            least_ways: options.value(&LEAST_WAYS) as u32,
            k_means: KMeans::new(options.seed),
        }
    }

    /// Clusters programs by their stalls (shares of cycles) and gives the clusters their ways.
    pub(super) fn cluster(
        &mut self,
        stalls: &[f64],
        all: u32,
        least_ways: u32,
        out: &mut Partition,
    ) {
        let programs = stalls.len();
        let least = stalls.iter().copied().fold(f64::INFINITY, f64::min);
        let most = stalls.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if programs < 2 || most <= least {
            out.set_clusters(&vec![0; programs], &[all]);
            return;
        }
        let shares: Vec<f64> = stalls.iter().map(|one| (one - least) / (most - least)).collect();
        let most_clusters =
            if self.overlap { programs } else { programs.min((all / least_ways) as usize) };
        let clusters = self.k_means.best_by_dunn_index(&shares, most_clusters.min(64));
        let mean = |values: &[f64], cluster: usize| {
            let of = values.iter().zip(&clusters).filter(|(_, one)| **one == cluster);
            let (sum, count) = of.fold((0.0, 0.0), |(sum, n), (one, _)| (sum + one, n + 1.0));
            sum / count
        };
        let count = clusters.iter().max().map_or(0, |last| last + 1);
        if self.overlap {
            let ways = |one| self.ways(mean(&shares, one), all, least_ways);
            // All clusters' ways side by side may be more than a mask has room for.
            out.set_clusters(&clusters, &vec![1; count]);
            let mut by_cluster = vec![0; count];
            for (&new, &old) in out.cluster.iter().zip(&clusters) {
                by_cluster[new] = ways(old);
            }
            overlap(all, &by_cluster, &mut out.masks);
        } else {
            let means: Vec<f64> = (0..count).map(|one| mean(stalls, one)).collect();
            out.set_clusters(&clusters, &in_proportion(&means, all, least_ways));
        }
    }

    /// Ways of a cluster with a normalised mean of stalls, 0 to 1: from the fewest to all.
    fn ways(&self, stalls: f64, all: u32, least_ways: u32) -> u32 {
        let least = f64::from(self.least_ways.max(least_ways).min(all));
        let rise = (self.curvature * stalls).exp_m1() / self.curvature.exp_m1();
        (least + (f64::from(all) - least) * rise).round() as u32
    }
}

/// Ways in proportion to the means: the fewest allowed to each, the rest by largest remainder.
fn in_proportion(means: &[f64], all: u32, least: u32) -> Vec<u32> {
    let left = all - least * means.len() as u32;
    let sum: f64 = means.iter().sum();
    let quota: Vec<f64> = means.iter().map(|mean| f64::from(left) * mean / sum).collect();
    let mut ways: Vec<u32> = quota.iter().map(|quota| least + *quota as u32).collect();
    let mut order: Vec<usize> = (0..means.len()).collect();
    order.sort_by(|&one, &other| {
        quota[other].fract().total_cmp(&quota[one].fract()).then(one.cmp(&other))
    });
    let given: u32 = ways.iter().sum();
    for &cluster in order.iter().take(all.saturating_sub(given) as usize) {
        ways[cluster] += 1;
    }
    ways
}

/// Lays masks of so many ways over an LLC so that they overlap as little as may be: the one of most
/// ways first, each on the ways that the masks before it use least, the lowest of equal ones.
fn overlap(all: u32, ways: &[u32], masks: &mut [u64]) {
    let mut used = vec![0u32; all as usize];
    let mut order: Vec<usize> = (0..masks.len()).collect();
    order.sort_by_key(|&one| (std::cmp::Reverse(ways[one]), one));
    for cluster in order {
        let ways = ways[cluster] as usize;
        let load = |first: usize| used[first..first + ways].iter().sum::<u32>();
        let first = (0..=all as usize - ways).min_by_key(|&first| (load(first), first));
        let first = first.unwrap_or(0);
        masks[cluster] = crate::partitioning::mask(first as u32, ways as u32);
        used[first..first + ways].iter_mut().for_each(|one| *one += 1);
    }
}

#[cfg(test)]
mod tests;
