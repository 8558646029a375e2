//! The machines, programs and runs of the study.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use corun_app::{Error, Result};
use corun_machine::CpuSet;
use corun_model::{LoadedProgram, Model};
use corun_policy::{Action, BuildOptions, Nanoseconds, ThreadId};
use corun_profile::{Method, Profile};
use corun_sim::{AppSpec, Experiment, Hooks, Observation, RunResult};
use rayon::prelude::*;

use crate::harness::StudyInputs;
use crate::simulate::model_of;

/// The nearest program of the library for each of the thesis's, and why.
pub(super) const NEAREST: [(&str, &str, &str); 42] = [
    ("GemsFDTD", "kernel-stencil", "finite differences on a grid"),
    ("ammp", "lammps", "molecular dynamics"),
    ("applu", "kernel-stencil", "fluid dynamics on a grid"),
    ("art", "pocketsphinx", "recognition by weights, memory-intensive"),
    ("astar", "igraph", "paths in graphs"),
    ("bwaves", "kernel-stencil", "fluid dynamics on a grid"),
    ("bzip2", "bzip2", "the same program"),
    ("crafty", "gnuchess", "chess"),
    ("equake", "numpy", "sparse arithmetic, memory-intensive"),
    ("fma3d", "calculix", "finite elements"),
    ("galgel", "kernel-product", "dense linear algebra that lives off the cache"),
    ("gamess", "flac", "arithmetic that fits the first cache"),
    ("gobmk", "gnugo", "the game of Go"),
    ("gzip", "gzip", "the same program"),
    ("h264ref", "x264", "video encoding"),
    ("hmmer", "hmmsearch", "the same package"),
    ("lbm", "kernel-triad", "streams over arrays"),
    ("libquantum", "kernel-triad", "streams over one array; the library's has a small input"),
    ("lucas", "numpy", "Fourier transforms over large arrays"),
    ("mcf", "lemon", "network flows"),
    ("mgrid", "kernel-stencil", "a stencil on grids"),
    ("milc", "kernel-hash-join", "memory-intensive, out of reach of caches"),
    ("namd", "lammps", "molecular dynamics"),
    ("parser", "xsltproc", "parsing into linked structures"),
    ("perlbench", "perl", "the same interpreter"),
    ("perlbmk", "perl", "the same interpreter"),
    ("povray", "povray", "the same program"),
    ("sixtrack", "lammps", "particles, step by step"),
    ("soplex", "clp", "linear programs by the simplex method"),
    ("swim", "kernel-stencil", "shallow water on a grid"),
    ("twolf", "metis", "placement by partitioning"),
    ("vortex", "sqlite3", "an embedded database"),
    ("FFTW3D", "numpy", "Fourier transforms"),
    ("semphy", "bwa", "sequences of genes"),
    ("kmeans", "pocketsphinx", "distances to centres"),
    ("EP", "openssl", "arithmetic without memory"),
    ("swaptions", "povray", "Monte Carlo in floating point"),
    ("blackscholes", "calculix", "floating point over arrays"),
    ("kernbench", "cc1", "a compiler"),
    ("scp", "openssl", "encryption, what a copy over the network computes"),
    ("RNAseq", "hmmsearch", "sequences against profiles"),
    ("ebizzy", "memcached", "requests that look things up in memory"),
];

/// More than a run has.
const WAKE_UPS: usize = 1_000_000;

/// A machine of big and small cores, with its model.
pub(super) struct BigLittle {
    pub(super) model: Arc<Model>,
    /// A CPU index of the big cores and one of the small ones.
    pub(super) big: usize,
    pub(super) small: usize,
}

