//! The machine under a file-system root: what Linux shows in `sys/` and `proc/`.
//!
//! What the kernel does not show stays unknown; what had to be assumed is in the machine's
//! warnings. Nothing is read outside the root, and the work is bounded.

mod caches;
mod cpus;
mod device_tree;
mod files;
mod hwloc;
#[cfg(test)]
mod hwloc_tests;
mod inclusion;
mod kinds;
mod nodes;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::check::MAX_CPUS;
use crate::spec::{CacheType, Inclusion, MachineSpec, ObjectSpec, ObjectType};
use crate::{CpuId, CpuSet, Machine, SpecError};
use files::Root;
use tree::{Layer, Piece};

const CPU: &str = "sys/devices/system/cpu";

/// Why no machine was found under a root.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// The root is no file-system root.
    #[error("{root}: found neither sys/devices/system/cpu nor proc/cpuinfo, expected one of them")]
    NoMachine {
        /// The root.
        root: String,
    },
    /// The files name no CPU that is on line.
    #[error("found no CPU on line, expected at least one")]
    NoCpu,
    /// There are more CPUs than corun handles.
    #[error("found {found} CPUs, expected at most {MAX_CPUS}")]
    TooMany {
        /// How many there are.
        found: usize,
    },
    /// The files contradict each other in a way that nothing was made of.
    #[error("the files contradict each other: {0}")]
    Contradiction(SpecError),
}

/// What is gathered on the way.
struct Facts {
    cpuinfo: BTreeMap<u32, cpus::CpuInfo>,
    /// What the processor itself tells of its caches.
    told: Vec<inclusion::Told>,
    warnings: BTreeSet<String>,
}

impl Facts {
    fn warn(&mut self, warning: &str) {
        self.warnings.insert(warning.to_owned());
    }
}

/// Reads the machine under a root: `/` for this one, or a folder with `sys/` and `proc/` in it.
/// Bandwidths and latencies stay unknown; see [`Machine::with_assumed_memory`]. Linux does not show whether a cache also holds
/// what the nearer ones hold: under `/` an x86 processor is asked, elsewhere it is guessed by the sizes.
///
/// # Errors
/// [`DiscoverError`] where there is no machine; contradictions are warnings as far as possible.
pub fn discover(root: &Path) -> Result<Machine, DiscoverError> {
    check_root(root)?;
    let files = Root::new(root);
    let told = if root == Path::new("/") { inclusion::told() } else { Vec::new() };
    let mut facts = Facts { cpuinfo: cpus::cpuinfo(&files), told, warnings: BTreeSet::new() };
    let spec = spec(&files, &mut facts)?;
    let mut machine = Machine::from_spec(spec).map_err(DiscoverError::Contradiction)?;
    for warning in facts.warnings {
        machine.warn(warning);
    }
    Ok(machine)
}

/// Is it a file-system root, or a folder with a copy of one's files?
///
/// # Errors
/// [`DiscoverError::NoMachine`] where it has neither of the two places in which Linux shows CPUs.
pub fn check_root(root: &Path) -> Result<(), DiscoverError> {
    let files = Root::new(root);
    if !files.is_dir(CPU) && files.text("proc/cpuinfo").is_none() {
        return Err(DiscoverError::NoMachine { root: root.display().to_string() });
    }
    Ok(())
}

