//! Nodes with those who run on them, and where the next program costs least.

use std::cell::Cell;
use std::sync::Arc;

use crate::expansion::Expansion;
use crate::kind::{NodeKind, Prediction};
use crate::node::{Node, Obstacle, PodId, Resident};
use crate::objective::{Cost, Objective};
use crate::place::{Hold, Place, PlacesQuestion};
use crate::shortlist::lowest;
use crate::workload::Workload;

/// Utilisation around which places are scored.
const TYPICAL_UTILISATION: f64 = 0.6;

/// What does not change as programs come and go.
pub struct Ground {
    /// The kinds of node.
    pub kinds: Arc<Vec<NodeKind>>,
    /// Names of the programs.
    pub programs: Vec<String>,
    /// What may be asked for.
    pub workloads: Vec<Workload>,
    /// What plans are judged by.
    pub objective: Objective,
    /// With [`Objective::Machines`]: no thread slower than this.
    pub slowdown_bound: f64,
    expansions: Vec<Expansion>,
}

impl Ground {
    /// Everything that placing needs. `shares` is each program's part of the threads to come.
    pub fn new(
        kinds: Vec<NodeKind>,
        programs: Vec<String>,
        mut workloads: Vec<Workload>,
        shares: &[f64],
        objective: Objective,
        slowdown_bound: f64,
    ) -> Self {
        // Who keeps away from another is kept away from.
        for one in 0..workloads.len() {
            for other in workloads[one].never_beside.clone() {
                if !workloads[other].never_beside.contains(&one) {
                    workloads[other].never_beside.push(one);
                }
            }
        }
        let expand = |kind: &NodeKind| Expansion::new(kind, shares, TYPICAL_UTILISATION, objective);
        let expansions = kinds.iter().map(expand).collect();
        let kinds = Arc::new(kinds);
        Self { kinds, programs, workloads, objective, slowdown_bound, expansions }
    }

    /// The same, judged by another objective; places are scored as before.
    #[must_use]
    pub(crate) fn for_objective(&self, objective: Objective) -> Self {
        Self {
            kinds: self.kinds.clone(),
            programs: self.programs.clone(),
            workloads: self.workloads.clone(),
            objective,
            slowdown_bound: self.slowdown_bound,
            expansions: self.expansions.clone(),
        }
    }
}

/// Nodes with those who run on them.
#[derive(Clone)]
pub struct Fleet {
    ground: Arc<Ground>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Where each kind's and node's LLCs begin in a row of `scores`.
    first_llc: Vec<usize>,
    llcs: usize,
    /// By program, then LLC of the fleet: what one thread more costs there, to second order.
    scores: Vec<f64>,
    /// By program, then node: the lowest score of the node's LLCs.
    lowest: Vec<f64>,
    place_of: Vec<Option<usize>>,
    /// How many of the best nodes by score are predicted.
    pub shortlist: usize,
}

/// Nodes that are predicted before one is chosen. Fleets of at most four times as many LLCs are searched whole.
const DEFAULT_SHORTLIST: usize = 16;

impl Fleet {
    /// Empty nodes, each by its name and kind.
    pub fn new(ground: Arc<Ground>, nodes: Vec<(String, usize)>) -> Self {
        let nodes: Vec<Node> = nodes
            .into_iter()
            .map(|(name, kind)| Node::new(name, kind, &ground.kinds[kind]))
            .collect();
        let mut first_llc = Vec::with_capacity(nodes.len());
        let mut llcs = 0;
        for node in &nodes {
            first_llc.push(llcs);
            llcs += ground.kinds[node.kind].seats().len();
        }
        let programs = ground.programs.len();
        let mut scores = vec![0.0; programs * llcs];
        let mut lowest = Vec::with_capacity(programs * nodes.len());
        for (program, row) in scores.chunks_mut(llcs.max(1)).enumerate() {
            for (node, &first) in nodes.iter().zip(&first_llc) {
                let cost = ground.expansions[node.kind].first(program);
                row[first..][..node.free_by_llc.len()].fill(cost);
                lowest.push(cost);
            }
        }
        Self {
            ground,
            nodes,
            first_llc,
            llcs,
            scores,
            lowest,
            place_of: Vec::new(),
            shortlist: DEFAULT_SHORTLIST,
        }
    }

    /// What does not change.
    pub fn ground(&self) -> &Arc<Ground> {
        &self.ground
    }

    /// A node's kind.
    pub fn kind(&self, node: usize) -> &NodeKind {
        &self.ground.kinds[self.nodes[node].kind]
    }

