//! Fig. 7 to 11: the mixes of Table 2.

use corun_metrics::mean;
use corun_profile::{Io, Library, Method, Profile};
use corun_sim::AppSpec;

use super::bench::{Bench, COPIES, MEMORY_BOUND, Ran, VBSC_600};
use super::figure;
use crate::commands::study::paper::Ground;
use crate::commands::study::runs::Asked;
use crate::failure::Outcome;
use crate::report::{Chart, ChartKind, StudyFigure, strings};

/// Table 2. On the Xeon each stands twice.
pub(super) const MIX_1: [&str; 8] =
    ["lbm", "libquantum", "GemsFDTD", "soplex", "namd", "sjeng", "gamess", "gobmk"];
pub(super) const MIX_2: [&str; 8] =
    ["lbm", "libquantum", "tonto", "zeusmp", "namd", "sjeng", "gamess", "gobmk"];

/// Length of a program alone. The paper's run for minutes more: the policies' first 80 s, in which
/// MLB's window fills, weigh more here.
const SOLO_S: f64 = 60.0;

/// A mix under several policies.
pub(super) struct Mixed {
    pub(super) mix: &'static [&'static str],
    policies: Vec<&'static str>,
    /// By policy and program, the first run's time in s; means over seeds and copies.
    times: Vec<Vec<f64>>,
    /// By policy: bytes a second, full buffers a second.
    memory: Vec<(f64, f64)>,
}

