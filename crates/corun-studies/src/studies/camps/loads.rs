//! What threads do at half, full and double load: the spread of completion times over runs (Fig. 4.6), the
//! throughput of independent requests (Fig. 4.7) and the 99th percentile of wake-up latency (Fig. 4.8).

use corun_app::Result;
use corun_policy::Nanoseconds;
use corun_profile::{Io, Method};
use corun_report::fixed;
use corun_sim::{AppSpec, RunResult};
use rayon::prelude::*;

use super::big_little::BigLittle;
use super::mean;
use crate::harness::{Figure, PaperClaim, StudyInputs};

/// The thesis's machines, and what CAMPS was compared with on each.
const RIVALS: [(&str, &str); 2] = [("quickia-2b2s", "linux-default"), ("odroid-4b4s", "hmp")];
/// Threads for each two CPUs.
const LOADS: [(&str, usize); 3] = [("half", 1), ("full", 2), ("double", 4)];
/// Runs for each seed that is asked for; the thesis has at least 20.
const RUNS_PER_SEED: u64 = 10;

/// A workload of Fig. 4.6.
struct Workload {
    shown: &'static str,
    /// Time of an instance on a big core, in s; of several threads, each thread.
    solo_s: f64,
    io: Option<Io>,
    method: Method,
    /// One instance with a thread for each CPU, at full load alone?
    threaded: bool,
}

impl Workload {
    /// Does the model know its time alone on a big core? That of one that waits or has many threads depends on
    /// where the scheduler puts it.
    fn is_relative(&self) -> bool {
        self.io.is_none() && !self.threaded
    }
}

const fn alone(shown: &'static str) -> Workload {
    Workload { shown, solo_s: 5.0, io: None, method: Method::FirstRun, threaded: false }
}

const fn threaded(shown: &'static str) -> Workload {
    Workload { threaded: true, ..alone(shown) }
}

static WORKLOADS: [Workload; 10] = [
    alone("gamess"),
    alone("bzip2"),
    alone("crafty"),
    // Short compilations one after the other, each of which reads and writes files.
    Workload {
        solo_s: 0.5,
        io: Some(Io { cpu_ms: 18.0, wait_ms: 2.0 }),
        method: Method::Restart3,
        ..alone("kernbench")
    },
    // Encrypts a block, then waits for the network.
    Workload { solo_s: 0.5, io: Some(Io { cpu_ms: 2.0, wait_ms: 8.0 }), ..alone("scp") },
    threaded("semphy"),
    threaded("kmeans"),
    threaded("RNAseq"),
    threaded("FFTW3D"),
    threaded("EP"),
];

/// Fig. 4.8: a worker spins for 30 ms and sleeps for 30 ms, the benchmark's own defaults.
const WORKER: Io = Io { cpu_ms: 30.0, wait_ms: 30.0 };
/// How long Fig. 4.7 and 4.8 are looked at, in s.
const WINDOW_S: f64 = 10.0;
/// Wake-ups of this long from the start do not count: threads find their places.
pub(super) const WARM_UP: Nanoseconds = Nanoseconds(1_000_000_000);

/// A run's place in the figures: machine, policy (0 the rival, 1 CAMPS), load.
type Cell = (usize, usize, usize);
/// What was found at each place.
type Cells = Vec<(Cell, Vec<f64>)>;

fn policy(machine: usize, place: usize) -> &'static str {
    if place == 0 { RIVALS[machine].1 } else { "camps" }
}

fn machines() -> Result<Vec<BigLittle>> {
    RIVALS.iter().map(|one| BigLittle::new(one.0)).collect()
}

fn cpus(machine: &BigLittle) -> usize {
    machine.model.machine().cpus().len()
}

fn seeds(inputs: &StudyInputs) -> Vec<u64> {
    let all = 1..=RUNS_PER_SEED * u64::from(inputs.seeds);
    all.step_by(inputs.every(5, "runs for each seed")).collect()
}

/// The value that this share of all are at most (nearest rank); none where there are none.
pub(super) fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// Least, middle and most.
fn summary(values: &[f64]) -> [f64; 3] {
    [0.0, 0.5, 1.0].map(|share| percentile(values, share).unwrap_or(f64::NAN))
}

