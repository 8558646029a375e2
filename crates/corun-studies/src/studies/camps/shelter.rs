//! Latency-sensitive programs while big cores are held idle (section 4.3.4): on small cores, or left where
//! they are.

use std::collections::BTreeSet;

use corun_app::Result;
use corun_policy::{Action, ThreadId};
use corun_profile::{Io, Method};
use corun_report::{Axis, Mark, Panel, Plot};
use corun_sim::{AppSpec, RunResult};
use rayon::prelude::*;

use super::big_little::BigLittle;
use super::loads::{WARM_UP, percentile};
use super::mean;
use crate::harness::{Figure, PaperClaim, StudyInputs};

const MACHINES: [&str; 3] = ["juno-2b4s", "odroid-4b4s", "quickia-2b2s"];
/// Answers a request for 2 ms, then waits 8 ms for the next.
const SERVER: Io = Io { cpu_ms: 2.0, wait_ms: 8.0 };
const SERVERS: usize = 2;
/// How long it is looked at, in s.
const WINDOW_S: f64 = 30.0;
const RUNS_PER_SEED: u64 = 10;

/// How the servers are treated.
struct Treatment {
    shown: &'static str,
    important: bool,
    parameters: &'static [(&'static str, f64)],
}

const TREATMENTS: [Treatment; 3] = [
    Treatment { shown: "left alone", important: false, parameters: &[] },
    Treatment { shown: "sheltered", important: true, parameters: &[] },
    Treatment {
        shown: "no core held idle",
        important: false,
        parameters: &[("idle-big-cores", 0.0)],
    },
];

/// Of a case on a machine: by seed the servers' 99th percentile and longest wait in ms, and big cores
/// held idle a second.
struct Latencies {
    p99_ms: Vec<f64>,
    longest_ms: Vec<f64>,
    idled_per_s: f64,
}

/// As many programs as CPUs that fill the bus, and the servers.
fn apps(inputs: &StudyInputs, machine: &BigLittle, important: bool) -> Result<Vec<AppSpec>> {
    let cpus = machine.model.machine().cpus().len();
    let hungry: Vec<_> = ["lbm", "milc", "bwaves"].into_iter().cycle().take(cpus).collect();
    let mix: Vec<_> = hungry.into_iter().map(|name| (name, 1)).collect();
    // Longer than the window: nobody starts again.
    let length_s = 2.0 * inputs.length_s(WINDOW_S);
    let mut apps = machine.apps(inputs, &mix, length_s)?;
    let server = machine.apps(inputs, &[("ebizzy", 1)], length_s)?.remove(0);
    let server = AppSpec { io: Some(SERVER), important, ..server };
    apps.extend(std::iter::repeat_n(server, SERVERS));
    Ok(apps)
}

/// The servers' waits for a CPU in ms.
fn waits_ms(apps: &[AppSpec], run: &RunResult) -> Vec<f64> {
    let is_server = |record: &&corun_sim::ThreadLife| apps[record.app].io.is_some();
    let servers: BTreeSet<ThreadId> =
        run.threads.iter().filter(is_server).map(|record| record.id).collect();
    let late = run.wake_ups.iter().filter(|one| one.at >= WARM_UP && servers.contains(&one.thread));
    late.map(|one| one.waited.as_secs_f64() * 1e3).collect()
}

fn measure(inputs: &StudyInputs, machine: &BigLittle, treatment: &Treatment) -> Result<Latencies> {
    let apps = apps(inputs, machine, treatment.important)?;
    let mut found = Latencies { p99_ms: Vec::new(), longest_ms: Vec::new(), idled_per_s: 0.0 };
    let seeds = RUNS_PER_SEED * u64::from(inputs.seeds);
    for seed in 1..=seeds {
        let policy = ("camps", treatment.parameters);
        let run = machine.run(inputs, &apps, policy, (Method::Window, inputs.length_s(WINDOW_S), seed))?;
        let waits = waits_ms(&apps, &run);
        found.p99_ms.push(percentile(&waits, 0.99).unwrap_or(f64::NAN));
        found.longest_ms.push(percentile(&waits, 1.0).unwrap_or(f64::NAN));
        let idled = run.log.iter().filter(|one| matches!(one.action, Action::IdleCpu { .. }));
        found.idled_per_s += idled.count() as f64 / run.simulated_s / seeds as f64;
    }
    Ok(found)
}

