//! The coordinator: what is left of the tree, and who looks into what.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Instant;

use crate::contention::Contention;
use crate::distributed::incumbent::Incumbent;
use crate::distributed::message::{Batch, BatchReport, BatchReportError, Pass, Subproblem};
use crate::distributed::worker::{prepare, subproblem};
use crate::groups;
use crate::local_search::searched_from_dealt;
use crate::objective::{Goal, Objective, key, least_key};
use crate::placement::{PlacementResult, Placer, SearchLimits};
use crate::search::{Candidate, SearchNode, StopRule, Traversal};
use crate::search_space::SearchSpace;
use crate::solve::{SearchResult, UNFAIRNESS_ROOM, has_second_pass, rescored};

/// A batch is this share of what is left for each worker.
const BATCHES_A_WORKER: f64 = 4.0;

/// Parts of a batch at most: its message stays below 32 KiB or so.
const MOST_PARTS: usize = 256;

/// Near the end slices are shorter by this factor, so that a worker without work waits less.
const SHORTER: f64 = 0.1;

/// How finely the tree is split, and when a worker gives back what is left of its batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grain {
    /// Parts for each worker at the start.
    pub parts: usize,
    /// A batch is given back after so many seconds.
    pub seconds: f64,
    /// A batch is given back after so many nodes.
    pub nodes: u64,
}

impl Default for Grain {
    /// 32 parts; a second, however many nodes that is.
    fn default() -> Self {
        Self { parts: 32, seconds: 1.0, nodes: u64::MAX }
    }
}

/// A part in the order in which parts are handed out: the most promising first, then the largest.
#[derive(Debug, Clone, PartialEq)]
struct Open(Subproblem);

impl Eq for Open {}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Open {
    fn cmp(&self, other: &Self) -> Ordering {
        let (one, other) = (&self.0, &other.0);
        let by_bound = other.bound.total_cmp(&one.bound);
        let by_size = || one.size.total_cmp(&other.size);
        by_bound.then_with(by_size).then_with(|| other.cpu.cmp(&one.cpu))
    }
}

/// A search for the best placement that is handed out in parts.
#[derive(Debug)]
pub struct Distribution {
    objective: Objective,
    goal: Goal,
    grain: Grain,
    workers: usize,
    started: Instant,
    pass: Pass,
    best: Candidate,
    open: BinaryHeap<Open>,
    out: BTreeMap<u64, Vec<Subproblem>>,
    next_id: u64,
    nodes: u64,
    pruned: u64,
    /// The best of the first pass, once the second has begun.
    fairest: Option<Candidate>,
    /// Can the tree be searched at all?
    is_searched: bool,
}

impl Distribution {
    /// Splits a search for so many workers.
    pub fn new<C: Contention>(
        placer: &Placer<'_, C>,
        objective: Objective,
        goal: Goal,
        workers: usize,
        grain: Grain,
    ) -> Self {
        let started = Instant::now();
        let space = placer.space();
        let criterion = space.criterion(objective, goal);
        let stop = SearchLimits { nodes: u64::MAX, ..SearchLimits::default() }.stop(started);
        let (best, nodes) = searched_from_dealt(&space, &criterion, &stop);
        let pass = Pass { objective, goal, most_unfairness: None, start: best.clone() };
        let mut distribution = Self {
            objective,
            goal,
            grain,
            workers: workers.max(1),
            started,
            pass,
            best,
            open: BinaryHeap::new(),
            out: BTreeMap::new(),
            next_id: 0,
            nodes,
            pruned: 0,
            fairest: None,
            is_searched: objective.check(space.machine).is_ok() && groups::all(&space).is_some(),
        };
        if distribution.is_searched {
            distribution.split(&space);
        }
        distribution
    }

    /// Fills the queue from the root: the largest part is split until there are enough.
    fn split<C: Contention>(&mut self, space: &SearchSpace<'_, C>) {
        let prepared = prepare(space, &self.pass);
        let Some(search) = prepared.search(space) else { return };
        let incumbent = Incumbent::new(self.best.clone());
        let stop = StopRule { nodes: u64::MAX, deadline: None, cancel: None };
        let mut traversal = Traversal::among_others(&incumbent, &stop);
        let wanted = self.grain.parts * self.workers;
        let mut parts: Vec<(Subproblem, SearchNode<C::Share>)> = Vec::new();
        let root = search.root();
        if !search.cuts(&root, &traversal) {
            parts.push((subproblem(space, &root), root));
        }
        while parts.len() < wanted {
            let largest = (0..parts.len())
                .max_by(|&a, &b| parts[a].0.size.total_cmp(&parts[b].0.size).then(b.cmp(&a)));
            let Some(largest) = largest else { break };
            let (_, node) = parts.swap_remove(largest);
            let mut children = Vec::new();
            search.children(&node, &mut traversal, &mut children);
            parts.extend(children.into_iter().map(|node| (subproblem(space, &node), node)));
        }
        self.best = incumbent.best();
        self.nodes += traversal.nodes;
        self.pruned += traversal.pruned;
        self.open.extend(parts.into_iter().map(|(part, _)| Open(part)));
    }

    /// Work for a worker that has none; none when there is nothing to hand out now.
    pub fn next_batch<C: Contention>(&mut self, placer: &Placer<'_, C>) -> Option<Batch> {
        self.take_batch().or_else(|| {
            self.next_pass(placer);
            self.take_batch()
        })
    }