fn spec(root: &Root, facts: &mut Facts) -> Result<MachineSpec, DiscoverError> {
    let (online, offline_cpus) = cpus::online(root, facts)?;
    let packages = cpus::packages(root, facts, &online);
    let cores = cpus::cores(root, facts, &online, &packages);
    let sets: Vec<CpuSet> = cores.iter().map(|core| core.cpus.clone()).collect();
    let (core_types, type_of_core) = kinds::all(root, facts, &sets);
    let mut pieces: Vec<Piece> = cores
        .iter()
        .zip(&type_of_core)
        .map(|(core, &place)| {
            let mut spec = ObjectSpec::new(ObjectType::Core);
            spec.os_index = core.os_index;
            spec.cpus = Some(core.cpus.clone());
            spec.core_type = Some(core_types[place].name.clone());
            Piece { cpus: core.cpus.clone(), spec }
        })
        .collect();
    let (mut found, node_distance) = nodes::all(root, facts, &online);
    whole_cores(facts, &mut found, &sets);
    let mut memory_only = Vec::new();
    for node in &found {
        let mut spec = ObjectSpec::new(ObjectType::NumaNode);
        spec.os_index = Some(node.os_index);
        spec.memory_mib = node.memory_mib;
        match node.cpus.is_empty() {
            true => memory_only.push(spec),
            false => pieces.push(Piece { cpus: node.cpus.clone(), spec }),
        }
    }
    let node_sets: Vec<CpuSet> = found.into_iter().map(|node| node.cpus).collect();
    let mut layers = vec![Layer::new(&sets), Layer::new(&node_sets)];
    let package_sets = add_packages(facts, packages, &online, &mut layers, &mut pieces);
    let mut outer = vec![Layer::new(&package_sets)];
    let cores_layer = Layer::new(&sets);
    add_caches(root, facts, &online, &package_sets, &sets, &mut layers, &mut pieces);
    for (kind, groups) in [
        (ObjectType::Die, cpus::dies(root, &online)),
        (ObjectType::Cluster, cpus::clusters(root, &online)),
    ] {
        let (whole, cut): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| cores_layer.whole_in(&group.cpus));
        if !cut.is_empty() {
            facts.warn(&format!("a {} that cuts a core is left out", kind.name()));
        }
        add_groups(facts, kind, whole, &mut outer, &mut layers, &mut pieces);
    }
    let mut objects = tree::nest(pieces);
    objects.extend(memory_only);
    Ok(MachineSpec {
        title: title(root, facts),
        offline_cpus,
        core_types,
        node_distance,
        objects,
        ..MachineSpec::new("this-machine")
    })
}

/// No node cuts a core: a core's lowest CPU decides.
fn whole_cores(facts: &mut Facts, nodes: &mut [nodes::Found], cores: &[CpuSet]) {
    let mut node_of = BTreeMap::new();
    for (place, node) in nodes.iter().enumerate() {
        node_of.extend(node.cpus.iter().map(|cpu| (cpu, place)));
    }
    for core in cores.iter().filter(|core| core.len() > 1) {
        let Some(&home) = core.first().and_then(|cpu| node_of.get(&cpu)) else { continue };
        for cpu in core.iter().filter(|cpu| node_of.get(cpu).is_some_and(|&node| node != home)) {
            nodes[node_of[&cpu]].cpus.remove(cpu);
            nodes[home].cpus.insert(cpu);
            facts.warn("the threads of a core are in several NUMA nodes: its lowest CPU decides");
        }
    }
}

/// Packages hold whole cores, and whole nodes or parts of one; else all are left out, so that the
/// machine counts as one.
fn add_packages(
    facts: &mut Facts,
    groups: Vec<cpus::Group>,
    online: &CpuSet,
    layers: &mut Vec<Layer>,
    pieces: &mut Vec<Piece>,
) -> Vec<CpuSet> {
    if groups.is_empty() {
        facts.warn("the kernel does not tell the packages: the machine counts as one");
        return vec![online.clone()];
    }
    if groups.iter().any(|group| !layers.iter().all(|layer| layer.fits(&group.cpus))) {
        facts.warn("packages cross NUMA nodes or cores: the machine counts as one package");
        return vec![online.clone()];
    }
    let numbers: BTreeSet<Option<u32>> = groups.iter().map(|group| group.os_index).collect();
    let numbered = numbers.len() == groups.len() && !numbers.contains(&None);
    let mut sets: Vec<CpuSet> = groups.iter().map(|group| group.cpus.clone()).collect();
    let told: CpuSet = sets.iter().flat_map(CpuSet::iter).collect();
    let rest: CpuSet = online.iter().filter(|&cpu| !told.contains(cpu)).collect();
    if !rest.is_empty() {
        facts.warn("some CPUs are in no package: they count as the machine's one more");
        let fits = layers.iter().all(|layer| layer.fits(&rest));
        if !fits {
            return vec![online.clone()];
        }
        sets.push(rest.clone());
    }
    for (place, cpus) in sets.iter().enumerate() {
        let mut spec = ObjectSpec::new(ObjectType::Package);
        // Numbers count only where all packages have one of their own.
        let number = groups.get(place).and_then(|group| group.os_index);
        spec.os_index = number.filter(|_| numbered && rest.is_empty());
        pieces.push(Piece { cpus: cpus.clone(), spec });
    }
    layers.push(Layer::new(&sets));
    sets
}

