//! What follows from the tree: CPUs, cores, LLC domains, nodes and packages.

use crate::machine::{Core, Cpu, Llc, Machine, Node, Object, ObjectIndex, Package};
use crate::spec::{CacheType, MachineSpec, ObjectType};
use crate::{CpuId, SpecError};

pub(crate) fn machine(spec: MachineSpec, objects: Vec<Object>) -> Result<Machine, SpecError> {
    let mut machine = Machine::new(spec, objects);
    if machine.objects[0].cpus.is_empty() {
        return Err(SpecError::new("object", "found no CPU, expected at least one core"));
    }
    let mut holders = Holders::new(machine.objects.len());
    packages(&mut machine, &mut holders)?;
    nodes(&mut machine, &mut holders)?;
    cores(&mut machine, &mut holders);
    llcs(&mut machine, &mut holders);
    machine.cpus = cpus(&machine, &holders)?.into();
    Ok(machine)
}

/// For each object its place in the list of packages, nodes or cores, if it is one; for each core
/// the place of its LLC.
struct Holders {
    package: Vec<Option<usize>>,
    node: Vec<Option<usize>>,
    core: Vec<Option<usize>>,
    llc_of_core: Vec<usize>,
}

impl Holders {
    fn new(objects: usize) -> Self {
        let none = vec![None; objects];
        Self { package: none.clone(), node: none.clone(), core: none, llc_of_core: Vec::new() }
    }
}

fn of_kind(machine: &Machine, kind: ObjectType) -> Vec<ObjectIndex> {
    let objects = machine.objects.iter().enumerate();
    objects.filter(|(_, object)| object.kind == kind).map(|(index, _)| index).collect()
}

/// The object or the nearest one around it that has a place in a list.
fn place_above(machine: &Machine, places: &[Option<usize>], from: ObjectIndex) -> Option<usize> {
    let mut at = Some(from);
    while let Some(index) = at {
        if places[index].is_some() {
            return places[index];
        }
        at = machine.objects[index].parent;
    }
    None
}

fn unique(what: &str, mut numbers: Vec<u32>) -> Result<(), SpecError> {
    numbers.sort_unstable();
    match numbers.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            let why = format!("found two {what}s with number {}", pair[0]);
            Err(SpecError::new("object", why))
        }
        None => Ok(()),
    }
}

fn packages(machine: &mut Machine, holders: &mut Holders) -> Result<(), SpecError> {
    let mut packages = Vec::new();
    for index in of_kind(machine, ObjectType::Package) {
        let object = &machine.objects[index];
        if object.cpus.is_empty() {
            continue;
        }
        holders.package[index] = Some(packages.len());
        let os_index = object.os_index.unwrap_or(packages.len() as u32);
        packages.push(Package { os_index, cpus: object.cpus.clone() });
    }
    if packages.is_empty() {
        holders.package[0] = Some(0);
        packages.push(Package { os_index: 0, cpus: machine.cpu_set() });
    }
    unique("package", packages.iter().map(|package| package.os_index).collect())?;
    machine.packages = packages;
    Ok(())
}

fn nodes(machine: &mut Machine, holders: &mut Holders) -> Result<(), SpecError> {
    let mut nodes: Vec<(ObjectIndex, Node)> = Vec::new();
    for index in of_kind(machine, ObjectType::NumaNode) {
        let object = &machine.objects[index];
        let os_index = object.os_index.unwrap_or(nodes.len() as u32);
        let (cpus, memory_mib) = (object.cpus.clone(), object.memory_mib);
        nodes.push((index, Node { os_index, cpus, memory_mib }));
    }
    unique("NUMA node", nodes.iter().map(|(_, node)| node.os_index).collect())?;
    nodes.sort_by_key(|(_, node)| node.os_index);
    for (place, (index, _)) in nodes.iter().enumerate() {
        holders.node[*index] = Some(place);
    }
    if nodes.is_empty() {
        holders.node[0] = Some(0);
        nodes.push((0, Node { os_index: 0, cpus: machine.cpu_set(), memory_mib: None }));
    }
    machine.nodes = nodes.into_iter().map(|(_, node)| node).collect();
    Ok(())
}

