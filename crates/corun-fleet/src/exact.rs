//! Every plan of a small fleet, and plans drawn at random.

use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use crate::fleet::{Fleet, Ground};
use crate::kind::{NodeKind, Prediction};
use crate::node::Node;
use crate::objective::Objective;

/// Predictions of a search at most.
const MOST_PREDICTIONS: usize = 150_000;

/// Ways to spread a program over a node's LLCs at most.
const MOST_SPREADS: usize = 1_000;

/// The best and the worst plan.
#[derive(Clone)]
pub struct Extremes {
    /// The best plan.
    pub best: Fleet,
    /// The value of the worst plan, where all have been looked at.
    pub worst: Option<f64>,
}

struct Search {
    prune: bool,
    predictions: usize,
    best: Option<(f64, f64, Fleet)>,
    worst: Option<f64>,
    prediction: Prediction,
}

/// The best and the worst plan of these workloads on empty nodes; none where there are too many plans to look
/// at, where they do not fit, or where CPUs of an LLC differ: the search counts a program's CPUs on each LLC, and
/// does not tell these CPUs apart.
pub fn extremes(
    ground: &Arc<Ground>,
    nodes: &[(String, usize)],
    asked: &[usize],
) -> Option<Extremes> {
    if !ground.kinds.iter().all(NodeKind::llcs_have_equal_cpus) {
        return None;
    }
    let empty = Fleet::new(ground.clone(), nodes.to_vec());
    let mut sorted: Vec<(usize, usize)> = asked.iter().copied().enumerate().collect();
    sorted.sort_by_key(|&(pod, workload)| (workload, pod));
    let safe = ground.kinds.iter().all(|kind| kind.company_only_slows());
    for prune in [false, true] {
        if prune && !safe {
            return None;
        }
        let mut search = Search {
            prune,
            predictions: 0,
            best: None,
            worst: None,
            prediction: Prediction::default(),
        };
        let mut fleet = empty.clone();
        if search.visit(&mut fleet, &sorted, None).is_some() {
            let (_, _, best) = search.best?;
            return Some(Extremes { best, worst: search.worst.filter(|_| !prune) });
        }
    }
    None
}

impl Search {
    /// None once there were too many predictions.
    fn visit(
        &mut self,
        fleet: &mut Fleet,
        left: &[(usize, usize)],
        last: Option<(usize, &(usize, Vec<u32>))>,
    ) -> Option<()> {
        let objective = fleet.ground().objective;
        let Some((&(pod, workload), rest)) = left.split_first() else {
            if !keeps(fleet) {
                return Some(());
            }
            let key = (fleet.value(), fleet.cost().sum);
            let better = self.best.as_ref().is_none_or(|best| key < (best.0, best.1));
            if better {
                self.best = Some((key.0, key.1, fleet.clone()));
            }
            self.worst = Some(self.worst.map_or(key.0, |worst| worst.max(key.0)));
            return Some(());
        };
        let ground = fleet.ground().clone();
        let cpus = ground.workloads[workload].cpus;
        // Equal programs go in rising order of places.
        let from = last.filter(|last| last.0 == workload).map(|last| last.1);
        for node in from.as_ref().map_or(0, |from| from.0)..fleet.nodes.len() {
            let first = (0..node).find(|&other| alike(fleet, other, node));
            let at = &fleet.nodes[node];
            if first.is_some() || at.obstacle(workload, &ground.workloads).is_some() {
                continue;
            }
            for counts in spreads(cpus, &at.free_by_llc)? {
                let here = (node, counts);
                if from.is_some_and(|from| here < *from) {
                    continue;
                }
                let kind = fleet.kind(node);
                let of_llc = |(llc, &count): (usize, &u32)| {
                    fleet.nodes[node].cpus_from(kind, count, std::iter::once(llc))
                };
                let held: Vec<u32> = here.1.iter().enumerate().flat_map(of_llc).collect();
                self.predictions += 1;
                if self.predictions > MOST_PREDICTIONS {
                    return None;
                }
                fleet.insert(pod, workload, (node, held), &mut self.prediction);
                if self.is_worth(fleet, objective) {
                    self.visit(fleet, rest, Some((workload, &here)))?;
                }
                fleet.remove(pod, &mut self.prediction);
            }
        }
        Some(())
    }

    /// Can a plan that begins like this be the best? All that come only slow those who are there.
    fn is_worth(&self, fleet: &Fleet, objective: Objective) -> bool {
        if !keeps(fleet) {
            // A bound on slowdown that is broken stays so where company only slows.
            return !self.prune
                && !fleet.ground().kinds.iter().all(|kind| kind.company_only_slows());
        }
        let Some((value, sum, _)) = self.best.as_ref().filter(|_| self.prune) else { return true };
        match objective {
            Objective::MeanSlowdown | Objective::LostWork => fleet.cost().sum < *sum,
            Objective::WorstSlowdown => fleet.cost().worst <= *value,
            Objective::Machines => (fleet.nodes_used() as f64, fleet.cost().sum) < (*value, *sum),
        }
    }
}

