//! A comparison as a table and as CSV.

use corun_app::{Comparison, ComparisonRow, LongRow, Result, RowKind, SHORT_RUN_S};
use corun_policy::PolicyEntry;
use corun_report::{Columns, counted, or_dash, or_empty};

use super::services;
use crate::basis::sources;

/// The long table as CSV.
///
/// # Errors
/// None that a table has.
pub fn long_csv(rows: &[LongRow]) -> Result<String> {
    Columns::of(rows)
        .left("workload", |row| row.workload.clone())
        .left("policy", |row| row.policy.clone())
        .left("app", |row| row.app.clone())
        .left("property", |row| row.property)
        .left("value", |row| row.value)
        .csv()
}

/// `sort, 8 x xz`: copies of a program, which are called `xz`, `xz#2` and so on, are counted where there are more
/// than two.
fn counted_apps(apps: &[String]) -> String {
    let program = |app: &'_ String| -> String {
        let copy = app.rsplit_once('#').filter(|(_, number)| number.parse::<u32>().is_ok());
        copy.map_or_else(|| app.clone(), |(name, _)| name.to_owned())
    };
    let mut counts: Vec<(String, Vec<&str>)> = Vec::new();
    for app in apps {
        let name = program(app);
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, copies)) => copies.push(app),
            None => counts.push((name, vec![app])),
        }
    }
    let words = counts.iter().map(|(name, copies)| match copies.len() {
        0..=2 => copies.join(", "),
        count => format!("{count} x {name}"),
    });
    words.collect::<Vec<String>>().join(", ")
}

/// For people: one line a policy, then what it stands on. `introduce`: a line on what each policy goes by, for
/// who has chosen none.
pub fn table(comparison: &Comparison, introduce: bool) -> String {
    let above = |row: &&ComparisonRow| {
        let percent = row.above_optimal_percent;
        percent.map_or("-".to_owned(), |above| format!("{:+.1} %", tidy(above)))
    };
    let rows: Vec<&ComparisonRow> = comparison.distinct_rows().collect();
    let mut columns = Columns::of(&rows)
        .left("policy", |row| row.policy.clone())
        .right("mean slowdown", |row| format!("{:.3}", row.mean_slowdown))
        .right("above optimum", above);
    if comparison.objective.starts_with("energy") {
        columns = columns
            .right("energy J", |row| or_dash(row.energy_per_work_j, 2))
            .right("energy x delay J", |row| or_dash(row.energy_delay_per_work_j, 2));
    }
    let columns = columns
        .right("worst slowdown", |row| or_dash(row.worst_slowdown, 3))
        .right("STP", |row| or_dash(row.stp, 3))
        .right("unfairness", |row| or_dash(row.unfairness, 3))
        .right("spread %", |row| or_dash(row.spread.map(|spread| spread * 100.0), 2))
        .right("migrations", |row| or_dash(row.migrations, 1));
    let mut text = format!(
        "{} on {}: {}\n{}, {}{}\n\n",
        counted(comparison.apps.len(), "program"),
        comparison.machine,
        counted_apps(&comparison.apps),
        comparison.method,
        counted(comparison.seeds as usize, "seed"),
        if comparison.as_live { ", policies see the machine as live" } else { "" },
    );
    text.push_str(&columns.table());
    text.push('\n');
    if let Some(services) = services::table(comparison) {
        text.push_str(&services);
        text.push('\n');
    }
    if introduce {
        text.push_str(&introductions(comparison));
    }
    for note in notes(comparison) {
        text.push_str(&note);
        text.push('\n');
    }
    text
}

/// What each policy of the table goes by.
fn introductions(comparison: &Comparison) -> String {
    let policies = comparison.distinct_rows().filter(|row| row.kind == RowKind::Policy);
    let entries: Vec<&PolicyEntry> =
        policies.filter_map(|row| PolicyEntry::named(&row.policy)).collect();
    let width = entries.iter().map(|one| one.name.len()).max().unwrap_or(0);
    let line = |one: &&PolicyEntry| format!("{:width$}  {}\n", one.name, one.summary);
    entries.iter().map(line).chain(["\n".to_owned()]).collect()
}

