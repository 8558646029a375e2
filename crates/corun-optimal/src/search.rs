//! The branch and bound over groups.
//!
//! A node places the lowest program that is left: it picks an LLC (one of each set of mirror
//! images) and who shares it. Children are cut by the table of groups first, then by the slowdowns
//! of all groups placed so far together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::completion::Completion;
use crate::contention::{Contention, Coupling, Seat};
use crate::distributed::Incumbent;
use crate::groups::{Bounder, Extremes, Group, members};
use crate::objective::{Part, Sides, Span, key, least_key};
use crate::seats::Seating;
use crate::stage::{Placement, Stage};

/// Subtrees searched before the best placement so far is exchanged: fixed, so that the nodes
/// visited do not depend on the number of threads.
const WAVE: usize = 64;

/// Nodes between two looks at the clock.
const CLOCK_NODES: u64 = 128;

/// When to stop before the proof.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop<'s> {
    pub(crate) nodes: u64,
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancel: Option<&'s AtomicBool>,
}

impl Stop<'_> {
    pub(crate) fn is_due(&self) -> bool {
        self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// A whole placement with its score: the lower, the better.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    pub(crate) score: f64,
    pub(crate) placement: Placement,
}

impl Candidate {
    /// Is this one preferred: a lower score, at equal scores the lower placement?
    pub(crate) fn beats(&self, other: &Self) -> bool {
        (key(self.score), &self.placement) < (key(other.score), &other.placement)
    }
}

/// Placements of a higher score by a second criterion are out.
pub(crate) struct Filter {
    pub(crate) completion: Completion,
    pub(crate) most: f64,
}

pub(crate) struct Search<'a, C: Contention> {
    pub(crate) stage: &'a Stage<'a, C>,
    pub(crate) groups: &'a [Group<C::Share>],
    pub(crate) extremes: &'a Extremes<C::Share>,
    pub(crate) completion: &'a Completion,
    pub(crate) filter: Option<&'a Filter>,
    /// Groups by orbit and lowest program.
    lists: Vec<Vec<Vec<usize>>>,
    /// Do groups placed together say more than one by one?
    is_joint: bool,
    sides: Sides,
}

/// How a search ended.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) best: Option<Candidate>,
    /// The least score that a placement not visited may have; none when all were.
    pub(crate) open: Option<f64>,
    pub(crate) nodes: u64,
    pub(crate) pruned: u64,
}

#[derive(Clone)]
pub(crate) struct Node<S> {
    pub(crate) left: u32,
    pub(crate) used: u64,
    layer: usize,
    part: Part,
    filtered: Part,
    pub(crate) bound: f64,
    pub(crate) seats: Vec<Seat>,
    shares: Vec<S>,
}

pub(crate) struct Walk<'w, C: Contention> {
    pub(crate) best: Option<Candidate>,
    pub(crate) nodes: u64,
    pub(crate) pruned: u64,
    quota: u64,
    stop: &'w Stop<'w>,
    is_stopped: bool,
    bounder: Bounder<C>,
    spans: Vec<Span>,
    others: Option<Others<'w, C::Share>>,
}

/// What a walk shares with others that search the same tree.
struct Others<'w, S> {
    incumbent: &'w Incumbent,
    /// Nodes that it has not looked into when it stops.
    left: Vec<Node<S>>,
}

impl<'w, C: Contention> Walk<'w, C> {
    fn new(best: Option<Candidate>, quota: u64, stop: &'w Stop<'w>) -> Self {
        Self {
            best,
            nodes: 0,
            pruned: 0,
            quota,
            stop,
            is_stopped: stop.is_due(),
            bounder: Bounder::default(),
            spans: Vec::new(),
            others: None,
        }
    }

