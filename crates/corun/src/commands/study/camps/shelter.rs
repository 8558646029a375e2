//! Latency-sensitive programs while big cores are held idle (section 4.3.4): on small cores, or left where
//! they are.

use std::collections::BTreeSet;

use corun_policy::{Action, ThreadId};
use corun_profile::{Io, Method};
use corun_sim::{AppSpec, RunResult};
use rayon::prelude::*;

use super::bench::Bench;
use super::loads::{WARM_UP, percentile};
use super::{figure, number, strings};
use crate::commands::study::paper::Ground;
use crate::failure::Outcome;
use crate::report::{Chart, ChartKind, Finding, StudyFigure};

const MACHINES: [&str; 3] = ["juno-2b4s", "odroid-4b4s", "quickia-2b2s"];
/// Answers a request for 2 ms, then waits 8 ms for the next.
const SERVER: Io = Io { cpu_ms: 2.0, wait_ms: 8.0 };
const SERVERS: usize = 2;
/// How long it is looked at, in s.
const WINDOW_S: f64 = 30.0;
const RUNS_PER_SEED: u64 = 10;

/// How the servers are treated.
struct Case {
    shown: &'static str,
    important: bool,
    parameters: &'static [(&'static str, f64)],
}

const CASES: [Case; 3] = [
    Case { shown: "left alone", important: false, parameters: &[] },
    Case { shown: "sheltered", important: true, parameters: &[] },
    Case { shown: "no core held idle", important: false, parameters: &[("idle-big-cores", 0.0)] },
];

/// Of a case on a machine: by seed the servers' 99th percentile and longest wait in ms, and big cores
/// held idle a second.
struct Found {
    p99_ms: Vec<f64>,
    longest_ms: Vec<f64>,
    idled_per_s: f64,
}

/// As many programs as CPUs that fill the bus, and the servers.
fn apps(ground: &Ground, bench: &Bench, important: bool) -> Outcome<Vec<AppSpec>> {
    let cpus = bench.model.machine().cpus().len();
    let hungry: Vec<_> = ["lbm", "milc", "bwaves"].into_iter().cycle().take(cpus).collect();
    let mix: Vec<_> = hungry.into_iter().map(|name| (name, 1)).collect();
    // Longer than the window: nobody starts again.
    let mut apps = bench.apps(ground, &mix, 2.0 * WINDOW_S)?;
    let server = bench.apps(ground, &[("ebizzy", 1)], 2.0 * WINDOW_S)?.remove(0);
    let server = AppSpec { io: Some(SERVER), important, ..server };
    apps.extend(std::iter::repeat_n(server, SERVERS));
    Ok(apps)
}

/// The servers' waits for a CPU in ms.
fn waits_ms(apps: &[AppSpec], run: &RunResult) -> Vec<f64> {
    let is_server = |record: &&corun_sim::ThreadRecord| apps[record.app].io.is_some();
    let servers: BTreeSet<ThreadId> =
        run.threads.iter().filter(is_server).map(|record| record.id).collect();
    let late = run.wake_ups.iter().filter(|one| one.at >= WARM_UP && servers.contains(&one.thread));
    late.map(|one| one.waited.as_secs_f64() * 1e3).collect()
}

fn look(ground: &Ground, bench: &Bench, case: &Case) -> Outcome<Found> {
    let apps = apps(ground, bench, case.important)?;
    let mut found = Found { p99_ms: Vec::new(), longest_ms: Vec::new(), idled_per_s: 0.0 };
    let seeds = RUNS_PER_SEED * u64::from(ground.seeds);
    for seed in 1..=seeds {
        let asked = ("camps", case.parameters);
        let run = bench.run(ground, &apps, asked, (Method::Window, WINDOW_S, seed))?;
        let waits = waits_ms(&apps, &run);
        found.p99_ms.push(percentile(&waits, 0.99).unwrap_or(f64::NAN));
        found.longest_ms.push(percentile(&waits, 1.0).unwrap_or(f64::NAN));
        let idled = run.log.iter().filter(|one| matches!(one.action, Action::IdleCpu { .. }));
        found.idled_per_s += idled.count() as f64 / run.simulated_s / seeds as f64;
    }
    Ok(found)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Servers' wake-up latency beside programs that fill the bus.
pub(super) fn latency(ground: &Ground) -> Outcome<(Finding, StudyFigure)> {
    let jobs: Vec<(&str, &Case)> = MACHINES
        .iter()
        .flat_map(|&machine| CASES.iter().map(move |case| (machine, case)))
        .collect();
    let of = |&(machine, case): &(&str, &Case)| look(ground, &Bench::new(machine)?, case);
    let found: Vec<Found> = jobs.par_iter().map(of).collect::<Outcome<_>>()?;
    let by_machine: Vec<&[Found]> = found.chunks(CASES.len()).collect();
    Ok((finding(&by_machine), page(&by_machine)))
}

fn finding(by_machine: &[&[Found]]) -> Finding {
    let words = |(found, machine): (&&[Found], &str)| {
        let [left, sheltered, without] = [0, 1, 2].map(|case| mean(&found[case].p99_ms));
        let longest = [0, 1, 2].map(|case| format!("{:.1}", mean(&found[case].longest_ms)));
        format!(
            "{machine}: {left:.2}, {sheltered:.2}, {without:.2} (longest: {})",
            longest.join(", ")
        )
    };
    Finding {
        what: "99th percentile of servers' wake-up latency in ms beside programs that fill the bus: left alone, sheltered \
               on small cores, and without idled cores (section 4.3.4)"
            .to_owned(),
        paper: "proposed, no figure".to_owned(),
        ours: by_machine.iter().zip(MACHINES).map(words).collect::<Vec<_>>().join("; "),
        difference: String::new(),
    }
}

fn page(by_machine: &[&[Found]]) -> StudyFigure {
    let rows = by_machine.iter().zip(MACHINES).flat_map(|(found, machine)| {
        found.iter().zip(&CASES).map(move |(found, case)| {
            let mut row = strings(&[machine, case.shown]);
            let of = |share: f64| percentile(&found.p99_ms, share).unwrap_or(f64::NAN);
            row.extend([mean(&found.p99_ms), of(0.0), of(1.0)].map(|one| number(one, 3)));
            row.push(number(mean(&found.longest_ms), 1));
            row.push(number(found.idled_per_s, 2));
            row
        })
    });
    let series = |case: usize| {
        let value =
            |found: &&[Found]| Some(mean(&found[case].p99_ms)).filter(|one| one.is_finite());
        (CASES[case].shown.to_owned(), by_machine.iter().map(value).collect())
    };
    let chart = Chart {
        kind: ChartKind::BarsFrom(0.0),
        across: "machine".to_owned(),
        upwards: "ms".to_owned(),
        labels: MACHINES.map(str::to_owned).to_vec(),
        series: (0..CASES.len()).map(series).collect(),
    };
    let about = "Two servers that answer for 2 ms and wait for 8 ms, beside as many programs that fill the bus (lbm, milc, \
                 bwaves) as there are CPUs, under camps for 30 s: time from a wake-up to a CPU, from the second second on. \
                 The mean of the runs' 99th percentiles, least and most; the longest wait, the mean over runs; big cores held idle (100 ms each) a second. \
                 Sheltered: the servers are marked important.";
    figure(
        "sheltering",
        "Section 4.3.4: latency-sensitive programs while big cores are held idle",
        about,
        Some(chart),
        strings(&["machine", "servers", "p99 mean, ms", "least", "most", "longest, ms", "idled/s"]),
        rows.collect(),
    )
}
