//! Moves of programs that have been placed: what came and went since may have made other places better.

use crate::fleet::Fleet;
use crate::kind::Prediction;
use crate::node::{PodId, Resident};
use crate::objective::{Cost, Objective};

/// A move of a program from one node to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// Who.
    pub pod: PodId,
    /// The node that it left.
    pub from: usize,
    /// The node that it came to.
    pub to: usize,
    /// What all on both nodes cost less ([`crate::Objective::thread_cost`]).
    pub saving: f64,
}

/// Nodes to exchange with, and programs of each, that are tried for a program.
const PARTNER_NODES: usize = 8;
const PARTNERS_ON_A_NODE: usize = 4;
/// Exchanges that are tried at most: for each node of the fleet, and in all.
const TRIES_A_NODE: usize = 64;
const MOST_TRIES: usize = 1_000;

/// Looks once at every program, those of the costliest nodes first, and moves each that saves more than
/// `move_cost` for each of its CPUs; then at exchanges of two programs, which must save as much for the CPUs of both.
/// At most `most` moves, an exchange being two. With [`Objective::WorstSlowdown`] no move makes the fleet's worst slowdown
/// worse, whatever the move saves, and there are no exchanges.
pub fn repair(
    fleet: &mut Fleet,
    move_cost: f64,
    most: usize,
    prediction: &mut Prediction,
) -> Vec<Move> {
    let mut moves = Vec::new();
    for from in costliest_first(fleet) {
        let pods: Vec<PodId> = fleet.nodes[from].residents.iter().map(|one| one.pod).collect();
        for pod in pods {
            if moves.len() >= most {
                return moves;
            }
            moves.extend(move_away(fleet, (from, pod), move_cost, prediction));
        }
    }
    if fleet.ground().objective == Objective::WorstSlowdown {
        return moves;
    }
    let mut tries = MOST_TRIES.min(TRIES_A_NODE * fleet.nodes.len());
    for from in costliest_first(fleet) {
        let pods: Vec<PodId> = fleet.nodes[from].residents.iter().map(|one| one.pod).collect();
        for pod in pods {
            if moves.len() + 2 > most || tries == 0 {
                return moves;
            }
            moves.extend(
                exchange(fleet, (from, pod), move_cost, &mut tries, prediction)
                    .into_iter()
                    .flatten(),
            );
        }
    }
    moves
}

/// Nodes on which somebody runs.
fn costliest_first(fleet: &Fleet) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..fleet.nodes.len()).filter(|&node| !fleet.nodes[node].residents.is_empty()).collect();
    let sum = |node: usize| fleet.nodes[node].cost().sum;
    order.sort_by(|&a, &b| sum(b).total_cmp(&sum(a)).then(a.cmp(&b)));
    order
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
    move_cost: f64,
    prediction: &mut Prediction,
) -> Option<Move> {
    let (leaves, stay, one) = leaving(fleet, (from, pod), prediction)?;
    let least = move_cost * one.cpus.len() as f64;
    // What leaves with it is the most that a move can save.
    if leaves <= least {
        return None;
    }
    let place = fleet.best_place_but(one.workload, Some(from), prediction).ok()?;
    let saving = leaves - place.marginal;
    let worse = fleet.ground().objective == Objective::WorstSlowdown
        && place.worst.max(stay.worst) > fleet.cost().worst;
    if saving <= least || worse {
        return None;
    }
    fleet.remove(pod, prediction);
    let to = place.node;
    fleet.insert(pod, one.workload, (to, place.cpus), prediction);
    Some(Move { pod, from, to, saving })
}

/// Exchanges a program with the first of others for which that saves enough: those of the nodes with the program's lowest
/// scores, of each first those with the lowest scores where it is now.
fn exchange(
    fleet: &mut Fleet,
    (from, pod): (usize, PodId),
    move_cost: f64,
    tries: &mut usize,
    prediction: &mut Prediction,
) -> Option<[Move; 2]> {
    let (leaves, _, one) = leaving(fleet, (from, pod), prediction)?;
    if leaves <= move_cost * one.cpus.len() as f64 {
        return None;
    }
    for to in fleet.lowest_by_score(one.program, from, PARTNER_NODES) {
        let room =
            |node: usize, of: &Resident| fleet.nodes[node].free_cpus() as usize + of.cpus.len();
        let fits = |other: &&Resident| {
            room(to, other) >= one.cpus.len() && room(from, &one) >= other.cpus.len()
        };
        let other_cost =
            |other: &Resident| fleet.score(from, other.program) * other.cpus.len() as f64;
        let alike = |other: &Resident| other.workload == one.workload;
        let residents = fleet.nodes[to].residents.iter().filter(|other| !alike(other));
        let mut partners: Vec<Resident> = residents.filter(fits).cloned().collect();
        partners.sort_by(|a, b| other_cost(a).total_cmp(&other_cost(b)));
        for other in partners.into_iter().take(PARTNERS_ON_A_NODE) {
            if *tries == 0 {
                return None;
            }
            *tries -= 1;
            let found = exchanged(fleet, [(from, &one), (to, &other)], move_cost, prediction);
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

/// Exchanges two programs of two nodes, if that saves enough.
fn exchanged(
    fleet: &mut Fleet,
    [(from, one), (to, other)]: [(usize, &Resident); 2],
    move_cost: f64,
    prediction: &mut Prediction,
) -> Option<[Move; 2]> {
    let sum = |fleet: &Fleet| fleet.nodes[from].cost().sum + fleet.nodes[to].cost().sum;
    let before = sum(fleet);
    fleet.remove(one.pod, prediction);
    fleet.remove(other.pod, prediction);
    let cpus = [one, other].map(|of| of.cpus.len() as f64);
    let both = cpus[0] + cpus[1];
    let mut there = Vec::new();
    for (of, node) in [(one, to), (other, from)] {
        let Some(place) = fleet.best_place_on(node, of.workload, prediction) else { break };
        fleet.insert(of.pod, of.workload, (node, place.cpus), prediction);
        there.push(of.pod);
    }
    let saving = before - sum(fleet);
    if there.len() == 2 && saving > move_cost * both {
        let part = |index: usize| saving * cpus[index] / both;
        let first = Move { pod: one.pod, from, to, saving: part(0) };
        return Some([first, Move { pod: other.pod, from: to, to: from, saving: part(1) }]);
    }
    for pod in there {
        fleet.remove(pod, prediction);
    }
    for (of, node) in [(one, from), (other, to)] {
        fleet.insert(of.pod, of.workload, (node, of.cpus.clone()), prediction);
    }
    None
}