    /// A walk that prunes by what others find, and leaves to others what it has no time for.
    pub(crate) fn among_others(incumbent: &'w Incumbent, stop: &'w Stop<'w>) -> Self {
        let others = Some(Others { incumbent, left: Vec::new() });
        Self { others, ..Self::new(Some(incumbent.best()), stop.nodes, stop) }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// The nodes that were left to others.
    pub(crate) fn into_left(self) -> Vec<Node<C::Share>> {
        self.others.map_or_else(Vec::new, |others| others.left)
    }

    fn count(&mut self) {
        self.nodes += 1;
        let look = self.nodes.is_multiple_of(CLOCK_NODES);
        self.is_stopped |= self.nodes >= self.quota || look && self.stop.is_due();
        if let Some(others) = self.others.as_ref().filter(|_| look)
            && let Some(better) = others.incumbent.better_than(self.best.as_ref())
        {
            self.best = Some(better);
        }
    }

    fn take(&mut self, found: Candidate) {
        if self.best.as_ref().is_none_or(|best| found.beats(best)) {
            if let Some(others) = &self.others {
                others.incumbent.found(&found);
            }
            self.best = Some(found);
        }
    }
}

impl<'a, C: Contention> Search<'a, C> {
    pub(crate) fn new(
        stage: &'a Stage<'a, C>,
        groups: &'a [Group<C::Share>],
        extremes: &'a Extremes<C::Share>,
        completion: &'a Completion,
        filter: Option<&'a Filter>,
    ) -> Self {
        let mut lists = vec![vec![Vec::new(); stage.programs]; stage.orbits.len()];
        for (index, group) in groups.iter().enumerate() {
            lists[group.orbit][group.set.trailing_zeros() as usize].push(index);
        }
        let is_joint = matches!(stage.contention.coupling(), Coupling::Common | Coupling::Growing);
        // The filter is unfairness, which asks for both.
        let sides = filter.map_or_else(|| completion.criterion.sides(), |_| Sides::BOTH);
        Self { stage, groups, extremes, completion, filter, lists, is_joint, sides }
    }

    pub(crate) fn root(&self) -> Node<C::Share> {
        let left = self.stage.everybody();
        let part = self.completion.criterion.empty();
        let layer = self.completion.full;
        Node {
            left,
            used: 0,
            layer,
            part,
            filtered: self.filter.map_or(part, |filter| filter.completion.criterion.empty()),
            bound: self.completion.score(part, layer, left).unwrap_or(f64::INFINITY),
            seats: Vec::new(),
            shares: Vec::new(),
        }
    }

