//! Fig. 7 to 11: the mixes of Table 2.

use corun_app::{Error, Result};
use corun_policy::{Action, Nanoseconds, ThreadId};
use corun_profile::{Io, Library, Method};
use corun_report::{Axis, Mark, Panel, Plot};
use corun_sim::{AppSpec, Observation};

use super::grouping::Grouping;
use super::platform::{COPIES, MEMORY_BOUND, MLB, Platform, Ran, VBSC_600, mean_of};
use crate::harness::{Estimate, Figure, StudyInputs};
use crate::simulate::TunedPolicy;

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
    /// By policy, seed and program, the first run's time in s; means over copies.
    by_seed: Vec<Vec<Vec<f64>>>,
    /// By policy: bytes a second, full buffers a second.
    memory: Vec<(f64, f64)>,
    /// Who should run together, by the model.
    grouping: Grouping,
}

/// MLB that sees the machine as live. VBSC needs the order of time slots, which no kernel keeps.
const AS_LIVE: &str = "MLB, as live";
/// The best two turns by the model, which nobody holds programs in.
const BEST: &str = "best two turns (model)";
/// Half a CPU for each program, and nobody slowed down by anybody: a bound on all policies.
const UNCONTENDED: &str = "no contention (bound)";

impl Mixed {
    /// All start together and start again until the last has ended once; first runs count.
    pub(super) fn run(
        inputs: &StudyInputs,
        platform: &Platform,
        (mix, copies): (&'static [&'static str], usize),
        policies: &[TunedPolicy],
        observation: &Observation,
    ) -> Result<Self> {
        let mut apps = platform.apps(inputs.spec()?, mix, copies, SOLO_S)?;
        apps.iter_mut().for_each(|app| app.restart = Some(true));
        let (mut by_seed, mut memory) = (Vec::new(), Vec::new());
        let exact = policies.iter().map(|&policy| (policy, None));
        for policy in exact.chain([(MLB, Some(observation))]) {
            let runs = platform.by_seed_observed(inputs, &apps, Method::FirstRun, policy)?;
            let times = |run: &Ran| -> Vec<f64> {
                let copies = |place: usize| place * copies..(place + 1) * copies;
                (0..mix.len()).map(|place| mean_of(run.first_times(copies(place)))).collect()
            };
            by_seed.push(runs.iter().map(times).collect());
            let samples = || runs.iter().flat_map(|run| &run.samples);
            let bytes = mean_of(samples().map(|one| one.bytes_per_s));
            // Nobody sees full buffers as live.
            let full = policy.1.is_none().then(|| samples().map(|one| one.retries_per_s));
            memory.push((bytes, full.map_or(f64::NAN, mean_of)));
        }
        let programs: Vec<_> =
            apps.iter().step_by(copies).map(|app| app.program.clone()).collect();
        let grouping = Grouping::best(&platform.model, &programs, copies)
            .ok_or_else(|| Error::input("a mix without programs"))?;
        let policies = policies.iter().map(|one| one.shown).chain([AS_LIVE, BEST, UNCONTENDED]);
        let policies = policies.collect();
        // What the model says of half a CPU is the same with every seed.
        let times = |slowdown: &dyn Fn(usize) -> f64| -> Vec<Vec<f64>> {
            let of = |program: usize| 2.0 * SOLO_S * slowdown(program);
            vec![(0..mix.len()).map(of).collect(); inputs.seeds as usize]
        };
        by_seed.push(times(&|program: usize| grouping.slowdown[program]));
        by_seed.push(times(&|_| 1.0));
        memory.extend([(f64::NAN, f64::NAN); 2]);
        Ok(Self { mix, policies, by_seed, memory, grouping })
    }

    /// A program's time, the mean over seeds.
    fn time(&self, policy: usize, program: usize) -> f64 {
        mean_of(self.by_seed[policy].iter().map(|times| times[program]))
    }

    /// A program's time over that under the first policy.
    fn relative(&self, policy: usize, program: usize) -> f64 {
        self.time(policy, program) / self.time(0, program)
    }

    /// Who runs in the first of the best two turns, in words.
    fn first_turn(&self) -> String {
        let of = |(&name, &count): (&&str, &usize)| match count {
            0 => None,
            1 => Some(name.to_owned()),
            _ => Some(format!("{count} {name}")),
        };
        let first = self.mix.iter().zip(&self.grouping.first).filter_map(of);
        first.collect::<Vec<_>>().join(", ")
    }

    /// By policy, the change of the time against the first policy, the mean over programs of a kind in %.
    fn changes(&self, policy: usize, is_of_kind: impl Fn(&str) -> bool) -> Estimate {
        let seeds = self.by_seed[policy].iter().zip(&self.by_seed[0]);
        let mean = |(times, default): (&Vec<f64>, &Vec<f64>)| {
            let places = (0..self.mix.len()).filter(|&place| is_of_kind(self.mix[place]));
            mean_of(places.map(|place| times[place] / default[place]))
        };
        Estimate::percent_above_one(&seeds.map(mean).collect::<Vec<f64>>())
    }

    /// What contention costs the memory-bound programs under the first policy, in %: their mean time
    /// over that of half a CPU without any.
    pub(super) fn cost_percent(&self) -> f64 {
        let memory = (0..self.mix.len()).filter(|&place| MEMORY_BOUND.contains(&self.mix[place]));
        100.0 * (mean_of(memory.map(|place| self.time(0, place))) / (2.0 * SOLO_S) - 1.0)
    }

    /// The mean of relative times: of memory-bound programs, of the others, of all.
    pub(super) fn means(&self, policy: usize) -> [f64; 3] {
        let of = |wanted: &dyn Fn(&str) -> bool| {
            let places = (0..self.mix.len()).filter(|&place| wanted(self.mix[place]));
            mean_of(places.map(|place| self.relative(policy, place)))
        };
        let memory = |name: &str| MEMORY_BOUND.contains(&name);
        [of(&memory), of(&|name| !memory(name)), of(&|_| true)]
    }

    pub(super) fn figure(&self, id: &str, heading: &str, about: &str) -> Figure {
        let programs = (0..self.mix.len()).map(MixRow::Program);
        let means = ["memory-bound", "others", "all"].into_iter().enumerate();
        let means = means.map(|(place, name)| MixRow::Mean(place, name));
        let rows: Vec<MixRow> =
            programs.chain(means).chain([MixRow::Bandwidth, MixRow::BufferFull]).collect();
        let memory = |policy: usize, of: fn(&(f64, f64)) -> f64| {
            of(&self.memory[policy]) / of(&self.memory[0])
        };
        let mut table = Figure::new(id, heading, about)
            .rows("program", &rows, |row| match row {
                MixRow::Program(place) => self.mix[*place].to_owned(),
                MixRow::Mean(_, name) => format!("mean, {name}"),
                MixRow::Bandwidth => "memory bandwidth".to_owned(),
                MixRow::BufferFull => "buffer full".to_owned(),
            })
            .column("s under the default", 0, |row| match row {
                MixRow::Program(place) => Some(self.time(0, *place)),
                _ => None,
            });
        for (policy, name) in self.policies.iter().enumerate() {
            table = table.column(*name, 3, |row| match row {
                MixRow::Program(place) => self.relative(policy, *place),
                MixRow::Mean(place, _) => self.means(policy)[*place],
                MixRow::Bandwidth => memory(policy, |one| one.0),
                MixRow::BufferFull => memory(policy, |one| one.1),
            });
        }
        let series = self.policies.iter().enumerate().skip(1).map(|(policy, name)| {
            let of = (0..self.mix.len()).map(|program| Some(self.relative(policy, program)));
            ((*name).to_owned(), of.collect())
        });
        let labels = self.mix.iter().map(|&name| name.to_owned()).collect();
        let upwards = Axis::Linear("time / time under the default".to_owned(), None);
        let series: Vec<_> = series.collect();
        let panel = Panel::of_labels(Mark::Bars, "program", labels, upwards, &series);
        table.table().drawn(Plot::of(panel))
    }
}

