//! Machines, programs and policies made by hand.

use std::sync::Arc;

use corun_machine::{
    BandwidthDomain, BandwidthKind, CacheType, CoreType, Inclusion, Machine, MachineSpec,
    ObjectSpec, ObjectType, PowerModel,
};
use corun_model::{LoadedProgram, Model, ModelOptions};
use corun_policy::{ActionKind, Event, Interval, Nanoseconds, Needs, Plan, Policy, View};
use corun_profile::{
    CurvePoint, InstructionMix, Method, MissRateCurve, Origin, Phase, Profile, ProfileData,
    Recording, Stretch,
};

use corun_sim::{AppSpec, Experiment, RunResult, SimError};

pub(super) const MIB: u64 = 1 << 20;
pub(super) const SECOND: u64 = 1_000_000_000;

fn object(kind: ObjectType, count: u32, objects: Vec<ObjectSpec>) -> ObjectSpec {
    ObjectSpec { count, objects, ..ObjectSpec::new(kind) }
}

/// Packages with a node each, LLCs of 4 MiB and 16 ways, cores and hardware threads: so many of
/// each under the one before.
pub(super) fn machine(packages: u32, llcs: u32, cores: u32, threads: u32) -> Arc<Machine> {
    let core = object(ObjectType::Core, cores, vec![]);
    let llc = ObjectSpec {
        level: Some(2),
        size_kib: Some(4096),
        ways: Some(16),
        line_bytes: Some(64),
        holds: Some(CacheType::Unified),
        inclusion: Some(Inclusion::Inclusive),
        ..object(ObjectType::Cache, llcs, vec![core])
    };
    let node = object(ObjectType::NumaNode, 1, vec![llc]);
    let package = object(ObjectType::Package, packages, vec![node]);
    let latency = |i: u32, j: u32| if i == j { 90.0 } else { 150.0 };
    let row = |i| (0..packages).map(|j| latency(i, j)).collect();
    let controller = |node: u32| {
        let (name, kind) = (format!("memory {node}"), BandwidthKind::MemoryController);
        let to_nodes = Some(vec![node]);
        BandwidthDomain { to_nodes, ..BandwidthDomain::new(&name, kind, 1, 8000.0) }
    };
    let spec = MachineSpec {
        core_types: vec![CoreType {
            reorder_buffer: 96,
            outstanding_misses: 8,
            branch_penalty_cycles: 14.0,
            ..CoreType::new("core", 2000.0, threads)
        }],
        memory_latency_ns: (0..packages).map(row).collect(),
        bandwidth_domains: (0..packages).map(controller).collect(),
        objects: vec![package],
        ..MachineSpec::new("test")
    };
    Arc::new(Machine::from_spec(spec).unwrap())
}

/// The machine, with power figures.
pub(super) fn powered(machine: &Machine, power: PowerModel) -> Arc<Machine> {
    let spec = MachineSpec { power: Some(power), ..machine.spec().clone() };
    Arc::new(Machine::from_spec(spec).unwrap())
}

pub(super) fn model(machine: Arc<Machine>) -> Arc<Model> {
    Arc::new(Model::new(machine, ModelOptions::default()).unwrap())
}

fn phase(instructions: u64, points: &[(u64, f64)]) -> Phase {
    let points = points.iter().map(|&(bytes, mpki)| CurvePoint { bytes, mpki }).collect();
    Phase {
        instructions,
        threads: 1,
        data_accesses_pki: 300.0,
        mix: InstructionMix { branches_pki: 100.0, mispredicted_pki: 2.0, ..Default::default() },
        prefetchable: 0.0,
        memory_level_parallelism: 2.0,
        dirty_share: 0.2,
        footprint_bytes: 64 * MIB,
        curve: MissRateCurve::new(points).unwrap(),
        core: None,
    }
}

/// A program of these phases: instructions and curve (bytes, MPKI).
pub(super) fn program(
    model: &Model,
    name: &str,
    phases: &[(u64, &[(u64, f64)])],
) -> Arc<LoadedProgram> {
    let phases = phases.iter().map(|&(count, points)| phase(count, points)).collect();
    let origin = Origin { sampling_rate: 1.0, complete: true, ..Default::default() };
    let data = ProfileData::Recording(Recording::new(origin, phases));
    Arc::new(model.load(&Profile { name: name.to_owned(), data }).unwrap())
}

