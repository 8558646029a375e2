//! `fair-clusters`: the lowest slowdown that everybody can keep to, and clusters that keep to it.
//!
//! A target slowdown is bisected. At each target every program needs the fewest ways with which it is no
//! slower. While the needs exceed the ways of the cache, the two clusters merge that save the most ways
//! together. Left-over ways go to the slowest cluster.

mod cluster_curves;

use self::cluster_curves::{ClusterCurves, ClusterId};
use crate::partitioning::{Input, Partition, PartitionError, Partitioner};
use crate::{BuildOptions, Parameter, ParameterKind, PolicyEntry, WaysCurve};

const TARGET: Parameter = Parameter {
    name: "target-slowdown",
    kind: ParameterKind::ZeroOrFrom(1.0),
    default: 0.0,
    min: 0.0,
    max: 1e6,
    summary: "slowdown that nobody shall exceed; 0, or one that cannot be kept: the lowest that can",
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry::partitioning(
    "fair-clusters",
    "finds the lowest slowdown that all programs can keep to, and clusters that keep to it",
    "corun",
    &[TARGET],
    |options: &BuildOptions| Box::new(FairClusters::new(options)),
);

/// Targets that differ by less than this part of themselves are not told apart.
const PRECISION: f64 = 1e-3;

/// The algorithm with its parameters.
#[derive(Default)]
pub(super) struct FairClusters {
    target: f64,
    curves: ClusterCurves,
    best: Clustering,
    trial: Clustering,
    pairs: Vec<Pair>,
    cluster: Vec<usize>,
    slowdowns: Vec<(usize, f64)>,
    slower: Vec<usize>,
}

/// Clusters, and ways for each.
#[derive(Debug, Default)]
struct Clustering {
    clusters: Vec<ClusterId>,
    ways: Vec<u32>,
    /// Ways that each needs, which need not be whole.
    exactly: Vec<f64>,
    /// The highest slowdown of all programs.
    worst: f64,
}

/// Two clusters that need fewer ways as one.
#[derive(Debug, Clone, Copy)]
struct Pair {
    clusters: [ClusterId; 2],
    merged: ClusterId,
    /// Ways that the two need as one: whole ones, and those that need not be.
    need: (u32, f64),
    /// Ways fewer than apart; then the same of ways that need not be whole, which tells apart what saves
    /// equally many.
    saved: (u32, f64),
}

impl FairClusters {
    pub(super) fn new(options: &BuildOptions) -> Self {
        Self { target: options.value(&TARGET), ..Self::default() }
    }

    /// The clustering for the target; where there is none, that of the lowest slowdown.
    fn search(&mut self, input: &Input<'_>) {
        if self.target > 0.0 && self.meet(input, self.target) {
            self.spread(input);
            std::mem::swap(&mut self.trial, &mut self.best);
            return;
        }
        let programs = input.curves.len() as ClusterId;
        let all = (1..programs).fold(0, |all, program| self.curves.merged(all, program));
        let worst = self.curves.worst(all, input.ways);
        self.best =
            Clustering { clusters: vec![all], ways: vec![input.ways], exactly: Vec::new(), worst };
        // Nobody is faster than alone with the number of ways that suits it best.
        let mut low = 0.0_f64;
        for program in 0..programs {
            let alone =
                (input.least_ways..=input.ways).map(|ways| self.curves.worst(program, ways));
            low = low.max(alone.fold(f64::INFINITY, f64::min));
        }
        let mut high = worst;
        while high > low * (1.0 + PRECISION) {
            let middle = low + (high - low) * 0.5;
            if !self.meet(input, middle) {
                low = middle;
                continue;
            }
            self.spread(input);
            high = middle.min(self.trial.worst);
            if self.trial.worst < self.best.worst {
                std::mem::swap(&mut self.trial, &mut self.best);
            }
        }
    }

    /// Clusters in which nobody is slower than a target, with the fewest ways each, into `trial`. False
    /// where none were found.
    fn meet(&mut self, input: &Input<'_>, target: f64) -> bool {
        let Self { curves, trial, pairs, .. } = self;
        trial.clusters.clear();
        trial.ways.clear();
        trial.exactly.clear();
        pairs.clear();
        for program in 0..input.curves.len() as ClusterId {
            let Some(exactly) = curves.fewest(program, target) else {
                return false;
            };
            trial.push(program, (whole(exactly, input.least_ways), exactly));
        }
        let mut needed: u32 = trial.ways.iter().sum();
        if needed > input.ways {
            let places = 0..trial.clusters.len();
            places.for_each(|place| {
                add_pairs(curves, pairs, trial, place, (input.least_ways, target))
            });
        }
        while needed > input.ways {
            // The first of equal ones.
            let more = |best, one| if saves_more(one, best) { one } else { best };
            let Some(&Pair { clusters, merged, need, saved }) = pairs.iter().reduce(more) else {
                return false;
            };
            pairs.retain(|pair| !pair.clusters.iter().any(|one| clusters.contains(one)));
            clusters.iter().for_each(|&cluster| trial.remove(cluster));
            trial.push(merged, need);
            needed -= saved.0;
            let last = trial.clusters.len() - 1;
            add_pairs(curves, pairs, trial, last, (input.least_ways, target));
        }
        true
    }

    /// Gives the left-over ways of `trial` to the slowest cluster that gains by them; where none gains, to
    /// the slowest.
    fn spread(&mut self, input: &Input<'_>) {
        let Self { curves, trial, .. } = self;
        let Clustering { clusters, ways, worst, .. } = trial;
        let mut left = input.ways - ways.iter().sum::<u32>();
        while left > 0 {
            // Whether it gains, how slow it is, its place, and the ways more.
            let mut chosen = (false, 0.0, 0, left);
            for (place, &cluster) in clusters.iter().enumerate() {
                let now = curves.worst(cluster, ways[place]);
                let gain = (1..=left).find(|&more| curves.worst(cluster, ways[place] + more) < now);
                if (gain.is_some(), now) > (chosen.0, chosen.1) {
                    chosen = (gain.is_some(), now, place, gain.unwrap_or(left));
                }
            }
            ways[chosen.2] += chosen.3;
            left -= chosen.3;
        }
        let each = clusters.iter().zip(ways).map(|(&cluster, ways)| curves.worst(cluster, *ways));
        *worst = each.fold(0.0, f64::max);
    }

    /// The highest slowdown in the clustering that was decided last.
    pub(super) fn worst(&self) -> f64 {
        self.best.worst
    }

    /// The highest slowdown in a partition, by these curves.
    pub(super) fn worst_in(&mut self, input: &Input<'_>, partition: &Partition) -> f64 {
        self.curves.start(input);
        let mut worst = 0.0_f64;
        for (cluster, mask) in partition.masks.iter().enumerate() {
            let mut members = (0..).zip(&partition.cluster).filter(|(_, of)| **of == cluster);
            let Some((first, _)) = members.next() else { continue };
            let all = members.fold(first, |all, (one, _)| self.curves.merged(all, one));
            worst = worst.max(self.curves.worst(all, mask.count_ones()));
        }
        worst
    }

    /// Who is slower than the target in `best`.
    fn find_slower(&mut self) {
        self.slower.clear();
        if self.target <= 0.0 || self.best.worst <= self.target {
            return;
        }
        self.slowdowns.clear();
        for (&cluster, &ways) in self.best.clusters.iter().zip(&self.best.ways) {
            self.curves.slowdowns(cluster, ways, &mut self.slowdowns);
        }
        let slower = self.slowdowns.iter().filter(|&&(_, slowdown)| slowdown > self.target);
        self.slower.extend(slower.map(|&(program, _)| program));
        self.slower.sort_unstable();
    }
}

impl Clustering {
    /// One more cluster, and the ways that it needs.
    fn push(&mut self, cluster: ClusterId, (ways, exactly): (u32, f64)) {
        self.clusters.push(cluster);
        self.ways.push(ways);
        self.exactly.push(exactly);
    }

    fn remove(&mut self, cluster: ClusterId) {
        if let Some(place) = self.clusters.iter().position(|&one| one == cluster) {
            self.clusters.remove(place);
            self.ways.remove(place);
            self.exactly.remove(place);
        }
    }
}

/// So many ways in whole ones, and at least as many as a partition has.
fn whole(exactly: f64, least: u32) -> u32 {
    // Ways that are whole but for rounding are whole.
    ((exactly - 1e-9).ceil() as u32).max(least)
}

fn saves_more(one: &Pair, than: &Pair) -> bool {
    one.saved.0 > than.saved.0 || one.saved.0 == than.saved.0 && one.saved.1 > than.saved.1
}

/// The pairs of the cluster at a place with those before it that save ways.
fn add_pairs(
    curves: &mut ClusterCurves,
    pairs: &mut Vec<Pair>,
    trial: &Clustering,
    place: usize,
    (least_ways, target): (u32, f64),
) {
    let (one, own, own_exactly) = (trial.clusters[place], trial.ways[place], trial.exactly[place]);
    let before = trial.clusters[..place].iter().zip(&trial.ways).zip(&trial.exactly);
    for ((&other, &ways), &other_exactly) in before {
        let merged = curves.merged(other, one);
        let Some(exactly) = curves.fewest(merged, target) else { continue };
        let need = whole(exactly, least_ways);
        if need < own + ways {
            let saved = (own + ways - need, own_exactly + other_exactly - exactly);
            pairs.push(Pair { clusters: [other, one], merged, need: (need, exactly), saved });
        }
    }
}

impl Partitioner for FairClusters {
    fn partition(&mut self, input: &Input<'_>, out: &mut Partition) -> Result<(), PartitionError> {
        input.check()?;
        self.slower.clear();
        if input.curves.is_empty() {
            out.set_strict(&[]);
            return Ok(());
        }
        self.curves.start(input);
        self.search(input);
        self.find_slower();
        self.cluster.clear();
        self.cluster.resize(input.curves.len(), 0);
        for (number, &cluster) in self.best.clusters.iter().enumerate() {
            for &program in self.curves.members(cluster) {
                self.cluster[program] = number;
            }
        }
        out.set_clusters(&self.cluster, &self.best.ways);
        Ok(())
    }

    fn reason(&self, curve: &WaysCurve, ways: u32) -> String {
        format!("{:.2} x slowdown alone there", curve.at(ways).slowdown)
    }

    fn slower_than_asked(&self) -> &[usize] {
        &self.slower
    }
}

#[cfg(test)]
mod tests;