/// All mixes, each policy beside the best.
pub(super) fn beside_best(mixed: &[(String, Mixed)]) -> Figure {
    let rows: Vec<(&str, &Mixed, usize)> = mixed
        .iter()
        .flat_map(|(label, of)| (1..of.policies.len()).map(move |policy| (&label[..], of, policy)))
        .collect();
    let turns = mixed.iter().map(|(label, of)| {
        format!("{label}: {} and the others ({} groupings)", of.first_turn(), of.grouping.tried)
    });
    let about = format!(
        "Change of the time of first runs against the default's in %, means over programs, with half of the 95 % intervals \
         over seeds. As live: MLB sees the machine with noise, readings that fail and looks that come late, and estimates the \
         contention level from how busy the memory is; VBSC cannot run there. The best two turns: who should run together, \
         exhaustively by the model, by the least mean slowdown, in turns of equal length; other policies, which change who \
         runs together, may be better. No contention: each program as fast as alone with half a CPU, a bound on all. In the \
         first turn: {}.",
        turns.collect::<Vec<_>>().join("; ")
    );
    let memory = |name: &str| MEMORY_BOUND.contains(&name);
    let of_kind = |row: &(&str, &Mixed, usize), kind: &dyn Fn(&str) -> bool| row.1.changes(row.2, kind);
    Figure::new("beside-best", "Policies as live, and beside the best", about)
        .rows("machine, mix, policy", &rows, |row| format!("{}: {}", row.0, row.1.policies[row.2]))
        .column("memory-bound %", 2, |row| of_kind(row, &memory).mean)
        .column("+-", 2, |row| of_kind(row, &memory).interval)
        .column("others %", 2, |row| of_kind(row, &|name| !memory(name)).mean)
        .column("+- others", 2, |row| of_kind(row, &|name| !memory(name)).interval)
        .column("all %", 2, |row| of_kind(row, &|_| true).mean)
        .column("+- all", 2, |row| of_kind(row, &|_| true).interval)
        .table()
}

