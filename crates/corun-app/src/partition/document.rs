//! A partition and its figures: the JSON document of `corun partition`.

use corun_metrics as metrics;
use corun_optimal::partition::{ParetoPoint, PartitionObjective};
use corun_policy::{CacheClass, ClassLimits, Partition, classify};
use serde::Serialize;

use super::scenario::PartitionScenario;
use crate::data::DataSources;
use crate::round;

/// Digits after the point: results are compared with other programs' to the last they share.
const DIGITS: i32 = 9;

/// The document. docs/json.md is its reference.
#[derive(Debug, Clone, Serialize)]
pub struct PartitionDocument {
    /// The one that was asked for; with `--all` alone, the optimum.
    #[serde(flatten)]
    pub chosen: PartitionEntry,
    /// What it is judged by.
    pub objective: &'static str,
    /// The machine's name.
    pub machine: String,
    /// Ways of the LLC that is partitioned.
    pub llc_ways: u32,
    /// Bytes of a way.
    pub way_bytes: u64,
    /// The programs' names, all different.
    pub apps: Vec<String>,
    /// Each program's class by its curve: streaming, sensitive or light sharing.
    pub class: Vec<&'static str>,
    /// The slowdown that nobody was to exceed, where that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_slowdown: Option<f64>,
    /// The front of unfairness against throughput, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pareto: Option<ParetoDocument>,
    /// All side by side, where they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PartitionEntry>,
    /// On which data the figures stand.
    pub data: DataSources,
}

/// A partition, by whom, and how good it is.
#[derive(Debug, Clone, Serialize, Default)]
pub struct PartitionEntry {
    /// Its name.
    pub policy: String,
    /// Ways of each program's part.
    pub ways: Vec<u32>,
    /// Each program's cluster; programs of one share their ways.
    pub cluster: Vec<usize>,
    /// Each program's ways as a hexadecimal mask.
    pub mask: Vec<String>,
    /// The cap on the traffic of each program's group, MB/s; none without.
    pub cap_mb_per_s: Vec<Option<f64>>,
    /// Each program's.
    pub slowdown: Vec<f64>,
    /// Sum of 1 / slowdown.
    pub stp: Option<f64>,
    /// Largest / smallest slowdown.
    pub unfairness: Option<f64>,
    /// Mean slowdown.
    pub antt: Option<f64>,
    /// The largest slowdown.
    pub max_slowdown: Option<f64>,
    /// Jain's index of the slowdowns.
    pub jain: Option<f64>,
    /// Memory traffic of all programs, MB/s.
    pub bandwidth_mb_per_s: Option<f64>,
    /// The objective's value.
    pub value: Option<f64>,
    /// How far the value is from the optimum's, in percent of that; above 0 is worse.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_optimal_percent: Option<f64>,
    /// Relative distance to the best bound; none where nothing was searched.
    pub gap: Option<f64>,
    /// Is it proven to be the best? None where nothing was searched.
    pub proven: Option<bool>,
    /// How long the search took; none where nothing was searched.
    pub solver_seconds: Option<f64>,
    /// The programs that are slower than the target; none where no target was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slower_than_target: Option<Vec<String>>,
    /// Each program's figures.
    pub programs: Vec<PartitionFigures>,
    /// Why the policy has no partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The partitions than which none is both of higher STP and fairer.
#[derive(Debug, Clone, Serialize)]
pub struct ParetoDocument {
    /// May programs share the ways of a cluster?
    pub clusters: bool,
    /// Is the front whole? Else the search was stopped, and the points at its fair end are missing.
    pub proven: bool,
    /// How long the search took.
    pub solver_seconds: f64,
    /// By falling STP and falling unfairness.
    pub points: Vec<ParetoEntry>,
}

/// A partition of the front.
#[derive(Debug, Clone, Serialize)]
pub struct ParetoEntry {
    /// Sum of 1 / slowdown.
    pub stp: f64,
    /// Largest / smallest slowdown.
    pub unfairness: f64,
    /// The largest slowdown.
    pub max_slowdown: Option<f64>,
    /// Ways of each program's part.
    pub ways: Vec<u32>,
    /// Each program's cluster.
    pub cluster: Vec<usize>,
    /// Each program's ways as a hexadecimal mask.
    pub mask: Vec<String>,
    /// Each program's.
    pub slowdown: Vec<f64>,
}

impl ParetoEntry {
    pub(super) fn new(ground: &PartitionScenario, point: &ParetoPoint) -> Self {
        let partition = super::optimum::partition(&point.clusters, &point.ways);
        let rounded = |value: f64| round(value, DIGITS);
        let programs = 0..ground.curves.len();
        Self {
            stp: rounded(point.stp),
            unfairness: rounded(point.unfairness),
            max_slowdown: metrics::worst_slowdown(&point.slowdowns).map(rounded),
            ways: programs.clone().map(|one| partition.ways(one)).collect(),
            cluster: partition.cluster.clone(),
            mask: programs.map(|one| format!("{:#x}", partition.mask(one))).collect(),
            slowdown: point.slowdowns.iter().copied().map(rounded).collect(),
        }
    }
}

/// A program's figures beside the others.
#[derive(Debug, Clone, Serialize)]
pub struct PartitionFigures {
    /// Instructions per cycle.
    pub ipc: f64,
    /// LLC misses per 1000 instructions.
    pub llc_mpki: f64,
    /// Memory traffic, MB/s (1e6 bytes a second).
    pub bandwidth_mb_per_s: f64,
    /// What it holds of the LLC.
    pub llc_occupancy_bytes: u64,
    /// Was a figure read outside the profile's measured range?
    pub extrapolated: bool,
}

impl PartitionEntry {
    /// A partition's figures by the model.
    pub(super) fn new(
        ground: &PartitionScenario,
        policy: &str,
        objective: PartitionObjective,
        partition: &Partition,
    ) -> Self {
        let outcomes = ground.evaluate(partition);
        let slowdowns: Vec<f64> = outcomes.iter().map(|one| one.slowdown).collect();
        let bytes_per_s: f64 = outcomes.iter().map(|one| one.bytes_per_s).sum();
        let rounded = |value: f64| round(value, DIGITS);
        let programs = 0..slowdowns.len();
        Self {
            policy: policy.to_owned(),
            ways: programs.clone().map(|one| partition.ways(one)).collect(),
            cluster: partition.cluster.clone(),
            mask: programs.clone().map(|one| format!("{:#x}", partition.mask(one))).collect(),
            cap_mb_per_s: programs.map(|one| cap_mb_per_s(partition, one)).collect(),
            slowdown: slowdowns.iter().copied().map(rounded).collect(),
            stp: metrics::stp(&slowdowns).map(rounded),
            unfairness: metrics::unfairness(&slowdowns).map(rounded),
            antt: metrics::antt(&slowdowns).map(rounded),
            max_slowdown: metrics::worst_slowdown(&slowdowns).map(rounded),
            jain: metrics::jain_of_slowdowns(&slowdowns).map(rounded),
            bandwidth_mb_per_s: Some(round(bytes_per_s * 1e-6, 3)),
            value: value(objective, &slowdowns, bytes_per_s).map(rounded),
            programs: outcomes
                .iter()
                .map(|one| PartitionFigures {
                    ipc: round(one.ipc, 6),
                    llc_mpki: round(one.llc_mpki, 6),
                    bandwidth_mb_per_s: round(one.bytes_per_s * 1e-6, 3),
                    llc_occupancy_bytes: one.occupancy_bytes.round() as u64,
                    extrapolated: one.extrapolated,
                })
                .collect(),
            ..Self::default()
        }
    }