impl Mixed {
    /// All start together and start again until the last has ended once; first runs count.
    pub(super) fn run(
        ground: &Ground,
        bench: &Bench,
        (mix, copies): (&'static [&'static str], usize),
        policies: &[Asked],
    ) -> Outcome<Self> {
        let mut apps = bench.apps(ground.spec()?, mix, copies, SOLO_S)?;
        apps.iter_mut().for_each(|app| app.restart = Some(true));
        let (mut times, mut memory) = (Vec::new(), Vec::new());
        for &asked in policies {
            let mut runs = Vec::new();
            for seed in 1..=u64::from(ground.seeds) {
                let experiment = bench.experiment(apps.clone(), Method::FirstRun, seed);
                runs.push(bench.run(ground, &experiment, asked)?);
            }
            let time = |place: usize| {
                let of_run = |run: &Ran| {
                    let copies = &run.result.apps[place * copies..(place + 1) * copies];
                    copies
                        .iter()
                        .filter_map(|app| app.completion_s.first().copied())
                        .collect::<Vec<_>>()
                };
                mean(&runs.iter().flat_map(of_run).collect::<Vec<f64>>()).unwrap_or(f64::NAN)
            };
            times.push((0..mix.len()).map(time).collect());
            let samples = || runs.iter().flat_map(|run| &run.samples);
            let bytes: Vec<f64> = samples().map(|one| one.bytes_per_s).collect();
            let retries: Vec<f64> = samples().map(|one| one.retries_per_s).collect();
            memory.push((mean(&bytes).unwrap_or(f64::NAN), mean(&retries).unwrap_or(f64::NAN)));
        }
        Ok(Self { mix, policies: policies.iter().map(|one| one.shown).collect(), times, memory })
    }

    /// A program's time over that under the first policy.
    fn relative(&self, policy: usize, program: usize) -> f64 {
        self.times[policy][program] / self.times[0][program]
    }

    /// What contention costs the memory-bound programs under the first policy, in %: their mean time
    /// over that of half a CPU without any.
    pub(super) fn cost_percent(&self) -> f64 {
        let memory = (0..self.mix.len()).filter(|&place| MEMORY_BOUND.contains(&self.mix[place]));
        let times: Vec<f64> = memory.map(|place| self.times[0][place]).collect();
        100.0 * (mean(&times).unwrap_or(f64::NAN) / (2.0 * SOLO_S) - 1.0)
    }

    /// The mean of relative times: of memory-bound programs, of the others, of all.
    pub(super) fn means(&self, policy: usize) -> [f64; 3] {
        let of = |wanted: &dyn Fn(&str) -> bool| {
            let places = (0..self.mix.len()).filter(|&place| wanted(self.mix[place]));
            mean(&places.map(|place| self.relative(policy, place)).collect::<Vec<_>>())
                .unwrap_or(f64::NAN)
        };
        let memory = |name: &str| MEMORY_BOUND.contains(&name);
        [of(&memory), of(&|name| !memory(name)), of(&|_| true)]
    }

    pub(super) fn figure(&self, id: &str, heading: &str, about: &str) -> StudyFigure {
        let relative = |place: usize| {
            (0..self.policies.len())
                .map(move |policy| format!("{:.3}", self.relative(policy, place)))
        };
        let mut rows: Vec<Vec<String>> = Vec::new();
        for (place, name) in self.mix.iter().enumerate() {
            let mut row = vec![(*name).to_owned(), format!("{:.0}", self.times[0][place])];
            row.extend(relative(place));
            rows.push(row);
        }
        for (place, name) in ["mean, memory-bound", "mean, others", "mean, all"].iter().enumerate()
        {
            let mut row = strings(&[name, "-"]);
            let means = (0..self.policies.len()).map(|policy| self.means(policy)[place]);
            row.extend(means.map(|mean| format!("{mean:.3}")));
            rows.push(row);
        }
        let mut memory = |name: &str, of: fn(&(f64, f64)) -> f64| {
            let mut row = strings(&[name, "-"]);
            row.extend(
                self.memory.iter().map(|one| format!("{:.3}", of(one) / of(&self.memory[0]))),
            );
            rows.push(row);
        };
        memory("memory bandwidth", |one| one.0);
        memory("buffer full", |one| one.1);
        let mut header = strings(&["program", "s under the default"]);
        header.extend(self.policies.iter().map(|&policy| policy.to_owned()));
        let series = |(place, &policy): (usize, &&str)| {
            let of = (0..self.mix.len()).map(|program| Some(self.relative(place, program)));
            (policy.to_owned(), of.collect())
        };
        let chart = Chart {
            kind: ChartKind::BarsFrom(1.0),
            across: "program".to_owned(),
            upwards: "time / time under the default".to_owned(),
            labels: self.mix.iter().map(|&name| name.to_owned()).collect(),
            series: self.policies.iter().enumerate().skip(1).map(series).collect(),
        };
        figure(id, heading, about, Some(chart), header, rows)
    }
}

/// Fig. 8: a GPU's copies beside the first mix without soplex. Gives the copies' time under each
/// policy over that alone.
pub(super) fn gpu(
    ground: &Ground,
    preset: &str,
    copies: usize,
    policies: &[Asked],
) -> Outcome<Vec<f64>> {
    let bench = Bench::with_gpu(preset)?;
    let mut apps = bench.apps(ground.spec()?, &MIX_1, copies, SOLO_S)?;
    // A soplex makes room for the GPU's program.
    let soplex = apps.iter().position(|app| app.name == "soplex").unwrap_or_default();
    apps.remove(soplex);
    apps.iter_mut().for_each(|app| app.restart = Some(true));
    let transfer = bench.copies(SOLO_S)?;
    let alone = bench.experiment(vec![transfer.clone()], Method::FirstRun, 1);
    let alone = corun_sim::run(&alone, Vec::new(), corun_sim::Hooks::default())?;
    let alone_s = alone.apps[0].completion_s.first().copied().unwrap_or(f64::NAN);
    apps.push(transfer);
    let mut slowdowns = Vec::new();
    for &asked in policies {
        let mut of = Vec::new();
        for seed in 1..=u64::from(ground.seeds) {
            let experiment = bench.experiment(apps.clone(), Method::FirstRun, seed);
            let ran = bench.run(ground, &experiment, asked)?;
            let copies = ran.result.apps.iter().find(|app| app.name == COPIES);
            of.extend(
                copies.and_then(|app| app.mean_completion_s).map(|seconds| seconds / alone_s),
            );
        }
        slowdowns.push(mean(&of).unwrap_or(f64::NAN));
    }
    Ok(slowdowns)
}

