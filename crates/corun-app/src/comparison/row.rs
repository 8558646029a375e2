//! The result of a comparison: the JSON document. docs/json.md is its reference.

use corun_machine::Machine;
use corun_optimal::Objective;
use serde::Serialize;

use super::DIGITS;
use super::figures::PolicyFigures;
use super::services::ServiceRow;
use crate::data::DataSources;
use crate::round;

/// The JSON document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The machine's name.
    pub machine: String,
    /// The programs' names, all different.
    pub apps: Vec<String>,
    /// The method's name in mix files.
    pub method: String,
    /// Runs a policy, with the seeds 1 to this.
    pub seeds: u32,
    /// Did policies see the machine as poorly as a real one shows itself? Left out where they did not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub as_live: bool,
    /// By what the bounds are the best and the worst, and how far above the best the others are.
    pub objective: &'static str,
    /// On which data the figures stand.
    pub data: ComparisonData,
    /// The policies and the bounds.
    pub policies: Vec<ComparisonRow>,
}

/// On which data the figures stand.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparisonData {
    /// Profiles and model.
    #[serde(flatten)]
    pub model: DataSources,
    /// Programs for which a figure was read outside its profile's measured range.
    pub extrapolated: Vec<String>,
    /// Programs whose run alone is so short that caches hardly fill in it: their slowdowns say little.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub short_runs: Vec<String>,
    /// Why there is no optimum, where there is none.
    pub no_optimum: Option<String>,
    /// Where programs take turns on CPUs: the mean slowdown that no placement that holds each of them on a CPU is
    /// below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_mean_slowdown: Option<f64>,
}

/// What a row of the result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowKind {
    /// A policy, simulated with all seeds.
    #[default]
    Policy,
    /// The best placement, held for the whole run; where programs take turns, the best that was found.
    Optimal,
    /// The mean over random placements.
    Expectation,
    /// The worst placement, held for the whole run.
    Worst,
}

/// A policy or a bound.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct ComparisonRow {
    /// Its name.
    pub policy: String,
    /// A policy or which bound.
    pub kind: RowKind,
    /// An earlier policy with which everything came out the same.
    pub same_as: Option<String>,
    /// Mean over programs, then over seeds.
    pub mean_slowdown: f64,
    /// Of a sampled expectation.
    pub standard_error: Option<f64>,
    /// Sum of 1 / slowdown, mean over seeds.
    pub stp: Option<f64>,
    /// Largest / smallest slowdown, mean over seeds.
    pub unfairness: Option<f64>,
    /// The largest slowdown of any program with any seed.
    pub worst_slowdown: Option<f64>,
    /// Standard deviation / mean of completion times over seeds, mean over programs.
    pub spread: Option<f64>,
    /// Longest / shortest completion time over seeds, mean over programs.
    pub worst_over_best: Option<f64>,
    /// Moves to another CPU a run, mean over seeds.
    pub migrations: Option<f64>,
    /// Of these, to another LLC.
    pub llc_migrations: Option<f64>,
    /// Energy above idle for what a program does in a second alone, in joules, mean over seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_per_work_j: Option<f64>,
    /// The same times how many times as long that takes as alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_delay_per_work_j: Option<f64>,
    /// How much worse than the optimum's its value by the objective is, in percent: how far above it, but for the
    /// throughput, where the optimum is above it.
    pub above_optimal_percent: Option<f64>,
    /// Of a bound that was searched: is it proven?
    pub optimal_proven: Option<bool>,
    /// Mean over the seeds, a program each.
    pub slowdown: Vec<f64>,
    /// What came of the requests of each service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceRow>,
    /// The CPU (the machine's own number) on which each program ran longest with the first seed.
    pub cpu: Vec<u32>,
    /// The LLC of that CPU.
    pub llc: Vec<usize>,
}

impl ComparisonRow {
    /// The row of runs, of which these are the figures; their threads ran longest on these CPUs, by index.
    pub(super) fn of_runs(
        policy: &str,
        kind: RowKind,
        figures: &PolicyFigures,
        machine: &Machine,
        cpus: &[usize],
    ) -> Self {
        let rounded = |value: f64| round(value, DIGITS);
        Self {
            stp: Some(rounded(figures.stp)),
            unfairness: Some(rounded(figures.unfairness)),
            worst_slowdown: Some(rounded(figures.worst_slowdown)),
            spread: figures.spread.map(rounded),
            worst_over_best: figures.worst_over_best.map(rounded),
            migrations: Some(rounded(figures.migrations)),
            llc_migrations: Some(rounded(figures.llc_migrations)),
            energy_per_work_j: figures.energy_per_work_j.map(rounded),
            energy_delay_per_work_j: figures.energy_delay_per_work_j.map(rounded),
            cpu: cpus.iter().map(|&cpu| machine.cpus()[cpu].id.0).collect(),
            llc: cpus.iter().map(|&cpu| machine.cpus()[cpu].llc).collect(),
            ..Self::of_slowdowns(policy, kind, figures.mean_slowdown, &figures.slowdown)
        }
    }