    /// Says how far it is from the optimum's value.
    pub(super) fn measure(&mut self, objective: PartitionObjective, best: f64) {
        let highest_is_best = objective.highest_is_best();
        let worse = |value: f64| if highest_is_best { best - value } else { value - best };
        self.from_optimal_percent = self.value.map(|value| round(worse(value) / best * 100.0, 6));
    }

    /// A policy that has no partition, and why.
    pub(super) fn without(policy: &str, error: String) -> Self {
        Self { policy: policy.to_owned(), error: Some(error), ..Self::default() }
    }
}

/// The objective's value: of slowdowns, or of all programs' memory traffic policy_names, in MB/s.
fn value(objective: PartitionObjective, slowdowns: &[f64], bytes_per_s: f64) -> Option<f64> {
    let unit = if objective == PartitionObjective::Bandwidth { 1e-6 } else { 1.0 };
    objective.value(slowdowns, bytes_per_s).map(|value| value * unit)
}

/// The cap of a program's group, for all its programs together.
fn cap_mb_per_s(partition: &Partition, program: usize) -> Option<f64> {
    let cap = partition.caps.iter().find(|cap| cap.programs.contains(&program))?;
    Some(round(cap.bytes_per_s * 1e-6, 3))
}

impl PartitionDocument {
    /// Says of every partition who is slower than a target.
    pub(super) fn compare_with_target(&mut self, target: f64) {
        self.target_slowdown = Some(target);
        for entry in std::iter::once(&mut self.chosen).chain(&mut self.policies) {
            if entry.error.is_none() {
                let slower = entry.slowdown.iter().zip(&self.apps).filter(|one| *one.0 > target);
                entry.slower_than_target = Some(slower.map(|(_, name)| name.clone()).collect());
            }
        }
    }

    /// Of the ground and its entries.
    pub(super) fn new(
        ground: &PartitionScenario,
        objective: PartitionObjective,
        chosen: PartitionEntry,
        policies: Vec<PartitionEntry>,
    ) -> Self {
        let options = ground.scenario.model.options();
        let class =
            |curve: &std::sync::Arc<_>| -> CacheClass { classify(curve, &ClassLimits::default()) };
        Self {
            chosen,
            objective: objective.name(),
            machine: ground.scenario.machine().name().to_owned(),
            llc_ways: ground.ways,
            way_bytes: ground.way_bytes.round() as u64,
            apps: ground.scenario.names.clone(),
            class: ground.curves.iter().map(|curve| class(curve).name()).collect(),
            policies,
            target_slowdown: None,
            pareto: None,
            data: DataSources::of(&ground.scenario.profiles, ground.scenario.machine(), options),
        }
    }
}
