//! `kpart`: clusters by hierarchical clustering, ways by lookahead, the best number of clusters kept
//! (El-Sayed et al., KPart, HPCA 2018; García García, thesis, UCM 2021, section 5.3.4).
//!
//! Two clusters are the nearer, the less their programs miss more when they share than when each
//! cluster has a part: the distance is the area between the combined miss curve and the best
//! divided one. The nearest two merge until one is left. On every level lookahead shares the ways
//! among the clusters by their speed, and the level with the highest speed is kept.

mod clusters;

use self::clusters::{Clusters, Drive};
use crate::partitioning::lookahead::{Grant, lookahead};
use crate::partitioning::{Input, Partition, PartitionError, Partitioner};
use crate::{BuildOptions, Parameter, ParameterKind, PolicyEntry, WaysCurve};

const PER_CYCLE: Parameter = Parameter {
    name: "per-cycle",
    kind: ParameterKind::SWITCH,
    default: 0.0,
    min: 0.0,
    max: 1.0,
    summary: "1: sharers divide a partition by misses per cycle; 0: per instruction, as published",
};

const BANDWIDTH: Parameter = Parameter {
    name: "bandwidth",
    kind: ParameterKind::SWITCH,
    default: 1.0,
    min: 0.0,
    max: 1.0,
    summary: "1: speeds count less where the programs draw more than the peak; 0: the peak is ignored",
};

/// What can be set.
pub(super) const PARAMETERS: &[Parameter] = &[PER_CYCLE, BANDWIDTH];

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry::partitioning(
    "kpart",
    "clusters programs whose misses hardly rise together and gives clusters ways by their speed",
    "El-Sayed et al., KPart, HPCA 2018; García García, thesis, UCM 2021, section 5.3.4",
    PARAMETERS,
    |options: &BuildOptions| Box::new(KPart::new(options)),
);

/// The algorithm with its parameters.
#[derive(Default)]
pub(super) struct KPart {
    drive: Drive,
    bandwidth: bool,
    clusters: Clusters,
    /// By program: how its speed counts.
    weight: Vec<f64>,
    /// By cluster in its order and ways: 1 / the sum of its programs' speeds.
    cost: Vec<f64>,
    ways: Vec<u32>,
    grants: Vec<Grant>,
    best_ways: Vec<u32>,
    best_cluster: Vec<usize>,
}

impl Partitioner for KPart {
    fn partition(&mut self, input: &Input<'_>, out: &mut Partition) -> Result<(), PartitionError> {
        input.check()?;
        if input.curves.is_empty() {
            out.set_strict(&[]);
            return Ok(());
        }
        self.clusters.start(input, self.drive);
        let mut best = f64::NEG_INFINITY;
        loop {
            let count = self.clusters.order().len();
            if count as u64 * u64::from(input.least_ways) <= u64::from(input.ways) {
                let speed = self.share(input);
                if speed > best || self.best_ways.is_empty() {
                    best = speed;
                    self.best_ways.clone_from(&self.ways);
                    self.clusters.numbers_into(&mut self.best_cluster);
                }
            }
            if count == 1 {
                break;
            }
            self.clusters.merge_nearest();
        }
        out.set_clusters(&self.best_cluster, &self.best_ways);
        self.best_ways.clear();
        Ok(())
    }

    fn reason(&self, curve: &WaysCurve, ways: u32) -> String {
        format!("{:.2} MPKI with all {ways} ways of its cluster", curve.at(ways).llc_mpki)
    }
}

impl KPart {
    pub(super) fn new(options: &BuildOptions) -> Self {
        let per_cycle = options.is_on(&PER_CYCLE);
        let bandwidth = options.is_on(&BANDWIDTH);
        let drive = if per_cycle { Drive::Mpkc } else { Drive::Mpki };
        Self { drive, bandwidth, ..Self::default() }
    }

    /// Shares the ways among the clusters there are; the sum of speeds that this gives. Where the
    /// programs would draw more than the peak, each speed counts less by the share of the peak that
    /// its program draws, and the ways are shared anew.
    fn share(&mut self, input: &Input<'_>) -> f64 {
        self.weight.clear();
        self.weight.resize(input.curves.len(), 1.0);
        self.allocate(input);
        let mut drawn = 0.0;
        if let Some(peak) = input.peak_bytes_per_s.filter(|_| self.bandwidth) {
            for (place, &ways) in self.ways.iter().enumerate() {
                for &program in self.clusters.members(place) {
                    let bytes_per_s = self.clusters.bytes_per_s(program, ways);
                    self.weight[program] = 1.0 - bytes_per_s / peak;
                    drawn += bytes_per_s;
                }
            }
            if drawn > peak {
                self.allocate(input);
            } else {
                self.weight.fill(1.0);
            }
        }
        let of = |(place, &ways): (usize, &u32)| {
            let members = self.clusters.members(place).iter();
            members.map(|&one| self.weight[one] * self.clusters.speed(one, ways)).sum::<f64>()
        };
        self.ways.iter().enumerate().map(of).sum()
    }

    /// Lookahead on 1 / the speed of each cluster.
    fn allocate(&mut self, input: &Input<'_>) {
        let all = input.ways;
        let count = self.clusters.order().len();
        self.ways.clear();
        if count == 1 {
            self.ways.push(all);
            return;
        }
        self.cost.clear();
        for place in 0..count {
            for ways in 1..=all {
                let members = self.clusters.members(place).iter();
                let speeds = members.map(|&one| self.weight[one] * self.clusters.speed(one, ways));
                self.cost.push(1.0 / speeds.sum::<f64>());
            }
        }
        self.ways.resize(count, 0);
        let cost = &self.cost;
        let best = |place: usize, from, most| {
            let cost = &cost[place * all as usize..];
            Grant::best(|ways| cost[ways as usize - 1], from, most)
        };
        lookahead(all, input.least_ways, &mut self.ways, &mut self.grants, best);
    }
}

#[cfg(test)]
mod tests;
