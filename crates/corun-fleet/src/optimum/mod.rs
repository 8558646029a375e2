//! The best plan of a fleet whose nodes have few possible loads.
//!
//! A *load* is what runs on a node together, spread over the node's LLCs so that it costs least. Nodes do not slow each
//! other, so that a plan costs the sum of its nodes' loads: the best plan is the cheapest choice of loads in which each
//! program occurs as often as it is asked for, on no more nodes than there are.
//!
//! All loads are predicted. A linear program over them (fractions of loads) has prices of programs and rents of nodes by
//! which no load costs less than it pays; so every plan costs at least what the prices pay less the rents, and a load that
//! costs more than it pays by more than a known plan is above that is in no better plan. A depth-first search over the
//! loads that are left ends with the best plan. (Column generation: P. C. Gilmore and R. E. Gomory, A linear programming
//! approach to the cutting-stock problem, Operations Research 9(6), 1961.)

mod loads;

use std::sync::Arc;

use crate::bound::{Column, Prices};
use crate::fleet::{Fleet, Ground};
use crate::kind::{NodeKind, Prediction};
use crate::objective::{Cost, Objective};
use loads::{Load, LoadSearch};

/// Predictions for each kind of node, at most.
const MOST_PREDICTIONS: usize = 500_000;
/// Programs that the search over loads looks at, at most, in all its steps.
const MOST_LOOKS: usize = 200_000_000;
/// Loads that a round adds to the linear program, for each kind of node.
const ADDED: usize = 50;
/// Rounds after which the prices are taken as they are.
const MOST_ROUNDS: usize = 400;
/// A plan that is cheaper by less is as good.
const LEAST_GAIN: f64 = 1e-9;
/// A load that the prices pay less than it costs by more than this is left out of the next linear program.
const NEAR_DECISION: f64 = 0.1;

/// What the loads of its nodes tell of a fleet.
pub struct ByLoads {
    /// No plan's value is below it.
    pub bound: f64,
    /// The best plan; none where the search for it takes too long.
    pub best: Option<Fleet>,
}

/// The best plan of these workloads on empty nodes, by mean slowdown or lost work, and a bound on all plans. `known` is a plan
/// that the best may be. None for other objectives, where there are too many loads to look at, where the workloads do not
/// fit, or where CPUs of an LLC differ.
pub fn by_loads(
    ground: &Arc<Ground>,
    nodes: &[(String, usize)],
    asked: &[usize],
    known: Option<&Fleet>,
) -> Option<ByLoads> {
    let additive = matches!(ground.objective, Objective::MeanSlowdown | Objective::LostWork);
    if !additive || !ground.kinds.iter().all(NodeKind::llcs_have_equal_cpus) {
        return None;
    }
    let problem = Problem::new(ground, nodes, asked)?;
    let prices = problem.prices();
    let sum = bound(&problem.state(), &prices).max(0.0);
    let cpus = asked.iter().map(|&workload| ground.workloads[workload].cpus).sum();
    let least = Cost { sum, ..Cost::default() };
    let bound = ground.objective.value(least, cpus, nodes.len());
    let known_cost = known.map_or(f64::INFINITY, |fleet| fleet.cost().sum);
    let mut search = Search::new(&problem, &prices, known_cost);
    let searched = search.visit(&mut problem.state(), 0.0);
    let best = searched.and_then(|()| match search.best {
        Some(chosen) => problem.plan(&chosen, nodes, asked),
        None => known.cloned(),
    });
    Some(ByLoads { bound, best })
}

/// Programs, nodes and loads.
struct Problem<'a> {
    ground: &'a Arc<Ground>,
    /// Workloads that are asked for, and how often.
    asked: Vec<(usize, u32)>,
    /// By kind: nodes that there are.
    nodes: Vec<usize>,
    /// By kind.
    loads: Vec<Vec<Load>>,
}

/// A load: its kind of node, and its index there.
type LoadId = (usize, usize);