    fn take_batch(&mut self) -> Option<Batch> {
        let all: f64 = self.open.iter().map(|open| open.0.size).sum();
        let enough = all / (BATCHES_A_WORKER * self.workers as f64);
        let mut subproblems: Vec<Subproblem> = Vec::new();
        let mut size = 0.0;
        while subproblems.is_empty() || (size < enough && subproblems.len() < MOST_PARTS) {
            let Some(Open(part)) = self.open.pop() else { break };
            if least_key(part.bound) > key(self.best.score) {
                self.pruned += 1;
                continue;
            }
            size += part.size;
            subproblems.push(part);
        }
        if subproblems.is_empty() {
            return None;
        }
        let id = self.next_id;
        self.next_id += 1;
        self.out.insert(id, subproblems.clone());
        let is_late = self.open.len() < self.workers;
        let seconds = self.grain.seconds * if is_late { SHORTER } else { 1.0 };
        Some(Batch {
            id,
            pass: self.pass.clone(),
            subproblems,
            incumbent: self.best.clone(),
            seconds,
            nodes: self.grain.nodes,
        })
    }

    /// Takes what became of a batch. A report that comes after its batch was given up is ignored.
    ///
    /// # Errors
    /// [`BatchReportError`] when it cannot be of this search; nothing of it is taken then.
    pub fn finish<C: Contention>(
        &mut self,
        placer: &Placer<'_, C>,
        report: BatchReport,
    ) -> Result<(), BatchReportError> {
        check(placer, &report)?;
        if self.out.remove(&report.id).is_none() {
            return Ok(());
        }
        if report.best.beats(&self.best) {
            self.best = report.best;
        }
        self.nodes += report.nodes;
        self.pruned += report.pruned;
        self.open.extend(report.left.into_iter().map(Open));
        self.next_pass(placer);
        Ok(())
    }

    /// Takes a placement that was found in a pass, before its batch is reported. One of another
    /// pass is ignored.
    pub fn tighten(&mut self, pass: &Pass, found: &Candidate) {
        if *pass == self.pass && found.beats(&self.best) {
            self.best = found.clone();
        }
    }

    /// Takes back the parts of a batch whose worker is gone; somebody else will look into them.
    pub fn lost(&mut self, id: u64) {
        if let Some(parts) = self.out.remove(&id) {
            self.open.extend(parts.into_iter().map(Open));
        }
    }

    /// Begins the second pass, where there is one and the first has ended.
    fn next_pass<C: Contention>(&mut self, placer: &Placer<'_, C>) {
        if !self.is_over() || self.is_last_pass() {
            return;
        }
        let space = placer.space();
        let stp = space.criterion(Objective::Stp, Goal::Best);
        let most = self.best.score * (1.0 + UNFAIRNESS_ROOM);
        let start = rescored(&space, &stp, &self.best);
        self.fairest = Some(std::mem::replace(&mut self.best, start.clone()));
        self.pass = Pass {
            objective: Objective::Stp,
            goal: Goal::Best,
            most_unfairness: Some(most),
            start,
        };
        self.split(&space);
    }

    fn is_last_pass(&self) -> bool {
        let is_one = !has_second_pass(self.objective, self.goal);
        is_one || self.fairest.is_some() || !self.is_searched
    }

    fn is_over(&self) -> bool {
        self.out.is_empty() && self.open.is_empty()
    }

    /// Is the answer proven, or can there be no proof?
    pub fn is_done(&self) -> bool {
        self.is_over() && self.is_last_pass()
    }

    /// The present pass.
    pub fn pass(&self) -> &Pass {
        &self.pass
    }

    /// Parts that nobody looks into at present.
    pub fn parts_open(&self) -> usize {
        self.open.len()
    }

    /// The best placement that is known in the present pass.
    pub fn best(&self) -> &Candidate {
        &self.best
    }

    /// The answer, or the best that is known with a bound.
    pub fn result<C: Contention>(&self, placer: &Placer<'_, C>) -> PlacementResult {
        let space = placer.space();
        let criterion = space.criterion(self.objective, self.goal);
        let is_proven = self.is_searched && self.is_done();
        let open = self.open.iter().map(|open| open.0.bound);
        let out = self.out.values().flatten().map(|part| part.bound);
        let least = open.chain(out).fold(self.best.score, f64::min);
        let (best, bound) = match &self.fairest {
            // The first pass has proven the unfairness.
            Some(fairest) => (rescored(&space, &criterion, &self.best), fairest.score),
            None => (self.best.clone(), least),
        };
        let bound = self.is_searched.then_some(bound);
        let found = SearchResult { best, bound, is_proven, nodes: self.nodes, pruned: self.pruned };
        placer.result(&space, &criterion, found, self.started)
    }
}

fn check<C: Contention>(
    placer: &Placer<'_, C>,
    report: &BatchReport,
) -> Result<(), BatchReportError> {
    let wrong = |why: String| Err(BatchReportError { why });
    let (programs, cpus) = (placer.programs(), placer.cpus());
    let placement = &report.best.placement;
    let lengths = [placement.cpu.len(), placement.llc.len()];
    let of_parts = report.left.iter().map(|part| part.cpu.len());
    if let Some(found) = lengths.into_iter().chain(of_parts).find(|&len| len != programs) {
        return wrong(format!("{found} programs, expected {programs}"));
    }
    let of_parts = report.left.iter().flat_map(|part| part.cpu.iter().flatten());
    if let Some(cpu) = placement.cpu.iter().chain(of_parts).find(|&&cpu| cpu >= cpus) {
        return wrong(format!("CPU {cpu}, expected less than {cpus}"));
    }
    Ok(())
}
