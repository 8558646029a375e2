//! Groups of threads that share an LLC, each with what its members cost alone there.

use corun_app::Result;
use rayon::prelude::*;

use super::alone::first_stage;
use crate::kind::{NodeKind, Prediction};
use crate::objective::{Cost, Objective};

/// Groups for each kind of LLC at most: what decides r.
const MOST_GROUPS: usize = 40_000;

/// A group of threads alone on an LLC.
#[derive(Debug)]
pub(super) struct Group {
    /// Programs in rising order, each as often as it is there.
    pub(super) programs: Vec<u16>,
    /// What they cost together.
    pub(super) cost: Cost,
    /// The part of an LLC that they take.
    pub(super) part: f64,
}

/// LLCs that are alike.
pub(super) struct LlcKind {
    /// The kind of node that has it.
    pub(super) kind: usize,
    /// Its CPUs on one of the nodes.
    pub(super) seats: Vec<u32>,
    /// How many there are in the fleet.
    pub(super) count: f64,
    /// How many a node has.
    pub(super) on_a_node: f64,
    /// r: threads of its largest groups.
    pub(super) size: usize,
    /// All groups of its threads of at most r; empty where nobody asks for them.
    pub(super) groups: Vec<Group>,
}

/// What tells LLCs apart: core types by CPU, and the peaks on the way to memory with the size of the LLC.
type LlcShape = (Vec<usize>, Vec<u64>);

/// The kinds of LLC that a kind of node has, each still without its groups.
pub(super) fn of_kind(
    (index, kind): (usize, &NodeKind),
    nodes: usize,
    present: &[usize],
) -> Vec<LlcKind> {
    let machine = kind.machine();
    // LLCs of the same size with the same cores and the same peaks on the way to memory.
    let shape = |llc: &[u32]| -> LlcShape {
        let types = llc.iter().map(|&cpu| machine.cpus()[cpu as usize].core_type).collect();
        let way = machine.memory_path(llc[0] as usize, machine.cpus()[llc[0] as usize].node);
        let peak = |&domain: &usize| machine.bandwidth_domains()[domain].peak_mb_per_s.to_bits();
        let bytes = kind.model().llc_bytes(llc[0] as usize).to_bits();
        (types, way.iter().map(peak).chain([bytes]).collect())
    };
    let mut found: Vec<(LlcShape, LlcKind)> = Vec::new();
    for llc in kind.seats() {
        let shape = shape(llc);
        if let Some((_, known)) = found.iter_mut().find(|(known, _)| *known == shape) {
            known.count += nodes as f64;
            known.on_a_node += 1.0;
            continue;
        }
        let new = LlcKind {
            kind: index,
            seats: llc.clone(),
            count: nodes as f64,
            on_a_node: 1.0,
            size: group_size(present.len(), most_in_a_group(kind, llc)),
            groups: Vec::new(),
        };
        found.push((shape, new));
    }
    found.into_iter().map(|(_, llc)| llc).collect()
}

/// Do the CPUs of an LLC have one core type?
fn are_alike(kind: &NodeKind, llc: &[u32]) -> bool {
    let core_type = |cpu: u32| kind.machine().cpus()[cpu as usize].core_type;
    llc.iter().all(|&cpu| core_type(cpu) == core_type(llc[0]))
}

/// Threads of an LLC of which it is sure what they cost as a group.
fn most_in_a_group(kind: &NodeKind, llc: &[u32]) -> usize {
    let mut cores: Vec<usize> =
        llc.iter().map(|&cpu| kind.machine().cpus()[cpu as usize].core).collect();
    cores.sort_unstable();
    cores.dedup();
    let pipeline = llc.iter().any(|&cpu| kind.model().divides_private_caches(cpu as usize));
    // On unlike cores, or in a pipeline, only what a thread does alone is sure.
    if are_alike(kind, llc) && !pipeline { cores.len() } else { 1 }
}

/// r: as many threads, at most `most`, as leave no more groups of so many programs than are looked at.
fn group_size(programs: usize, most: usize) -> usize {
    let (mut all, mut of_size) = (0, 1);
    for size in 0..most {
        // Multisets: of n programs there are (n + r - 1 over r).
        of_size = of_size * (programs + size) / (size + 1);
        all += of_size;
        if size > 0 && all > MOST_GROUPS {
            return size;
        }
    }
    most
}

/// All lists of at most `size` programs in rising order, the short ones first.
fn lists(present: &[usize], size: usize) -> Vec<Vec<u16>> {
    let mut all: Vec<Vec<u16>> = Vec::new();
    let mut last: Vec<Vec<u16>> = vec![Vec::new()];
    for _ in 0..size {
        let longer = |one: &Vec<u16>| {
            let from = one.last().copied().unwrap_or(0);
            let programs = present.iter().map(|&program| program as u16);
            let one = one.clone();
            programs.filter(move |&program| program >= from).map(move |program| {
                let mut more = one.clone();
                more.push(program);
                more
            })
        };
        last = last.iter().flat_map(longer).collect();
        all.extend(last.iter().cloned());
    }
    all
}

/// All groups of an LLC's threads of at most r.
pub(super) fn groups(
    kind: &NodeKind,
    llc: &LlcKind,
    present: &[usize],
    objective: Objective,
) -> Result<Vec<Group>> {
    let first_stage = first_stage(kind)?;
    let model = first_stage.as_ref().unwrap_or_else(|| kind.model());
    let alike = are_alike(kind, &llc.seats);
    let judged = |prediction: &mut Prediction, programs: Vec<u16>| {
        let cost = |cpus: &[u32], prediction: &mut Prediction| {
            let threads = programs.iter().map(|&one| usize::from(one)).zip(cpus.iter().copied());
            kind.slowdowns_by(model, threads, prediction)
                .fold(Cost::default(), |cost, slowdown| cost.with(objective, slowdown))
        };
        let cost = match alike {
            true => cost(&llc.seats[..programs.len()], prediction),
            false => llc
                .seats
                .iter()
                .map(|&cpu| cost(&[cpu], prediction))
                .min_by(|a, b| a.sum.total_cmp(&b.sum))
                .unwrap_or_default(),
        };
        let whole = programs.len() < llc.size;
        let part = if whole { 1.0 } else { programs.len() as f64 / llc.seats.len() as f64 };
        Group { programs, cost, part }
    };
    let lists = lists(present, llc.size);
    Ok(lists.into_par_iter().map_init(Prediction::default, judged).collect())
}
