//! What no placement can beat: a linear program over groups of threads that share an LLC.
//!
//! docs/fleet.md has the proof. In short: threads of an LLC with n members are no slower in a group of r of
//! them alone. So the cost of n threads is at least n / r times the mean cost of their groups of r, and a
//! relaxation may divide all threads of the fleet among groups of at most r, each of which takes its part of
//! an LLC: r / n of one, at least r / (CPUs of the LLC). Any prices of programs and LLCs under which no group
//! costs less than it is paid for give a bound; a linear program finds good prices, and the bound is computed
//! from them after every group has been looked at, so that it does not depend on the solver's precision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use corun_app::Result;
use corun_machine::Machine;
use corun_model::{BandwidthModel, Model, ModelOptions};
use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
use rayon::prelude::*;

use crate::fleet::Ground;
use crate::kind::{NodeKind, Prediction};
use crate::objective::{Cost, Objective};

/// Groups for each kind of LLC at most: what decides r.
const MOST_GROUPS: usize = 40_000;
/// Groups that a round adds to the linear program, for each kind of LLC.
const ADDED: usize = 25;
/// Rounds after which the prices are taken as they are.
const MOST_ROUNDS: usize = 60;
/// Ways to spread a program over LLCs that are looked at.
const MOST_SPREADS: usize = 1_000;
/// No price is higher.
const HIGHEST_PRICE: f64 = 100.0;
/// A group that is paid less than it costs by more than this decides nothing.
const NEAR_DECISION: f64 = 1e-2;
/// A bound this near to what the groups looked at so far allow, as a share of it, is near enough.
const CLOSE: f64 = 1e-4;

/// A group of threads alone on an LLC.
#[derive(Debug)]
struct Group {
    /// Programs in rising order, each as often as it is there.
    programs: Vec<u16>,
    /// What they cost together.
    cost: Cost,
    /// The part of an LLC that they take.
    part: f64,
}

/// LLCs that are alike.
struct LlcKind {
    /// How many there are in the fleet.
    count: f64,
    /// How many a node has.
    on_a_node: f64,
    groups: Vec<Group>,
}

/// What is paid for a thread of each program, and asked for an LLC of each kind.
struct Prices {
    programs: Vec<f64>,
    rents: Vec<f64>,
}

impl Prices {
    /// By how much they pay a group of this kind of LLC more than it costs; none where the group is not allowed.
    fn overpaid(
        &self,
        llc: usize,
        kind: &LlcKind,
        group: &Group,
        cost: &impl Fn(&Group, &LlcKind) -> Option<f64>,
    ) -> Option<f64> {
        let paid: f64 = group.programs.iter().map(|&one| self.programs[usize::from(one)]).sum();
        Some(paid - self.rents[llc] * group.part - cost(group, kind)?)
    }
}

/// What tells LLCs apart: core types by CPU, and the peaks on the way to memory.
type LlcShape = (Vec<usize>, Vec<u64>);

/// A bound on the value of every plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// No plan's value is below it.
    pub value: f64,
    /// Threads of the largest groups: where it is the CPUs of an LLC, an LLC's threads are one group.
    pub group: usize,
}

/// A lower bound to `decimals` places, never above the bound itself.
pub(crate) fn round_down(bound: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (bound * scale).floor() / scale
}

/// The groups of a fleet, from which bounds for any population follow.
pub struct Bounds {
    ground: Arc<Ground>,
    llcs: Vec<LlcKind>,
    group: usize,
    /// Groups that decided earlier bounds.
    met: Mutex<BTreeSet<(usize, usize)>>,
    /// Kinds of node of which there are any.
    kinds: Vec<usize>,
    /// By program and CPUs.
    programs_alone: Mutex<BTreeMap<(usize, u32), Option<Cost>>>,
}

impl Bounds {
    /// For so many nodes of each kind, and the programs of which there are any.
    ///
    /// # Errors
    /// A machine for which there can be no model.
    pub fn new(ground: Arc<Ground>, nodes: &[usize], present: &[usize]) -> Result<Self> {
        let mut llcs = Vec::new();
        let mut group = usize::MAX;
        for (kind, &count) in ground.kinds.iter().zip(nodes).filter(|(_, count)| **count > 0) {
            let found = of_kind(kind, count, present, ground.objective)?;
            group = group.min(found.1);
            llcs.extend(found.0);
        }
        let kinds = (0..nodes.len()).filter(|&kind| nodes[kind] > 0).collect();
        let (met, programs_alone) = (Mutex::default(), Mutex::default());
        Ok(Self { ground, llcs, group, met, kinds, programs_alone })
    }

