//! What follows from the tree: CPUs, cores, LLC domains, nodes and packages.

use crate::machine::{Core, Cpu, Llc, Machine, Node, Object, ObjectIndex, Package};
use crate::spec::{CacheType, MachineSpec, ObjectType};
use crate::{CpuId, CpuSet, SpecError};

pub(crate) fn machine(spec: MachineSpec, objects: Vec<Object>) -> Result<Machine, SpecError> {
    let mut machine = Machine::new(spec, objects);
    if machine.objects[0].cpus.is_empty() {
        return Err(SpecError::new("object", "the machine has no CPU".to_owned()));
    }
    machine.packages = packages(&machine);
    machine.nodes = nodes(&machine)?;
    machine.cores = cores(&machine);
    machine.llcs = llcs(&machine);
    machine.cpus = cpus(&machine)?;
    Ok(machine)
}

fn of_kind(machine: &Machine, kind: ObjectType) -> impl Iterator<Item = (ObjectIndex, &Object)> {
    machine.objects.iter().enumerate().filter(move |(_, object)| object.kind == kind)
}

fn packages(machine: &Machine) -> Vec<Package> {
    let mut packages: Vec<Package> = of_kind(machine, ObjectType::Package)
        .filter(|(_, object)| !object.cpus.is_empty())
        .enumerate()
        .map(|(place, (_, object))| Package {
            os_index: object.os_index.unwrap_or(place as u32),
            cpus: object.cpus.clone(),
        })
        .collect();
    if packages.is_empty() {
        packages.push(Package { os_index: 0, cpus: machine.cpu_set() });
    }
    packages
}

fn nodes(machine: &Machine) -> Result<Vec<Node>, SpecError> {
    let mut nodes: Vec<Node> = of_kind(machine, ObjectType::NumaNode)
        .enumerate()
        .map(|(place, (_, object))| Node {
            os_index: object.os_index.unwrap_or(place as u32),
            cpus: object.cpus.clone(),
            memory_mib: object.memory_mib,
        })
        .collect();
    if nodes.is_empty() {
        nodes.push(Node { os_index: 0, cpus: machine.cpu_set(), memory_mib: None });
    }
    nodes.sort_by_key(|node| node.os_index);
    if nodes.windows(2).any(|pair| pair[0].os_index == pair[1].os_index) {
        let why = "two NUMA nodes have the same number".to_owned();
        return Err(SpecError::new("object.os_index", why));
    }
    Ok(nodes)
}

fn cores(machine: &Machine) -> Vec<Core> {
    of_kind(machine, ObjectType::Core)
        .filter(|(_, object)| !object.cpus.is_empty())
        .map(|(index, object)| Core {
            object: index,
            cpus: object.cpus.clone(),
            core_type: object.core_type.unwrap_or(0),
        })
        .collect()
}

/// For each CPU the cache of the highest level above it that holds data; CPUs without any form
/// one domain a package.
fn llcs(machine: &Machine) -> Vec<Llc> {
    let level = |object: &Object| {
        object.cache.filter(|cache| cache.holds != CacheType::Instruction).map(|cache| cache.level)
    };
    let last_above = |core: &Core| -> Option<ObjectIndex> {
        let mut last = None;
        let mut at = Some(core.object);
        while let Some(index) = at {
            let object = &machine.objects[index];
            if level(object) > last.and_then(|last: usize| level(&machine.objects[last])) {
                last = Some(index);
            }
            at = object.parent;
        }
        // A core's own L1 caches may be written below it.
        last.or_else(|| {
            let below = &machine.objects[core.object].children;
            below.iter().copied().filter(|&i| level(&machine.objects[i]).is_some()).max()
        })
    };
    let mut llcs: Vec<Llc> = Vec::new();
    for core in &machine.cores {
        match last_above(core) {
            Some(object) if llcs.iter().any(|llc| llc.object == Some(object)) => {}
            Some(object) => llcs.push(Llc {
                object: Some(object),
                cache: machine.objects[object].cache,
                cpus: machine.objects[object].cpus.clone(),
            }),
            None => {
                let package = package_of(machine, &core.cpus);
                let cpus = machine.packages[package].cpus.clone();
                if !llcs.iter().any(|llc| llc.object.is_none() && llc.cpus == cpus) {
                    llcs.push(Llc { object: None, cache: None, cpus });
                }
            }
        }
    }
    llcs
}

fn package_of(machine: &Machine, cpus: &CpuSet) -> usize {
    machine.packages.iter().position(|package| cpus.is_subset(&package.cpus)).unwrap_or(0)
}

fn holder<'a>(mut sets: impl Iterator<Item = &'a CpuSet>, id: CpuId) -> Option<usize> {
    sets.position(|cpus| cpus.contains(id))
}

fn cpus(machine: &Machine) -> Result<Vec<Cpu>, SpecError> {
    let outside = |what: &str, id: CpuId| {
        SpecError::new("object", format!("CPU {id} is in no {what}, while other CPUs are in one"))
    };
    let mut cpus = Vec::new();
    for id in machine.objects[0].cpus.iter() {
        let core = holder(machine.cores.iter().map(|core| &core.cpus), id)
            .ok_or_else(|| outside("core", id))?;
        cpus.push(Cpu {
            id,
            core,
            llc: holder(machine.llcs.iter().map(|llc| &llc.cpus), id)
                .ok_or_else(|| outside("LLC", id))?,
            node: holder(machine.nodes.iter().map(|node| &node.cpus), id)
                .ok_or_else(|| outside("NUMA node", id))?,
            package: holder(machine.packages.iter().map(|package| &package.cpus), id)
                .ok_or_else(|| outside("package", id))?,
            core_type: machine.cores[core].core_type,
        });
    }
    Ok(cpus)
}