    /// Searches everything that may beat `start`.
    pub(crate) fn run(&self, start: Option<Candidate>, stop: &Stop<'_>) -> Ended {
        let mut ended = Ended { best: start, open: None, nodes: 0, pruned: 0 };
        let mut tasks = self.tasks(&mut ended, stop);
        tasks.sort_by(|a, b| a.bound.total_cmp(&b.bound));
        for wave in tasks.chunks(WAVE) {
            let quota = stop.nodes.saturating_sub(ended.nodes) / wave.len() as u64;
            let walks: Vec<(Walk<'_, C>, f64)> = wave
                .par_iter()
                .map(|node| {
                    let mut walk = Walk::new(ended.best.clone(), quota, stop);
                    walk.is_stopped |= quota == 0;
                    self.descend(node, &mut walk);
                    (walk, node.bound)
                })
                .collect();
            for (walk, bound) in walks {
                ended.nodes += walk.nodes;
                ended.pruned += walk.pruned;
                if walk.is_stopped {
                    ended.open = Some(ended.open.map_or(bound, |open| open.min(bound)));
                }
                if let Some(found) = walk.best
                    && ended.best.as_ref().is_none_or(|best| found.beats(best))
                {
                    ended.best = Some(found);
                }
            }
        }
        ended
    }

    /// Subtrees enough for a wave, from the root downwards.
    fn tasks(&self, ended: &mut Ended, stop: &Stop<'_>) -> Vec<Node<C::Share>> {
        let mut walk = Walk::new(ended.best.clone(), stop.nodes, stop);
        let mut tasks = vec![self.root()];
        if self.cuts(&tasks[0], &walk) {
            return Vec::new();
        }
        for _ in 0..2 {
            if tasks.len() >= WAVE || walk.is_stopped {
                break;
            }
            let mut next = Vec::new();
            for task in &tasks {
                if !walk.is_stopped {
                    self.children(task, &mut walk, &mut next);
                }
                if walk.is_stopped {
                    next.push(task.clone());
                }
            }
            tasks = next;
        }
        ended.best = walk.best;
        ended.nodes += walk.nodes;
        ended.pruned += walk.pruned;
        tasks
    }

    pub(crate) fn descend(&self, node: &Node<C::Share>, walk: &mut Walk<'_, C>) {
        if walk.is_stopped {
            if let Some(others) = &mut walk.others {
                others.left.push(node.clone());
            }
            return;
        }
        if self.cuts(node, walk) {
            walk.pruned += 1;
            return;
        }
        let mut children = Vec::new();
        self.children(node, walk, &mut children);
        children.sort_by(|a, b| a.bound.total_cmp(&b.bound));
        for child in &children {
            self.descend(child, walk);
        }
    }

    /// Adds the children that may beat the best; whole placements are settled at once.
    pub(crate) fn children(
        &self,
        node: &Node<C::Share>,
        walk: &mut Walk<'_, C>,
        children: &mut Vec<Node<C::Share>>,
    ) {
        let lowest = node.left.trailing_zeros() as usize;
        for (llc, _) in self.stage.symmetry.representatives(node.used) {
            let orbit = self.stage.orbit_of[llc];
            for &index in &self.lists[orbit][lowest] {
                let set = self.groups[index].set;
                if set & !node.left != 0 || !self.takes_lowest_equals(set, node.left) {
                    continue;
                }
                if walk.is_stopped && walk.others.is_none() {
                    // Keeps the parent open: see `run`. Among others the children are left open.
                    return;
                }
                walk.count();
                match self.child(node, index, llc, walk) {
                    Some(child) if child.left == 0 => self.settle(&child, walk),
                    Some(child) => children.push(child),
                    None => walk.pruned += 1,
                }
            }
        }
    }

    /// Of equal programs that are left the lowest come first.
    fn takes_lowest_equals(&self, set: u32, left: u32) -> bool {
        let equals = &self.stage.equals;
        members(left & !set).all(|out| {
            // Nobody in the set above `out` is its equal.
            !members(set).any(|taken| taken > out && equals[taken] == equals[out])
        })
    }

    fn child(
        &self,
        node: &Node<C::Share>,
        index: usize,
        llc: usize,
        walk: &mut Walk<'_, C>,
    ) -> Option<Node<C::Share>> {
        let group = &self.groups[index];
        let criterion = &self.completion.criterion;
        let layer = node.layer - self.completion.strides[group.orbit];
        let left = node.left & !group.set;
        let mut part = criterion.join(node.part, self.completion.parts[index]);
        let bound = self.completion.score(part, layer, left)?;
        let mut seats = node.seats.clone();
        seats.extend(self.stage.seats_of(llc, &group.seating));
        if self.is_out(bound, &seats, walk) {
            return None;
        }
        let mut filtered = self.filtered(node.filtered, index, layer, left)?;
        let mut shares = node.shares.clone();
        shares.extend_from_slice(&group.shares);
        let mut child = Node {
            left,
            used: node.used | 1 << llc,
            layer,
            part,
            filtered,
            bound: bound.max(node.bound),
            seats,
            shares,
        };
        if self.is_joint && left != 0 && node.used != 0 {
            let mut spans = std::mem::take(&mut walk.spans);
            let (seats, shares) = (&child.seats, &child.shares);
            let sides = self.sides;
            walk.bounder.spans(self.stage, seats, shares, left, self.extremes, sides, &mut spans);
            part = criterion.of_all(spans.iter().copied());
            if let Some(filter) = self.filter {
                filtered = filter.completion.criterion.of_all(spans.iter().copied());
            }
            walk.spans = spans;
            child.part = part;
            child.bound = child.bound.max(self.completion.score(part, layer, left)?);
            child.filtered = self.passes(filtered, layer, left)?;
            if self.is_out(child.bound, &child.seats, walk) {
                return None;
            }
        }
        Some(child)
    }

    fn filtered(&self, placed: Part, index: usize, layer: usize, left: u32) -> Option<Part> {
        let Some(filter) = self.filter else { return Some(placed) };
        let completion = &filter.completion;
        self.passes(completion.criterion.join(placed, completion.parts[index]), layer, left)
    }

    /// The part, if a placement with it may pass the filter.
    fn passes(&self, part: Part, layer: usize, left: u32) -> Option<Part> {
        let Some(filter) = self.filter else { return Some(part) };
        let bound = filter.completion.score(part, layer, left)?;
        (least_key(bound) <= key(filter.most)).then_some(part)
    }

    fn settle(&self, leaf: &Node<C::Share>, walk: &mut Walk<'_, C>) {
        walk.bounder.couple(self.stage, &leaf.seats, &leaf.shares);
        let slowdowns = walk.bounder.slowdowns();
        if self
            .filter
            .is_some_and(|filter| filter.completion.criterion.score_of(slowdowns) > filter.most)
        {
            return;
        }
        let score = self.completion.criterion.score_of(slowdowns);
        if walk.best.as_ref().is_some_and(|best| key(score) > key(best.score)) {
            return;
        }
        let mut cpus = vec![0; self.stage.programs];
        for seat in &leaf.seats {
            cpus[seat.program] = seat.cpu;
        }
        walk.take(Candidate { score, placement: self.stage.lowest(&cpus) });
    }

    /// The node in which these programs sit on these CPUs, whole groups, the lowest program's
    /// first; none where nothing in it can beat the best.
    pub(crate) fn node_of(
        &self,
        cpu: &[Option<usize>],
        walk: &mut Walk<'_, C>,
    ) -> Option<Node<C::Share>> {
        let mut node = self.root();
        while node.left != 0 {
            let lowest = node.left.trailing_zeros() as usize;
            let Some(first) = cpu[lowest] else { break };
            let llc = self.stage.place_of[first].0;
            let seating = cpu.iter().enumerate().filter_map(|(program, &cpu)| {
                let (of, position) = self.stage.place_of[cpu?];
                (of == llc).then_some((program, position))
            });
            let seating: Seating = seating.collect();
            // A group that is not there was found to be in no better placement.
            let list = &self.lists[self.stage.orbit_of[llc]][lowest];
            let index = list.iter().find(|&&index| self.groups[index].seating == seating)?;
            node = self.child(&node, *index, llc, walk)?;
        }
        Some(node)
    }

    pub(crate) fn cuts(&self, node: &Node<C::Share>, walk: &Walk<'_, C>) -> bool {
        self.is_out(node.bound, &node.seats, walk)
    }

    /// Can nothing of at least this score with these seats beat the best?
    fn is_out(&self, bound: f64, seats: &[Seat], walk: &Walk<'_, C>) -> bool {
        let Some(best) = &walk.best else { return false };
        let (least, known) = (least_key(bound), key(best.score));
        least > known || least == known && self.is_above(seats, &best.placement.llc)
    }

    /// Is every completion of these seats a higher placement than `llcs`?
    fn is_above(&self, seats: &[Seat], llcs: &[usize]) -> bool {
        let stage = self.stage;
        stage.symmetry.maps().iter().all(|map| {
            let mut placed = vec![None; stage.programs];
            let mut used = 0u64;
            for seat in seats {
                let llc = map[stage.place_of[seat.cpu].0];
                placed[seat.program] = Some(llc);
                used |= 1 << llc;
            }
            let mut lowest: Vec<usize> = placed
                .into_iter()
                .map(|llc| llc.unwrap_or(used.trailing_ones() as usize))
                .collect();
            stage.sort_equals(&mut lowest);
            lowest.as_slice() > llcs
        })
    }
}
