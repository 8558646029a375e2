//! A placement and its figures, as JSON, CSV and a table: what `place` and `predict` print.

use corun_metrics as metrics;
use serde::Serialize;

use crate::cli::TableFormat;
use crate::failure::Outcome;
use crate::output::{Align, csv_rows, json, round, table};
use crate::report::size;
use crate::scenario::{Scenario, data_of};

/// Digits after the point in documents.
const DIGITS: i32 = 6;

/// The JSON document of a placement. docs/json.md is its reference.
#[derive(Debug, Serialize)]
pub(super) struct Placement {
    /// Who chose it; none when it was given.
    pub(super) policy: Option<String>,
    pub(super) objective: &'static str,
    pub(super) machine: String,
    pub(super) apps: Vec<String>,
    pub(super) cpu: Vec<u32>,
    pub(super) llc: Vec<usize>,
    pub(super) slowdown: Vec<f64>,
    pub(super) stp: Option<f64>,
    pub(super) unfairness: Option<f64>,
    pub(super) antt: Option<f64>,
    /// The objective's value.
    pub(super) value: Option<f64>,
    /// Relative distance to the best bound; none where nothing was searched.
    pub(super) gap: Option<f64>,
    /// Is it proven to be the best (the worst)? None where nothing was searched.
    pub(super) proven: Option<bool>,
    /// Time the search took; none where nothing was searched.
    pub(super) solver_seconds: Option<f64>,
    pub(super) programs: Vec<ProgramFigures>,
    pub(super) data: Data,
}

/// A program's figures beside the others.
#[derive(Debug, Serialize)]
pub(super) struct ProgramFigures {
    pub(super) ipc: f64,
    pub(super) llc_apki: f64,
    pub(super) llc_mpki: f64,
    pub(super) bandwidth_mb_per_s: f64,
    pub(super) llc_occupancy_bytes: u64,
    pub(super) memory_stall_share: f64,
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
    pub(super) extrapolated: Vec<String>,
}

/// What a search for the best or the worst says of its answer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Proof {
    pub(super) gap: Option<f64>,
    pub(super) proven: Option<bool>,
    pub(super) solver_seconds: Option<f64>,
}

impl Placement {
    /// The figures of programs on CPUs (indices), by the model.
    pub(super) fn new(
        scenario: &Scenario,
        cpus: &[usize],
        policy: Option<&str>,
        objective: crate::cli::ObjectiveName,
        proof: Proof,
    ) -> Self {
        let outcomes = scenario.solve(cpus);
        let slowdowns: Vec<f64> = outcomes.iter().map(|one| one.slowdown).collect();
        let rounded = |value: f64| round(value, DIGITS);
        let extrapolated = scenario.names.iter().zip(&outcomes).filter(|(_, one)| one.extrapolated);
        let options = scenario.model.options();
        let machine = scenario.machine();
        Self {
            policy: policy.map(str::to_owned),
            objective: objective.name(),
            machine: machine.name().to_owned(),
            apps: scenario.names.clone(),
            cpu: cpus.iter().map(|&cpu| machine.cpus()[cpu].id.0).collect(),
            llc: cpus.iter().map(|&cpu| machine.cpus()[cpu].llc).collect(),
            slowdown: slowdowns.iter().copied().map(rounded).collect(),
            stp: metrics::stp(&slowdowns).map(rounded),
            unfairness: metrics::unfairness(&slowdowns).map(rounded),
            antt: metrics::antt(&slowdowns).map(rounded),
            value: objective.objective().value(&slowdowns).map(rounded),
            gap: proof.gap,
            proven: proof.proven,
            solver_seconds: proof.solver_seconds,
            data: Data {
                profiles: data_of(&scenario.profiles),
                space: options.space.to_string(),
                bandwidth_model: options.bandwidth.to_string(),
                compat: options.compatibility.to_string(),
                peak_mb_per_s: options.peak_mb_per_s,
                extrapolated: extrapolated.map(|(name, _)| name.clone()).collect(),
            },
            programs: outcomes
                .iter()
                .map(|one| ProgramFigures {
                    ipc: rounded(one.ipc),
                    llc_apki: rounded(one.llc_apki),
                    llc_mpki: rounded(one.llc_mpki),
                    bandwidth_mb_per_s: round(one.bytes_per_s / 1e6, 3),
                    llc_occupancy_bytes: one.occupancy_bytes.round() as u64,
                    memory_stall_share: rounded(one.memory_stall_share),
                    extrapolated: one.extrapolated,
                })
                .collect(),
        }
    }

