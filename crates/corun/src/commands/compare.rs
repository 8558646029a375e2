//! `corun compare`: policies side by side.

use std::path::Path;

use corun_app::{
    ComparisonHooks, ComparisonRequest, ComparisonSetup, PolicySpec, RowKind, Timeline,
    parse_observation, timeline, trace_document,
};
use corun_input::{Fault, TomlSource};
use corun_machine::Machine;
use corun_optimal::Objective;
use corun_profile::Mix;
use corun_sim::RunResult;
use corun_views::comparison::{ComparisonPage, csv, long_csv, table};

use crate::cli::{CompareArgs, TableFormat, model_options};
use crate::failure::{Failure, Outcome};
use corun_app::Cancel;
use corun_report::{check_targets, json, write_file};

pub(super) use corun_app::{Comparison, ComparisonOutcome};

pub(super) fn run(arguments: &CompareArgs) -> Outcome<String> {
    check_targets([&arguments.report, &arguments.trace, &arguments.long].into_iter().flatten())?;
    let objective = arguments.objective.objective();
    if arguments.report.is_some() && objective != Objective::MeanSlowdown {
        let message = "--report draws mean slowdowns, which --objective sets aside";
        return Err(Failure::input(message).hint("--format json"));
    }
    let cancel = Cancel::on_signal()?;
    let mut setup = setup(arguments)?;
    setup.judge_by(objective)?;
    if let Some(settings) = &arguments.as_live {
        setup.observe(parse_observation(settings)?, !arguments.policy.is_empty())?;
    }
    let compared = compare(&setup, arguments.time_limit, &cancel)?;
    let comparison = &compared.comparison;
    let text = match arguments.format {
        TableFormat::Table => table(comparison, arguments.policy.is_empty()),
        TableFormat::Json => json(comparison)?,
        TableFormat::Csv => csv(comparison)?,
    };
    if let Some(path) = &arguments.report {
        let (machine, command) = (setup.model.machine(), super::command_line());
        let timelines = timelines(machine, &compared);
        let programs = (&setup.apps[..], &setup.profiles[..]);
        let frontier = setup.frontier(arguments.time_limit, cancel.flag())?;
        let page =
            ComparisonPage::new(comparison, machine, programs, &timelines, &frontier, &command);
        let page = page.render();
        cancel.check()?;
        write_file(path, page.as_bytes())?;
    }
    if let Some(path) = &arguments.trace {
        let runs: Vec<(&str, &RunResult)> = setup
            .policies
            .iter()
            .zip(&compared.runs)
            .filter_map(|(policy, runs)| Some((policy.name(), runs.first()?)))
            .collect();
        let document = trace_document(setup.model.machine(), &runs);
        write_file(path, json(&document)?.as_bytes())?;
    }
    if let Some(path) = &arguments.long {
        let text = long_csv(&comparison.long(&workload(arguments, comparison)))?;
        write_file(path, text.as_bytes())?;
    }
    Ok(text)
}

/// What a mix is called in a long table: its file, or its programs.
fn workload(arguments: &CompareArgs, comparison: &Comparison) -> String {
    let file = arguments.mix.as_deref().and_then(Path::file_stem);
    file.map_or_else(|| comparison.apps.join("+"), |stem| stem.to_string_lossy().into_owned())
}

fn setup(arguments: &CompareArgs) -> Outcome<ComparisonSetup> {
    let policies = PolicySpec::parse_all(&arguments.policy)?;
    let library = arguments.library.profiles.as_deref();
    let library = library.map(|path| corun_app::open_library(Some(path))).transpose()?;
    let mix = given_mix(arguments)?;
    let machine = arguments.machine.as_deref().map(super::predicted_machine).transpose()?;
    ComparisonSetup::new(ComparisonRequest {
        library,
        machine,
        mix,
        policies: (!arguments.policy.is_empty()).then_some(policies),
        seeds: arguments.seeds,
        instructions: arguments.instructions,
        options: model_options(&arguments.model),
    })
}

/// The mix of the file or of `--apps`, if either is given.
fn given_mix(arguments: &CompareArgs) -> Outcome<Option<(Mix, Option<TomlSource>)>> {
    if let Some(path) = &arguments.mix {
        let (mix, source) = Mix::load_with_source(path)?;
        return Ok(Some((mix, Some(source))));
    }
    if arguments.apps.is_empty() {
        return Ok(None);
    }
    let names: Vec<&str> = arguments.apps.iter().map(|app| app.trim()).collect();
    let mix = Mix::of_apps(&names);
    let mix = mix.map_err(|fault: Fault| Failure::input(format!("--apps: {fault}")))?;
    Ok(Some((mix, None)))
}

fn compare(
    setup: &ComparisonSetup,
    time_limit_s: f64,
    cancel: &Cancel,
) -> Outcome<ComparisonOutcome> {
    let runs = setup.policies.len() as u64 * u64::from(setup.seeds);
    let bar = corun_cli::progress_bar(runs, "{pos}/{len} runs {msg} {eta}");
    let compared = setup.compare(
        time_limit_s,
        ComparisonHooks {
            stop: cancel.flag(),
            step: &|| {
                bar.inc(1);
                if bar.position() >= bar.length().unwrap_or(0) {
                    bar.finish_and_clear();
                }
            },
        },
    );
    bar.finish_and_clear();
    compared
}

/// By row of the comparison; bounds have none.
fn timelines(machine: &Machine, compared: &ComparisonOutcome) -> Vec<Option<Timeline>> {
    let mut firsts = compared.runs.iter().map(|of_policy| of_policy.first());
    let rows = compared.comparison.policies.iter();
    rows.map(|row| match row.kind {
        RowKind::Policy => Some(timeline(machine, firsts.next()??)),
        _ => None,
    })
    .collect()
}
