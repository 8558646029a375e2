//! The results in a few lines.

use serde::Serialize;

use crate::row::SweepRow;

/// A policy on a machine, over all mixes and seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The machine's name.
    pub machine: String,
    /// The policy, or the bound.
    pub policy: String,
    /// `run`, `optimal`, `expected` or `worst`; `bounds` where they failed.
    pub kind: String,
    /// Rows with figures.
    pub rows: usize,
    /// Rows with an error.
    pub failed: usize,
    /// Mean over the rows of the mean slowdown.
    pub mean_slowdown: Option<f64>,
    /// Mean over the rows of STP.
    pub stp: Option<f64>,
    /// Mean over the rows of unfairness.
    pub unfairness: Option<f64>,
    /// Largest slowdown of all.
    pub worst_slowdown: Option<f64>,
}

/// One line a machine and policy, in the order of the rows.
pub fn summaries(rows: &[SweepRow]) -> Vec<Summary> {
    let mut groups: Vec<(&SweepRow, Vec<&SweepRow>)> = Vec::new();
    for row in rows {
        let same = |(first, _): &&mut (&SweepRow, Vec<&SweepRow>)| {
            first.machine_hash == row.machine_hash
                && first.machine == row.machine
                && first.policy == row.policy
        };
        match groups.iter_mut().find(same) {
            Some((_, group)) => group.push(row),
            None => groups.push((row, vec![row])),
        }
    }
    groups.into_iter().map(|(first, group)| summary(first, &group)).collect()
}

fn summary(first: &SweepRow, rows: &[&SweepRow]) -> Summary {
    let figures = |figure: fn(&SweepRow) -> Option<f64>| -> Vec<f64> {
        rows.iter().filter_map(|row| figure(row)).collect()
    };
    let mean = |figure| corun_metrics::mean(&figures(figure));
    let failed = rows.iter().filter(|row| row.error.is_some()).count();
    Summary {
        machine: first.machine.clone(),
        policy: first.policy.clone(),
        kind: first.kind.clone(),
        rows: rows.len() - failed,
        failed,
        mean_slowdown: mean(|row| row.mean_slowdown),
        stp: mean(|row| row.stp),
        unfairness: mean(|row| row.unfairness),
        worst_slowdown: figures(|row| row.worst_slowdown).into_iter().reduce(f64::max),
    }
}