    /// The node of a placed program.
    pub fn node_of(&self, pod: PodId) -> Option<usize> {
        self.place_of.get(pod).copied().flatten()
    }

    /// What all threads cost.
    pub fn cost(&self) -> Cost {
        self.nodes.iter().fold(Cost::default(), |cost, node| cost.and(node.cost()))
    }

    /// Threads that run.
    pub fn threads(&self) -> u32 {
        self.nodes.iter().map(Node::threads).sum()
    }

    /// Nodes on which somebody runs.
    pub fn nodes_used(&self) -> usize {
        self.nodes.iter().filter(|node| !node.residents.is_empty()).count()
    }

    /// The objective's value.
    pub fn value(&self) -> f64 {
        self.ground.objective.value(self.cost(), self.threads(), self.nodes_used())
    }

    /// Puts a program on CPUs of a node.
    pub fn insert(
        &mut self,
        pod: PodId,
        workload: usize,
        (node, cpus): (usize, Vec<u32>),
        prediction: &mut Prediction,
    ) {
        self.insert_unpredicted(pod, workload, (node, cpus));
        self.predict(node, prediction);
    }

    /// Predicts those who run on a node.
    pub(crate) fn predict(&mut self, node: usize, prediction: &mut Prediction) {
        let ground = self.ground.clone();
        let kind = &ground.kinds[self.nodes[node].kind];
        self.nodes[node].predict(kind, ground.objective, prediction);
    }

    /// Puts a program on CPUs of a node whose predictions nobody asks for yet.
    pub(crate) fn insert_unpredicted(
        &mut self,
        pod: PodId,
        workload: usize,
        (node, cpus): (usize, Vec<u32>),
    ) {
        let ground = self.ground.clone();
        let asked = &ground.workloads[workload];
        let program = asked.program;
        let resident = Resident { pod, workload, program, cpus, slowdown: 1.0, worst: 1.0 };
        self.rescore(node, &resident, 1.0);
        let kind = &ground.kinds[self.nodes[node].kind];
        self.nodes[node].insert(kind, resident, asked.memory_mib);
        if self.place_of.len() <= pod {
            self.place_of.resize(pod + 1, None);
        }
        self.place_of[pod] = Some(node);
    }

    /// Takes a program away; none where it is not placed.
    pub fn remove(&mut self, pod: PodId, prediction: &mut Prediction) -> Option<Resident> {
        let node = self.node_of(pod)?;
        let ground = self.ground.clone();
        let one = self.nodes[node].residents.iter().find(|one| one.pod == pod)?;
        let memory_mib = ground.workloads[one.workload].memory_mib;
        let kind = &ground.kinds[self.nodes[node].kind];
        let gone = self.nodes[node].remove(kind, ground.objective, pod, memory_mib, prediction)?;
        self.rescore(node, &gone, -1.0);
        self.place_of[pod] = None;
        Some(gone)
    }

    /// Adds (`sign` 1) or takes away (-1) what a resident does to the scores of its node's LLCs.
    fn rescore(&mut self, node: usize, resident: &Resident, sign: f64) {
        let ground = self.ground.clone();
        let kind = &ground.kinds[self.nodes[node].kind];
        let expansion = &ground.expansions[self.nodes[node].kind];
        let (same, other) =
            (expansion.same_llc(resident.program), expansion.other_llc(resident.program));
        let all = resident.cpus.len() as f64;
        for llc in 0..kind.seats().len() {
            let on = |cpu: &&u32| kind.machine().cpus()[**cpu as usize].llc == llc;
            let here = resident.cpus.iter().filter(on).count() as f64;
            let column = self.first_llc[node] + llc;
            for program in 0..same.len() {
                let more = here * same[program] + (all - here) * other[program];
                self.scores[program * self.llcs + column] += sign * more;
            }
        }
        for program in 0..same.len() {
            let lowest = self.scores(node, program).iter().copied().fold(f64::INFINITY, f64::min);
            self.lowest[program * self.nodes.len() + node] = lowest;
        }
    }

    /// A program's score on each LLC of a node.
    pub(crate) fn scores(&self, node: usize, program: usize) -> &[f64] {
        let from = program * self.llcs + self.first_llc[node];
        &self.scores[from..][..self.nodes[node].free_by_llc.len()]
    }