/// Copies of a program.
fn copies(app: &AppSpec, count: usize) -> Vec<AppSpec> {
    let named = |copy: usize| AppSpec { name: format!("{}#{copy}", app.name), ..app.clone() };
    (1..=count).map(named).collect()
}

/// All pages of this kind: one value list for each machine, policy and load, over the seeds.
fn by_cell(loads: &[usize], of: impl Fn(Cell) -> Result<Vec<f64>> + Sync) -> Result<Cells> {
    let cells: Vec<Cell> = (0..RIVALS.len())
        .flat_map(|machine| {
            (0..2).flat_map(move |policy| loads.iter().map(move |&load| (machine, policy, load)))
        })
        .collect();
    cells.into_par_iter().map(|cell| Ok((cell, of(cell)?))).collect()
}

fn found(all: &[(Cell, Vec<f64>)], cell: Cell) -> &[f64] {
    all.iter().find(|one| one.0 == cell).map_or(&[], |one| &one.1)
}

/// Completion times of a workload's instances: each over its time alone where the model knows it, else
/// in s.
fn completions(
    inputs: &StudyInputs,
    on: &BigLittle,
    workload: &Workload,
    (machine, place, load): Cell,
) -> Result<Vec<f64>> {
    let cpus = cpus(on);
    let threads = if workload.threaded { cpus as u32 } else { 1 };
    let solo_s = inputs.length_s(workload.solo_s);
    let mut app = on.apps(inputs, &[(workload.shown, threads)], solo_s)?.remove(0);
    app.io = workload.io;
    let count = if workload.threaded { 1 } else { cpus * LOADS[load].1 / 2 };
    let apps = copies(&app, count);
    let mut values = Vec::new();
    for seed in seeds(inputs) {
        let policy = (policy(machine, place), &[][..]);
        let run = on.run(inputs, &apps, policy, (workload.method, WINDOW_S, seed))?;
        values.extend(run.apps.iter().filter_map(|app| {
            if workload.is_relative() { app.slowdown } else { app.mean_completion_s }
        }));
    }
    Ok(values)
}

/// Machine and policy of each column of Fig. 4.6.
const COLUMNS: [(usize, usize); 4] = [(0, 0), (0, 1), (1, 0), (1, 1)];

/// A workload at a load: least, median and most of its slowdowns, by [`COLUMNS`].
struct Spread {
    workload: &'static Workload,
    load: usize,
    slowdowns: [[f64; 3]; 4],
}

impl Spread {
    fn new(workload: &'static Workload, load: usize, all: &Cells) -> Self {
        let slowdowns = COLUMNS.map(|(machine, policy)| {
            // Others against their fastest run on the machine.
            let here = all.iter().filter(|one| one.0.0 == machine).flat_map(|one| &one.1);
            let fastest = here.copied().fold(f64::INFINITY, f64::min);
            let unit = if workload.is_relative() { 1.0 } else { fastest };
            summary(found(all, (machine, policy, load))).map(|one| one / unit)
        });
        Self { workload, load, slowdowns }
    }

    /// Most over least.
    fn ratio(&self, column: usize) -> f64 {
        let [least, _, most] = self.slowdowns[column];
        most / least
    }

    /// A compute-intensive program at double load?
    fn is_crowded(&self) -> bool {
        self.workload.is_relative() && self.load == 2
    }
}