/// Fig. 9: what runs where in an epoch of VBSC.
pub(super) fn fig_9(ground: &Ground, bench: &Bench) -> Outcome<StudyFigure> {
    let apps = bench.apps(ground.spec()?, &MIX_1, 1, SOLO_S)?;
    let mut experiment = bench.experiment(apps, Method::Window, 1);
    experiment.settings.window = corun_policy::Nanoseconds::from_secs_f64(30.0);
    let ran = bench.run(ground, &experiment, VBSC_600)?;
    let name = |id: &corun_policy::ThreadId| {
        let thread = ran.result.threads.iter().find(|thread| thread.id == *id);
        thread.map_or("-", |thread| ran.result.apps[thread.app].name.as_str()).to_owned()
    };
    let mut rows = Vec::new();
    for cpu in bench.cpus.iter() {
        let last = ran.result.log.iter().rev().find_map(|entry| match &entry.action {
            corun_policy::Action::OrderSlots { cpu: of, threads, .. } if *of == cpu => {
                Some(threads)
            }
            _ => None,
        });
        let mut row = vec![format!("core {cpu}")];
        row.extend(last.into_iter().flatten().map(name));
        row.resize(3, "-".to_owned());
        rows.push(row);
    }
    Ok(figure(
        "fig-9",
        "Fig. 9: an epoch of VBSC on the i7-2600",
        "Epochs of 600 ms. The paper: each core has a memory-bound program and another; libquantum and \
         soplex run in the first 300 ms, lbm and GemsFDTD in the second.",
        None,
        strings(&["core", "first 300 ms", "second 300 ms"]),
        rows,
    ))
}

/// An I/O-bound server of 16 clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct Server {
    pub(super) name: &'static str,
    io: Io,
}

/// A commit waits for a turn of a disk, 8 ms. The second does four times the I/O for its CPU time,
/// as the paper has it of TPC-C's reads.
pub(super) const SERVERS: [Server; 2] = [
    Server { name: "TPC-B-like", io: Io { cpu_ms: 1.0, wait_ms: 8.0 } },
    Server { name: "TPC-C-like", io: Io { cpu_ms: 0.25, wait_ms: 8.0 } },
];

const CLIENTS: u32 = 16;
const WINDOW_S: f64 = 24.0;

/// Fig. 11: the server's throughput beside the second mix under each policy, over that under the
/// first.
pub(super) fn throughput(
    ground: &Ground,
    bench: &Bench,
    (server, library): (Server, &Library),
    policies: &[Asked],
) -> Outcome<Vec<f64>> {
    let profile: &Profile = library.get("postgres")?;
    let program = bench.load(profile)?;
    let mut apps = bench.apps(ground.spec()?, &MIX_2, 1, 1000.0)?;
    apps.push(AppSpec {
        threads: CLIENTS,
        io: Some(server.io),
        instructions: Some(1_000_000_000_000),
        may_run_on: Some(bench.cpus.clone()),
        ..AppSpec::new(program)
    });
    let mut done = Vec::new();
    for &asked in policies {
        let mut of = Vec::new();
        for seed in 1..=u64::from(ground.seeds) {
            let mut experiment = bench.experiment(apps.clone(), Method::Window, seed);
            experiment.settings.window = corun_policy::Nanoseconds::from_secs_f64(WINDOW_S);
            let ran = bench.run(ground, &experiment, asked)?;
            of.extend(ran.result.apps.last().map(|server| server.instructions));
        }
        done.push(mean(&of).unwrap_or(f64::NAN));
    }
    Ok(done.iter().map(|one| one / done[0]).collect())
}
