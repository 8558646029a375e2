//! Moves of programs that have been placed: what came and went since may have made other places better.

mod chain;

use std::collections::BTreeMap;

use crate::fleet::Fleet;
use crate::kind::Prediction;
use crate::node::{PodId, Resident};
use crate::objective::{Cost, Objective};

use chain::best_chain;

/// A move of a program from one node to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Who.
    pub pod: PodId,
    /// The node that it left.
    pub from: usize,
    /// The node that it came to.
    pub to: usize,
}

/// What a repair did.
#[derive(Debug, Clone, PartialEq)]
pub struct Repaired {
    /// Programs that changed their node, each once, in the order of [`PodId`].
    pub moves: Vec<Move>,
    /// What all programs cost less than before ([`crate::Objective::thread_cost`]). Programs that were held to another
    /// LLC of their node are no moves, and count here.
    pub saved: f64,
}

/// How often others are taken out of a node for chains, for each node of the fleet at most.
const TRIES_A_NODE: usize = 4_000;
/// Looks at all programs for chains, at most.
const MOST_PASSES: usize = 20;

/// Looks once at every program, those of the costliest nodes first, and moves each that saves more than
/// `move_cost` for each of its CPUs. Then chains of moves, which must save as much for the CPUs of all who
/// are on another node than before the repair; `tries` times at most others are taken out of a node for a
/// chain. With [`Objective::WorstSlowdown`] no move and no chain makes the fleet's worst slowdown worse, whatever it saves.
pub fn repair(
    fleet: &mut Fleet,
    move_cost: f64,
    tries: usize,
    prediction: &mut Prediction,
) -> Repaired {
    let before = fleet.cost().sum;
    let mut homes = Homes { move_cost, first: BTreeMap::new() };
    for from in costliest_first(fleet) {
        for pod in pods_of(fleet, from) {
            move_away(fleet, (from, pod), &mut homes, prediction);
        }
    }
    let mut tries = tries.min(TRIES_A_NODE * fleet.nodes.len());
    for _ in 0..MOST_PASSES {
        if !chains(fleet, &mut homes, &mut tries, prediction) {
            break;
        }
    }
    let moves = homes.moves(fleet);
    Repaired { moves, saved: before - fleet.cost().sum }
}

/// Where programs were before the repair.
struct Homes {
    /// For each CPU.
    move_cost: f64,
    /// Of the programs that moved.
    first: BTreeMap<PodId, usize>,
}

impl Homes {
    /// What a program that is on a node now has to pay for being on another.
    fn to_pay(&self, pod: PodId, cpus: usize, now: usize, then: usize) -> f64 {
        let home = self.first.get(&pod).copied().unwrap_or(now);
        let paid = |node: usize| if node == home { 0.0 } else { self.move_cost * cpus as f64 };
        paid(then) - paid(now)
    }

    fn moved(&mut self, pod: PodId, from: usize) {
        self.first.entry(pod).or_insert(from);
    }

    fn moves(self, fleet: &Fleet) -> Vec<Move> {
        let found = self.first.into_iter().filter_map(|(pod, from)| {
            let to = fleet.node_of(pod)?;
            (to != from).then_some(Move { pod, from, to })
        });
        found.collect()
    }
}

/// Nodes on which somebody runs.
fn costliest_first(fleet: &Fleet) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..fleet.nodes.len()).filter(|&node| !fleet.nodes[node].residents.is_empty()).collect();
    let sum = |node: usize| fleet.nodes[node].cost().sum;
    order.sort_by(|&a, &b| sum(b).total_cmp(&sum(a)).then(a.cmp(&b)));
    order
}

fn pods_of(fleet: &Fleet, node: usize) -> Vec<PodId> {
    fleet.nodes[node].residents.iter().map(|one| one.pod).collect()
}

/// What leaves a node with a program, what those who stay cost then, and the program as it is there.
fn leaving(
    fleet: &Fleet,
    (from, pod): (usize, PodId),
    prediction: &mut Prediction,
) -> Option<(f64, Cost, Resident)> {
    let at = &fleet.nodes[from];
    let one = at.residents.iter().find(|one| one.pod == pod)?;
    let stay = at.without(fleet.kind(from), fleet.ground().objective, pod, prediction);
    Some((at.cost().sum - stay.sum, stay, one.clone()))
}

fn move_away(
    fleet: &mut Fleet,
    (from, pod): (usize, PodId),
    homes: &mut Homes,
    prediction: &mut Prediction,
) -> Option<()> {
    let (leaves, stay, one) = leaving(fleet, (from, pod), prediction)?;
    let least = homes.move_cost * one.cpus.len() as f64;
    // What leaves with it is the most that a move can save.
    if leaves <= least {
        return None;
    }
    let place = fleet.best_place_but(one.workload, Some(from), prediction).ok()?;
    let saving = leaves - place.marginal;
    if saving <= least || place.worst.max(stay.worst) > worst_allowed(fleet) {
        return None;
    }
    fleet.remove(pod, prediction);
    fleet.insert(pod, one.workload, (place.node, place.cpus), prediction);
    homes.moved(pod, from);
    Some(())
}

/// How slow nobody may become by a move.
fn worst_allowed(fleet: &Fleet) -> f64 {
    match fleet.ground().objective {
        Objective::WorstSlowdown => fleet.cost().worst,
        _ => f64::INFINITY,
    }
}

/// Looks at every program for the best chain that begins with it, those of the costliest nodes first; did any pay?
fn chains(
    fleet: &mut Fleet,
    homes: &mut Homes,
    tries: &mut usize,
    prediction: &mut Prediction,
) -> bool {
    let mut any = false;
    for from in costliest_first(fleet) {
        for pod in pods_of(fleet, from) {
            if *tries == 0 {
                return false;
            }
            if fleet.node_of(pod) != Some(from) {
                continue;
            }
            let Some(steps) = best_chain(fleet, (from, pod), homes, tries, prediction) else {
                continue;
            };
            any = true;
            for step in &steps {
                let from = fleet.node_of(step.pod);
                fleet.remove(step.pod, prediction);
                from.into_iter().for_each(|from| homes.moved(step.pod, from));
            }
            for step in steps {
                fleet.insert(step.pod, step.workload, (step.node, step.cpus), prediction);
            }
        }
    }
    any
}