impl<'a> Problem<'a> {
    fn new(ground: &'a Arc<Ground>, nodes: &[(String, usize)], asked: &[usize]) -> Option<Self> {
        let mut counts = vec![0; ground.kinds.len()];
        for (_, kind) in nodes {
            counts[*kind] += 1;
        }
        let mut sorted = asked.to_vec();
        sorted.sort_unstable();
        let same = sorted.chunk_by(|one, other| one == other);
        let asked = same
            .map(|same| Some((same[0], u32::try_from(same.len()).ok()?)))
            .collect::<Option<Vec<_>>>()?;
        let mut loads = Vec::new();
        for (kind, &count) in counts.iter().enumerate() {
            loads.push(match count {
                0 => Vec::new(),
                _ => LoadSearch::new(ground, kind, &asked, MOST_PREDICTIONS).all()?,
            });
        }
        Some(Self { ground, asked, nodes: counts, loads })
    }

    fn column(&self, (kind, load): LoadId) -> Column {
        let Load { counts, cost } = &self.loads[kind][load];
        let there = counts.iter().map(|&(at, count)| (usize::from(at), f64::from(count)));
        Column { llc: kind, part: 1.0, programs: there.collect(), cost: *cost }
    }

    /// Prices and rents by which no load costs less than it pays, that pay most in all.
    fn prices(&self) -> Prices {
        let threads: Vec<f64> = self.asked.iter().map(|one| f64::from(one.1)).collect();
        let nodes: Vec<f64> = self.nodes.iter().map(|&count| count as f64).collect();
        let of_one = |load: &Load| load.counts.len() == 1;
        let mut active: Vec<LoadId> = Vec::new();
        for (kind, loads) in self.loads.iter().enumerate() {
            let alone = (0..loads.len()).filter(|&load| of_one(&loads[load]));
            active.extend(alone.map(|load| (kind, load)));
        }
        let mut best = (
            f64::NEG_INFINITY,
            Prices { programs: vec![0.0; threads.len()], rents: vec![0.0; nodes.len()] },
        );
        for _ in 0..MOST_ROUNDS {
            let columns = active.iter().map(|&one| self.column(one));
            let Some((mut prices, most)) = Prices::best(&threads, &nodes, columns) else { break };
            active.retain(|&one| prices.overpaid(&self.column(one)) > -NEAR_DECISION);
            let mut added = Vec::new();
            for (kind, loads) in self.loads.iter().enumerate() {
                let mut over: Vec<(f64, LoadId)> = (0..loads.len())
                    .map(|load| {
                        (-cost_above(&loads[load], &prices, prices.rents[kind]), (kind, load))
                    })
                    .filter(|one| one.0 > 1e-10)
                    .collect();
                over.sort_by(|one, other| other.0.total_cmp(&one.0));
                // A rent that is higher by the largest overpayment makes all loads of this kind pay.
                prices.rents[kind] += over.first().map_or(0.0, |one| one.0 + 1e-12);
                added.extend(over.into_iter().take(ADDED).map(|one| one.1));
            }
            let paid: f64 =
                threads.iter().zip(&prices.programs).map(|(count, price)| count * price).sum();
            let rents: f64 =
                nodes.iter().zip(&prices.rents).map(|(count, rent)| count * rent).sum();
            if paid - rents > best.0 {
                best = (paid - rents, prices);
            }
            if added.is_empty() || most - best.0 <= LEAST_GAIN {
                break;
            }
            active.extend(added);
        }
        best.1
    }

    /// Nothing placed, all nodes free.
    fn state(&self) -> State {
        let left = self.asked.iter().map(|one| one.1).collect();
        State { left, nodes: self.nodes.clone(), chosen: Vec::new() }
    }

    /// The plan of these loads.
    fn plan(&self, chosen: &[LoadId], nodes: &[(String, usize)], asked: &[usize]) -> Option<Fleet> {
        let mut fleet = Fleet::new(self.ground.clone(), nodes.to_vec());
        let mut prediction = Prediction::default();
        let mut pods: Vec<(usize, usize)> = asked.iter().copied().enumerate().rev().collect();
        for &(kind, load) in chosen {
            let search = LoadSearch::new(self.ground, kind, &self.asked, MOST_PREDICTIONS);
            let residents = search.cheapest(&self.loads[kind][load].counts)?;
            let unused = |&node: &usize| {
                fleet.nodes[node].kind == kind && fleet.nodes[node].residents.is_empty()
            };
            let node = (0..fleet.nodes.len()).find(unused)?;
            for (workload, cpus) in residents {
                let at = pods.iter().rposition(|one| one.1 == workload)?;
                let (pod, _) = pods.remove(at);
                fleet.insert(pod, workload, (node, cpus), &mut prediction);
            }
        }
        Some(fleet)
    }
}