/// Fig. 4.6.
pub(super) fn spread(inputs: &StudyInputs) -> Result<(PaperClaim, Figure)> {
    let machines = machines()?;
    let loads = |workload: &Workload| if workload.threaded { &[1][..] } else { &[0, 1, 2][..] };
    let workloads: Vec<&Workload> =
        WORKLOADS.iter().step_by(inputs.every(2, "workloads of Fig. 4.6")).collect();
    let measured: Vec<Cells> = workloads
        .par_iter()
        .map(|&workload| {
            let of = |cell: Cell| completions(inputs, &machines[cell.0], workload, cell);
            by_cell(loads(workload), of)
        })
        .collect::<Result<_>>()?;
    let mut spreads: Vec<Spread> = Vec::new();
    for (&workload, all) in workloads.iter().zip(&measured) {
        spreads.extend(loads(workload).iter().map(|&load| Spread::new(workload, load, all)));
    }
    let widest = [0, 1, 2, 3].map(|column| {
        let crowded = spreads.iter().filter(|one| one.is_crowded());
        fixed(crowded.map(|one| one.ratio(column)).fold(0.0, f64::max), 2)
    });
    let finding = PaperClaim::new(
        "Spread of slowdowns (highest / lowest) of compute-intensive programs at double load, the widest: \
         linux-default and CAMPS on the QuickIA, hmp and CAMPS on the Odroid (Fig. 4.6)",
        "3.1 (gamess: 1.37 to 4.22) under CFS, CAMPS repeatable",
        widest.join(", "),
    );
    Ok((finding, spread_figure(&spreads)))
}

fn spread_figure(spreads: &[Spread]) -> Figure {
    let about = "Slowdowns of all instances in all runs, against the program alone on a big core; of \
                 programs with a thread for each CPU, against their fastest run. Half, full and double \
                 load: a thread for every second CPU, for each, two for each. kernbench: compilations of \
                 0.5 s, of which 10 % are waits; scp: encryption for 2 ms, then 8 ms of waiting. Threads \
                 of a program do not wait for each other here, and semphy has no serial phases.";
    let mut rows = Figure::new("fig-4-6", "Fig. 4.6: spread of slowdowns over runs", about)
        .rows("workload", spreads, |one| one.workload.shown.to_owned())
        .words("load", |one| LOADS[one.load].0.to_owned())
        .labelled(|one| format!("{} {}", one.workload.shown, LOADS[one.load].0));
    for (column, (machine, place)) in COLUMNS.into_iter().enumerate() {
        let who = format!("{}, {}", RIVALS[machine].0, policy(machine, place));
        for (figure, what) in ["least", "median", "most"].into_iter().enumerate() {
            let head = format!("{who}: {what}");
            rows = rows.column(head, 2, |one| one.slowdowns[column][figure]);
        }
        rows = rows.series(who, |one| Some(one.ratio(column)).filter(|one| one.is_finite()));
    }
    rows.bars(1.0, "highest slowdown / lowest")
}

/// Fig. 4.7: each thread answers requests of its own, always busy.
pub(super) fn requests(inputs: &StudyInputs) -> Result<(PaperClaim, Figure)> {
    let (machines, window_s) = (machines()?, inputs.length_s(WINDOW_S));
    let of = |(machine, place, load): Cell| {
        let on = &machines[machine];
        // Longer than the window: nobody starts again.
        let app = on.apps(inputs, &[("ebizzy", 1)], 2.0 * window_s)?.remove(0);
        let apps = copies(&app, cpus(on) * LOADS[load].1 / 2);
        let rate = |seed: u64| {
            let policy = (policy(machine, place), &[][..]);
            let run = on.run(inputs, &apps, policy, (Method::Window, window_s, seed))?;
            Ok(run.instructions() / run.simulated_s * 1e-9)
        };
        seeds(inputs).into_iter().map(rate).collect::<Result<Vec<f64>>>()
    };
    let all = by_cell(&[0, 1, 2], of)?;
    let more = |machine: usize, load: usize| {
        let of = |place: usize| mean(found(&all, (machine, place, load)));
        100.0 * (of(1) / of(0) - 1.0)
    };
    let words =
        |machine: usize| [0, 1, 2].map(|load| format!("{:+.1} %", more(machine, load))).join(", ");
    let finding = PaperClaim::new(
        "A web-server-like load: CAMPS's throughput against linux-default's on the QuickIA and hmp's on \
         the Odroid, at half, full and double load (Fig. 4.7)",
        "no worse, -1.6 %, -1.6 %; no worse, +21 %, +37 %",
        format!("{}; {}", words(0), words(1)),
    );
    let about = "Instructions a second of all threads, which stand for requests: every thread answers \
                 requests without a pause, and none waits for another. ebizzy's nearest program here is \
                 memcached.";
    let heading = "Fig. 4.7: throughput of a web-server-like load";
    Ok((finding, figure(("fig-4-7", heading, about), "1e9 instructions/s", &all)))
}

