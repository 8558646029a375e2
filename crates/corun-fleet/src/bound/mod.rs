//! What no placement can beat: linear programs over threads that share an LLC.
//!
//! docs/fleet.md has the proofs. Two relaxations divide all threads of the fleet among its LLCs in fractions:
//!
//! - by *groups*: threads of an LLC with n members are no slower in a group of r of them alone. So the cost
//!   of n threads is at least n / r times the mean cost of their groups of r, each of which takes its part of an LLC:
//!   r / n of one, at least r / (CPUs of the LLC). Exact for small LLCs, loose for large ones.
//! - by *pressure*: all slowdowns on an LLC follow from how long its lines stay and how idle its bandwidth
//!   domain is. Of every pressure, what an LLC has room for is a sum over its threads.
//!
//! Any prices of programs and LLCs under which nothing costs less than it is paid for give a bound; a linear program
//! finds good prices, and the bound is computed from them after everything has been looked at, so that it does not depend
//! on the solver's precision.

mod alone;
mod cells;
mod groups;
mod prices;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use corun_app::{Cancel, Result};
use rayon::prelude::*;

use crate::fleet::Ground;
use crate::objective::{Cost, Objective};

use alone::alone;
use cells::{Aim, Cells};
use groups::{Group, LlcKind, groups, of_kind};
pub(crate) use prices::{Column, Prices};

/// Groups that a round adds to the linear program, for each kind of LLC.
const ADDED: usize = 25;
/// Rounds after which the prices are taken as they are.
const MOST_ROUNDS: usize = 60;
/// A group that is paid less than it costs by more than this decides nothing.
const NEAR_DECISION: f64 = 1e-2;
/// A bound this near to what the groups looked at so far allow, as a share of it, is near enough.
const CLOSE: f64 = 1e-4;