/// What runs that are too short mean, where there are any.
pub(super) fn short_runs(names: &[String]) -> Option<String> {
    let names = match names {
        [] => return None,
        names => names.join(", "),
    };
    let short_ms = SHORT_RUN_S * 1e3;
    Some(format!(
        "shorter than {short_ms} ms alone: {names}; caches hardly fill in that, and slowdowns of such runs say little"
    ))
}

fn notes(comparison: &Comparison) -> Vec<String> {
    let alike = comparison.identical_policies().into_iter();
    let mut notes: Vec<String> = alike
        .map(|(first, others)| format!("the same as {first} here: {}", others.join(", ")))
        .collect();
    if !notes.is_empty() {
        notes.push(String::new());
    }
    notes.extend(sources(&comparison.data.model));
    if comparison.objective != "antt" {
        notes.push(format!("the bounds are the best and the worst by {}", comparison.objective));
    }
    if comparison.objective.starts_with("energy") {
        notes.push("energy: above idle, for what a program does in a second alone".to_owned());
    }
    if !comparison.data.extrapolated.is_empty() {
        let names = comparison.data.extrapolated.join(", ");
        notes.push(format!("extrapolated, outside the measured range: {names}"));
    }
    notes.extend(short_runs(&comparison.data.short_runs));
    if let Some(why) = &comparison.data.no_optimum {
        notes.push(format!("no optimum: {why}"));
    }
    if let Some(least) = comparison.data.least_mean_slowdown {
        notes.push(format!(
            "the best found: programs held on CPUs, which a search swapped; none that are held have a mean slowdown \
             below {least:.3}"
        ));
    } else if comparison.policies.iter().any(|row| row.optimal_proven == Some(false)) {
        notes.push(
            "the optimum (or worst) is the best found, not proven: --time-limit ended it"
                .to_owned(),
        );
    }
    notes
}

/// One line a policy and program; the figures of the policy stand in each of its lines.
///
/// # Errors
/// None that a comparison has.
pub fn csv(comparison: &Comparison) -> Result<String> {
    let kind = |kind| match kind {
        RowKind::Policy => "policy",
        RowKind::Optimal => "optimal",
        RowKind::Expectation => "expectation",
        RowKind::Worst => "worst",
    };
    let of_row = |row| {
        let row: &ComparisonRow = row;
        comparison.apps.iter().zip(&row.slowdown).map(move |(app, slowdown)| (row, app, *slowdown))
    };
    let rows: Vec<(&ComparisonRow, &String, f64)> =
        comparison.policies.iter().flat_map(of_row).collect();
    Columns::of(&rows)
        .left("policy", |(row, ..)| row.policy.clone())
        .left("kind", |(row, ..)| kind(row.kind))
        .left("app", |(_, app, _)| (*app).clone())
        .left("slowdown", |(.., slowdown)| *slowdown)
        .left("mean_slowdown", |(row, ..)| row.mean_slowdown)
        .left("stp", |(row, ..)| or_empty(row.stp))
        .left("unfairness", |(row, ..)| or_empty(row.unfairness))
        .left("worst_slowdown", |(row, ..)| or_empty(row.worst_slowdown))
        .left("spread", |(row, ..)| or_empty(row.spread))
        .left("migrations", |(row, ..)| or_empty(row.migrations))
        .left("above_optimal_percent", |(row, ..)| or_empty(row.above_optimal_percent))
        .left("optimal_proven", |(row, ..)| or_empty(row.optimal_proven))
        .csv()
}

/// Values that would print as -0.0 are zero.
fn tidy(percent: f64) -> f64 {
    if percent.abs() < 0.05 { 0.0 } else { percent }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_copies_of_a_program_are_counted() {
        let shown = |apps: &[&str]| {
            counted_apps(&apps.iter().map(|&app| app.to_owned()).collect::<Vec<String>>())
        };
        assert_eq!(shown(&["a", "b", "a#2"]), "a, a#2, b");
        assert_eq!(shown(&["a", "b", "a#2", "a#3", "c#x"]), "3 x a, b, c#x");
    }
}
