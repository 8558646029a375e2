//! The machines and the runs.

use std::sync::{Arc, PoisonError};

use corun_app::{Cancel, Error, Result};
use corun_machine::{
    CacheType, CoreType, CpuId, CpuSet, Machine, MachineSpec, ObjectSpec, ObjectType, preset,
};
use corun_model::{
    LoadedProgram, Member, Model, ModelOptions, Outcome as Solved, Running, Scratch,
};
use corun_policy::{BuildOptions, CascFindings, Nanoseconds, Policy, casc_observed};
use corun_profile::{Method, Profile};
use corun_sim::{AppSpec, Experiment, Hooks, Observation, RunResult};

use super::{COPIES, MACHINE, POOR, SETTLE_S, WINDOW_S};

/// Instructions of a run: more than any window sees, so that nobody starts again in it.
const ENDLESS: u64 = 1_000_000_000_000_000;

/// A chip with its programs.
pub(super) struct Chip {
    pub(super) model: Arc<Model>,
    programs: Vec<Arc<LoadedProgram>>,
}

/// Who says where threads run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scheduling<'a> {
    /// The kernel's scheduler.
    Default,
    /// CASC, with exact counts.
    Casc,
    /// CASC that sees the machine so.
    CascAsLive(&'a Observation),
    /// The same as the first, but that all threads of poor locality may use the first CPU alone, and the others all
    /// others: what keeping them apart can gain at most by one CPU, told beforehand.
    Apart,
}

/// What a thread did in the window.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WorkDone {
    pub(super) cpu_s: f64,
    pub(super) instructions: f64,
    pub(super) references: f64,
    pub(super) misses: f64,
}

/// The window of a run, by thread.
pub(super) struct Window {
    pub(super) threads: Vec<WorkDone>,
    /// What CASC found out; none without it.
    pub(super) findings: Option<CascFindings>,
}

impl Window {
    fn sum(&self, of: fn(&WorkDone) -> f64) -> f64 {
        self.threads.iter().map(of).sum()
    }

    /// Misses per 100 references of the L2.
    pub(super) fn miss_ratio(&self) -> f64 {
        100.0 * self.sum(|one| one.misses) / self.sum(|one| one.references)
    }

    /// Instructions a second, in 1e9.
    pub(super) fn throughput(&self) -> f64 {
        self.sum(|one| one.instructions) / WINDOW_S * 1e-9
    }

    /// Each thread's share of all CPU time.
    pub(super) fn shares(&self) -> Vec<f64> {
        let all = self.sum(|one| one.cpu_s);
        self.threads.iter().map(|one| one.cpu_s / all).collect()
    }

    /// Standard deviation of the threads' CPU time over its mean, in %.
    pub(super) fn unfairness(&self) -> f64 {
        let shares = self.shares();
        let mean = 1.0 / shares.len() as f64;
        let squares: f64 = shares.iter().map(|share| (share - mean).powi(2)).sum();
        100.0 * (squares * mean).sqrt() / mean
    }

    /// CPUs' worth of time that was used.
    pub(super) fn busy_cpus(&self) -> f64 {
        self.sum(|one| one.cpu_s) / WINDOW_S
    }
}

impl Chip {
    /// The paper's processor with caches of these sizes. `l1`: in sixteenths of its own.
    pub(super) fn new(profiles: &[&Profile], l2_kib: u64, l1: u64) -> Result<Self> {
        let mut spec = preset(MACHINE)?.spec().clone();
        resize(&mut spec.objects, l2_kib, l1);
        Self::of(spec, profiles)
    }

    /// The paper's other machine: four processors of one thread, each with its own cache (an
    /// UltraSPARC II at 450 MHz: 4-wide, in order, 4 MB of external cache).
    pub(super) fn four_processors(profiles: &[&Profile]) -> Result<Self> {
        let mut spec = preset(MACHINE)?.spec().clone();
        spec.name = "four processors".to_owned();
        spec.sources.clear();
        spec.bandwidth_domains.clear();
        spec.core_types =
            vec![CoreType { reorder_buffer: 0, ..CoreType::new("ultrasparc-ii", 450.0, 1) }];
        let mut l1 = cache(1, 16);
        l1.holds = Some(CacheType::Data);
        l1.objects.push(ObjectSpec::new(ObjectType::Core));
        let mut l2 = cache(2, 4096);
        l2.objects.push(l1);
        let mut package = ObjectSpec::new(ObjectType::Package);
        package.count = 4;
        package.objects.push(l2);
        spec.objects = vec![package];
        Self::of(spec, profiles)
    }

    fn of(spec: MachineSpec, profiles: &[&Profile]) -> Result<Self> {
        let machine = Machine::from_spec(spec).map_err(Error::failed)?;
        let model = Model::new(Arc::new(machine), ModelOptions::default())?;
        let load = |profile: &&Profile| Ok(Arc::new(model.load(profile)?));
        let programs = profiles.iter().map(load).collect::<Result<_>>()?;
        Ok(Self { model: Arc::new(model), programs })
    }