/// All ways to spread so many threads over LLCs with so many free CPUs: their number on each, in rising order. None where
/// there are too many.
pub(crate) fn spreads(threads: u32, free: &[u32]) -> Option<Vec<Vec<u32>>> {
    let mut found = Vec::new();
    spread(threads, free, &mut Vec::new(), &mut found)?;
    Some(found)
}

fn spread(left: u32, free: &[u32], so_far: &mut Vec<u32>, found: &mut Vec<Vec<u32>>) -> Option<()> {
    let Some((&here, rest)) = free.split_first() else {
        if left == 0 {
            found.push(so_far.clone());
        }
        return (found.len() <= MOST_SPREADS).then_some(());
    };
    let elsewhere: u32 = rest.iter().sum();
    for count in left.saturating_sub(elsewhere)..=left.min(here) {
        so_far.push(count);
        spread(left - count, rest, so_far, found)?;
        so_far.pop();
    }
    Some(())
}

/// Are all bounds on slowdown kept?
fn keeps(fleet: &Fleet) -> bool {
    fleet.nodes.iter().all(|node| keeps_on(fleet.ground(), node))
}

/// Are all bounds on slowdown kept on a node?
pub(crate) fn keeps_on(ground: &Ground, node: &Node) -> bool {
    let all = match ground.objective {
        Objective::Machines => ground.slowdown_bound,
        _ => f64::INFINITY,
    };
    let kept = |bound: Option<f64>, worst: f64| worst <= bound.unwrap_or(f64::INFINITY).min(all);
    node.residents.iter().all(|one| kept(ground.workloads[one.workload].slowdown_bound, one.worst))
}

/// Do two nodes have the same programs on the same LLCs?
fn alike(fleet: &Fleet, one: usize, other: usize) -> bool {
    let (one, other) = (&fleet.nodes[one], &fleet.nodes[other]);
    if one.kind != other.kind || one.residents.len() != other.residents.len() {
        return false;
    }
    let sorted = |node: &Node| {
        let mut all: Vec<(Vec<u32>, usize)> =
            node.residents.iter().map(|one| (one.cpus.clone(), one.workload)).collect();
        all.sort();
        all
    };
    sorted(one) == sorted(other)
}

/// The values of plans drawn at random, each program on any LLC that has room: at most `count`, fewer where
/// a drawn plan leaves somebody without a place or breaks a bound on slowdown.
pub fn random_values(
    ground: &Arc<Ground>,
    nodes: &[(String, usize)],
    asked: &[usize],
    (count, seed): (usize, u64),
) -> Vec<f64> {
    let mut generator = Pcg64::seed_from_u64(seed);
    let mut prediction = Prediction::default();
    let mut values = Vec::new();
    for _ in 0..count {
        let mut fleet = Fleet::new(ground.clone(), nodes.to_vec());
        let mut order: Vec<usize> = (0..asked.len()).collect();
        order.shuffle(&mut generator);
        // The large ones first, so that they find room.
        order.sort_by_key(|&pod| std::cmp::Reverse(ground.workloads[asked[pod]].cpus));
        let mut whole = true;
        for pod in order {
            whole &= place_at_random(&mut fleet, pod, asked[pod], &mut generator, &mut prediction);
        }
        if whole && keeps(&fleet) {
            values.push(fleet.value());
        }
    }
    values
}

fn place_at_random(
    fleet: &mut Fleet,
    pod: usize,
    workload: usize,
    generator: &mut Pcg64,
    prediction: &mut Prediction,
) -> bool {
    let ground = fleet.ground().clone();
    let cpus = ground.workloads[workload].cpus;
    let mut places: Vec<(usize, Vec<usize>)> = Vec::new();
    for (node, at) in fleet.nodes.iter().enumerate() {
        if at.obstacle(workload, &ground.workloads).is_some() {
            continue;
        }
        let llcs = 0..at.free_by_llc.len();
        let roomy: Vec<usize> = llcs.clone().filter(|&llc| at.free_by_llc[llc] >= cpus).collect();
        match roomy.is_empty() {
            true => places.push((node, llcs.collect())),
            false => places.extend(roomy.into_iter().map(|llc| (node, vec![llc]))),
        }
    }
    places.shuffle(generator);
    let Some((node, llcs)) = places.into_iter().next() else { return false };
    let held = fleet.nodes[node].cpus_from(fleet.kind(node), cpus, llcs.into_iter());
    fleet.insert(pod, workload, (node, held), prediction);
    true
}