/// A bound on the value of every plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// No plan's value is below it.
    pub value: f64,
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
    /// None where slowdowns do not follow from the pressure, or nobody asks.
    cells: Option<Cells>,
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
        let kinds: Vec<usize> = (0..nodes.len()).filter(|&kind| nodes[kind] > 0).collect();
        let of_kind = |&kind: &usize| of_kind((kind, &ground.kinds[kind]), nodes[kind], present);
        let mut llcs: Vec<LlcKind> = kinds.iter().flat_map(of_kind).collect();
        let aim = match ground.objective {
            Objective::WorstSlowdown => None,
            Objective::Machines => Some(Aim::Nodes { slowest: ground.slowdown_bound }),
            objective => Some(Aim::Cost(objective)),
        };
        let cells = aim.and_then(|aim| Cells::new(&ground, &llcs, present, aim));
        // Groups that are small beside their LLC tell next to nothing.
        let is_told = llcs.iter().all(|llc| 2 * llc.size >= llc.seats.len());
        if cells.is_none() || is_told {
            for llc in &mut llcs {
                llc.groups = groups(&ground.kinds[llc.kind], llc, present, ground.objective)?;
            }
        }
        let (met, programs_alone) = (Mutex::default(), Mutex::default());
        Ok(Self { ground, llcs, cells, met, kinds, programs_alone })
    }

    /// The bound for programs: of each which it is, its CPUs, and how many there are. None where they do not
    /// fit.
    ///
    /// # Errors
    /// A machine for which there can be no model, or the caller wants to stop.
    pub fn bound(&self, asked: &[(usize, u32, f64)], cancel: &Cancel) -> Result<Option<Bound>> {
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
        let by_cells = || {
            let least = |cells: &Cells| cells.least(&self.ground, &threads, cancel);
            self.cells.as_ref().map_or(Ok(0.0), least)
        };
        let least = || -> Result<f64> {
            let by_groups = self.least(&threads, cancel, sum)?;
            Ok(by_groups.max(by_cells()?).max(alone.sum) / all)
        };
        let value = match self.ground.objective {
            Objective::MeanSlowdown => 1.0 + least()?,
            Objective::LostWork => least()?,
            Objective::WorstSlowdown => match self.least_worst(&threads, cancel)? {
                Some(worst) => worst.max(alone.worst),
                None => return Ok(None),
            },
            Objective::Machines => {
                let most = self.ground.slowdown_bound;
                let nodes = self.least(&threads, cancel, |one, llc| {
                    (one.cost.worst <= most).then_some(one.part / llc.on_a_node)
                })?;
                let nodes = nodes.max(by_cells()?);
                (nodes - 1e-6).ceil().max(0.0)
            }
        };
        Ok(Some(Bound { value }))
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

    /// The least total cost of groups that hold all threads, or a value below it; 0 without groups. `cost` of a group
    /// that is not allowed is none.
    fn least(
        &self,
        threads: &[f64],
        cancel: &Cancel,
        cost: impl Fn(&Group, &LlcKind) -> Option<f64> + Sync,
    ) -> Result<f64> {
        if self.llcs.iter().any(|llc| llc.groups.is_empty()) {
            return Ok(0.0);
        }
        let counts: Vec<f64> = self.llcs.iter().map(|llc| llc.count).collect();
        let mut best = f64::NEG_INFINITY;
        let mut active: BTreeSet<(usize, usize)> = self.alike().into_iter().collect();
        if let Ok(met) = self.met.lock() {
            active.extend(met.iter().copied());
        }
        for _ in 0..MOST_ROUNDS {
            cancel.check()?;
            let columns = active.iter().filter_map(|&one| self.column(one, &cost));
            let Some((prices, most)) = Prices::best(threads, &counts, columns) else { break };
            let violated = self.violated(&prices, &cost);
            let overpaid = violated.iter().map(|one| one.0).fold(0.0, f64::max);
            // Lower by the largest violation, the prices are paid by every group.
            let lowered = |(&count, &price): (&f64, &f64)| count * (price - overpaid);
            let paid: f64 = threads.iter().zip(&prices.programs).map(lowered).sum();
            let rents = self.llcs.iter().zip(&prices.rents);
            let rent: f64 = rents.map(|(llc, rent)| llc.count * rent).sum();
            best = best.max(paid - rent);
            // What decides nothing at these prices need not be looked at by the next program; it may come back.
            active.retain(|&one| {
                let column = self.column(one, &cost);
                column.is_some_and(|column| prices.overpaid(&column) > -NEAR_DECISION)
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
        Ok(best.max(0.0))
    }

    /// A group as threads on its kind of LLC; none where it is not allowed.
    fn column(
        &self,
        (llc, group): (usize, usize),
        cost: &impl Fn(&Group, &LlcKind) -> Option<f64>,
    ) -> Option<Column> {
        let one = &self.llcs[llc].groups[group];
        let cost = cost(one, &self.llcs[llc])?;
        let same = one.programs.chunk_by(|a, b| a == b);
        let programs = same.map(|same| (usize::from(same[0]), same.len() as f64)).collect();
        Some(Column { llc, part: one.part, programs, cost })
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
                let paid: f64 =
                    group.programs.iter().map(|&one| prices.programs[usize::from(one)]).sum();
                let over = paid - prices.rents[at] * group.part - cost(group, llc)?;
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
    fn least_worst(&self, threads: &[f64], cancel: &Cancel) -> Result<Option<f64>> {
        let groups = self.llcs.iter().flat_map(|llc| &llc.groups);
        let mut limits: Vec<f64> = groups.map(|group| group.cost.worst).collect();
        limits.sort_by(f64::total_cmp);
        limits.dedup();
        let (mut first, mut end) = (0, limits.len());
        while first < end {
            let middle = usize::midpoint(first, end);
            let limit = limits[middle];
            let free = |one: &Group, _: &LlcKind| (one.cost.worst <= limit).then_some(0.0);
            // Prices that pay more than all LLCs together cost prove that the threads do not fit.
            if self.least(threads, cancel, free)? < 1e-6 {
                end = middle;
            } else {
                first = middle + 1;
            }
        }
        Ok(limits.get(first).copied())
    }
}