/// Fig. 4.8: the 99th percentile of wake-up latency, in ms.
pub(super) fn latency(inputs: &StudyInputs) -> Result<(PaperClaim, Figure)> {
    let (machines, window_s) = (machines()?, inputs.length_s(WINDOW_S));
    let of = |(machine, place, load): Cell| {
        let on = &machines[machine];
        let app = on.apps(inputs, &[("EP", 1)], window_s)?.remove(0);
        let app = AppSpec { io: Some(WORKER), ..app };
        let apps = copies(&app, cpus(on) * LOADS[load].1 / 2);
        let p99 = |seed: u64| {
            let policy = (policy(machine, place), &[][..]);
            let run = on.run(inputs, &apps, policy, (Method::Window, window_s, seed))?;
            Ok(p99_ms(&run))
        };
        seeds(inputs).into_iter().map(p99).collect::<Result<Vec<f64>>>()
    };
    let all = by_cell(&[0, 1, 2], of)?;
    let ms = |machine: usize, place: usize| {
        [0, 1, 2].map(|load| fixed(mean(found(&all, (machine, place, load))), 2)).join(", ")
    };
    let finding = PaperClaim::new(
        "99th percentile of wake-up latency in ms at half, full and double load: CAMPS against \
         linux-default on the QuickIA, against hmp on the Odroid (Fig. 4.8)",
        "CAMPS 65 % lower, lower, 7 % higher; 45 % lower, up to 53 % lower in both",
        format!("{} against {}; {} against {}", ms(0, 1), ms(0, 0), ms(1, 1), ms(1, 0)),
    );
    let about = "Workers that spin for 30 ms and sleep for 30 ms (schbench's defaults), at all times of \
                 waiting for a CPU after a wake-up from the second second on. The mean of the runs' \
                 percentiles, least and most. The path through the kernel takes no time in the simulator.";
    let heading = "Fig. 4.8: 99th percentile of wake-up latency";
    Ok((finding, figure(("fig-4-8", heading, about), "ms", &all)))
}

fn p99_ms(run: &RunResult) -> f64 {
    let late = |one: &&corun_sim::WakeUp| one.at >= WARM_UP;
    let waits: Vec<f64> =
        run.wake_ups.iter().filter(late).map(|one| one.waited.as_secs_f64() * 1e3).collect();
    percentile(&waits, 0.99).unwrap_or(f64::NAN)
}

fn figure(words: (&str, &str, &str), unit: &str, all: &[(Cell, Vec<f64>)]) -> Figure {
    let (id, heading, about) = words;
    let cases: Vec<(usize, usize)> = (0..RIVALS.len())
        .flat_map(|machine| (0..LOADS.len()).map(move |load| (machine, load)))
        .collect();
    let mut rows = Figure::new(id, heading, about)
        .rows("machine", &cases, |case| RIVALS[case.0].0.to_owned())
        .labelled(|case| format!("{}, {}", RIVALS[case.0].0, LOADS[case.1].0))
        .words("load", |case| LOADS[case.1].0.to_owned())
        .words("rival", |case| RIVALS[case.0].1.to_owned());
    for (place, who, drawn) in [(0, "rival", "linux-default or hmp"), (1, "camps", "camps")] {
        let values = |case: &(usize, usize)| found(all, (case.0, place, case.1));
        rows = rows
            .column(format!("{who}: mean, {unit}"), 3, |case| mean(values(case)))
            .drawn(drawn)
            .column(format!("{who}: least, {unit}"), 3, |case| summary(values(case))[0])
            .column(format!("{who}: most, {unit}"), 3, |case| summary(values(case))[2]);
    }
    rows.bars(0.0, unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_was_there() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 0.99), Some(198.0));
        assert_eq!(summary(&values), [1.0, 100.0, 200.0]);
        assert_eq!(percentile(&[7.0], 0.99), Some(7.0));
        assert_eq!(percentile(&[], 0.5), None);
    }
}