/// A row of a mix's figure.
enum MixRow {
    /// A program of the mix.
    Program(usize),
    /// The mean over a kind of program.
    Mean(usize, &'static str),
    Bandwidth,
    BufferFull,
}

/// Fig. 8: a GPU's copies beside the first mix without soplex. Gives the copies' time under each
/// policy over that alone.
pub(super) fn gpu(
    inputs: &StudyInputs,
    preset: &str,
    copies: usize,
    policies: [TunedPolicy; 2],
) -> Result<[f64; 2]> {
    let platform = Platform::with_gpu(preset)?;
    let mut apps = platform.apps(inputs.spec()?, &MIX_1, copies, SOLO_S)?;
    // A soplex makes room for the GPU's program.
    let soplex = apps.iter().position(|app| app.name == "soplex").unwrap_or_default();
    apps.remove(soplex);
    apps.iter_mut().for_each(|app| app.restart = Some(true));
    let transfer = platform.copies(SOLO_S)?;
    let alone = platform.experiment(vec![transfer.clone()], Method::FirstRun, 1);
    let alone = corun_sim::run(&alone, Vec::new(), corun_sim::Hooks::default())?;
    let alone_s = alone.apps[0].completion_s.first().copied().unwrap_or(f64::NAN);
    apps.push(transfer);
    let mut slowdowns = [0.0; 2];
    for (slowdown, policy) in slowdowns.iter_mut().zip(policies) {
        let runs = platform.by_seed(inputs, &apps, Method::FirstRun, policy)?;
        let copies = |ran: &Ran| {
            let app = ran.result.apps.iter().find(|app| app.name == COPIES);
            app.and_then(|app| app.mean_completion_s)
        };
        *slowdown = mean_of(runs.iter().filter_map(copies)) / alone_s;
    }
    Ok(slowdowns)
}

/// Fig. 9: what runs where in an epoch of VBSC.
pub(super) fn fig_9(inputs: &StudyInputs, platform: &Platform) -> Result<Figure> {
    let apps = platform.apps(inputs.spec()?, &MIX_1, 1, SOLO_S)?;
    let mut experiment = platform.experiment(apps, Method::Window, 1);
    experiment.settings.window = Nanoseconds::from_secs_f64(30.0);
    let ran = platform.run(inputs, &experiment, VBSC_600)?;
    let name = |id: &ThreadId| {
        let thread = ran.result.threads.iter().find(|thread| thread.id == *id);
        thread.map_or("-", |thread| ran.result.apps[thread.app].name.as_str()).to_owned()
    };
    let cores: Vec<_> = platform.cpus.iter().collect();
    let slot = |core: &corun_machine::CpuId, place: usize| {
        let last = ran.result.log.iter().rev().find_map(|entry| match &entry.action {
            Action::OrderSlots { cpu, threads, .. } if cpu == core => Some(threads),
            _ => None,
        });
        last.and_then(|threads| threads.get(place)).map_or("-".to_owned(), name)
    };
    let about = "Epochs of 600 ms. The paper: each core has a memory-bound program and another; \
                 libquantum and soplex run in the first 300 ms, lbm and GemsFDTD in the second.";
    Ok(Figure::new("fig-9", "Fig. 9: an epoch of VBSC on the i7-2600", about)
        .rows("core", &cores, |core| format!("core {core}"))
        .words("first 300 ms", |core| slot(core, 0))
        .words("second 300 ms", |core| slot(core, 1))
        .table())
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
    inputs: &StudyInputs,
    platform: &Platform,
    (server, library): (Server, &Library),
    policies: &[TunedPolicy],
) -> Result<Vec<f64>> {
    let program = platform.load(library.get("postgres")?)?;
    let mut apps = platform.apps(inputs.spec()?, &MIX_2, 1, 1000.0)?;
    apps.push(AppSpec {
        threads: CLIENTS,
        io: Some(server.io),
        instructions: Some(1_000_000_000_000),
        may_run_on: Some(platform.cpus.clone()),
        ..AppSpec::new(program)
    });
    let done = |&policy: &TunedPolicy| -> Result<f64> {
        let mut done = Vec::new();
        for seed in 1..=u64::from(inputs.seeds) {
            let mut experiment = platform.experiment(apps.clone(), Method::Window, seed);
            experiment.settings.window = Nanoseconds::from_secs_f64(WINDOW_S);
            let ran = platform.run(inputs, &experiment, policy)?;
            done.extend(ran.result.apps.last().map(|server| server.instructions));
        }
        Ok(mean_of(done))
    };
    let done = policies.iter().map(done).collect::<Result<Vec<f64>>>()?;
    Ok(done.iter().map(|one| one / done[0]).collect())
}
