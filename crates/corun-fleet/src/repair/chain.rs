//! Chains of moves: a program goes to another node, whom it takes the room from goes elsewhere, and so on.
//!
//! As in the search of Lin and Kernighan (Operations Research 21(2), 1973) a chain is followed only as long as what was
//! saved so far is more than what the best chain found saves: who has no place yet counts as nothing.

use super::{Homes, leaving, worst_allowed};
use crate::fleet::Fleet;
use crate::kind::Prediction;
use crate::node::{PodId, Resident};
use crate::place::Place;

/// How often a chain takes others out of a node, on few nodes and on many: there tries are better spent on more programs.
const DEEPEST: usize = 2;
const DEEPEST_OF_MANY: usize = 1;
/// Nodes that are tried for a program, and programs of each that make room.
const TARGETS: usize = 8;
const EJECTED: usize = 4;
/// Fleets of so many nodes are looked at whole.
const FEW_NODES: usize = 8;
/// A chain that saves less saves nothing.
const LEAST_GAIN: f64 = 1e-7;

/// Where a program of a chain goes.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) pod: PodId,
    pub(super) workload: usize,
    pub(super) node: usize,
    pub(super) cpus: Vec<u32>,
}

/// The chain that saves most of those that begin with a program; none where none saves more than its moves cost.
pub(super) fn best_chain(
    fleet: &mut Fleet,
    (from, pod): (usize, PodId),
    homes: &Homes,
    tries: &mut usize,
    prediction: &mut Prediction,
) -> Option<Vec<Step>> {
    let (leaves, _, one) = leaving(fleet, (from, pod), prediction)?;
    if leaves <= LEAST_GAIN {
        return None;
    }
    let worst_allowed = worst_allowed(fleet);
    fleet.remove(pod, prediction);
    let mut search = Search {
        fleet,
        homes,
        worst_allowed,
        tries,
        prediction,
        steps: Vec::new(),
        most: LEAST_GAIN,
        best: None,
    };
    let few = search.fleet.nodes.len() <= FEW_NODES;
    let deepest = if few { DEEPEST } else { DEEPEST_OF_MANY };
    search.visit(&mut vec![(from, one.clone())], leaves, deepest);
    let best = search.best;
    fleet.insert(pod, one.workload, (from, one.cpus), prediction);
    best
}

struct Search<'a> {
    fleet: &'a mut Fleet,
    homes: &'a Homes,
    /// How slow nobody may be when the chain has ended.
    worst_allowed: f64,
    tries: &'a mut usize,
    prediction: &'a mut Prediction,
    /// Where the programs of the chain went so far.
    steps: Vec<Step>,
    /// What the best chain saves beyond what its moves cost.
    most: f64,
    best: Option<Vec<Step>>,
}

