//! The machines, programs and runs of the study.

use std::sync::Arc;

use corun_app::{Error, Result};
use corun_machine::{CoreType, CpuSet, Machine, MachineSpec, ObjectSpec, ObjectType};
use corun_model::{LoadedProgram, Model, ModelOptions};
use corun_policy::{Nanoseconds, WrappedPolicy};
use corun_profile::{Library, Method, Profile};
use corun_sim::{AppSpec, Experiment, Hooks, Observation, RunResult};

use super::watch::{Sample, Samples, Watched};
use crate::harness::StudyInputs;
use crate::simulate::{TunedPolicy, stream};

/// The paper's bare names are of CPU2006.
const ALIASES: [(&str, &str); 11] = [
    ("lbm", "lbm06"),
    ("libquantum", "libquantum06"),
    ("GemsFDTD", "GemsFDTD06"),
    ("soplex", "soplex06"),
    ("namd", "namd06"),
    ("sjeng", "sjeng06"),
    ("gamess", "gamess06"),
    ("gobmk", "gobmk06"),
    ("tonto", "tonto06"),
    ("zeusmp", "zeusmp06"),
    ("omnetpp", "omnetpp06"),
];

/// What Table 2 calls memory-bound.
pub(super) const MEMORY_BOUND: [&str; 4] = ["lbm", "libquantum", "GemsFDTD", "soplex"];

/// The copies of a GPU, as a program.
pub(super) const COPIES: &str = "gpu-copies";

/// What a GPU's copies draw alone: PCI Express 2.0 with 16 lanes, 8 GB/s, less its overhead.
const COPY_BYTES_PER_S: f64 = 6e9;

pub(super) const DEFAULT: TunedPolicy =
    TunedPolicy { shown: "default", policy: "linux-default", parameters: &[] };
pub(super) const MLB: TunedPolicy = TunedPolicy { shown: "MLB", policy: "mlb", parameters: &[] };
pub(super) const VBSC: TunedPolicy = TunedPolicy { shown: "VBSC", policy: "vbsc", parameters: &[] };
pub(super) const VBSC_200: TunedPolicy =
    TunedPolicy { shown: "VBSC, 200 ms", policy: "vbsc", parameters: &[("epoch-ms", 200.0)] };
pub(super) const VBSC_600: TunedPolicy =
    TunedPolicy { shown: "VBSC, 600 ms", policy: "vbsc", parameters: &[("epoch-ms", 600.0)] };
pub(super) const VBSC_800: TunedPolicy =
    TunedPolicy { shown: "VBSC, 800 ms", policy: "vbsc", parameters: &[("epoch-ms", 800.0)] };

/// A machine with its programs.
pub(super) struct Platform {
    pub(super) model: Arc<Model>,
    /// All CPUs that programs run on; the GPU's is not among them.
    pub(super) cpus: CpuSet,
    device: Option<CpuSet>,
}

/// A run and what was watched in it.
pub(super) struct Ran {
    pub(super) result: RunResult,
    pub(super) samples: Vec<Sample>,
}

impl Ran {
    /// The times of the first runs of these programs, in s.
    pub(super) fn first_times(&self, apps: std::ops::Range<usize>) -> Vec<f64> {
        let apps = self.result.apps[apps].iter();
        apps.filter_map(|app| app.completion_s.first().copied()).collect()
    }
}

impl Platform {
    /// A preset with one thread a core: the paper has a run queue a core, and its Fig. 9 two programs
    /// in each of four.
    pub(super) fn new(preset: &str) -> Result<Self> {
        Self::of(one_thread_a_core(preset)?, false)
    }

    /// The same with a GPU: one more core behind the same controller, with its own package and cache,
    /// that does nothing but copy.
    pub(super) fn with_gpu(preset: &str) -> Result<Self> {
        let mut spec = one_thread_a_core(preset)?;
        let latency_ns = spec.memory_latency_ns.first().and_then(|row| row.first()).copied();
        let lines = COPY_BYTES_PER_S * latency_ns.unwrap_or(80.0) * 1e-9 / 64.0;
        spec.core_types.push(CoreType {
            outstanding_misses: lines.round() as u32,
            ..CoreType::new("copy-engine", 1000.0, 1)
        });
        let mut core = ObjectSpec::new(ObjectType::Core);
        core.core_type = Some("copy-engine".to_owned());
        let mut cache = ObjectSpec::new(ObjectType::Cache);
        (cache.level, cache.size_kib, cache.line_bytes) = (Some(3), Some(1024), Some(64));
        cache.objects.push(core);
        let mut package = ObjectSpec::new(ObjectType::Package);
        package.objects.push(cache);
        name_cores(&mut spec);
        spec.objects.push(package);
        Self::of(spec, true)
    }

    fn of(spec: MachineSpec, gpu: bool) -> Result<Self> {
        let machine = Machine::from_spec(spec).map_err(Error::failed)?;
        let mut cpus: Vec<_> = machine.cpus().iter().map(|cpu| cpu.id).collect();
        let device = gpu.then(|| cpus.pop()).flatten().map(|cpu| CpuSet::from_iter([cpu]));
        let model = Arc::new(Model::new(Arc::new(machine), ModelOptions::default())?);
        Ok(Self { model, cpus: CpuSet::from_iter(cpus), device })
    }

