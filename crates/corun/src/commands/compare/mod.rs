//! `corun compare`: policies side by side.

mod bounds;
mod document;
mod figures;
mod history;
mod setup;
mod simulate;
mod to_report;

use anyhow::anyhow;
use corun_machine::Machine;
use corun_model::ModelOptions;
use corun_profile::{Library, Method, Mix};
use corun_sim::RunResult;

pub(super) use self::document::Comparison;
use self::document::{Data, Row, RowKind};
use self::figures::figures;
use self::history::History;
use self::setup::Setup;
use crate::cancel::Cancel;
use crate::cli::{CompareArgs, TableFormat};
use crate::failure::Outcome;
use crate::output::{check_target, json, round, write_file};
use crate::report::{self, TimeLine};
use crate::scenario::data_of;

/// How long a study looks for an optimum, in seconds.
const OPTIMUM_LIMIT_S: f64 = 60.0;

/// Digits after the point in the document: more are not the model's to give.
const DIGITS: i32 = 6;

pub(super) fn run(arguments: &CompareArgs) -> Outcome<String> {
    if let Some(path) = &arguments.report {
        check_target(path)?;
    }
    let cancel = Cancel::on_signal()?;
    let setup = Setup::new(arguments)?;
    let compared = compare(&setup, arguments.time_limit, &cancel)?;
    let comparison = &compared.comparison;
    let text = match arguments.format {
        TableFormat::Table => comparison.table(),
        TableFormat::Json => json(comparison)?,
        TableFormat::Csv => comparison.csv()?,
    };
    if let Some(path) = &arguments.report {
        let report = to_report::report(
            comparison,
            setup.model.machine(),
            &setup.apps,
            &setup.profiles,
            compared.time_lines,
            super::command_line(),
        );
        let page = report::render(&report);
        cancel.check()?;
        write_file(path, page.as_bytes())?;
    }
    Ok(text)
}

/// A comparison that a study asks for.
pub(super) struct Ask<'a> {
    /// Where the mix's profiles are looked up.
    pub(super) library: &'a Library,
    pub(super) machine: Machine,
    pub(super) options: ModelOptions,
    pub(super) mix: Mix,
    pub(super) policies: &'a [&'a str],
    pub(super) seeds: u32,
}

/// The comparison alone, for studies.
pub(super) fn comparison(ask: Ask<'_>, cancel: &Cancel) -> Outcome<Comparison> {
    let Ask { library, machine, options, mix, policies, seeds } = ask;
    let policies = policies.iter().map(|&name| name.to_owned()).collect();
    let setup = Setup::of(library, machine, options, &mix, None, seeds, policies)?;
    Ok(compare(&setup, OPTIMUM_LIMIT_S, cancel)?.comparison)
}

struct Compared {
    comparison: Comparison,
    /// By row.
    time_lines: Vec<Option<TimeLine>>,
}

fn compare(setup: &Setup, time_limit_s: f64, cancel: &Cancel) -> Outcome<Compared> {
    let bar = simulate::progress(setup.policies.len() as u64 * u64::from(setup.seeds));
    let runs = simulate::policies(setup, cancel, &bar);
    bar.finish_and_clear();
    let runs = runs?;
    let bounds = bounds::bounds(setup, time_limit_s, cancel)?;
    let mut rows = Vec::new();
    let mut time_lines = Vec::new();
    for (policy, of_policy) in setup.policies.iter().zip(&runs) {
        let (row, time_line) = policy_row(setup, policy, of_policy)?;
        rows.push(row);
        time_lines.push(Some(time_line));
    }
    Row::mark_the_same(&mut rows);
    let mut no_optimum = None;
    let mut extrapolated = extrapolated(setup, runs.iter().flatten());
    match bounds {
        Ok(found) => {
            found.measure(&mut rows);
            extrapolated.extend(found.extrapolated);
            time_lines.insert(0, None);
            rows.insert(0, found.optimal);
            rows.extend(found.expectation);
            rows.push(found.worst);
            time_lines.resize(rows.len(), None);
        }
        Err(why) => no_optimum = Some(why),
    }
    extrapolated.sort_unstable();
    extrapolated.dedup();
    let names = |place: usize| setup.apps[place].name.clone();
    let options = setup.model.options();
    let comparison = Comparison {
        machine: setup.model.machine().name().to_owned(),
        apps: setup.apps.iter().map(|app| app.name.clone()).collect(),
        method: method_name(setup.method).to_owned(),
        seeds: setup.seeds,
        data: Data {
            profiles: data_of(&setup.profiles),
            space: options.space.to_string(),
            bandwidth_model: options.bandwidth.to_string(),
            compat: options.compatibility.to_string(),
            peak_mb_per_s: options.peak_mb_per_s,
            extrapolated: extrapolated.into_iter().map(names).collect(),
            no_optimum,
        },
        policies: rows,
    };
    Ok(Compared { comparison, time_lines })
}

fn policy_row(setup: &Setup, policy: &str, runs: &[RunResult]) -> Outcome<(Row, TimeLine)> {
    let figures = figures(runs)
        .ok_or_else(|| anyhow!("{policy}: a program got nothing done, so there is no slowdown"))?;
    let first = runs.first().ok_or_else(|| anyhow!("{policy}: no run"))?;
    let machine = setup.model.machine();
    let history = History::new(machine, first);
    let cpus = history.longest_cpus();
    let rounded = |value: f64| round(value, DIGITS);
    let row = Row {
        policy: policy.to_owned(),
        kind: RowKind::Policy,
        same_as: None,
        mean_slowdown: rounded(figures.mean_slowdown),
        standard_error: None,
        stp: Some(rounded(figures.stp)),
        unfairness: Some(rounded(figures.unfairness)),
        worst_slowdown: Some(rounded(figures.worst_slowdown)),
        spread: figures.spread.map(rounded),
        worst_over_best: figures.worst_over_best.map(rounded),
        migrations: Some(rounded(figures.migrations)),
        llc_migrations: Some(rounded(figures.llc_migrations)),
        above_optimal_percent: None,
        optimal_proven: None,
        slowdown: figures.slowdown.into_iter().map(rounded).collect(),
        cpu: cpus.iter().map(|&cpu| machine.cpus()[cpu].id.0).collect(),
        llc: cpus.iter().map(|&cpu| machine.cpus()[cpu].llc).collect(),
    };
    Ok((row, history.time_line()))
}

/// The programs with a figure that was read outside the measured range.
fn extrapolated<'a>(setup: &Setup, runs: impl Iterator<Item = &'a RunResult>) -> Vec<usize> {
    let mut found = vec![false; setup.apps.len()];
    for run in runs {
        for (place, app) in run.apps.iter().enumerate() {
            found[place] |= app.extrapolated;
        }
    }
    (0..found.len()).filter(|&place| found[place]).collect()
}

/// The method's name in mix files.
fn method_name(method: Method) -> &'static str {
    match method {
        Method::Restart3 => "restart-3",
        Method::Window => "window",
        Method::FirstRun => "first-run",
    }
}