    /// The bound for programs: of each which it is, its CPUs, and how many there are. None where they do not
    /// fit.
    ///
    /// # Errors
    /// A machine for which there can be no model.
    pub fn bound(&self, asked: &[(usize, u32, f64)]) -> Result<Option<Bound>> {
        let mut threads = vec![0.0; self.ground.programs.len()];
        let mut alone = Cost::default();
        for &(program, cpus, count) in asked {
            threads[program] += f64::from(cpus) * count;
            let Some(least) = self.alone(program, cpus)? else { return Ok(None) };
            alone.sum += count * least.sum;
            alone.worst = alone.worst.max(least.worst);
        }
        let all: f64 = threads.iter().sum();
        if all <= 0.0 {
            return Ok(None);
        }
        let sum = |one: &Group, _: &LlcKind| Some(one.cost.sum);
        let value = match self.ground.objective {
            Objective::MeanSlowdown => 1.0 + self.least(&threads, sum).max(alone.sum) / all,
            Objective::LostWork => self.least(&threads, sum).max(alone.sum) / all,
            Objective::WorstSlowdown => match self.least_worst(&threads) {
                Some(worst) => worst.max(alone.worst),
                None => return Ok(None),
            },
            Objective::Machines => {
                let most = self.ground.slowdown_bound;
                let nodes = self.least(&threads, |one, llc| {
                    (one.cost.worst <= most).then_some(one.part / llc.on_a_node)
                });
                (nodes - 1e-6).ceil().max(0.0)
            }
        };
        Ok(Some(Bound { value, group: self.group }))
    }

    /// What a program costs at least, wherever it is: alone on the best kind of node. None where no node is
    /// large enough.
    fn alone(&self, program: usize, cpus: u32) -> Result<Option<Cost>> {
        let known = |one: &BTreeMap<(usize, u32), Option<Cost>>| one.get(&(program, cpus)).copied();
        if let Some(found) = self.programs_alone.lock().ok().and_then(|one| known(&one)) {
            return Ok(found);
        }
        let mut least: Option<Cost> = None;
        for kind in self.kinds.iter().map(|&kind| &self.ground.kinds[kind]) {
            let Some(cost) = alone(kind, self.ground.objective, program, cpus)? else { continue };
            least = Some(least.map_or(cost, |least| Cost {
                sum: least.sum.min(cost.sum),
                worst: least.worst.min(cost.worst),
            }));
        }
        if let Ok(mut known) = self.programs_alone.lock() {
            known.insert((program, cpus), least);
        }
        Ok(least)
    }

    /// The least total cost of groups that hold all threads, or a value below it. `cost` of a group that
    /// is not allowed is none.
    fn least(&self, threads: &[f64], cost: impl Fn(&Group, &LlcKind) -> Option<f64> + Sync) -> f64 {
        let mut best = f64::NEG_INFINITY;
        let mut active: BTreeSet<(usize, usize)> = self.alike().into_iter().collect();
        if let Ok(met) = self.met.lock() {
            active.extend(met.iter().copied());
        }
        for _ in 0..MOST_ROUNDS {
            let Some((prices, most)) = self.prices(threads, &active, &cost) else { break };
            let violated = self.violated(&prices, &cost);
            let overpaid = violated.iter().map(|one| one.0).fold(0.0, f64::max);
            // Lower by the largest violation, the prices are paid by every group.
            let lowered = |(&count, &price): (&f64, &f64)| count * (price - overpaid);
            let paid: f64 = threads.iter().zip(&prices.programs).map(lowered).sum();
            let rents = self.llcs.iter().zip(&prices.rents);
            let rent: f64 = rents.map(|(llc, rent)| llc.count * rent).sum();
            best = best.max(paid - rent);
            // What decides nothing at these prices need not be looked at by the next program; it may come back.
            active.retain(|&(llc, group)| {
                let one = &self.llcs[llc];
                prices
                    .overpaid(llc, one, &one.groups[group], &cost)
                    .is_some_and(|over| over > -NEAR_DECISION)
            });
            if most - best <= CLOSE * best.abs() + 1e-9 {
                break;
            }
            active.extend(violated.iter().map(|one| one.1));
        }
        if let Ok(mut met) = self.met.lock() {
            *met = active;
        }
        // Nothing costs less than nothing.
        best.max(0.0)
    }

