//! Machines made by hand, for the tests of the model.

use std::sync::Arc;

use corun_machine::{
    BandwidthDomain, BandwidthKind, CacheType, CoreType, Inclusion, Machine, MachineSpec,
    ObjectSpec, ObjectType,
};
use corun_model::{Model, ModelOptions};

use crate::fixture::WAY;

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
    let kind = BandwidthKind::MemoryController;
    let to_nodes = Some(vec![node]);
    BandwidthDomain { to_nodes, ..BandwidthDomain::new(name, kind, 2, peak_mb_per_s) }
}

pub(crate) fn spec(name: &str, core: CoreType, objects: Vec<ObjectSpec>) -> MachineSpec {
    MachineSpec {
        core_types: vec![core],
        memory_latency_ns: vec![vec![90.0]],
        objects,
        ..MachineSpec::new(name)
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