/// By how much a load costs more than it pays.
fn cost_above(load: &Load, prices: &Prices, rent: f64) -> f64 {
    let paid = load.counts.iter();
    let paid = paid.map(|&(at, count)| f64::from(count) * prices.programs[usize::from(at)]);
    load.cost + rent - paid.sum::<f64>()
}

/// What is still to be placed, and where.
struct State {
    left: Vec<u32>,
    nodes: Vec<usize>,
    chosen: Vec<LoadId>,
}

/// Depth first over the loads that a better plan may have.
struct Search<'a> {
    prices: &'a Prices,
    /// The cost of the best plan known.
    least: f64,
    best: Option<Vec<LoadId>>,
    /// The order in which programs are placed: those in few loads first.
    order: Vec<usize>,
    /// By program: the loads in which it is the first of that order, the cheapest above their price first.
    of_program: Vec<Vec<(LoadId, &'a Load)>>,
    /// Programs that were looked at.
    looks: usize,
}

impl<'a> Search<'a> {
    fn new(problem: &'a Problem<'_>, prices: &'a Prices, known_cost: f64) -> Self {
        let paid = bound(&problem.state(), prices);
        let room = known_cost - paid + LEAST_GAIN;
        let mut kept: Vec<(f64, LoadId, &Load)> = Vec::new();
        for (kind, loads) in problem.loads.iter().enumerate() {
            for (at, load) in loads.iter().enumerate() {
                let above = cost_above(load, prices, prices.rents[kind]);
                if above <= room {
                    kept.push((above, (kind, at), load));
                }
            }
        }
        kept.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let programs = problem.asked.len();
        let mut with = vec![0; programs];
        let programs_of = |load: &'a Load| load.counts.iter().map(|one| usize::from(one.0));
        kept.iter().flat_map(|one| programs_of(one.2)).for_each(|program| with[program] += 1);
        let mut order: Vec<usize> = (0..programs).collect();
        order.sort_by_key(|&program| with[program]);
        let mut rank = vec![0; programs];
        order.iter().enumerate().for_each(|(at, &program)| rank[program] = at);
        let mut of_program = vec![Vec::new(); programs];
        for (_, id, load) in kept {
            if let Some(first) = programs_of(load).min_by_key(|&program| rank[program]) {
                of_program[first].push((id, load));
            }
        }
        Self { prices, least: known_cost, best: None, order, of_program, looks: 0 }
    }

    /// Gives the first program that is left a load in each way that may lead to a better plan; none once there were too
    /// many steps.
    fn visit(&mut self, state: &mut State, cost: f64) -> Option<()> {
        let Some(&first) = self.order.iter().find(|&&program| state.left[program] > 0) else {
            if cost < self.least - LEAST_GAIN {
                self.least = cost;
                self.best = Some(state.chosen.clone());
            }
            return Some(());
        };
        for at in 0..self.of_program[first].len() {
            let (id, load) = self.of_program[first][at];
            let fits = |&(at, count): &(u16, u8)| u32::from(count) <= state.left[usize::from(at)];
            if state.nodes[id.0] == 0 || !load.counts.iter().all(fits) {
                continue;
            }
            self.looks += state.left.len();
            if self.looks > MOST_LOOKS {
                return None;
            }
            state.take(id, load);
            if cost + load.cost + bound(state, self.prices) < self.least - LEAST_GAIN {
                self.visit(state, cost + load.cost)?;
            }
            state.give_back(id, load);
        }
        Some(())
    }
}

/// What all that is left costs at least, on the nodes that are left.
fn bound(state: &State, prices: &Prices) -> f64 {
    let paid = state.left.iter().zip(&prices.programs);
    let paid: f64 = paid.map(|(&left, price)| f64::from(left) * price).sum();
    let rents = state.nodes.iter().zip(&prices.rents);
    paid - rents.map(|(&nodes, rent)| nodes as f64 * rent).sum::<f64>()
}

impl State {
    fn take(&mut self, id: LoadId, load: &Load) {
        for &(at, count) in &load.counts {
            self.left[usize::from(at)] -= u32::from(count);
        }
        self.nodes[id.0] -= 1;
        self.chosen.push(id);
    }

    fn give_back(&mut self, id: LoadId, load: &Load) {
        for &(at, count) in &load.counts {
            self.left[usize::from(at)] += u32::from(count);
        }
        self.nodes[id.0] += 1;
        self.chosen.pop();
    }
}