/// The same, whose phases run in these stretches: phase and instructions.
pub(super) fn program_by_turns(
    model: &Model,
    phases: &[&[(u64, f64)]],
    stretches: &[(usize, u64)],
) -> Arc<LoadedProgram> {
    let length = |at: usize| stretches.iter().filter(|one| one.0 == at).map(|one| one.1).sum();
    let phases = phases.iter().enumerate().map(|(at, points)| phase(length(at), points)).collect();
    let stretch = |&(phase, instructions)| Stretch { phase, instructions };
    let recording = Recording {
        sequence: stretches.iter().map(stretch).collect(),
        ..Recording::new(Origin::default(), phases)
    };
    let data = ProfileData::Recording(recording);
    Arc::new(model.load(&Profile { name: "by-turns".to_owned(), data }).unwrap())
}

/// Never misses.
pub(super) fn calm(model: &Model, instructions: u64) -> Arc<LoadedProgram> {
    program(model, "calm", &[(instructions, &[(MIB / 16, 0.0), (8 * MIB, 0.0)])])
}

/// Profits from every byte.
pub(super) fn sensitive(model: &Model, instructions: u64) -> Arc<LoadedProgram> {
    let curve: &[(u64, f64)] =
        &[(MIB / 16, 40.0), (MIB, 25.0), (2 * MIB, 12.0), (3 * MIB, 4.0), (4 * MIB, 1.0)];
    program(model, "sensitive", &[(instructions, curve)])
}

/// Misses much, and the less the more it has.
pub(super) fn hungry(model: &Model, instructions: u64) -> Arc<LoadedProgram> {
    program(model, "hungry", &[(instructions, &[(MIB / 16, 40.0), (4 * MIB, 8.0)])])
}

/// Misses at any size.
pub(super) fn streaming(model: &Model, instructions: u64) -> Arc<LoadedProgram> {
    program(model, "streaming", &[(instructions, &[(MIB / 16, 32.0), (8 * MIB, 30.0)])])
}

pub(super) fn experiment(model: &Arc<Model>, apps: Vec<AppSpec>, method: Method) -> Experiment {
    Experiment::new(Arc::clone(model), apps, method, 1)
}

pub(super) fn run(experiment: &Experiment) -> RunResult {
    corun_sim::run(experiment, vec![], Default::default()).unwrap()
}

pub(super) fn run_under(
    experiment: &Experiment,
    policy: impl Policy + 'static,
) -> Result<RunResult, SimError> {
    corun_sim::run(experiment, vec![Box::new(policy)], Default::default())
}

/// A policy from two closures.
pub(super) struct Scripted<D, E> {
    pub(super) name: &'static str,
    pub(super) needs: Needs,
    pub(super) decide: D,
    pub(super) event: E,
}

impl<D, E> Policy for Scripted<D, E>
where
    D: FnMut(&View<'_>) -> Plan + Send,
    E: FnMut(&Event, &View<'_>) -> Option<Plan> + Send,
{
    fn name(&self) -> &str {
        self.name
    }

    fn needs(&self) -> Needs {
        self.needs.clone()
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        (self.event)(event, view)
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        (self.decide)(view)
    }
}

pub(super) fn needs(interval_ns: u64, controls: &[ActionKind]) -> Needs {
    Needs {
        interval: Interval::Time(Nanoseconds(interval_ns)),
        counters: vec![],
        controls: controls.to_vec(),
        ..Needs::default()
    }
}

/// Decides at an interval with this closure.
pub(super) fn deciding(
    interval_ns: u64,
    controls: &[ActionKind],
    decide: impl FnMut(&View<'_>) -> Plan + Send + 'static,
) -> impl Policy + 'static {
    let needs = needs(interval_ns, controls);
    Scripted { name: "scripted", needs, decide, event: |_: &Event, _: &View<'_>| None }
}