    /// The prices that pay most of those by which no group of `active` costs less than it pays, and how much that is.
    fn prices(
        &self,
        threads: &[f64],
        active: &BTreeSet<(usize, usize)>,
        cost: &(impl Fn(&Group, &LlcKind) -> Option<f64> + Sync),
    ) -> Option<(Prices, f64)> {
        let all: f64 = threads.iter().sum();
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let price = |of: f64, problem: &mut Problem| problem.add_var(of, (0.0, HIGHEST_PRICE));
        let programs: Vec<Variable> =
            threads.iter().map(|&count| price(count / all, &mut problem)).collect();
        let llcs: Vec<Variable> =
            self.llcs.iter().map(|llc| price(-llc.count / all, &mut problem)).collect();
        for &(llc, group) in active {
            let one = &self.llcs[llc].groups[group];
            let Some(limit) = cost(one, &self.llcs[llc]) else { continue };
            let mut terms: Vec<(Variable, f64)> = Vec::new();
            for same in one.programs.chunk_by(|a, b| a == b) {
                terms.push((programs[usize::from(same[0])], same.len() as f64));
            }
            terms.push((llcs[llc], -one.part));
            problem.add_constraint(terms, ComparisonOp::Le, limit);
        }
        let solution = problem.solve().ok()?.into_solution().ok()?;
        let price = |one: &Variable| solution.var_value(*one).max(0.0);
        let programs = programs.iter().map(price).collect();
        let rents = llcs.iter().map(price).collect();
        Some((Prices { programs, rents }, solution.objective() * all))
    }

    /// Groups of one program alone: where the search for prices begins.
    fn alike(&self) -> Vec<(usize, usize)> {
        let of_llc = |(llc, kind): (usize, &LlcKind)| {
            let one = |group: &Group| group.programs.iter().all(|&one| one == group.programs[0]);
            let found = kind.groups.iter().enumerate().filter(|(_, group)| one(group));
            found.map(|(group, _)| (llc, group)).collect::<Vec<_>>()
        };
        self.llcs.iter().enumerate().flat_map(of_llc).collect()
    }

    /// The groups that the prices overpay most, by kind of LLC: by how much, and which.
    fn violated(
        &self,
        prices: &Prices,
        cost: &(impl Fn(&Group, &LlcKind) -> Option<f64> + Sync),
    ) -> Vec<(f64, (usize, usize))> {
        let mut all = Vec::new();
        for (at, llc) in self.llcs.iter().enumerate() {
            let over = |(index, group): (usize, &Group)| {
                let over = prices.overpaid(at, llc, group, cost)?;
                (over > 1e-12).then_some((over, (at, index)))
            };
            let mut found: Vec<(f64, (usize, usize))> =
                llc.groups.par_iter().enumerate().filter_map(over).collect();
            found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            found.truncate(ADDED);
            all.extend(found);
        }
        all
    }

    /// The least slowdown at which groups that keep it hold all threads.
    fn least_worst(&self, threads: &[f64]) -> Option<f64> {
        let groups = self.llcs.iter().flat_map(|llc| &llc.groups);
        let mut limits: Vec<f64> = groups.map(|group| group.cost.worst).collect();
        limits.sort_by(f64::total_cmp);
        limits.dedup();
        // Prices that pay more than all LLCs together cost prove that the threads do not fit.
        let fits = |limit: f64| {
            let free = |one: &Group, _: &LlcKind| (one.cost.worst <= limit).then_some(0.0);
            self.least(threads, free) < 1e-6
        };
        let first = limits.partition_point(|&limit| !fits(limit));
        limits.get(first).copied()
    }
}