fn cores(machine: &mut Machine, holders: &mut Holders) {
    for index in of_kind(machine, ObjectType::Core) {
        let object = &machine.objects[index];
        let core_type = object.core_type.unwrap_or(0);
        let core = Core { object: index, cpus: object.cpus.clone(), core_type };
        holders.core[index] = Some(machine.cores.len());
        machine.cores.push(core);
    }
}

/// For each core the unified cache of the highest level that it sees. A package with a core that
/// sees none is one domain: what is missing there cannot be told.
fn llcs(machine: &mut Machine, holders: &mut Holders) {
    let level = |index: ObjectIndex| machine.objects[index].cache.map_or(0, |cache| cache.level);
    let unified = |index: &ObjectIndex| {
        machine.objects[*index].cache.is_some_and(|cache| cache.holds == CacheType::Unified)
    };
    let last = |core: &Core| {
        let caches = machine.data_caches(core.object).into_iter();
        caches.filter(unified).max_by_key(|&index| level(index))
    };
    let last: Vec<Option<ObjectIndex>> = machine.cores.iter().map(last).collect();
    let package = |core: &Core| place_above(machine, &holders.package, core.object);
    let mut unknown = vec![false; machine.packages.len()];
    for (core, last) in machine.cores.iter().zip(&last) {
        if let (None, Some(package)) = (last, package(core)) {
            unknown[package] = true;
        }
    }
    let mut llcs: Vec<Llc> = Vec::new();
    let mut of_cache = vec![None; machine.objects.len()];
    let mut of_package = vec![None; machine.packages.len()];
    let mut llc_of_core = Vec::new();
    for (core, last) in machine.cores.iter().zip(&last) {
        let package = package(core).unwrap_or(0);
        let cache = last.filter(|_| !unknown[package]);
        let place = match cache {
            Some(index) => &mut of_cache[index],
            None => &mut of_package[package],
        };
        llc_of_core.push(*place.get_or_insert_with(|| {
            let cpus = match cache {
                Some(index) if machine.objects[index].cpus.is_empty() => core.cpus.clone(),
                Some(index) => machine.objects[index].cpus.clone(),
                None => machine.packages[package].cpus.clone(),
            };
            let geometry = cache.and_then(|index| machine.objects[index].cache);
            llcs.push(Llc { object: cache, cache: geometry, cpus });
            llcs.len() - 1
        }));
    }
    machine.llcs = llcs;
    holders.llc_of_core = llc_of_core;
    warn_of_unknown(machine, &unknown);
}

/// Tells by package whose LLC is unknown.
fn warn_of_unknown(machine: &mut Machine, unknown: &[bool]) {
    const NAMED: usize = 8;
    let of = machine.packages.iter().zip(unknown).filter(|(_, unknown)| **unknown);
    let names: Vec<String> = of.map(|(package, _)| package.os_index.to_string()).collect();
    let whose = match names.len() {
        0 => return,
        1 if unknown.len() == 1 => "the package".to_owned(),
        all if all == unknown.len() => "all packages".to_owned(),
        1 => format!("package {}", names[0]),
        many if many > NAMED => format!("{many} of {} packages", unknown.len()),
        _ => format!("packages {}", names.join(", ")),
    };
    machine.warn(format!(
        "the last-level caches of {whose} are missing or incomplete: each such package counts as \
         one LLC of unknown size"
    ));
}

fn cpus(machine: &Machine, holders: &Holders) -> Result<Vec<Cpu>, SpecError> {
    let outside = |what: &str, id: CpuId| {
        let why = format!("found CPU {id} in no {what}, while other CPUs are in one");
        SpecError::new("object", why)
    };
    let mut cpus = Vec::new();
    for core_object in &machine.cores {
        let from = core_object.object;
        let core = holders.core[from].unwrap_or(0);
        for id in core_object.cpus.iter() {
            cpus.push(Cpu {
                id,
                core,
                llc: holders.llc_of_core[core],
                node: place_above(machine, &holders.node, from)
                    .ok_or_else(|| outside("NUMA node", id))?,
                package: place_above(machine, &holders.package, from)
                    .ok_or_else(|| outside("package", id))?,
                core_type: core_object.core_type,
            });
        }
    }
    cpus.sort_by_key(|cpu| cpu.id);
    Ok(cpus)
}
