//! What threads do at half, full and double load: the spread of completion times over runs (Fig. 4.6), the
//! throughput of independent requests (Fig. 4.7) and the 99th percentile of wake-up latency (Fig. 4.8).

use corun_policy::Nanoseconds;
use corun_profile::{Io, Method};
use corun_sim::{AppSpec, RunResult};
use rayon::prelude::*;

use super::bench::Bench;
use super::{figure, number, strings};
use crate::commands::study::paper::Ground;
use crate::failure::Outcome;
use crate::report::{Chart, ChartKind, Finding, StudyFigure};

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

const WORKLOADS: [Workload; 10] = [
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

fn benches() -> Outcome<Vec<Bench>> {
    RIVALS.iter().map(|one| Bench::new(one.0)).collect()
}

fn cpus(bench: &Bench) -> usize {
    bench.model.machine().cpus().len()
}

fn seeds(ground: &Ground) -> Vec<u64> {
    (1..=RUNS_PER_SEED * u64::from(ground.seeds)).collect()
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

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Copies of a program.
fn copies(app: &AppSpec, count: usize) -> Vec<AppSpec> {
    let named = |copy: usize| AppSpec { name: format!("{}#{copy}", app.name), ..app.clone() };
    (1..=count).map(named).collect()
}

/// All pages of this kind: one value list for each machine, policy and load, over the seeds.
fn by_cell(loads: &[usize], of: impl Fn(Cell) -> Outcome<Vec<f64>> + Sync) -> Outcome<Cells> {
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
    ground: &Ground,
    bench: &Bench,
    workload: &Workload,
    (machine, place, load): Cell,
) -> Outcome<Vec<f64>> {
    let cpus = cpus(bench);
    let threads = if workload.threaded { cpus as u32 } else { 1 };
    let mut app = bench.apps(ground, &[(workload.shown, threads)], workload.solo_s)?.remove(0);
    app.io = workload.io;
    let count = if workload.threaded { 1 } else { cpus * LOADS[load].1 / 2 };
    let apps = copies(&app, count);
    let mut values = Vec::new();
    for seed in seeds(ground) {
        let asked = (policy(machine, place), &[][..]);
        let run = bench.run(ground, &apps, asked, (workload.method, WINDOW_S, seed))?;
        values.extend(run.apps.iter().filter_map(|app| {
            if workload.is_relative() { app.slowdown } else { app.mean_completion_s }
        }));
    }
    Ok(values)
}

/// Machine and policy of each column of Fig. 4.6.
const COLUMNS: [(usize, usize); 4] = [(0, 0), (0, 1), (1, 0), (1, 1)];

/// What Fig. 4.6 shows.
#[derive(Default)]
struct Spreads {
    rows: Vec<Vec<String>>,
    labels: Vec<String>,
    /// Most over least of each row, by [`COLUMNS`].
    ratios: [Vec<Option<f64>>; 4],
    /// The widest of the compute-intensive at double load.
    widest: [f64; 4],
}

impl Spreads {
    fn add(&mut self, workload: &Workload, load: usize, all: &Cells) {
        let words = LOADS[load].0;
        let mut row = strings(&[workload.shown, words]);
        for (column, (machine, policy)) in COLUMNS.into_iter().enumerate() {
            // Others against their fastest run on the machine.
            let here = all.iter().filter(|one| one.0.0 == machine).flat_map(|one| &one.1);
            let fastest = here.copied().fold(f64::INFINITY, f64::min);
            let unit = if workload.is_relative() { 1.0 } else { fastest };
            let [least, middle, most] = summary(found(all, (machine, policy, load)));
            row.extend([least, middle, most].map(|one| number(one / unit, 2)));
            self.ratios[column].push(Some(most / least).filter(|one| one.is_finite()));
            if workload.is_relative() && load == 2 {
                self.widest[column] = self.widest[column].max(most / least);
            }
        }
        self.labels.push(format!("{} {words}", workload.shown));
        self.rows.push(row);
    }

    fn figure(self) -> StudyFigure {
        let who = |(machine, place): (usize, usize)| {
            format!("{}, {}", RIVALS[machine].0, policy(machine, place))
        };
        let mut header = strings(&["workload", "load"]);
        for column in COLUMNS {
            header
                .extend(["least", "median", "most"].map(|what| format!("{}: {what}", who(column))));
        }
        let chart = Chart {
            kind: ChartKind::BarsFrom(1.0),
            across: "workload and load".to_owned(),
            upwards: "highest slowdown / lowest".to_owned(),
            labels: self.labels,
            series: COLUMNS.into_iter().map(who).zip(self.ratios).collect(),
        };
        let about = "Slowdowns of all instances in all runs, against the program alone on a big core; of programs with a \
                     thread for each CPU, against their fastest run. Half, full and double load: a thread for every second \
                     CPU, for each, two for each. kernbench: compilations of 0.5 s, of which 10 % are waits; scp: \
                     encryption for 2 ms, then 8 ms of waiting. Threads of a program do not wait for each other here, and \
                     semphy has no serial phases.";
        let heading = "Fig. 4.6: spread of slowdowns over runs";
        figure("fig-4-6", heading, about, Some(chart), header, self.rows)
    }
}

/// Fig. 4.6.
pub(super) fn spread(ground: &Ground) -> Outcome<(Finding, StudyFigure)> {
    let benches = benches()?;
    let loads = |workload: &Workload| if workload.threaded { &[1][..] } else { &[0, 1, 2][..] };
    let measured: Vec<Cells> = WORKLOADS
        .par_iter()
        .map(|workload| {
            let of = |cell: Cell| completions(ground, &benches[cell.0], workload, cell);
            by_cell(loads(workload), of)
        })
        .collect::<Outcome<_>>()?;
    let mut spreads = Spreads::default();
    for (workload, all) in WORKLOADS.iter().zip(&measured) {
        loads(workload).iter().for_each(|&load| spreads.add(workload, load, all));
    }
    let finding = Finding {
        what: "Spread of slowdowns (highest / lowest) of compute-intensive programs at double load, the widest: \
               linux-default and CAMPS on the QuickIA, hmp and CAMPS on the Odroid (Fig. 4.6)"
            .to_owned(),
        paper: "3.1 (gamess: 1.37 to 4.22) under CFS, CAMPS repeatable".to_owned(),
        ours: spreads.widest.map(|one| number(one, 2)).join(", "),
        difference: "Our model of the kernel's scheduler counts capacities, as kernels since 4.x do; the thesis's \
                     did not."
            .to_owned(),
    };
    Ok((finding, spreads.figure()))
}

/// Fig. 4.7: each thread answers requests of its own, always busy.
pub(super) fn requests(ground: &Ground) -> Outcome<(Finding, StudyFigure)> {
    let benches = benches()?;
    let of = |(machine, place, load): Cell| {
        let bench = &benches[machine];
        // Longer than the window: nobody starts again.
        let app = bench.apps(ground, &[("ebizzy", 1)], 2.0 * WINDOW_S)?.remove(0);
        let apps = copies(&app, cpus(bench) * LOADS[load].1 / 2);
        let rate = |seed: u64| {
            let asked = (policy(machine, place), &[][..]);
            let run = bench.run(ground, &apps, asked, (Method::Window, WINDOW_S, seed))?;
            Ok(run.instructions() / run.simulated_s * 1e-9)
        };
        seeds(ground).into_iter().map(rate).collect::<Outcome<Vec<f64>>>()
    };
    let all = by_cell(&[0, 1, 2], of)?;
    let unit = "1e9 instructions/s";
    let more = |machine: usize, load: usize| {
        let of = |place: usize| mean(found(&all, (machine, place, load)));
        100.0 * (of(1) / of(0) - 1.0)
    };
    let words =
        |machine: usize| [0, 1, 2].map(|load| format!("{:+.1} %", more(machine, load))).join(", ");
    let finding = Finding {
        what: "A web-server-like load: CAMPS's throughput against linux-default's on the QuickIA and hmp's on the \
               Odroid, at half, full and double load (Fig. 4.7)"
            .to_owned(),
        paper: "no worse, -1.6 %, -1.6 %; no worse, +21 %, +37 %".to_owned(),
        ours: format!("{}; {}", words(0), words(1)),
        difference: "ebizzy's nearest is memcached; each thread is a program of its own, as none waits for another."
            .to_owned(),
    };
    let about = "Instructions a second of all threads, which stand for requests: every thread answers requests without \
                 a pause, and none waits for another.";
    let heading = "Fig. 4.7: throughput of a web-server-like load";
    Ok((finding, page("fig-4-7", heading, about, unit, &all)))
}

/// Fig. 4.8: the 99th percentile of wake-up latency, in ms.
pub(super) fn latency(ground: &Ground) -> Outcome<(Finding, StudyFigure)> {
    let benches = benches()?;
    let of = |(machine, place, load): Cell| {
        let bench = &benches[machine];
        let app = bench.apps(ground, &[("EP", 1)], WINDOW_S)?.remove(0);
        let app = AppSpec { io: Some(WORKER), ..app };
        let apps = copies(&app, cpus(bench) * LOADS[load].1 / 2);
        let p99 = |seed: u64| {
            let asked = (policy(machine, place), &[][..]);
            let run = bench.run(ground, &apps, asked, (Method::Window, WINDOW_S, seed))?;
            Ok(p99_ms(&run))
        };
        seeds(ground).into_iter().map(p99).collect::<Outcome<Vec<f64>>>()
    };
    let all = by_cell(&[0, 1, 2], of)?;
    let ms = |machine: usize, place: usize| {
        [0, 1, 2].map(|load| number(mean(found(&all, (machine, place, load))), 2)).join(", ")
    };
    let finding = Finding {
        what: "99th percentile of wake-up latency in ms at half, full and double load: CAMPS against linux-default on \
               the QuickIA, against hmp on the Odroid (Fig. 4.8)"
            .to_owned(),
        paper: "CAMPS 65 % lower, lower, 7 % higher; 45 % lower, up to 53 % lower in both".to_owned(),
        ours: format!(
            "{} against {}; {} against {}",
            ms(0, 1),
            ms(0, 0),
            ms(1, 1),
            ms(1, 0)
        ),
        difference: "Time in a run queue alone: the path through the kernel, which is faster on a big core, takes no \
                     time in the simulator."
            .to_owned(),
    };
    let about = "Workers that spin for 30 ms and sleep for 30 ms (schbench's defaults), at all times of waiting for a CPU \
                 after a wake-up from the second second on. The mean of the runs' percentiles, least and most.";
    let heading = "Fig. 4.8: 99th percentile of wake-up latency";
    Ok((finding, page("fig-4-8", heading, about, "ms", &all)))
}

fn p99_ms(run: &RunResult) -> f64 {
    let late = |one: &&corun_sim::WakeUp| one.at >= WARM_UP;
    let waits: Vec<f64> =
        run.wake_ups.iter().filter(late).map(|one| one.waited.as_secs_f64() * 1e3).collect();
    percentile(&waits, 0.99).unwrap_or(f64::NAN)
}

fn page(id: &str, heading: &str, about: &str, unit: &str, all: &[(Cell, Vec<f64>)]) -> StudyFigure {
    let cases: Vec<(usize, usize)> = (0..RIVALS.len())
        .flat_map(|machine| (0..LOADS.len()).map(move |load| (machine, load)))
        .collect();
    let name =
        |(machine, load): (usize, usize)| format!("{}, {}", RIVALS[machine].0, LOADS[load].0);
    let row = |&(machine, load): &(usize, usize)| {
        let mut row = strings(&[RIVALS[machine].0, LOADS[load].0, RIVALS[machine].1]);
        for place in 0..2 {
            let values = found(all, (machine, place, load));
            let [least, _, most] = summary(values);
            row.extend([mean(values), least, most].map(|one| number(one, 3)));
        }
        row
    };
    let series = |place: usize| {
        let value = |&(machine, load): &(usize, usize)| {
            Some(mean(found(all, (machine, place, load)))).filter(|one| one.is_finite())
        };
        cases.iter().map(value).collect()
    };
    let chart = Chart {
        kind: ChartKind::BarsFrom(0.0),
        across: "machine and load".to_owned(),
        upwards: unit.to_owned(),
        labels: cases.iter().copied().map(name).collect(),
        series: vec![
            ("linux-default or hmp".to_owned(), series(0)),
            ("camps".to_owned(), series(1)),
        ],
    };
    let mut header = strings(&["machine", "load", "rival"]);
    for who in ["rival", "camps"] {
        header.extend(["mean", "least", "most"].map(|what| format!("{who}: {what}, {unit}")));
    }
    figure(id, heading, about, Some(chart), header, cases.iter().map(row).collect())
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