    /// CPUs for a workload on a node: of the LLC with the lowest score that has room, or, where none has,
    /// of several by score. Enough must be free.
    pub(crate) fn cpus_on(&self, node: usize, workload: usize, hold: Hold) -> Vec<u32> {
        let asked = &self.ground.workloads[workload];
        let (kind, at) = (self.kind(node), &self.nodes[node]);
        if hold != Hold::OnLlc {
            return at.cpus_as_linux(kind, asked.cpus);
        }
        let mut order: Vec<usize> = (0..at.free_by_llc.len()).collect();
        let scores = self.scores(node, asked.program);
        order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        let roomy = order.iter().position(|&llc| at.free_by_llc[llc] >= asked.cpus);
        match roomy {
            Some(best) => at.cpus_from(kind, asked.cpus, std::iter::once(order[best])),
            None => at.cpus_from(kind, asked.cpus, order.into_iter()),
        }
    }

    /// What a program would cost on these CPUs of a node.
    pub fn cost_on(
        &self,
        (node, cpus): (usize, Vec<u32>),
        program: usize,
        prediction: &mut Prediction,
    ) -> Place {
        let at = &self.nodes[node];
        let objective = self.ground.objective;
        let (all, own) = at.with_newcomer(self.kind(node), objective, (program, &cpus), prediction);
        let marginal = all.sum - at.cost().sum;
        Place { node, cpus, marginal, own, worst: all.worst }
    }

    /// What a workload would cost at the places of a node that are predicted.
    fn places(
        &self,
        node: usize,
        question: PlacesQuestion,
        prediction: &mut Prediction,
    ) -> Arc<[Place]> {
        let state = self.nodes[node].state;
        if let Some(known) = prediction.places.get(node, state, question) {
            return known;
        }
        let program = self.ground.workloads[question.workload].program;
        let holds = self.holds(node, question);
        let places: Arc<[Place]> =
            holds.into_iter().map(|held| self.cost_on(held, program, prediction)).collect();
        prediction.places.remember(node, question, places.clone());
        places
    }

    /// Does a place keep the bounds on slowdown, the newcomer's and those of who is there already?
    pub(crate) fn keeps_bounds(
        &self,
        place: &Place,
        workload: usize,
        prediction: &mut Prediction,
    ) -> bool {
        let ground = &self.ground;
        let all = if ground.objective == Objective::Machines {
            ground.slowdown_bound
        } else {
            f64::INFINITY
        };
        if place.worst > all {
            return false;
        }
        let own = ground.workloads[workload].slowdown_bound.unwrap_or(f64::INFINITY);
        if place.own.worst > own {
            return false;
        }
        let at = &self.nodes[place.node];
        let bound_of = |one: &Resident| ground.workloads[one.workload].slowdown_bound;
        if at.residents.iter().all(|one| bound_of(one).is_none()) {
            return true;
        }
        let program = ground.workloads[workload].program;
        let kind = self.kind(place.node);
        let mut slowdowns = at.slowdowns_with(kind, (program, &place.cpus), prediction);
        at.residents.iter().all(|one| {
            let bound = bound_of(one).unwrap_or(f64::INFINITY);
            slowdowns.by_ref().take(one.cpus.len()).fold(0.0, f64::max) <= bound
        })
    }

