//! Machines and programs made by hand, for the tests of the model.

use std::sync::Arc;

use corun_machine::{
    BandwidthDomain, BandwidthKind, CacheType, CoreType, Inclusion, Machine, MachineSpec,
    ObjectSpec, ObjectType,
};
use corun_model::{LoadedProgram, Member, Model, ModelOptions, Running};
use corun_profile::{
    CurvePoint, InstructionMix, MeasuredOn, MissRateCurve, Origin, Phase, Profile, ProfileData,
    Recording, SoloFigures, SoloRow, SoloTable,
};

pub(crate) const MIB: u64 = 1 << 20;
/// One way of the Gold 6138's LLC.
pub(crate) const WAY: u64 = 5 * MIB / 2;

pub(crate) fn object(kind: ObjectType, count: u32, objects: Vec<ObjectSpec>) -> ObjectSpec {
    ObjectSpec { count, objects, ..ObjectSpec::new(kind) }
}

pub(crate) fn cache(level: u32, size_kib: u64, ways: u32, objects: Vec<ObjectSpec>) -> ObjectSpec {
    ObjectSpec {
        level: Some(level),
        size_kib: Some(size_kib),
        ways: Some(ways),
        line_bytes: Some(64),
        holds: Some(if level == 1 { CacheType::Data } else { CacheType::Unified }),
        inclusion: Some(if level == 3 { Inclusion::NonInclusive } else { Inclusion::Inclusive }),
        ..object(ObjectType::Cache, 1, objects)
    }
}

pub(crate) fn core_type(name: &str) -> CoreType {
    CoreType::new(name, 2000.0, 1)
}

pub(crate) fn controller(name: &str, node: u32, peak_mb_per_s: f64) -> BandwidthDomain {
    BandwidthDomain {
        name: name.to_owned(),
        kind: BandwidthKind::MemoryController,
        stage: 2,
        peak_mb_per_s,
        theoretical_mb_per_s: None,
        from_cpus: None,
        to_nodes: Some(vec![node]),
        remote_only: false,
    }
}

pub(crate) fn spec(name: &str, core: CoreType, objects: Vec<ObjectSpec>) -> MachineSpec {
    MachineSpec {
        version: 1,
        name: name.to_owned(),
        title: String::new(),
        sources: Default::default(),
        offline_cpus: Default::default(),
        core_types: vec![core],
        memory_latency_ns: vec![vec![90.0]],
        node_distance: vec![],
        bandwidth_domains: vec![],
        power: None,
        objects,
    }
}

/// A package with a memory node, one LLC as the Gold 6138's and so many cores.
pub(crate) fn gold_package(cores: u32) -> ObjectSpec {
    let core = object(ObjectType::Core, 1, vec![]);
    let l2 = ObjectSpec { count: cores, ..cache(2, 1024, 16, vec![cache(1, 32, 8, vec![core])]) };
    let llc = cache(3, 11 * WAY / 1024, 11, vec![l2]);
    let node = object(ObjectType::NumaNode, 1, vec![llc]);
    object(ObjectType::Package, 1, vec![node])
}

/// So many packages of 27.5 MB LLCs, 35000 MB/s each.
pub(crate) fn gold(packages: u32, cores: u32) -> MachineSpec {
    let packages_spec = ObjectSpec { count: packages, ..gold_package(cores) };
    let mut spec = spec("gold", core_type("skylake"), vec![packages_spec]);
    let latency = |i: u32, j: u32| if i == j { 90.0 } else { 150.0 };
    spec.memory_latency_ns =
        (0..packages).map(|i| (0..packages).map(|j| latency(i, j)).collect()).collect();
    spec.bandwidth_domains =
        (0..packages).map(|i| controller(&format!("memory {i}"), i, 35_000.0)).collect();
    spec
}

pub(crate) fn machine(spec: MachineSpec) -> Arc<Machine> {
    Arc::new(Machine::from_spec(spec).expect("the fixture is a machine"))
}

pub(crate) fn model(spec: MachineSpec, options: ModelOptions) -> Model {
    Model::new(machine(spec), options).expect("the fixture has all figures")
}

/// A recording of one phase with this curve (bytes, MPKI).
pub(crate) fn recording(
    name: &str,
    points: &[(u64, f64)],
    change: impl FnOnce(&mut Phase),
) -> Profile {
    let points = points.iter().map(|&(bytes, mpki)| CurvePoint { bytes, mpki }).collect();
    let mut phase = Phase {
        instructions: 1_000_000_000,
        threads: 1,
        data_accesses_pki: 300.0,
        mix: InstructionMix { branches_pki: 100.0, mispredicted_pki: 2.0, ..Default::default() },
        prefetchable: 0.0,
        memory_level_parallelism: 2.0,
        dirty_share: 0.0,
        footprint_bytes: 1 << 40,
        curve: MissRateCurve::new(points).expect("the fixture is a curve"),
    };
    change(&mut phase);
    let origin = Origin { sampling_rate: 1.0, complete: true, ..Default::default() };
    let data = ProfileData::Recording(Recording { origin, phases: vec![phase] });
    Profile { name: name.to_owned(), data }
}

/// A table as the Gold 6138 would give it: 11 ways, misses falling from `first` to `last` per 1000
/// instructions in a straight line, each costing 60 cycles.
pub(crate) fn solo_table(name: &str, first: f64, last: f64) -> Profile {
    let row = |ways: u32| {
        let mpki = first + (last - first) * f64::from(ways - 1) / 10.0;
        let cpi = 0.5 + 0.06 * mpki;
        let figures = SoloFigures {
            ipc: 1.0 / cpi,
            llc_references_pki: first + 2.0,
            llc_misses_pki: mpki,
            llc_references_pkc: (first + 2.0) / cpi,
            llc_misses_pkc: mpki / cpi,
            llc_usage_kib: f64::from(ways) * 2560.0,
            bandwidth_mb_per_s: mpki * 1e-3 * 64.0 / cpi * 2000.0,
            miss_bandwidth_mb_per_s: mpki * 1e-3 * 64.0 / cpi * 2000.0,
            stalls_l2_miss: (0.06 * mpki + 0.02) / cpi,
            stalls_l3_miss: 0.06 * mpki / cpi,
            stalls_total: (0.06 * mpki + 0.1) / cpi,
            stalls_store_buffer: 0.0,
        };
        SoloRow { ways, figures }
    };
    let measured_on = MeasuredOn {
        machine: "gold".to_owned(),
        clock_mhz: 2000.0,
        private_cache_bytes: MIB,
        inclusive_llc: false,
        way_bytes: WAY,
        line_bytes: 64,
        memory_latency_ns: 90.0,
        llc_latency_ns: 20.0,
    };
    let table = SoloTable::new(measured_on, (1..=11).map(row).collect());
    Profile { name: name.to_owned(), data: ProfileData::Table(table.expect("figures that can be")) }
}

pub(crate) fn load(model: &Model, profile: &Profile) -> LoadedProgram {
    model.load(profile).expect("the fixture is a profile")
}

pub(crate) fn on(program: &LoadedProgram, cpu: usize) -> Running<'_> {
    Running { member: Member { program, phase: 0, cpu }, home: &[], group: None }
}
