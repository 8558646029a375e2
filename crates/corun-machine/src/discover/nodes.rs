//! NUMA nodes, with and without CPUs.

use super::Facts;
use super::files::Root;
use crate::{CpuId, CpuSet};

const NODE: &str = "sys/devices/system/node";
const MAX_NODES: usize = 1024;

/// A NUMA node; without CPUs it has memory alone.
pub(super) struct Found {
    pub(super) os_index: u32,
    pub(super) cpus: CpuSet,
    pub(super) memory_mib: Option<u64>,
}

/// The nodes by ascending number, and their distances where all are known.
pub(super) fn all(root: &Root, facts: &mut Facts, online: &CpuSet) -> (Vec<Found>, Vec<Vec<u32>>) {
    let folders = root.numbered(NODE, "node");
    // The kernel numbers nodes as it numbers CPUs, in the same notation.
    let listed = root.cpus(NODE, &["online"], &[]).filter(|set| !set.is_empty());
    let shown: Vec<u32> = folders
        .into_iter()
        .filter(|&node| listed.as_ref().is_none_or(|set| set.contains(CpuId(node))))
        .take(MAX_NODES)
        .collect();
    let accelerators = accelerators(root);
    let mut foreign = CpuSet::new();
    let mut covered = CpuSet::new();
    let mut left = online.clone();
    let mut nodes = Vec::new();
    for &node in &shown {
        let folder = format!("{NODE}/node{node}");
        let Some(set) = root.cpus(&folder, &["cpulist"], &["cpumap"]) else {
            facts.warn("NUMA nodes of which the kernel does not tell the CPUs are left out");
            continue;
        };
        let here = set.intersection(online);
        if here.is_empty() && accelerators.contains(&node) {
            // Its owner's alone, as lstopo has it: no page of a program belongs there.
            foreign.insert(CpuId(node));
            continue;
        }
        let cpus = here.intersection(&left);
        if cpus.is_empty() && !here.is_empty() {
            // Firmware that gives all CPUs to every node. As a node without CPUs it would be one
            // that is nobody's own.
            covered.insert(CpuId(node));
            continue;
        }
        if cpus != here {
            facts.warn("some CPUs are in several NUMA nodes: the lowest counts");
        }
        for cpu in cpus.iter() {
            left.remove(cpu);
        }
        nodes.push(Found { os_index: node, cpus, memory_mib: memory_mib(root, &folder) });
    }
    if !covered.is_empty() {
        facts.warn(&format!(
            "NUMA nodes without a CPU that no lower node has are left out: {covered}"
        ));
    }
    let mut distances = distances(root, &shown, &nodes);
    with_memory(root, facts, &mut nodes, &mut distances);
    if !foreign.is_empty() {
        facts.warn(&format!(
            "NUMA nodes that are the memory of an accelerator are left out: {foreign}"
        ));
    }
    if nodes.iter().all(|node| node.cpus.is_empty()) {
        // A capture without nodes, or nodes that name no CPU: all is one.
        if let Some(node) = nodes.first_mut() {
            node.cpus = online.clone();
            facts.warn("no NUMA node has CPUs: the first counts as that of all");
        }
    } else if !left.is_empty() {
        facts.warn("some CPUs are in no NUMA node: they count as the first's");
        if let Some(node) = nodes.iter_mut().find(|node| !node.cpus.is_empty()) {
            node.cpus = node.cpus.union(&left);
        }
    }
    if nodes.is_empty() {
        // A kernel without NUMA: all memory is everybody's own.
        let memory_mib = memory_mib(root, "proc");
        nodes.extend(memory_mib.map(|mib| Found {
            os_index: 0,
            cpus: online.clone(),
            memory_mib: Some(mib),
        }));
    }
    if let [only] = &mut nodes[..] {
        only.memory_mib = only.memory_mib.or_else(|| memory_mib(root, "proc"));
    }
    if distances.is_empty() && nodes.len() > 1 {
        facts.warn("the distances between NUMA nodes are unknown");
    }
    (nodes, distances)
}

/// Leaves out the nodes that have no memory, as far as the kernel tells. Their CPUs go to the
/// nearest node that has some: its memory is the nearest that they can have.
fn with_memory(
    root: &Root,
    facts: &mut Facts,
    nodes: &mut Vec<Found>,
    distances: &mut Vec<Vec<u32>>,
) {
    let Some(told) = root.cpus(NODE, &["has_memory"], &[]) else { return };
    let stays: Vec<bool> = nodes.iter().map(|node| told.contains(CpuId(node.os_index))).collect();
    if stays.iter().all(|&stay| stay) || !stays.contains(&true) {
        return;
    }
    for place in (0..nodes.len()).filter(|&place| !stays[place]) {
        let row = distances.get(place);
        let away = |&to: &usize| row.map_or(0, |row| row[to]);
        let nearest = (0..nodes.len()).filter(|&to| stays[to]).min_by_key(away);
        if let Some(nearest) = nearest {
            nodes[nearest].cpus = nodes[nearest].cpus.union(&nodes[place].cpus);
        }
    }
    let gone: CpuSet = nodes
        .iter()
        .zip(&stays)
        .filter(|(_, stay)| !**stay)
        .map(|(node, _)| CpuId(node.os_index))
        .collect();
    facts.warn(&format!(
        "NUMA nodes without memory are left out, their CPUs count as the nearest other's: {gone}"
    ));
    let keep = |place: usize| stays.get(place) == Some(&true);
    for row in distances.iter_mut() {
        *row = row.iter().enumerate().filter(|(to, _)| keep(*to)).map(|(_, &far)| far).collect();
    }
    let mut place = 0..;
    distances.retain(|_| place.next().is_some_and(keep));
    let mut place = 0..;
    nodes.retain(|_| place.next().is_some_and(keep));
}

fn memory_mib(root: &Root, folder: &str) -> Option<u64> {
    let lines = root.lines(&format!("{folder}/meminfo"));
    let line = lines.iter().find(|line| line.contains("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().rev().nth(1)?.parse().ok()?;
    Some(kib / 1024)
}

/// A row holds the distances to all on-line nodes in ascending order.
fn distances(root: &Root, shown: &[u32], nodes: &[Found]) -> Vec<Vec<u32>> {
    let row = |node: &Found| -> Option<Vec<u32>> {
        let text = root.text(&format!("{NODE}/node{}/distance", node.os_index))?;
        let all: Vec<u32> =
            text.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        if all.len() != shown.len() || all.contains(&0) {
            return None;
        }
        let kept = |node: &Found| shown.iter().position(|&number| number == node.os_index);
        nodes.iter().map(|node| kept(node).map(|place| all[place])).collect()
    };
    nodes.iter().map(row).collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// The nodes that graphics processors claim as their own memory.
fn accelerators(root: &Root) -> Vec<u32> {
    const GPUS: &str = "proc/driver/nvidia/gpus";
    let mut nodes = Vec::new();
    for gpu in root.names(GPUS).into_iter().take(MAX_NODES) {
        for line in root.lines(&format!("{GPUS}/{gpu}/numa_status")) {
            let node = line.split_once(':').filter(|(key, _)| key.trim() == "Node");
            nodes.extend(node.and_then(|(_, value)| value.trim().parse::<u32>().ok()));
        }
    }
    nodes
}