/// A model in which company only slows and nobody is slower than by the node's own; none where the node's own
/// is such a one. Behind two stages of bandwidth it is that of the first stage alone: what comes after takes
/// more from everybody. Where that does not leave one domain a way, bandwidth costs nothing.
fn first_stage(kind: &NodeKind) -> Result<Option<Model>> {
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
fn alone(kind: &NodeKind, objective: Objective, program: usize, cpus: u32) -> Result<Option<Cost>> {
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

/// The kinds of LLC that a kind of node has, each with its groups, and the size of the largest.
fn of_kind(
    kind: &NodeKind,
    nodes: usize,
    present: &[usize],
    objective: Objective,
) -> Result<(Vec<LlcKind>, usize)> {
    let machine = kind.machine();
    let first_stage = first_stage(kind)?;
    let model = first_stage.as_ref().unwrap_or_else(|| kind.model());
    // LLCs with the same cores and the same peaks on the way to memory.
    let core_types = |llc: &[u32]| -> LlcShape {
        let types = llc.iter().map(|&cpu| machine.cpus()[cpu as usize].core_type).collect();
        let way = machine.memory_path(llc[0] as usize, machine.cpus()[llc[0] as usize].node);
        let peak = |&domain: &usize| machine.bandwidth_domains()[domain].peak_mb_per_s.to_bits();
        (types, way.iter().map(peak).collect())
    };
    let mut found: Vec<(LlcShape, LlcKind)> = Vec::new();
    let mut largest = usize::MAX;
    for llc in kind.seats() {
        let types = core_types(llc);
        if let Some((_, known)) = found.iter_mut().find(|(known, _)| *known == types) {
            known.count += nodes as f64;
            known.on_a_node += 1.0;
            continue;
        }
        let (groups, size) = groups(kind, model, llc, present, objective);
        largest = largest.min(size);
        found.push((types, LlcKind { count: nodes as f64, on_a_node: 1.0, groups }));
    }
    Ok((found.into_iter().map(|(_, llc)| llc).collect(), largest))
}

/// All groups of an LLC's threads of at most r, and r.
fn groups(
    kind: &NodeKind,
    model: &Model,
    llc: &[u32],
    present: &[usize],
    objective: Objective,
) -> (Vec<Group>, usize) {
    let machine = kind.machine();
    let core = |cpu: u32| machine.cpus()[cpu as usize].core;
    let core_type = |cpu: u32| machine.cpus()[cpu as usize].core_type;
    let mut cores: Vec<usize> = llc.iter().map(|&cpu| core(cpu)).collect();
    cores.sort_unstable();
    cores.dedup();
    let alike = llc.iter().all(|&cpu| core_type(cpu) == core_type(llc[0]));
    let pipeline = llc.iter().any(|&cpu| model.divides_private_caches(cpu as usize));
    // On unlike cores, or in a pipeline, only what a thread does alone is sure.
    let most = if alike && !pipeline { cores.len() } else { 1 };
    let mut lists: Vec<Vec<u16>> = Vec::new();
    let mut last: Vec<Vec<u16>> = vec![Vec::new()];
    let mut size = 0;
    while size < most {
        let larger = last.len().saturating_mul(present.len());
        if size > 0 && larger > MOST_GROUPS.saturating_mul(size + 1) {
            break;
        }
        let longer = |one: &Vec<u16>| {
            let from = one.last().copied().unwrap_or(0);
            let programs = present.iter().map(|&program| program as u16);
            let grow = move |program: u16, one: &Vec<u16>| {
                let mut more = one.clone();
                more.push(program);
                more
            };
            let one = one.clone();
            programs.filter(move |&program| program >= from).map(move |program| grow(program, &one))
        };
        let next: Vec<Vec<u16>> = last.iter().flat_map(longer).collect();
        if size > 0 && lists.len() + next.len() > MOST_GROUPS {
            break;
        }
        size += 1;
        lists.extend(next.iter().cloned());
        last = next;
    }
    let judged = |prediction: &mut Prediction, programs: Vec<u16>| {
        let seats: Vec<u32> = match alike {
            true => llc[..programs.len()].to_vec(),
            false => Vec::new(),
        };
        let cost = |cpus: &[u32], prediction: &mut Prediction| {
            let threads = programs.iter().map(|&one| usize::from(one)).zip(cpus.iter().copied());
            kind.slowdowns_by(model, threads, prediction)
                .fold(Cost::default(), |cost, slowdown| cost.with(objective, slowdown))
        };
        let cost = match alike {
            true => cost(&seats, prediction),
            false => llc
                .iter()
                .map(|&cpu| cost(&[cpu], prediction))
                .min_by(|a, b| a.sum.total_cmp(&b.sum))
                .unwrap_or_default(),
        };
        let whole = programs.len() < size;
        let part = if whole { 1.0 } else { programs.len() as f64 / llc.len() as f64 };
        Group { programs, cost, part }
    };
    let groups = lists.into_par_iter().map_init(Prediction::default, judged).collect();
    (groups, size)
}