/// The caches from the highest level down. Where they contradict themselves or what counts for
/// more, a package loses its unified caches, and with them its LLC.
fn add_caches(
    root: &Root,
    facts: &mut Facts,
    online: &CpuSet,
    packages: &[CpuSet],
    cores: &[CpuSet],
    layers: &mut Vec<Layer>,
    pieces: &mut Vec<Piece>,
) {
    let core_of: BTreeMap<CpuId, CpuSet> =
        cores.iter().flat_map(|core| core.iter().map(|cpu| (cpu, core.clone()))).collect();
    let mut broken = CpuSet::new();
    let mut all = caches::all(root, facts, online, &core_of, layers, &mut broken);
    if all.is_empty() {
        all = device_tree::caches(root, online);
    }
    let mut outer: Vec<(u32, CacheType, Layer)> = Vec::new();
    for same in all.chunk_by(|a, b| (a.level, a.holds) == (b.level, b.holds)) {
        let sets: Vec<&CpuSet> = same.iter().map(|cache| &cache.cpus).collect();
        for cache in same {
            let nested = outer.iter().all(|(level, _, layer)| {
                let within = *level > cache.level && layer.inside(&cache.cpus);
                within || (*level == cache.level && layer.fits(&cache.cpus))
            });
            if !nested || !layers.iter().all(|layer| layer.fits(&cache.cpus)) {
                broken.extend(cache.cpus.iter());
            }
        }
        outer.push((same[0].level, same[0].holds, Layer::new(sets)));
    }
    if all.is_empty() {
        facts.warn("the kernel shows no cache");
    }
    let lost: CpuSet =
        packages.iter().filter(|set| !set.is_disjoint(&broken)).flat_map(CpuSet::iter).collect();
    if !lost.is_empty() {
        facts.warn(&format!("the caches of CPUs {lost} contradict each other and are left out"));
    }
    let kept: Vec<&caches::Found> =
        all.iter().filter(|cache| cache.cpus.is_disjoint(&lost)).collect();
    for same in kept.chunk_by(|a, b| (a.level, a.holds) == (b.level, b.holds)) {
        layers.push(Layer::new(same.iter().map(|cache| &cache.cpus)));
    }
    for cache in &kept {
        let mut spec = ObjectSpec::new(ObjectType::Cache);
        spec.level = Some(cache.level);
        spec.holds = Some(cache.holds);
        spec.size_kib = Some(cache.size_kib);
        spec.ways = cache.ways;
        spec.line_bytes = cache.line_bytes;
        // A virtual machine makes answers up: a cache cannot hold all of a larger one.
        let larger_inside = kept.iter().any(|other| {
            other.level < cache.level
                && other.size_kib > cache.size_kib
                && other.cpus.is_subset(&cache.cpus)
        });
        let told = inclusion::of(&facts.told, cache.level, cache.holds, cache.size_kib);
        spec.inclusion = told.filter(|&one| one != Inclusion::Inclusive || !larger_inside);
        pieces.push(Piece { cpus: cache.cpus.clone(), spec });
    }
}

/// Dies inside packages and clusters inside dies, unless they are no more than a core, or another group that is there already.
fn add_groups(
    facts: &mut Facts,
    kind: ObjectType,
    groups: Vec<cpus::Group>,
    outer: &mut Vec<Layer>,
    layers: &mut Vec<Layer>,
    pieces: &mut Vec<Piece>,
) {
    let known = |piece: &Piece| match piece.spec.kind {
        ObjectType::Cache | ObjectType::NumaNode => None,
        _ => Some(piece.cpus.to_string()),
    };
    let there: BTreeSet<String> = pieces.iter().filter_map(known).collect();
    let mut sets = Vec::new();
    for group in groups {
        if there.contains(&group.cpus.to_string()) {
            continue;
        }
        let within = outer.iter().all(|layer| layer.inside(&group.cpus));
        if !within || !layers.iter().all(|layer| layer.fits(&group.cpus)) {
            facts.warn(&format!("a {} crosses other parts and is left out", kind.name()));
            continue;
        }
        let mut spec = ObjectSpec::new(kind);
        spec.os_index = group.os_index;
        sets.push(group.cpus.clone());
        pieces.push(Piece { cpus: group.cpus, spec });
    }
    outer.push(Layer::new(&sets));
    layers.push(Layer::new(&sets));
}

/// The product and the processor, as far as the files tell.
fn title(root: &Root, facts: &Facts) -> String {
    let product = root.text("sys/class/dmi/id/product_name");
    let info = facts.cpuinfo.values().next();
    let keys = ["model name", "cpu", "Processor", "vendor_id"];
    let cpu = info.and_then(|info| keys.iter().find_map(|key| info.get(key)));
    let parts = [product.as_deref(), cpu];
    let words = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
    let known = parts.into_iter().flatten().map(words).filter(|part| !part.is_empty());
    let title = known.collect::<Vec<_>>().join(", ");
    title.chars().filter(|c| !c.is_control()).take(200).collect()
}
