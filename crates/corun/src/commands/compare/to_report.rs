//! From a comparison to what the HTML page shows.

use corun_app::{Comparison, ComparisonRow, RowKind, Timeline};
use corun_machine::Machine;
use corun_model::LoadedProgram;
use corun_profile::Profile;
use corun_sim::AppSpec;

use crate::output::counted;
use crate::report::{self, Entry, Kind, Program, Report};

/// The report. `time_lines` has one for each row, in the same order; bounds have none.
pub(super) fn report(
    comparison: &Comparison,
    machine: &Machine,
    apps: &[AppSpec],
    profiles: &[Profile],
    time_lines: Vec<Option<Timeline>>,
    command: String,
) -> Report {
    let rows = comparison.policies.iter().zip(time_lines);
    let told = rows.filter(|(row, _)| row.same_as.is_none());
    Report {
        command,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: sketch(machine),
        programs: apps.iter().zip(profiles).map(|(app, profile)| program(app, profile)).collect(),
        results: told.map(|(row, time_line)| entry(row, time_line)).collect(),
        facts: facts(comparison, machine),
        bounds_proven: comparison.policies.iter().all(|row| row.optimal_proven != Some(false)),
        extrapolated: extrapolated(comparison),
    }
}

fn program(app: &AppSpec, profile: &Profile) -> Program {
    let sizes = profile.measured_sizes();
    Program {
        name: app.name.clone(),
        solo_mpki: app.program.phase(LoadedProgram::WHOLE).best.llc_mpki,
        curve: sizes
            .into_iter()
            .map(|bytes| (bytes as f64, profile.solo_mpki(bytes as f64).value))
            .collect(),
    }
}

fn entry(row: &ComparisonRow, time_line: Option<Timeline>) -> Entry {
    Entry {
        name: row.policy.clone(),
        kind: match row.kind {
            RowKind::Policy => Kind::Policy,
            RowKind::Optimal => Kind::Optimal,
            RowKind::Expectation => Kind::Expectation,
            RowKind::Worst => Kind::Worst,
        },
        mean_slowdown: row.mean_slowdown,
        stp: row.stp,
        unfairness: row.unfairness,
        worst_slowdown: row.worst_slowdown,
        spread: row.spread,
        migrations: row.migrations,
        above_optimal_percent: row.above_optimal_percent,
        slowdowns: row.slowdown.clone(),
        placement: row.cpu.clone(),
        time_line,
    }
}

/// The machine as packages, LLCs and cores. An LLC that spans packages stands in the first.
fn sketch(machine: &Machine) -> report::Machine {
    let llc = |place: usize| {
        let llc = &machine.llcs()[place];
        report::Llc {
            label: format!("LLC {place}"),
            bytes: llc.cache.map(|cache| cache.size_bytes),
            cores: machine
                .cores()
                .iter()
                .filter(|core| core.cpus.is_subset(&llc.cpus))
                .map(|core| core.cpus.iter().map(|cpu| cpu.0).collect())
                .collect(),
        }
    };
    let package = |place: usize| {
        let package = &machine.packages()[place];
        let here = |llc: &usize| {
            let first = machine.llcs()[*llc].cpus.first();
            first.is_some_and(|cpu| package.cpus.contains(cpu))
        };
        report::Package {
            label: format!("Package {}", package.os_index),
            llcs: (0..machine.llcs().len()).filter(here).map(llc).collect(),
        }
    };
    report::Machine {
        name: machine.name().to_owned(),
        title: machine.title().to_owned(),
        packages: (0..machine.packages().len()).map(package).collect(),
    }
}

fn facts(comparison: &Comparison, machine: &Machine) -> Vec<(String, String)> {
    let data = &comparison.data;
    let mut facts = vec![
        (
            "Experiment".to_owned(),
            format!("{}; {}", comparison.method, counted(comparison.seeds as usize, "seed")),
        ),
        ("Profiles".to_owned(), data.model.profiles.clone()),
        (
            "Model".to_owned(),
            format!("space by {}, bandwidth by {}", data.model.space, data.model.bandwidth_model),
        ),
    ];
    let mut fact = |label: &str, text: String| facts.push((label.to_owned(), text));
    if let Some(peak) = data.model.peak_mb_per_s {
        fact("Peak bandwidth", format!("{peak} MB/s, as asked for"));
    }
    if let Some(optimal) = comparison.policies.iter().find(|row| row.kind == RowKind::Optimal) {
        let proven = optimal.optimal_proven == Some(true);
        let how = if proven { "proven by search" } else { "the best found, not proven" };
        fact("Optimum", format!("least mean slowdown over all placements, {how}"));
    }
    if let Some(row) = comparison.policies.iter().find(|row| row.kind == RowKind::Expectation) {
        fact(
            "Random",
            match row.standard_error {
                Some(error) => format!("mean over sampled placements, standard error {error:.4}"),
                None => "exact mean over all placements".to_owned(),
            },
        );
    }
    for (first, others) in comparison.identical_policies() {
        fact("Alike", format!("{first} and {} did the same here", others.join(", ")));
    }
    if let Some(why) = &data.no_optimum {
        fact("No optimum", why.clone());
    }
    for warning in machine.warnings() {
        fact("Machine", warning.clone());
    }
    facts
}

fn extrapolated(comparison: &Comparison) -> Vec<String> {
    let outside = |name: &String| format!("{name}: read outside its measured cache sizes");
    comparison.data.extrapolated.iter().map(outside).collect()
}
