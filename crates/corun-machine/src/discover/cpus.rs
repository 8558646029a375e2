//! Which CPUs are on line, and which of them form a core, a cluster, a die, a package.

use std::collections::BTreeMap;

use super::files::Root;
use super::{CPU, DiscoverError, Facts};
use crate::check::MAX_CPUS;
use crate::{CpuId, CpuSet, MAX_CPU};

/// A set of CPUs and the kernel's number for it, where it has one.
pub(super) struct Group {
    pub(super) cpus: CpuSet,
    pub(super) os_index: Option<u32>,
}

/// What `/proc/cpuinfo` says of one processor.
#[derive(Default)]
pub(super) struct CpuInfo(BTreeMap<String, String>);

impl CpuInfo {
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    fn number(&self, key: &str) -> Option<u32> {
        self.get(key)?.parse().ok()
    }
}

/// The blocks of `/proc/cpuinfo` by processor number. What stands outside of any block, as on
/// Power, goes to all.
pub(super) fn cpuinfo(root: &Root) -> BTreeMap<u32, CpuInfo> {
    let mut all: BTreeMap<u32, CpuInfo> = BTreeMap::new();
    let mut common = BTreeMap::new();
    let mut at: Option<u32> = None;
    for line in root.lines("proc/cpuinfo") {
        let Some((key, value)) = line.split_once(':') else {
            if line.trim().is_empty() {
                at = None;
            }
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        // System z writes `processor 0: version = FF, ...`.
        let number = match key.strip_prefix("processor") {
            Some("") => value.parse().ok(),
            Some(rest) => rest.trim().parse().ok(),
            None => None,
        };
        if let Some(number) = number.filter(|&number| number <= MAX_CPU) {
            at = Some(number);
            all.entry(number).or_default();
        } else {
            let block = at.and_then(|at| all.get_mut(&at)).map_or(&mut common, |info| &mut info.0);
            block.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
    }
    for info in all.values_mut() {
        for (key, value) in &common {
            info.0.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    all
}

/// The CPUs on line and off line.
pub(super) fn online(root: &Root, facts: &mut Facts) -> Result<(CpuSet, CpuSet), DiscoverError> {
    let folders: Vec<u32> =
        root.numbered(CPU, "cpu").into_iter().filter(|&n| n <= MAX_CPU).collect();
    let listed = root.cpus(CPU, &["online"], &[]).filter(|set| !set.is_empty());
    if listed.is_none() && root.exists(&format!("{CPU}/online")) {
        facts.warn(
            "the kernel's list of on-line CPUs (cpu/online) is empty or cannot be read: all CPUs count as on line that \
             nothing else shows to be off line",
        );
    }
    let mut online = CpuSet::new();
    let mut offline = CpuSet::new();
    let told = |cpu: u32| root.is_dir(&format!("{CPU}/cpu{cpu}/topology"));
    let any_told = folders.iter().any(|&cpu| told(cpu));
    for &cpu in &folders {
        let id = CpuId(cpu);
        let switched_off = root.number::<u32>(&format!("{CPU}/cpu{cpu}/online")) == Some(0);
        let on = match &listed {
            Some(set) => set.contains(id),
            // Before Linux 2.6.26 there is no list: a CPU off line has no topology.
            None => !any_told || told(cpu),
        };
        let set = if on && !switched_off { &mut online } else { &mut offline };
        set.insert(id);
    }
    if folders.is_empty() {
        online = match listed {
            Some(set) => set,
            None => facts.cpuinfo.keys().map(|&cpu| CpuId(cpu)).collect(),
        };
    }
    if online.is_empty() {
        return Err(DiscoverError::NoCpu);
    }
    let absent: CpuSet = root.cpus(CPU, &["online"], &[]).unwrap_or_default();
    if absent.iter().any(|cpu| !online.contains(cpu) && !offline.contains(cpu)) {
        facts.warn("the kernel's list of on-line CPUs names some of which it shows nothing");
    }
    if online.len() as u64 > MAX_CPUS {
        return Err(DiscoverError::TooMany { found: online.len() });
    }
    Ok((online, offline))
}

/// Splits the CPUs into groups: each CPU's own is what `group` says of it, the lowest CPU of a
/// group speaking for all.
fn split(
    online: &CpuSet,
    mut group: impl FnMut(CpuId) -> Option<CpuSet>,
    os_index: impl Fn(CpuId) -> Option<u32>,
) -> Vec<Group> {
    let mut left = online.clone();
    let mut groups = Vec::new();
    for cpu in online.iter() {
        if !left.contains(cpu) {
            continue;
        }
        let Some(set) = group(cpu) else { continue };
        let mut cpus: CpuSet = set.iter().filter(|&other| left.contains(other)).collect();
        cpus.insert(cpu);
        for other in cpus.iter() {
            left.remove(other);
        }
        groups.push(Group { cpus, os_index: os_index(cpu) });
    }
    groups
}

/// An identity in the topology folder of a CPU, or in `/proc/cpuinfo` where there is no folder.
fn identity(root: &Root, facts: &Facts, cpu: CpuId, file: &str, key: &str) -> Option<u32> {
    let path = format!("{CPU}/cpu{cpu}/topology");
    let info = || facts.cpuinfo.get(&cpu.0)?.number(key);
    match root.text(&format!("{path}/{file}")) {
        // The kernel prints -1 for what it does not know.
        Some(text) => text.parse::<i64>().ok().and_then(|id| u32::try_from(id).ok()),
        None if root.is_dir(&path) => None,
        None => info(),
    }
}

/// The CPUs with the same identity as each other.
fn by_identity(online: &CpuSet, identity: impl Fn(CpuId) -> Option<u64>) -> BTreeMap<u64, CpuSet> {
    let mut sets: BTreeMap<u64, CpuSet> = BTreeMap::new();
    for cpu in online.iter() {
        if let Some(id) = identity(cpu) {
            sets.entry(id).or_default().insert(cpu);
        }
    }
    sets
}

/// The packages: by the kernel's sets, and by its numbers where the sets contradict each other.
pub(super) fn packages(root: &Root, facts: &mut Facts, online: &CpuSet) -> Vec<Group> {
    let (groups, contradicted) = {
        let id = |cpu| identity(root, facts, cpu, "physical_package_id", "physical id");
        let same = by_identity(online, |cpu| id(cpu).map(u64::from));
        let lists = ["package_cpus_list", "core_siblings_list"];
        let masks = ["package_cpus", "core_siblings"];
        let told = |cpu: CpuId| {
            let folder = format!("{CPU}/cpu{cpu}/topology");
            root.cpus(&folder, &lists, &masks)
                .filter(|set| set.contains(cpu))
                .or_else(|| same.get(&u64::from(id(cpu)?)).cloned())
        };
        let sets: BTreeMap<CpuId, CpuSet> =
            online.iter().filter_map(|cpu| Some((cpu, told(cpu)?.intersection(online)))).collect();
        let groups = split(online, |cpu| sets.get(&cpu).cloned(), id);
        let agreed = |group: &Group| {
            group.cpus.iter().all(|cpu| sets.get(&cpu).is_none_or(|set| *set == group.cpus))
        };
        let numbered = same.values().map(CpuSet::len).sum::<usize>() == online.len();
        if numbered && !groups.iter().all(agreed) {
            let number = |cpu: CpuId| same.get(&u64::from(id(cpu)?)).cloned();
            (split(online, number, id), true)
        } else {
            (groups, false)
        }
    };
    if contradicted {
        facts
            .warn("the kernel's sets of a package's CPUs contradict each other: its numbers count");
    }
    groups
}

/// The cores; a CPU of which nothing is known is one of its own.
pub(super) fn cores(
    root: &Root,
    facts: &mut Facts,
    online: &CpuSet,
    packages: &[Group],
) -> Vec<Group> {
    let known = online.iter().any(|cpu| {
        let folder = format!("{CPU}/cpu{cpu}/topology");
        let files = ["core_cpus", "core_cpus_list", "thread_siblings", "thread_siblings_list"];
        files.iter().any(|file| root.text(&format!("{folder}/{file}")).is_some())
            || identity(root, facts, cpu, "core_id", "core id").is_some()
    });
    if !known {
        facts.warn("the kernel does not tell the cores: each CPU counts as one");
    }
    let id = |cpu| identity(root, facts, cpu, "core_id", "core id");
    let mut package_of = BTreeMap::new();
    for (place, package) in packages.iter().enumerate() {
        package_of.extend(package.cpus.iter().map(|cpu| (cpu, place)));
    }
    let package = |cpu: CpuId| package_of.get(&cpu).map_or(u32::MAX, |&place| place as u32);
    let same = by_identity(online, |cpu| Some(u64::from(package(cpu)) << 32 | u64::from(id(cpu)?)));
    let lists = ["core_cpus_list", "thread_siblings_list"];
    let masks = ["core_cpus", "thread_siblings"];
    let group = |cpu: CpuId| {
        let folder = format!("{CPU}/cpu{cpu}/topology");
        let told = root.cpus(&folder, &lists, &masks).filter(|set| set.contains(cpu));
        let Some(set) = told else {
            let own = || std::iter::once(cpu).collect();
            let key = id(cpu).map(|id| u64::from(package(cpu)) << 32 | u64::from(id));
            return Some(key.and_then(|key| same.get(&key).cloned()).unwrap_or_else(own));
        };
        // The two cores of an AMD compute unit are siblings with core numbers of their own.
        let own = id(cpu);
        let alike =
            |other: CpuId| other == cpu || package(other) == package(cpu) && id(other) == own;
        Some(set.iter().filter(|&other| online.contains(other) && alike(other)).collect())
    };
    split(online, group, id)
}

pub(super) fn dies(root: &Root, online: &CpuSet) -> Vec<Group> {
    inner(root, online, "die_cpus", "die_id")
}

pub(super) fn clusters(root: &Root, online: &CpuSet) -> Vec<Group> {
    inner(root, online, "cluster_cpus", "cluster_id")
}

fn inner(root: &Root, online: &CpuSet, set: &str, id: &str) -> Vec<Group> {
    let group = |cpu: CpuId| {
        let folder = format!("{CPU}/cpu{cpu}/topology");
        root.cpus(&folder, &[&format!("{set}_list")], &[set]).filter(|set| set.contains(cpu))
    };
    let id = |cpu: CpuId| root.number(&format!("{CPU}/cpu{cpu}/topology/{id}"));
    split(online, group, id)
}