impl Search<'_> {
    /// Places the programs that have no place, each with the node that it left. `saved`: so far, beyond what moves cost.
    fn visit(&mut self, homeless: &mut Vec<(usize, Resident)>, saved: f64, depth: usize) {
        if saved <= self.most {
            return;
        }
        let Some((from, one)) = homeless.pop() else { return };
        for node in self.targets(from, &one) {
            let pays = self.homes.to_pay(one.pod, one.cpus.len(), from, node);
            if saved - pays <= self.most {
                continue;
            }
            if let Some(place) = self.fleet.best_place_on(node, one.workload, self.prediction) {
                self.place(&one, place, homeless, saved - pays, depth);
            }
            if depth > 0 {
                for ejected in self.ejections(node, &one) {
                    self.eject((node, &one), &ejected, homeless, saved - pays, depth - 1);
                }
            }
        }
        homeless.push((from, one));
    }

    /// Goes on with a program at a place.
    fn place(
        &mut self,
        one: &Resident,
        place: Place,
        homeless: &mut Vec<(usize, Resident)>,
        saved: f64,
        depth: usize,
    ) {
        let saved = saved - place.marginal;
        // Nor is a chain followed in which somebody is slower for a moment.
        if saved <= self.most || place.worst > self.worst_allowed {
            return;
        }
        let Place { node, cpus, .. } = place;
        let step = Step { pod: one.pod, workload: one.workload, node, cpus: cpus.clone() };
        self.steps.push(step);
        if homeless.is_empty() {
            self.most = saved;
            self.best = Some(self.steps.clone());
        } else {
            self.fleet.insert(one.pod, one.workload, (node, cpus), self.prediction);
            self.visit(homeless, saved, depth);
            self.fleet.remove(one.pod, self.prediction);
        }
        self.steps.pop();
    }

    /// Goes on with a program in the place of others of a node.
    fn eject(
        &mut self,
        (node, one): (usize, &Resident),
        ejected: &[PodId],
        homeless: &mut Vec<(usize, Resident)>,
        saved: f64,
        depth: usize,
    ) {
        if *self.tries == 0 {
            return;
        }
        *self.tries -= 1;
        let before = self.fleet.nodes[node].cost().sum;
        let mut gone = Vec::new();
        for &pod in ejected {
            gone.extend(self.fleet.remove(pod, self.prediction).map(|gone| (node, gone)));
        }
        let saved = saved + before - self.fleet.nodes[node].cost().sum;
        if saved > self.most
            && let Some(place) = self.fleet.best_place_on(node, one.workload, self.prediction)
            && saved - place.marginal > self.most
        {
            let kept = homeless.len();
            homeless.extend(gone.iter().cloned());
            homeless[kept..].sort_by_key(|one| one.1.cpus.len());
            self.place(one, place, homeless, saved, depth);
            homeless.truncate(kept);
        }
        for (node, gone) in gone {
            self.fleet.insert(gone.pod, gone.workload, (node, gone.cpus), self.prediction);
        }
    }

    /// Nodes that are tried for a program, its own among them: there it may be held to another LLC.
    fn targets(&self, from: usize, one: &Resident) -> Vec<usize> {
        if self.fleet.nodes.len() <= FEW_NODES {
            return (0..self.fleet.nodes.len()).collect();
        }
        let mut nodes = self.fleet.lowest_by_score(one.program, from, TARGETS);
        nodes.push(from);
        let changed = self.steps.iter().map(|step| step.node);
        nodes.extend(changed);
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Programs of a node that make room for another: each alone, and two where neither alone does.
    fn ejections(&self, node: usize, one: &Resident) -> Vec<Vec<PodId>> {
        let at = &self.fleet.nodes[node];
        let in_chain = |pod: PodId| self.steps.iter().any(|step| step.pod == pod);
        let lacking = one.cpus.len().saturating_sub(at.free_cpus() as usize);
        let mut others: Vec<&Resident> = at
            .residents
            .iter()
            .filter(|other| other.workload != one.workload && !in_chain(other.pod))
            .collect();
        if self.fleet.nodes.len() > FEW_NODES {
            // What it would save to have them where their scores are lowest.
            let gain = |other: &Resident| {
                let lowest = self.fleet.lowest_by_score(other.program, node, 1);
                let there = lowest.first().map_or(0.0, |&to| self.fleet.score(to, other.program));
                (self.fleet.score(node, other.program) - there) * other.cpus.len() as f64
            };
            let mut gains: Vec<(f64, &Resident)> =
                others.into_iter().map(|one| (gain(one), one)).collect();
            gains.sort_by(|a, b| b.0.total_cmp(&a.0));
            others = gains.into_iter().map(|one| one.1).collect();
            others.truncate(EJECTED);
        }
        let mut found = Vec::new();
        for (at, first) in others.iter().enumerate() {
            if first.cpus.len() >= lacking {
                found.push(vec![first.pod]);
                continue;
            }
            for second in &others[at + 1..] {
                let both = first.cpus.len() + second.cpus.len();
                if second.cpus.len() < lacking && both >= lacking {
                    found.push(vec![first.pod, second.pod]);
                }
            }
        }
        found
    }
}