/// A program of a mix: the thesis's name and its threads.
pub(super) type Member = (&'static str, u32);

/// What a policy made of a mix, over the seeds.
#[derive(Debug, Clone)]
pub(super) struct MixFigures {
    /// Means over the seeds.
    pub(super) unfairness: f64,
    pub(super) asp: f64,
    pub(super) stp: f64,
    pub(super) worst: f64,
    /// Swaps of two threads of different core types a second.
    pub(super) swaps_per_s: f64,
}

impl BigLittle {
    pub(super) fn new(preset: &str) -> Result<Self> {
        let model = model_of(preset)?;
        let machine = model.machine();
        let capacity = |cpu: &usize| machine.core_types()[machine.cpus()[*cpu].core_type].capacity;
        let cpus = || 0..machine.cpus().len();
        let by = |one: &usize, other: &usize| capacity(one).total_cmp(&capacity(other));
        let big = cpus().rev().max_by(by).unwrap_or_default();
        let small = cpus().min_by(by).unwrap_or_default();
        Ok(Self { model: Arc::clone(&model), big, small })
    }

    /// CPU indices of the same type as one.
    pub(super) fn like(&self, cpu: usize) -> Vec<usize> {
        let machine = self.model.machine();
        let core_type = machine.cpus()[cpu].core_type;
        (0..machine.cpus().len())
            .filter(|&other| machine.cpus()[other].core_type == core_type)
            .collect()
    }

    pub(super) fn load(&self, profile: &Profile) -> Result<Arc<LoadedProgram>> {
        Ok(Arc::new(self.model.load(profile)?))
    }

    /// Time of a program's phases on a CPU alone, for one of its instructions, in s.
    pub(super) fn alone_s(&self, program: &LoadedProgram, cpu: usize) -> f64 {
        let phases = program.phases.iter().enumerate();
        let seconds: f64 = phases
            .map(|(place, phase)| {
                phase.instructions / self.model.solo(program, place, cpu).instructions_per_s
            })
            .sum();
        seconds / program.instructions()
    }

    /// The programs of a mix, each as long as `solo_s` seconds alone on a big core; of several threads,
    /// each thread.
    pub(super) fn apps(
        &self,
        inputs: &StudyInputs,
        mix: &[Member],
        solo_s: f64,
    ) -> Result<Vec<AppSpec>> {
        let app = |&(name, threads): &Member| {
            let known = NEAREST.iter().find(|one| one.0 == name);
            let program = inputs.shipped_on(&self.model, known.map_or(name, |one| one.1))?;
            let instructions = solo_s / self.alone_s(&program, self.big) * f64::from(threads);
            Ok(AppSpec {
                name: name.to_owned(),
                threads,
                instructions: Some(instructions as u64),
                ..AppSpec::new(program)
            })
        };
        mix.iter().map(app).collect()
    }

    /// A run under a policy.
    pub(super) fn run(
        &self,
        inputs: &StudyInputs,
        apps: &[AppSpec],
        policy: (&str, &[(&str, f64)]),
        (method, window_s, seed): (Method, f64, u64),
    ) -> Result<RunResult> {
        let mut experiment = self.experiment(apps, method, seed);
        experiment.settings.window = Nanoseconds::from_secs_f64(window_s);
        self.run_experiment(inputs, &experiment, policy)
    }

    pub(super) fn experiment(&self, apps: &[AppSpec], method: Method, seed: u64) -> Experiment {
        let mut experiment = Experiment::new(Arc::clone(&self.model), apps.to_vec(), method, seed);
        experiment.settings.placements = 0;
        experiment.settings.wake_ups = WAKE_UPS;
        experiment
    }

    fn run_experiment(
        &self,
        inputs: &StudyInputs,
        experiment: &Experiment,
        policy: (&str, &[(&str, f64)]),
    ) -> Result<RunResult> {
        inputs.cancel.check()?;
        let parameters: BTreeMap<String, f64> =
            policy.1.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        let policy = corun_policy::build(policy.0, &BuildOptions { seed: experiment.seed, parameters });
        let policy = policy.map_err(Error::failed)?;
        let hooks = Hooks { cancel: Some(inputs.cancel.flag()), progress: None };
        Ok(corun_sim::run(experiment, vec![policy], hooks)?)
    }

    /// A mix under a policy, until the longest program has ended three times, with each seed.
    pub(super) fn play(
        &self,
        inputs: &StudyInputs,
        mix: &[Member],
        policy: (&str, &[(&str, f64)]),
        solo_s: f64,
    ) -> Result<MixFigures> {
        self.play_apps(inputs, &self.apps(inputs, mix, solo_s)?, policy, None)
    }

    /// Programs under a policy that sees the machine as the observation says (none: exactly), until the longest has ended
    /// three times, with each seed.
    pub(super) fn play_apps(
        &self,
        inputs: &StudyInputs,
        apps: &[AppSpec],
        policy: (&str, &[(&str, f64)]),
        observation: Option<&Observation>,
    ) -> Result<MixFigures> {
        let seeds: Vec<u64> = (1..=u64::from(inputs.seeds)).collect();
        let one = |&seed: &u64| {
            let mut experiment = self.experiment(apps, Method::Restart3, seed);
            experiment.observation = observation.cloned();
            let run = self.run_experiment(inputs, &experiment, policy)?;
            Ok(self.figures(apps, &run))
        };
        let played: Vec<MixFigures> = seeds.par_iter().map(one).collect::<Result<_>>()?;
        let mean = |of: fn(&MixFigures) -> f64| {
            played.iter().map(of).sum::<f64>() / played.len().max(1) as f64
        };
        Ok(MixFigures {
            unfairness: mean(|one| one.unfairness),
            asp: mean(|one| one.asp),
            stp: mean(|one| one.stp),
            worst: mean(|one| one.worst),
            swaps_per_s: mean(|one| one.swaps_per_s),
        })
    }

    pub(super) fn figures(&self, apps: &[AppSpec], run: &RunResult) -> MixFigures {
        let slowdowns: Vec<f64> = run.apps.iter().filter_map(|app| app.slowdown).collect();
        let times: Vec<f64> = run.apps.iter().filter_map(|app| app.mean_completion_s).collect();
        // On the small cores alone: as much slower as a thread of it is there.
        let small = |(app, ran): (&AppSpec, &corun_sim::AppResult)| {
            ran.solo_completion_s * self.alone_s(&app.program, self.small)
                / self.alone_s(&app.program, self.big)
        };
        let small: Vec<f64> = apps.iter().zip(&run.apps).map(small).collect();
        MixFigures {
            unfairness: corun_metrics::unfairness(&slowdowns).unwrap_or(f64::NAN),
            asp: corun_metrics::asp(&small, &times).unwrap_or(f64::NAN),
            stp: corun_metrics::stp(&slowdowns).unwrap_or(f64::NAN),
            worst: corun_metrics::worst_slowdown(&slowdowns).unwrap_or(f64::NAN),
            swaps_per_s: self.swaps_per_s(run),
        }
    }

    /// Half of how often threads were sent from one core type to another: a swap is of two.
    fn swaps_per_s(&self, run: &RunResult) -> f64 {
        let machine = self.model.machine();
        let core_type = |cpus: &CpuSet| {
            let types: BTreeSet<usize> = cpus
                .iter()
                .filter_map(|cpu| machine.cpu_index(cpu))
                .map(|cpu| machine.cpus()[cpu].core_type)
                .collect();
            (types.len() == 1).then(|| types.first().copied()).flatten()
        };
        let mut on: BTreeMap<ThreadId, Option<usize>> = BTreeMap::new();
        let mut changes = 0_u32;
        for entry in &run.log {
            match &entry.action {
                Action::Swap { first, second } => {
                    let types = [second, first].map(|id| on.get(id).copied().flatten());
                    on.insert(*first, types[0]);
                    on.insert(*second, types[1]);
                    changes += 2;
                }
                Action::Allow { thread, cpus } => {
                    let next = core_type(cpus);
                    let before = on.insert(*thread, next).flatten();
                    changes += u32::from(before.is_some() && next.is_some() && before != next);
                }
                _ => {}
            }
        }
        f64::from(changes) / 2.0 / run.simulated_s
    }
}
