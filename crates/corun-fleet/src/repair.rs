//! Moves of programs that have been placed: what came and went since may have made other places better.

use crate::fleet::Fleet;
use crate::kind::Prediction;
use crate::node::PodId;
use crate::objective::Objective;

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

/// Looks once at every program, those of the costliest nodes first, and moves each that saves more than
/// `move_cost` for each of its CPUs. At most `most` moves. With [`Objective::WorstSlowdown`] no move makes the
/// fleet's worst slowdown worse, whatever the move saves.
pub fn repair(
    fleet: &mut Fleet,
    move_cost: f64,
    most: usize,
    prediction: &mut Prediction,
) -> Vec<Move> {
    let ground = fleet.ground().clone();
    let mut order: Vec<usize> =
        (0..fleet.nodes.len()).filter(|&node| !fleet.nodes[node].residents.is_empty()).collect();
    let sum = |node: usize| fleet.nodes[node].cost().sum;
    order.sort_by(|&a, &b| sum(b).total_cmp(&sum(a)).then(a.cmp(&b)));
    let mut moves = Vec::new();
    for from in order {
        let pods: Vec<PodId> = fleet.nodes[from].residents.iter().map(|one| one.pod).collect();
        for pod in pods {
            if moves.len() >= most {
                return moves;
            }
            let Some(one) = fleet.nodes[from].residents.iter().find(|one| one.pod == pod) else {
                continue;
            };
            let (workload, threads) = (one.workload, one.cpus.len() as f64);
            let at = &fleet.nodes[from];
            let stay = at.without(fleet.kind(from), ground.objective, pod, prediction);
            // What leaves with it is the most that a move can save.
            let leaves = at.cost().sum - stay.sum;
            if leaves <= move_cost * threads {
                continue;
            }
            let Ok(place) = fleet.best_place_but(workload, Some(from), prediction) else {
                continue;
            };
            let saving = leaves - place.marginal;
            let worse = ground.objective == Objective::WorstSlowdown
                && place.worst.max(stay.worst) > fleet.cost().worst;
            if saving > move_cost * threads && !worse {
                fleet.remove(pod, prediction);
                let to = place.node;
                fleet.insert(pod, workload, (to, place.cpus), prediction);
                moves.push(Move { pod, from, to, saving });
            }
        }
    }
    moves
}
