//! A partition and its figures: the JSON document of `corun partition`.

use corun_metrics as metrics;
use corun_policy::{CacheClass, ClassLimits, Partition, classify};
use serde::Serialize;

use super::ground::Ground;
use crate::cli::PartitionObjectiveName;
use crate::output::round;
use crate::scenario::data_of;

/// Digits after the point: results are compared with other programs' to the last they share.
const DIGITS: i32 = 9;

/// The document. docs/json.md is its reference.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    /// The one that was asked for; with `--all` alone, the optimum.
    #[serde(flatten)]
    pub(super) chosen: Entry,
    pub(super) objective: &'static str,
    pub(super) machine: String,
    pub(super) llc_ways: u32,
    pub(super) way_bytes: u64,
    pub(super) apps: Vec<String>,
    pub(super) class: Vec<&'static str>,
    /// All side by side, where they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) policies: Vec<Entry>,
    pub(super) data: Data,
}

/// A partition, by whom, and how good it is.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Entry {
    pub(super) policy: String,
    pub(super) ways: Vec<u32>,
    pub(super) cluster: Vec<usize>,
    pub(super) mask: Vec<String>,
    pub(super) cap_mb_per_s: Vec<Option<f64>>,
    pub(super) slowdown: Vec<f64>,
    pub(super) stp: Option<f64>,
    pub(super) unfairness: Option<f64>,
    pub(super) antt: Option<f64>,
    pub(super) max_slowdown: Option<f64>,
    pub(super) jain: Option<f64>,
    pub(super) bandwidth_mb_per_s: Option<f64>,
    /// The objective's value.
    pub(super) value: Option<f64>,
    /// How far the value is from the optimum's, in percent of that; above 0 is worse.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from_optimal_percent: Option<f64>,
    /// Relative distance to the best bound; none where nothing was searched.
    pub(super) gap: Option<f64>,
    /// Is it proven to be the best? None where nothing was searched.
    pub(super) proven: Option<bool>,
    pub(super) solver_seconds: Option<f64>,
    pub(super) programs: Vec<ProgramFigures>,
    /// Why the policy has no partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

/// A program's figures beside the others.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ProgramFigures {
    pub(super) ipc: f64,
    pub(super) llc_mpki: f64,
    pub(super) bandwidth_mb_per_s: f64,
    pub(super) llc_occupancy_bytes: u64,
    pub(super) extrapolated: bool,
}

/// On which data the figures stand.
#[derive(Debug, Serialize)]
pub(super) struct Data {
    pub(super) profiles: String,
    pub(super) space: String,
    pub(super) bandwidth_model: String,
    pub(super) compat: String,
    pub(super) peak_mb_per_s: Option<f64>,
}

impl Entry {
    /// A partition's figures by the model.
    pub(super) fn new(
        ground: &Ground,
        policy: &str,
        objective: PartitionObjectiveName,
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
            value: objective.value(&slowdowns, bytes_per_s).map(rounded),
            from_optimal_percent: None,
            gap: None,
            proven: None,
            solver_seconds: None,
            programs: outcomes
                .iter()
                .map(|one| ProgramFigures {
                    ipc: round(one.ipc, 6),
                    llc_mpki: round(one.llc_mpki, 6),
                    bandwidth_mb_per_s: round(one.bytes_per_s * 1e-6, 3),
                    llc_occupancy_bytes: one.occupancy_bytes.round() as u64,
                    extrapolated: one.extrapolated,
                })
                .collect(),
            error: None,
        }
    }

    /// Says how far it is from the optimum's value.
    pub(super) fn measure(&mut self, objective: PartitionObjectiveName, best: f64) {
        let highest_is_best = objective.objective().highest_is_best();
        let worse = |value: f64| if highest_is_best { best - value } else { value - best };
        self.from_optimal_percent = self.value.map(|value| round(worse(value) / best * 100.0, 6));
    }

    /// A policy that has no partition, and why.
    pub(super) fn without(policy: &str, error: String) -> Self {
        Self {
            policy: policy.to_owned(),
            ways: Vec::new(),
            cluster: Vec::new(),
            mask: Vec::new(),
            cap_mb_per_s: Vec::new(),
            slowdown: Vec::new(),
            stp: None,
            unfairness: None,
            antt: None,
            max_slowdown: None,
            jain: None,
            bandwidth_mb_per_s: None,
            value: None,
            from_optimal_percent: None,
            gap: None,
            proven: None,
            solver_seconds: None,
            programs: Vec::new(),
            error: Some(error),
        }
    }
}

/// The cap of a program's group, for all its programs together.
fn cap_mb_per_s(partition: &Partition, program: usize) -> Option<f64> {
    let cap = partition.caps.iter().find(|cap| cap.programs.contains(&program))?;
    Some(round(cap.bytes_per_s * 1e-6, 3))
}

impl Document {
    pub(super) fn new(
        ground: &Ground,
        objective: PartitionObjectiveName,
        chosen: Entry,
        policies: Vec<Entry>,
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
            data: Data {
                profiles: data_of(&ground.scenario.profiles),
                space: options.space.to_string(),
                bandwidth_model: options.bandwidth.to_string(),
                compat: options.compatibility.to_string(),
                peak_mb_per_s: options.peak_mb_per_s,
            },
        }
    }
}
