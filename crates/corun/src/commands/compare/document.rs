//! The result of a comparison, as JSON, CSV and a table. docs/json.md is its reference.

use serde::Serialize;

use crate::failure::Outcome;
use crate::output::{Align, counted, csv_rows, table};

/// The JSON document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::commands) struct Comparison {
    pub(in crate::commands) machine: String,
    pub(in crate::commands) apps: Vec<String>,
    pub(in crate::commands) method: String,
    pub(in crate::commands) seeds: u32,
    pub(in crate::commands) data: Data,
    pub(in crate::commands) policies: Vec<Row>,
}

/// On which data the figures stand.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::commands) struct Data {
    /// Kinds of profile and where they come from, in words.
    pub(in crate::commands) profiles: String,
    /// Law of space in a shared cache.
    pub(in crate::commands) space: String,
    /// Model of bandwidth.
    pub(in crate::commands) bandwidth_model: String,
    /// Whose choices the model makes.
    pub(in crate::commands) compat: String,
    /// Peak that was asked for instead of the machine's, MB/s.
    pub(in crate::commands) peak_mb_per_s: Option<f64>,
    /// Programs for which a figure was read outside its profile's measured range.
    pub(in crate::commands) extrapolated: Vec<String>,
    /// Why there is no optimum, where there is none.
    pub(in crate::commands) no_optimum: Option<String>,
}

/// What a row of the result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::commands) enum RowKind {
    /// A policy, simulated with all seeds.
    Policy,
    /// The best placement, held for the whole run.
    Optimal,
    /// The mean over random placements.
    Expectation,
    /// The worst placement, held for the whole run.
    Worst,
}

/// A policy or a bound.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::commands) struct Row {
    pub(in crate::commands) policy: String,
    pub(in crate::commands) kind: RowKind,
    /// An earlier policy with which everything came out the same.
    pub(in crate::commands) same_as: Option<String>,
    pub(in crate::commands) mean_slowdown: f64,
    /// Of a sampled expectation.
    pub(in crate::commands) standard_error: Option<f64>,
    pub(in crate::commands) stp: Option<f64>,
    pub(in crate::commands) unfairness: Option<f64>,
    pub(in crate::commands) worst_slowdown: Option<f64>,
    pub(in crate::commands) spread: Option<f64>,
    pub(in crate::commands) worst_over_best: Option<f64>,
    pub(in crate::commands) migrations: Option<f64>,
    pub(in crate::commands) llc_migrations: Option<f64>,
    pub(in crate::commands) above_optimal_percent: Option<f64>,
    pub(in crate::commands) optimal_proven: Option<bool>,
    /// Mean over the seeds, a program each.
    pub(in crate::commands) slowdown: Vec<f64>,
    /// The CPU (the machine's own number) on which each program ran longest with the first seed.
    pub(in crate::commands) cpu: Vec<u32>,
    /// The LLC of that CPU.
    pub(in crate::commands) llc: Vec<usize>,
}

impl Row {
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

fn figure(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

impl Comparison {
    /// For people: one line a policy, then what it stands on.
    pub(super) fn table(&self) -> String {
        let header = [
            ("policy", Align::Left),
            ("mean slowdown", Align::Right),
            ("above optimum", Align::Right),
            ("worst slowdown", Align::Right),
            ("STP", Align::Right),
            ("unfairness", Align::Right),
            ("spread %", Align::Right),
            ("migrations", Align::Right),
        ];
        let rows: Vec<Vec<String>> = self
            .told()
            .map(|row| {
                vec![
                    row.policy.clone(),
                    format!("{:.3}", row.mean_slowdown),
                    row.above_optimal_percent
                        .map_or("-".to_owned(), |above| format!("{:+.1} %", tidy(above))),
                    figure(row.worst_slowdown, 3),
                    figure(row.stp, 3),
                    figure(row.unfairness, 3),
                    figure(row.spread.map(|spread| spread * 100.0), 2),
                    figure(row.migrations, 1),
                ]
            })
            .collect();
        let mut text = format!(
            "{} on {}: {}\n{}, {}\n\n",
            counted(self.apps.len(), "program"),
            self.machine,
            self.apps.join(", "),
            self.method,
            counted(self.seeds as usize, "seed"),
        );
        text.push_str(&table(&header, &rows));
        text.push('\n');
        for note in self.notes() {
            text.push_str(&note);
            text.push('\n');
        }
        text
    }

    /// The rows without those that say what an earlier one says.
    pub(super) fn told(&self) -> impl Iterator<Item = &Row> {
        self.policies.iter().filter(|row| row.same_as.is_none())
    }

    /// By policy, those after it with which everything came out the same.
    pub(super) fn alike(&self) -> Vec<(&str, Vec<&str>)> {
        let same = |first: &str| {
            let rows = self.policies.iter().filter(|row| row.same_as.as_deref() == Some(first));
            rows.map(|row| row.policy.as_str()).collect::<Vec<_>>()
        };
        let all = self.told().map(|row| (row.policy.as_str(), same(&row.policy)));
        all.filter(|(_, others)| !others.is_empty()).collect()
    }

    fn notes(&self) -> Vec<String> {
        let alike = self.alike().into_iter();
        let mut notes: Vec<String> = alike
            .map(|(first, others)| format!("the same as {first} here: {}", others.join(", ")))
            .collect();
        if !notes.is_empty() {
            notes.push(String::new());
        }
        notes.extend([
            format!("profiles: {}", self.data.profiles),
            format!("model: space {}, bandwidth {}", self.data.space, self.data.bandwidth_model),
        ]);
        if !self.data.extrapolated.is_empty() {
            let names = self.data.extrapolated.join(", ");
            notes.push(format!("extrapolated, outside the measured range: {names}"));
        }
        if let Some(why) = &self.data.no_optimum {
            notes.push(format!("no optimum: {why}"));
        }
        if self.policies.iter().any(|row| row.optimal_proven == Some(false)) {
            notes.push(
                "the optimum (or worst) is the best found, not proven: --time-limit ended it"
                    .to_owned(),
            );
        }
        notes
    }

    /// One line a policy and program; the figures of the policy stand in each of its lines.
    pub(super) fn csv(&self) -> Outcome<String> {
        let header = [
            "policy",
            "kind",
            "app",
            "slowdown",
            "mean_slowdown",
            "stp",
            "unfairness",
            "worst_slowdown",
            "spread",
            "migrations",
            "above_optimal_percent",
            "optimal_proven",
        ];
        let optional = |value: Option<f64>| value.map(|one| one.to_string()).unwrap_or_default();
        let mut rows = Vec::new();
        for row in &self.policies {
            let kind = match row.kind {
                RowKind::Policy => "policy",
                RowKind::Optimal => "optimal",
                RowKind::Expectation => "expectation",
                RowKind::Worst => "worst",
            };
            for (app, slowdown) in self.apps.iter().zip(&row.slowdown) {
                rows.push(vec![
                    row.policy.clone(),
                    kind.to_owned(),
                    app.clone(),
                    slowdown.to_string(),
                    row.mean_slowdown.to_string(),
                    optional(row.stp),
                    optional(row.unfairness),
                    optional(row.worst_slowdown),
                    optional(row.spread),
                    optional(row.migrations),
                    optional(row.above_optimal_percent),
                    row.optimal_proven.map(|proven| proven.to_string()).unwrap_or_default(),
                ]);
            }
        }
        csv_rows(&header, &rows)
    }
}

/// Values that would print as -0.0 are zero.
fn tidy(percent: f64) -> f64 {
    if percent.abs() < 0.05 { 0.0 } else { percent }
}