    /// The text for stdout.
    pub(super) fn write(&self, format: TableFormat) -> Outcome<String> {
        match format {
            TableFormat::Json => json(self),
            TableFormat::Csv => self.csv(),
            TableFormat::Table => Ok(self.table()),
        }
    }

    fn csv(&self) -> Outcome<String> {
        let header = [
            "app",
            "cpu",
            "llc",
            "slowdown",
            "ipc",
            "llc_apki",
            "llc_mpki",
            "bandwidth_mb_per_s",
            "llc_occupancy_bytes",
            "memory_stall_share",
            "extrapolated",
        ];
        let rows: Vec<Vec<String>> = self
            .programs
            .iter()
            .enumerate()
            .map(|(place, one)| {
                vec![
                    self.apps[place].clone(),
                    self.cpu[place].to_string(),
                    self.llc[place].to_string(),
                    self.slowdown[place].to_string(),
                    one.ipc.to_string(),
                    one.llc_apki.to_string(),
                    one.llc_mpki.to_string(),
                    one.bandwidth_mb_per_s.to_string(),
                    one.llc_occupancy_bytes.to_string(),
                    one.memory_stall_share.to_string(),
                    one.extrapolated.to_string(),
                ]
            })
            .collect();
        csv_rows(&header, &rows)
    }

    fn table(&self) -> String {
        let header = [
            ("program", Align::Left),
            ("CPU", Align::Right),
            ("LLC", Align::Right),
            ("slowdown", Align::Right),
            ("IPC", Align::Right),
            ("MPKI", Align::Right),
            ("MB/s", Align::Right),
            ("LLC held", Align::Right),
        ];
        let rows: Vec<Vec<String>> = self
            .programs
            .iter()
            .enumerate()
            .map(|(place, one)| {
                vec![
                    self.apps[place].clone(),
                    self.cpu[place].to_string(),
                    self.llc[place].to_string(),
                    format!(
                        "{:.3}{}",
                        self.slowdown[place],
                        if one.extrapolated { "*" } else { " " }
                    ),
                    format!("{:.3}", one.ipc),
                    format!("{:.2}", one.llc_mpki),
                    format!("{:.0}", one.bandwidth_mb_per_s),
                    size(one.llc_occupancy_bytes as f64),
                ]
            })
            .collect();
        let figure = |value: Option<f64>| value.map_or("-".to_owned(), |one| format!("{one:.3}"));
        let mut text = match &self.policy {
            Some(policy) => format!("{policy} on {}\n\n", self.machine),
            None => format!("On {}\n\n", self.machine),
        };
        text.push_str(&table(&header, &rows));
        text.push_str(&format!(
            "\nmean slowdown {}, STP {}, unfairness {}\n",
            figure(self.antt),
            figure(self.stp),
            figure(self.unfairness)
        ));
        match (self.proven, self.gap) {
            (Some(true), _) => text.push_str("proven: no placement is beyond it\n"),
            (Some(false), Some(gap)) => {
                text.push_str(&format!("not proven: at most {:.2} % from the bound\n", gap * 100.0))
            }
            (Some(false), None) => text.push_str("not proven: the best found\n"),
            (None, _) => {}
        }
        text.push_str(&format!("profiles: {}\n", self.data.profiles));
        text.push_str(&format!(
            "model: space {}, bandwidth {}\n",
            self.data.space, self.data.bandwidth_model
        ));
        if !self.data.extrapolated.is_empty() {
            text.push_str("* extrapolated: outside the measured range\n");
        }
        text
    }
}