/// Servers' wake-up latency beside programs that fill the bus.
pub(super) fn latency(inputs: &StudyInputs) -> Result<(PaperClaim, Figure)> {
    let jobs: Vec<(&str, &Treatment)> = MACHINES
        .iter()
        .flat_map(|&machine| TREATMENTS.iter().map(move |case| (machine, case)))
        .collect();
    let of =
        |&(machine, case): &(&str, &Treatment)| measure(inputs, &BigLittle::new(machine)?, case);
    let found: Vec<Latencies> = jobs.par_iter().map(of).collect::<Result<_>>()?;
    let by_machine: Vec<&[Latencies]> = found.chunks(TREATMENTS.len()).collect();
    Ok((finding(&by_machine), figure(&by_machine)))
}

fn finding(by_machine: &[&[Latencies]]) -> PaperClaim {
    let words = |(found, machine): (&&[Latencies], &str)| {
        let [left, sheltered, without] = [0, 1, 2].map(|case| mean(&found[case].p99_ms));
        let longest = [0, 1, 2].map(|case| format!("{:.1}", mean(&found[case].longest_ms)));
        format!(
            "{machine}: {left:.2}, {sheltered:.2}, {without:.2} (longest: {})",
            longest.join(", ")
        )
    };
    PaperClaim::new(
        "99th percentile of servers' wake-up latency in ms beside programs that fill the bus: left alone, \
         sheltered on small cores, and without idled cores (section 4.3.4)",
        "proposed, no figure",
        by_machine.iter().zip(MACHINES).map(words).collect::<Vec<_>>().join("; "),
    )
}

fn figure(by_machine: &[&[Latencies]]) -> Figure {
    let mut rows: Vec<(&str, &str, &Latencies)> = Vec::new();
    for (found, machine) in by_machine.iter().zip(MACHINES) {
        rows.extend(found.iter().zip(&TREATMENTS).map(|(one, how)| (machine, how.shown, one)));
    }
    let series = TREATMENTS.iter().enumerate().map(|(place, how)| {
        let means = by_machine.iter().map(|found| Some(mean(&found[place].p99_ms)));
        (how.shown.to_owned(), means.collect())
    });
    let series: Vec<_> = series.collect();
    let upwards = Axis::Linear("ms".to_owned(), Some(0.0));
    let labels = MACHINES.map(str::to_owned).to_vec();
    let panel = Panel::of_labels(Mark::Bars, "machine", labels, upwards, &series);
    let about = "Two servers that answer for 2 ms and wait for 8 ms, beside as many programs that fill \
                 the bus (lbm, milc, bwaves) as there are CPUs, under camps for 30 s: time from a wake-up \
                 to a CPU, from the second second on. The mean of the runs' 99th percentiles, least and \
                 most; the longest wait, the mean over runs; big cores held idle (100 ms each) a second. \
                 Sheltered: the servers are marked important.";
    let heading = "Section 4.3.4: latency-sensitive programs while big cores are held idle";
    Figure::new("sheltering", heading, about)
        .rows("machine", &rows, |one| one.0.to_owned())
        .words("servers", |one| one.1.to_owned())
        .column("p99 mean, ms", 3, |one| mean(&one.2.p99_ms))
        .column("least", 3, |one| percentile(&one.2.p99_ms, 0.0))
        .column("most", 3, |one| percentile(&one.2.p99_ms, 1.0))
        .column("longest, ms", 1, |one| mean(&one.2.longest_ms))
        .column("idled/s", 2, |one| one.2.idled_per_s)
        .table()
        .drawn(Plot::of(panel))
}