    pub(super) fn load(&self, profile: &Profile) -> Result<Arc<LoadedProgram>> {
        Ok(Arc::new(self.model.load(profile)?))
    }

    /// A SPEC program by the paper's name.
    pub(super) fn spec(&self, library: &Library, name: &str) -> Result<Arc<LoadedProgram>> {
        let known = ALIASES.iter().find(|(paper, _)| *paper == name);
        self.load(library.get(known.map_or(name, |(_, table)| table))?)
    }

    /// Programs by the paper's names, so many copies of each, as long as `solo_s` seconds alone.
    pub(super) fn apps(
        &self,
        library: &Library,
        names: &[&str],
        copies: usize,
        solo_s: f64,
    ) -> Result<Vec<AppSpec>> {
        let mut apps = Vec::new();
        for name in names {
            let program = self.spec(library, name)?;
            let app = AppSpec {
                name: (*name).to_owned(),
                instructions: Some(solo_instructions(&program, solo_s)),
                may_run_on: Some(self.cpus.clone()),
                ..AppSpec::new(program)
            };
            apps.extend(std::iter::repeat_n(app, copies));
        }
        Ok(apps)
    }

    /// The copies between memory and GPU, on its own engine.
    pub(super) fn copies(&self, solo_s: f64) -> Result<AppSpec> {
        // A line an instruction: as fast as its engine has requests outstanding.
        let copying = Profile { name: COPIES.to_owned(), ..stream(1000.0, 1000.0) };
        let program = self.load(&copying)?;
        let instructions = Some(solo_instructions(&program, solo_s));
        let may_run_on = self.device.clone();
        Ok(AppSpec { instructions, may_run_on, ..AppSpec::new(program) })
    }

    pub(super) fn experiment(&self, apps: Vec<AppSpec>, method: Method, seed: u64) -> Experiment {
        let mut experiment = Experiment::new(Arc::clone(&self.model), apps, method, seed);
        // The kernel of the paper (3.2) has a period of 6 ms (1 + log2 of its CPUs), which the two
        // threads of a CPU share (sched_latency_ns, SCHED_TUNABLESCALING_LOG).
        let doublings = (self.cpus.len() as f64).log2().floor();
        experiment.settings.slice = Nanoseconds::from_secs_f64(0.003 * (1.0 + doublings));
        experiment.settings.placements = 0;
        experiment
    }

    /// The runs of these programs with each seed.
    pub(super) fn by_seed(
        &self,
        inputs: &StudyInputs,
        apps: &[AppSpec],
        method: Method,
        policy: TunedPolicy,
    ) -> Result<Vec<Ran>> {
        self.by_seed_observed(inputs, apps, method, (policy, None))
    }

    /// The same of a policy that sees the machine as the observation says; none: exactly.
    pub(super) fn by_seed_observed(
        &self,
        inputs: &StudyInputs,
        apps: &[AppSpec],
        method: Method,
        (policy, observation): (TunedPolicy, Option<&Observation>),
    ) -> Result<Vec<Ran>> {
        let run = |seed| {
            let mut experiment = self.experiment(apps.to_vec(), method, seed);
            experiment.observation = observation.cloned();
            self.run(inputs, &experiment, policy)
        };
        (1..=u64::from(inputs.seeds)).map(run).collect()
    }

    pub(super) fn run(
        &self,
        inputs: &StudyInputs,
        experiment: &Experiment,
        policy: TunedPolicy,
    ) -> Result<Ran> {
        inputs.cancel.check()?;
        let samples = Samples::default();
        let watched = Watched {
            samples: samples.clone(),
            intensive: MEMORY_BOUND.map(str::to_owned).to_vec(),
            hidden: self.device.as_ref().map(|_| COPIES),
        };
        let hooks = Hooks { cancel: Some(inputs.cancel.flag()), progress: None };
        let policy = WrappedPolicy::new(policy.build(experiment.seed)?, watched);
        let result = corun_sim::run(experiment, vec![Box::new(policy)], hooks)?;
        Ok(Ran { result, samples: samples.take() })
    }
}

/// The mean; NaN of nothing.
pub(super) fn mean_of(values: impl IntoIterator<Item = f64>) -> f64 {
    corun_metrics::mean(&values.into_iter().collect::<Vec<f64>>()).unwrap_or(f64::NAN)
}

fn one_thread_a_core(preset: &str) -> Result<MachineSpec> {
    let machine = corun_machine::preset(preset)?;
    let mut spec = machine.spec().clone();
    for core_type in &mut spec.core_types {
        (core_type.threads, core_type.smt_yield) = (1, None);
    }
    Ok(spec)
}

/// Says of each core which of now several types it is.
fn name_cores(spec: &mut MachineSpec) {
    fn name(object: &mut ObjectSpec, core_type: &str) {
        if object.kind == ObjectType::Core && object.core_type.is_none() {
            object.core_type = Some(core_type.to_owned());
        }
        object.objects.iter_mut().for_each(|child| name(child, core_type));
    }
    let first = spec.core_types[0].name.clone();
    spec.objects.iter_mut().for_each(|object| name(object, &first));
}

fn solo_instructions(program: &LoadedProgram, solo_s: f64) -> u64 {
    let seconds: f64 =
        program.phases.iter().map(|phase| phase.instructions / phase.best_instructions_per_s).sum();
    (program.instructions() / seconds * solo_s) as u64
}