    /// Its value by an objective, where that is known.
    pub(super) fn value(&self, objective: Objective) -> Option<f64> {
        match objective {
            Objective::MeanSlowdown => Some(self.mean_slowdown),
            Objective::Stp => self.stp,
            Objective::MaxSlowdown => self.worst_slowdown,
            Objective::Unfairness => self.unfairness,
            Objective::Energy => self.energy_per_work_j,
            Objective::EnergyDelay => self.energy_delay_per_work_j,
        }
    }

    /// A row of which slowdowns alone are known.
    pub(super) fn of_slowdowns(
        policy: &str,
        kind: RowKind,
        mean_slowdown: f64,
        slowdown: &[f64],
    ) -> Self {
        Self {
            policy: policy.to_owned(),
            kind,
            mean_slowdown: round(mean_slowdown, DIGITS),
            slowdown: slowdown.iter().map(|&one| round(one, DIGITS)).collect(),
            ..Self::default()
        }
    }

    /// Finds, for each policy, the first one before it with which everything came out the same.
    pub(super) fn mark_the_same(rows: &mut [Self]) {
        for place in 1..rows.len() {
            let (before, rest) = rows.split_at_mut(place);
            let own = &mut rest[0];
            let same = |one: &&Self| Self { policy: own.policy.clone(), ..(*one).clone() } == *own;
            own.same_as = before.iter().find(same).map(|one| one.policy.clone());
        }
    }
}

impl Comparison {
    /// The rows without those that say what an earlier one says.
    pub fn distinct_rows(&self) -> impl Iterator<Item = &ComparisonRow> {
        self.policies.iter().filter(|row| row.same_as.is_none())
    }

    /// By policy, those after it with which everything came out the same.
    pub fn identical_policies(&self) -> Vec<(&str, Vec<&str>)> {
        let same = |first: &str| {
            let rows = self.policies.iter().filter(|row| row.same_as.as_deref() == Some(first));
            rows.map(|row| row.policy.as_str()).collect::<Vec<_>>()
        };
        let all = self.distinct_rows().map(|row| (row.policy.as_str(), same(&row.policy)));
        all.filter(|(_, others)| !others.is_empty()).collect()
    }
}

/// A figure of a comparison by itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LongRow {
    /// What ran: the mix.
    pub workload: String,
    /// The policy or bound.
    pub policy: String,
    /// The program; empty for figures of the whole mix.
    pub app: String,
    /// The figure's name, as in the document.
    pub property: &'static str,
    /// Its value.
    pub value: f64,
}

impl Comparison {
    /// Every known figure as a row of its own: first those of the whole mix, then each program's
    /// slowdown, CPU and LLC.
    pub fn long(&self, workload: &str) -> Vec<LongRow> {
        let mut rows = Vec::new();
        for row in &self.policies {
            let mut add = |app: &str, property, value| {
                let (workload, policy) = (workload.to_owned(), row.policy.clone());
                rows.push(LongRow { workload, policy, app: app.to_owned(), property, value });
            };
            let whole = [
                ("mean_slowdown", Some(row.mean_slowdown)),
                ("standard_error", row.standard_error),
                ("stp", row.stp),
                ("unfairness", row.unfairness),
                ("worst_slowdown", row.worst_slowdown),
                ("spread", row.spread),
                ("worst_over_best", row.worst_over_best),
                ("migrations", row.migrations),
                ("llc_migrations", row.llc_migrations),
                ("energy_per_work_j", row.energy_per_work_j),
                ("energy_delay_per_work_j", row.energy_delay_per_work_j),
                ("above_optimal_percent", row.above_optimal_percent),
            ];
            for (property, value) in whole {
                if let Some(value) = value {
                    add("", property, value);
                }
            }
            for service in &row.services {
                let figures = [
                    ("latency_ms", service.latency_ms),
                    ("mean_latency_ms", service.mean_latency_ms),
                    ("target_ms", Some(service.target_ms)),
                    ("target_met", Some(f64::from(service.met))),
                    ("saturated_per_s", service.saturated_per_s),
                ];
                for (property, value) in figures {
                    if let Some(value) = value {
                        add(&service.app, property, value);
                    }
                }
            }
            for (place, app) in self.apps.iter().enumerate() {
                let figures = [
                    ("slowdown", row.slowdown.get(place).copied()),
                    ("cpu", row.cpu.get(place).map(|&cpu| f64::from(cpu))),
                    ("llc", row.llc.get(place).map(|&llc| llc as f64)),
                ];
                for (property, value) in figures {
                    if let Some(value) = value {
                        add(app, property, value);
                    }
                }
            }
        }
        rows
    }
}