    /// Six copies of each program, in turn, in the window after all is measured.
    pub(super) fn window(
        &self,
        seed: u64,
        scheduling: Scheduling<'_>,
        cancel: &Cancel,
    ) -> Result<Window> {
        let cpus = 0..self.model.machine().cpus().len() as u32;
        let apart = |program: usize| -> CpuSet {
            let is_its = |cpu: &u32| (*cpu == 0) == (program == POOR);
            cpus.clone().filter(is_its).map(CpuId).collect()
        };
        let apps: Vec<AppSpec> = (0..COPIES)
            .flat_map(|_| self.programs.iter().enumerate())
            .map(|(place, program)| AppSpec {
                instructions: Some(ENDLESS),
                may_run_on: (scheduling == Scheduling::Apart).then(|| apart(place)),
                ..AppSpec::new(Arc::clone(program))
            })
            .collect();
        let (before, _) = self.run(&apps, seed, scheduling, SETTLE_S, cancel)?;
        let (after, findings) = self.run(&apps, seed, scheduling, SETTLE_S + WINDOW_S, cancel)?;
        // The same up to the window's start: what is counted beyond it was done in it.
        let threads = before.apps.iter().zip(&after.apps).map(|(before, after)| {
            let events = |pki: Option<f64>, of: f64| pki.unwrap_or(0.0) * of * 1e-3;
            let (of_before, of_after) = (before.instructions, after.instructions);
            WorkDone {
                cpu_s: after.cpu_s - before.cpu_s,
                instructions: of_after - of_before,
                references: events(after.llc_apki, of_after) - events(before.llc_apki, of_before),
                misses: events(after.llc_mpki, of_after) - events(before.llc_mpki, of_before),
            }
        });
        Ok(Window { threads: threads.collect(), findings })
    }

    fn run(
        &self,
        apps: &[AppSpec],
        seed: u64,
        scheduling: Scheduling<'_>,
        seconds: f64,
        cancel: &Cancel,
    ) -> Result<(RunResult, Option<CascFindings>)> {
        let mut experiment =
            Experiment::new(Arc::clone(&self.model), apps.to_vec(), Method::Window, seed);
        experiment.settings.window = Nanoseconds::from_secs_f64(seconds);
        experiment.settings.placements = 0;
        let options = BuildOptions { seed, ..BuildOptions::default() };
        let casc = match scheduling {
            Scheduling::Default | Scheduling::Apart => None,
            Scheduling::Casc => Some(&options),
            Scheduling::CascAsLive(observation) => {
                experiment.observation = Some(observation.clone());
                Some(&options)
            }
        };
        simulate(&experiment, casc, cancel)
    }

    /// Seconds until the last of these programs has ended, each run once.
    pub(super) fn makespan_s(
        &self,
        seed: u64,
        casc: Option<&BuildOptions>,
        cancel: &Cancel,
    ) -> Result<f64> {
        let apps = self.programs.iter().map(|program| AppSpec::new(Arc::clone(program)));
        let mut experiment =
            Experiment::new(Arc::clone(&self.model), apps.collect(), Method::FirstRun, seed);
        experiment.settings.placements = 0;
        Ok(simulate(&experiment, casc, cancel)?.0.simulated_s)
    }

    /// What the pipelines of all cores could issue, in 1e9 instructions a second.
    pub(super) fn peak(&self) -> f64 {
        let machine = self.model.machine();
        let types = machine.core_types();
        let of = |core: &corun_machine::Core| {
            let core = &types[core.core_type];
            core.clock_mhz * 1e-3 * core.dispatch_width
        };
        machine.cores().iter().map(of).sum()
    }

    /// What programs do together, one on each of the first CPUs.
    pub(super) fn together(&self, who: &[usize]) -> Vec<Solved> {
        let running: Vec<Running<'_>> = who
            .iter()
            .enumerate()
            .map(|(cpu, &program)| Running::local(&self.programs[program], 0, cpu))
            .collect();
        let mut out = Vec::new();
        self.model.solve(&running, &mut Scratch::new(), &mut out);
        out
    }

    /// A program's misses per 100 references with 1/n of the L2, n being the CPUs, beside three others
    /// on its core: what PCMR stands for.
    pub(super) fn partial_cache_miss_ratio(&self, program: usize, l2_kib: u64) -> f64 {
        let member = Member { program: &self.programs[program], phase: 0, cpu: 0 };
        let part = l2_kib as f64 * 1024.0 / self.model.machine().cpus().len() as f64;
        let demand = self.model.demand_beside(&member, 4, part);
        100.0 * demand.llc_mpki / demand.llc_apki
    }
}

fn simulate(
    experiment: &Experiment,
    casc: Option<&BuildOptions>,
    cancel: &Cancel,
) -> Result<(RunResult, Option<CascFindings>)> {
    cancel.check()?;
    let (policy, findings) = casc.map(casc_observed).unzip();
    let policies: Vec<Box<dyn Policy>> = policy.into_iter().collect();
    let hooks = Hooks { cancel: Some(cancel.flag()), progress: None };
    let result = corun_sim::run(experiment, policies, hooks)?;
    let findings =
        findings.map(|found| found.lock().unwrap_or_else(PoisonError::into_inner).clone());
    Ok((result, findings))
}

fn cache(level: u32, size_kib: u64) -> ObjectSpec {
    let mut cache = ObjectSpec::new(ObjectType::Cache);
    (cache.level, cache.size_kib, cache.line_bytes) = (Some(level), Some(size_kib), Some(64));
    cache
}

/// The size of the L2, and the part of their sizes that the L1s have, in sixteenths.
fn resize(objects: &mut [ObjectSpec], l2_kib: u64, l1: u64) {
    for object in objects {
        object.size_kib = match object.level {
            Some(1) => object.size_kib.map(|size| size * l1 / 16),
            Some(_) => Some(l2_kib),
            None => None,
        };
        resize(&mut object.objects, l2_kib, l1);
    }
}
