//! What a program costs at least on a node that nobody else uses.

use std::collections::BTreeSet;
use std::sync::Arc;

use corun_app::Result;
use corun_machine::Machine;
use corun_model::{BandwidthModel, Model, ModelOptions};

use crate::kind::{NodeKind, Prediction};
use crate::objective::{Cost, Objective};

/// Ways to spread a program over LLCs that are looked at.
const MOST_SPREADS: usize = 1_000;

/// A model in which company only slows and nobody is slower than by the node's own; none where the node's own
/// is such a one. Behind two stages of bandwidth it is that of the first stage alone: what comes after takes
/// more from everybody. Where that does not leave one domain a way, bandwidth costs nothing.
pub(super) fn first_stage(kind: &NodeKind) -> Result<Option<Model>> {
    if kind.company_only_slows() {
        return Ok(None);
    }
    let options = kind.model().options();
    let mut spec = kind.machine().spec().clone();
    let local = |machine: &Machine| -> Vec<Vec<usize>> {
        let way = |cpu: usize| machine.memory_path(cpu, machine.cpus()[cpu].node);
        (0..machine.cpus().len()).map(way).collect()
    };
    let peak = |machine: &Machine, way: &[usize]| {
        let peaks = way.iter().map(|&domain| machine.bandwidth_domains()[domain].peak_mb_per_s);
        peaks.fold(f64::INFINITY, f64::min)
    };
    let ways = local(kind.machine());
    let first: Option<u32> =
        ways.iter().flatten().map(|&one| spec.bandwidth_domains[one].stage).min();
    spec.bandwidth_domains.retain(|one| Some(one.stage) == first);
    if let Ok(machine) = Machine::from_spec(spec) {
        let left = local(&machine);
        // Programs are loaded for the lowest peak on their way: it must be the first stage's.
        let same = ways.iter().zip(&left).all(|(way, left)| {
            left.len() == 1 && peak(kind.machine(), way) == peak(&machine, left)
        });
        if same {
            return Ok(Some(Model::new(Arc::new(machine), options)?));
        }
    }
    let free = ModelOptions { bandwidth: BandwidthModel::None, ..options };
    Ok(Some(Model::new(Arc::new(kind.machine().clone()), free)?))
}

/// What a program's threads cost at least on a node of a kind: alone there, over all ways to spread them over
/// its LLCs. Nothing where there are too many ways, or LLCs that differ.
pub(super) fn alone(
    kind: &NodeKind,
    objective: Objective,
    program: usize,
    cpus: u32,
) -> Result<Option<Cost>> {
    let first_stage = first_stage(kind)?;
    let model = first_stage.as_ref().unwrap_or_else(|| kind.model());
    let machine = kind.machine();
    let seats = kind.seats();
    let differ =
        seats.iter().any(|llc| llc.len() != seats[0].len()) || machine.core_types().len() > 1;
    let shared_cores = |llc: &Vec<u32>| {
        let core = |cpu: &u32| machine.cpus()[*cpu as usize].core;
        llc.windows(2).any(|pair| core(&pair[0]) == core(&pair[1]))
            || llc.iter().map(core).collect::<BTreeSet<_>>().len() < llc.len()
    };
    let pipeline = seats.iter().flatten().any(|&cpu| model.divides_private_caches(cpu as usize));
    if cpus > kind.cpus() {
        return Ok(None);
    }
    let mut ways = Vec::new();
    if !differ && !pipeline && !seats.iter().any(shared_cores) {
        let most = seats[0].len() as u32;
        let alike = llcs_are_alike(kind, model.machine());
        spreads(cpus, (seats.len(), most, alike), &mut Vec::new(), &mut ways);
    }
    if ways.is_empty() || ways.len() > MOST_SPREADS {
        return Ok(Some(Cost::default()));
    }
    let mut prediction = Prediction::default();
    let mut least = Cost { sum: f64::INFINITY, worst: f64::INFINITY };
    for way in ways {
        let of_llc = |(llc, &count): (usize, &u32)| seats[llc][..count as usize].iter().copied();
        let threads = way.iter().enumerate().flat_map(of_llc).map(|cpu| (program, cpu));
        let cost = kind
            .slowdowns_by(model, threads, &mut prediction)
            .fold(Cost::default(), |cost, slowdown| cost.with(objective, slowdown));
        least = Cost { sum: least.sum.min(cost.sum), worst: least.worst.min(cost.worst) };
    }
    Ok(Some(least))
}

/// Can LLCs be exchanged? Where each has a bandwidth domain of its own, or all have the same.
fn llcs_are_alike(kind: &NodeKind, machine: &Machine) -> bool {
    let domain = |llc: &Vec<u32>| {
        let cpu = llc[0] as usize;
        machine.memory_path(cpu, machine.cpus()[cpu].node)
    };
    let domains: BTreeSet<Vec<usize>> = kind.seats().iter().map(domain).collect();
    domains.len() == 1 || domains.len() == kind.seats().len()
}

/// Ways to spread threads over so many LLCs of so many CPUs: the counts; falling ones where LLCs are alike.
fn spreads(
    left: u32,
    (llcs, most, alike): (usize, u32, bool),
    so_far: &mut Vec<u32>,
    ways: &mut Vec<Vec<u32>>,
) {
    if left == 0 {
        ways.push(so_far.clone());
        return;
    }
    if llcs == 0 || ways.len() > MOST_SPREADS || left > most * llcs as u32 && !alike {
        return;
    }
    let least = if alike { 1 } else { 0 };
    for count in (least..=left.min(most)).rev() {
        so_far.push(count);
        let next = if alike { count } else { most };
        spreads(left - count, (llcs - 1, next, alike), so_far, ways);
        so_far.pop();
    }
}