    /// Nodes but one that could take a workload, each with the score of its best place. Of empty nodes of a kind
    /// the first alone.
    fn candidates(
        &self,
        workload: usize,
        but: Option<usize>,
    ) -> impl Iterator<Item = (f64, usize)> + '_ {
        self.candidates_below(workload, but, |_| false)
    }

    /// The same without the nodes that are `too_high` by the lowest score of all their LLCs, with or without room:
    /// these are told from the scores alone.
    fn candidates_below(
        &self,
        workload: usize,
        but: Option<usize>,
        too_high: impl Fn(f64) -> bool,
    ) -> impl Iterator<Item = (f64, usize)> {
        let ground = &self.ground;
        let asked = &ground.workloads[workload];
        let mut empty_seen = vec![false; ground.kinds.len()];
        let lowest = &self.lowest[asked.program * self.nodes.len()..][..self.nodes.len()];
        lowest.iter().enumerate().filter_map(move |(node, &lowest)| {
            if too_high(lowest) || Some(node) == but {
                return None;
            }
            let scores = self.scores(node, asked.program);
            let at = &self.nodes[node];
            if at.residents.is_empty() && std::mem::replace(&mut empty_seen[at.kind], true) {
                return None;
            }
            if at.obstacle(workload, &ground.workloads).is_some() {
                return None;
            }
            let roomy = scores.iter().zip(&at.free_by_llc).filter(|(_, free)| **free >= asked.cpus);
            let best = roomy.map(|(&score, _)| score).fold(f64::INFINITY, f64::min);
            let split = || scores.iter().sum::<f64>() / scores.len() as f64;
            Some((if best.is_finite() { best } else { split() }, node))
        })
    }

    /// The ways to hold a workload on a node that are predicted.
    fn holds(&self, node: usize, question: PlacesQuestion) -> Vec<(usize, Vec<u32>)> {
        let PlacesQuestion { workload, hold, every_llc } = question;
        let on = |hold| (node, self.cpus_on(node, workload, hold));
        if hold == Hold::AsLinux {
            return vec![on(Hold::AsLinux)];
        }
        let cpus = self.ground.workloads[workload].cpus;
        let (kind, at) = (self.kind(node), &self.nodes[node]);
        let roomy = (0..at.free_by_llc.len()).filter(|&llc| at.free_by_llc[llc] >= cpus);
        let each = |llc| (node, at.cpus_from(kind, cpus, std::iter::once(llc)));
        let mut holds: Vec<(usize, Vec<u32>)> =
            if every_llc { roomy.map(each).collect() } else { Vec::new() };
        if holds.is_empty() {
            holds.push(on(Hold::OnLlc));
        }
        if hold == Hold::Either && at.free_by_llc.len() > 1 {
            let linux = on(Hold::AsLinux);
            let spread = (node, self.cpus_by_thread(node, workload));
            for held in [linux, spread] {
                if !holds.contains(&held) {
                    holds.push(held);
                }
            }
        }
        holds
    }

    /// CPUs for a workload on a node: each thread in turn on the LLC where its score is lowest beside those before.
    fn cpus_by_thread(&self, node: usize, workload: usize) -> Vec<u32> {
        let asked = &self.ground.workloads[workload];
        let (kind, at) = (self.kind(node), &self.nodes[node]);
        let expansion = &self.ground.expansions[at.kind];
        let beside = expansion.same_llc(asked.program)[asked.program];
        let apart = expansion.other_llc(asked.program)[asked.program];
        let scores = self.scores(node, asked.program);
        let mut taken = vec![0u32; scores.len()];
        for before in 0..asked.cpus {
            let cost = |llc: usize| {
                let here = f64::from(taken[llc]);
                scores[llc] + here * beside + (f64::from(before) - here) * apart
            };
            let roomy = (0..taken.len()).filter(|&llc| taken[llc] < at.free_by_llc[llc]);
            let best = roomy.min_by(|&a, &b| cost(a).total_cmp(&cost(b)));
            best.into_iter().for_each(|llc| taken[llc] += 1);
        }
        let of_llc = |(llc, count): (usize, u32)| at.cpus_from(kind, count, std::iter::once(llc));
        taken.into_iter().enumerate().flat_map(of_llc).collect()
    }

    /// The place where a workload costs least: what the newcomer suffers and what those already there
    /// suffer more. None where no node can take it.
    ///
    /// # Errors
    /// The obstacle that most nodes have.
    pub fn best_place(
        &self,
        workload: usize,
        prediction: &mut Prediction,
    ) -> Result<Place, Obstacle> {
        self.best_place_held(workload, Hold::Either, prediction)
    }

    /// The same with the CPUs of its node given in one way or the other.
    ///
    /// # Errors
    /// As [`Self::best_place`].
    pub(crate) fn best_place_held(
        &self,
        workload: usize,
        hold: Hold,
        prediction: &mut Prediction,
    ) -> Result<Place, Obstacle> {
        self.search(workload, hold, None, prediction)
    }

    /// The same, on another node than one.
    pub(crate) fn best_place_but(
        &self,
        workload: usize,
        but: Option<usize>,
        prediction: &mut Prediction,
    ) -> Result<Place, Obstacle> {
        self.search(workload, Hold::Either, but, prediction)
    }

    /// The place on one node where a workload costs least; none where it cannot be there.
    pub(crate) fn best_place_on(
        &self,
        node: usize,
        workload: usize,
        prediction: &mut Prediction,
    ) -> Option<Place> {
        if self.nodes[node].obstacle(workload, &self.ground.workloads).is_some() {
            return None;
        }
        let question = PlacesQuestion { workload, hold: Hold::Either, every_llc: self.is_small() };
        let places = self.places(node, question, prediction);
        let mut kept: Vec<&Place> = places.iter().collect();
        kept.sort_by(|one, other| one.marginal.total_cmp(&other.marginal));
        let keeps = |place: &&&Place| self.keeps_bounds(place, workload, prediction);
        kept.iter().find(keeps).map(|&place| place.clone())
    }

    /// At most so many nodes but one on which a program has the lowest scores, whether there is room or not.
    pub(crate) fn lowest_by_score(&self, program: usize, but: usize, most: usize) -> Vec<usize> {
        let row = &self.lowest[program * self.nodes.len()..][..self.nodes.len()];
        let others = row.iter().copied().zip(0..).filter(|one| one.1 != but);
        let found = lowest(others, most, &Cell::new(f64::INFINITY));
        found.into_iter().map(|one| one.1).collect()
    }

    /// A program's lowest score on the LLCs of a node.
    pub(crate) fn score(&self, node: usize, program: usize) -> f64 {
        self.lowest[program * self.nodes.len() + node]
    }

    /// Is every place looked at?
    fn is_small(&self) -> bool {
        self.llcs <= self.shortlist.max(1) * 4
    }

    fn search(
        &self,
        workload: usize,
        hold: Hold,
        but: Option<usize>,
        prediction: &mut Prediction,
    ) -> Result<Place, Obstacle> {
        let small = self.is_small();
        if self.ground.objective == Objective::Machines {
            let candidates = self.candidates(workload, but).collect();
            return self.first_that_keeps((workload, hold), candidates, prediction);
        }
        let most = if small { usize::MAX } else { self.shortlist };
        let highest = Cell::new(f64::INFINITY);
        // A node's score is no lower than its lowest LLC's, but for the rounding of a mean.
        let too_high = |score: f64| score - 1e-9 * score.abs() > highest.get();
        let shortlist = lowest(self.candidates_below(workload, but, too_high), most, &highest);
        let floor = match self.ground.objective {
            Objective::WorstSlowdown => self.cost().worst,
            _ => 1.0,
        };
        let mut best: Option<Place> = None;
        let question = PlacesQuestion { workload, hold, every_llc: small };
        for (_, node) in shortlist {
            for place in self.places(node, question, prediction).iter() {
                let better = best.as_ref().is_none_or(|best| self.is_better(place, best, floor));
                if better && self.keeps_bounds(place, workload, prediction) {
                    best = Some(place.clone());
                }
            }
        }
        best.ok_or_else(|| self.main_obstacle(workload))
    }

    /// `floor`: the worst slowdown of the fleet as it is.
    fn is_better(&self, place: &Place, than: &Place, floor: f64) -> bool {
        if self.ground.objective == Objective::WorstSlowdown {
            // A place that leaves the worst where it is elsewhere is as good as another such one.
            let (own, other) = (place.worst.max(floor), than.worst.max(floor));
            return own < other || own == other && place.marginal < than.marginal;
        }
        place.marginal < than.marginal
    }

    /// For the fewest nodes: the fullest node that keeps the bounds, an empty one where none does.
    fn first_that_keeps(
        &self,
        (workload, hold): (usize, Hold),
        mut candidates: Vec<(f64, usize)>,
        prediction: &mut Prediction,
    ) -> Result<Place, Obstacle> {
        let fullest = |&(_, node): &(f64, usize)| {
            let at = &self.nodes[node];
            (at.residents.is_empty(), at.free_cpus(), node)
        };
        if candidates.len() > 4 * self.shortlist {
            // The fullest, those where it costs least, and an empty one of each kind.
            candidates.sort_by_key(fullest);
            let mut kept: Vec<(f64, usize)> = candidates[..self.shortlist].to_vec();
            kept.extend(candidates.iter().filter(|one| self.nodes[one.1].residents.is_empty()));
            candidates.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            kept.extend_from_slice(&candidates[..self.shortlist]);
            candidates = kept;
        }
        candidates.sort_by_key(fullest);
        candidates.dedup_by_key(|one| one.1);
        let question = PlacesQuestion { workload, hold, every_llc: false };
        for (_, node) in candidates {
            for place in self.places(node, question, prediction).iter() {
                if self.keeps_bounds(place, workload, prediction) {
                    return Ok(place.clone());
                }
            }
        }
        Err(self.main_obstacle(workload))
    }

    /// The obstacle that most nodes have; of several the first.
    fn main_obstacle(&self, workload: usize) -> Obstacle {
        let mut counts = std::collections::BTreeMap::new();
        for node in &self.nodes {
            let why = node.obstacle(workload, &self.ground.workloads);
            *counts.entry(why.unwrap_or(Obstacle::SlowdownBound)).or_insert(0u32) += 1;
        }
        let most = counts.iter().max_by_key(|&(why, count)| (count, std::cmp::Reverse(why)));
        most.map_or(Obstacle::Cpus, |(why, _)| *why)
    }
}
