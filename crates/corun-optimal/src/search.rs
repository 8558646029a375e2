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
use crate::contention::{Contention, Coupling, CpuSlot};
use crate::cpu_slots::SlotAssignment;
use crate::distributed::Incumbent;
use crate::groups::{Bounder, Extremes, ProgramGroup, members};
use crate::objective::{PartialScore, Span, SpanEnds, key, least_key};
use crate::search_space::{CpuPlacement, SearchSpace};

/// Subtrees searched before the best placement so far is exchanged: fixed, so that the nodes
/// visited do not depend on the number of threads.
const WAVE: usize = 64;

/// Nodes between two looks at the clock.
const CLOCK_NODES: u64 = 128;

/// When to stop before the proof.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StopRule<'s> {
    pub(crate) nodes: u64,
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancel: Option<&'s AtomicBool>,
}

impl StopRule<'_> {
    pub(crate) fn is_due(&self) -> bool {
        self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// A whole placement with its score: the lower, the better.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    pub(crate) score: f64,
    pub(crate) placement: CpuPlacement,
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
    pub(crate) space: &'a SearchSpace<'a, C>,
    pub(crate) groups: &'a [ProgramGroup<C::Share>],
    pub(crate) extremes: &'a Extremes<C::Share>,
    pub(crate) completion: &'a Completion,
    pub(crate) filter: Option<&'a Filter>,
    /// Groups by orbit and lowest program.
    lists: Vec<Vec<Vec<usize>>>,
    /// Do groups placed together say more than one by one?
    is_joint: bool,
    span_ends: SpanEnds,
}

/// How a search ended.
#[derive(Debug, Clone)]
pub(crate) struct SearchEnd {
    pub(crate) best: Option<Candidate>,
    /// The least score that a placement not visited may have; none when all were.
    pub(crate) open: Option<f64>,
    pub(crate) nodes: u64,
    pub(crate) pruned: u64,
}

#[derive(Clone)]
pub(crate) struct SearchNode<S> {
    pub(crate) left: u32,
    pub(crate) used: u64,
    layer: usize,
    part: PartialScore,
    filtered: PartialScore,
    pub(crate) bound: f64,
    pub(crate) slots: Vec<CpuSlot>,
    shares: Vec<S>,
}

pub(crate) struct Traversal<'w, C: Contention> {
    pub(crate) best: Option<Candidate>,
    pub(crate) nodes: u64,
    pub(crate) pruned: u64,
    quota: u64,
    stop: &'w StopRule<'w>,
    is_stopped: bool,
    bounder: Bounder<C>,
    spans: Vec<Span>,
    others: Option<Others<'w, C::Share>>,
}

/// What a traversal shares with others that search the same tree.
struct Others<'w, S> {
    incumbent: &'w Incumbent,
    /// Nodes that it has not looked into when it stops.
    left: Vec<SearchNode<S>>,
}

impl<'w, C: Contention> Traversal<'w, C> {
    fn new(best: Option<Candidate>, quota: u64, stop: &'w StopRule<'w>) -> Self {
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

    /// A traversal that prunes by what others find, and leaves to others what it has no time for.
    pub(crate) fn among_others(incumbent: &'w Incumbent, stop: &'w StopRule<'w>) -> Self {
        let others = Some(Others { incumbent, left: Vec::new() });
        Self { others, ..Self::new(Some(incumbent.best()), stop.nodes, stop) }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// The nodes that were left to others.
    pub(crate) fn into_left(self) -> Vec<SearchNode<C::Share>> {
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
        space: &'a SearchSpace<'a, C>,
        groups: &'a [ProgramGroup<C::Share>],
        extremes: &'a Extremes<C::Share>,
        completion: &'a Completion,
        filter: Option<&'a Filter>,
    ) -> Self {
        let mut lists = vec![vec![Vec::new(); space.programs]; space.orbits.len()];
        for (index, group) in groups.iter().enumerate() {
            lists[group.orbit][group.set.trailing_zeros() as usize].push(index);
        }
        let is_joint = matches!(space.contention.coupling(), Coupling::Common | Coupling::Growing);
        let of_filter = filter.map(|filter| filter.completion.criterion.span_ends());
        let of_score = completion.criterion.span_ends();
        let span_ends = of_filter.map_or(of_score, |ends| ends.or(of_score));
        Self { space, groups, extremes, completion, filter, lists, is_joint, span_ends }
    }

    pub(crate) fn root(&self) -> SearchNode<C::Share> {
        let left = self.space.everybody();
        let part = self.completion.criterion.empty();
        let layer = self.completion.full;
        SearchNode {
            left,
            used: 0,
            layer,
            part,
            filtered: self.filter.map_or(part, |filter| filter.completion.criterion.empty()),
            bound: self.completion.score(part, layer, left).unwrap_or(f64::INFINITY),
            slots: Vec::new(),
            shares: Vec::new(),
        }
    }

    /// Searches everything that may beat `start`.
    pub(crate) fn run(&self, start: Option<Candidate>, stop: &StopRule<'_>) -> SearchEnd {
        let mut ended = SearchEnd { best: start, open: None, nodes: 0, pruned: 0 };
        let mut tasks = self.tasks(&mut ended, stop);
        tasks.sort_by(|a, b| a.bound.total_cmp(&b.bound));
        for wave in tasks.chunks(WAVE) {
            let quota = stop.nodes.saturating_sub(ended.nodes) / wave.len() as u64;
            let walks: Vec<(Traversal<'_, C>, f64)> = wave
                .par_iter()
                .map(|node| {
                    let mut traversal = Traversal::new(ended.best.clone(), quota, stop);
                    traversal.is_stopped |= quota == 0;
                    self.descend(node, &mut traversal);
                    (traversal, node.bound)
                })
                .collect();
            for (traversal, bound) in walks {
                ended.nodes += traversal.nodes;
                ended.pruned += traversal.pruned;
                if traversal.is_stopped {
                    ended.open = Some(ended.open.map_or(bound, |open| open.min(bound)));
                }
                if let Some(found) = traversal.best
                    && ended.best.as_ref().is_none_or(|best| found.beats(best))
                {
                    ended.best = Some(found);
                }
            }
        }
        ended
    }

    /// Subtrees enough for a wave, from the root downwards.
    fn tasks(&self, ended: &mut SearchEnd, stop: &StopRule<'_>) -> Vec<SearchNode<C::Share>> {
        let mut traversal = Traversal::new(ended.best.clone(), stop.nodes, stop);
        let mut tasks = vec![self.root()];
        if self.cuts(&tasks[0], &traversal) {
            return Vec::new();
        }
        for _ in 0..2 {
            if tasks.len() >= WAVE || traversal.is_stopped {
                break;
            }
            let mut next = Vec::new();
            for task in &tasks {
                if !traversal.is_stopped {
                    self.children(task, &mut traversal, &mut next);
                }
                if traversal.is_stopped {
                    next.push(task.clone());
                }
            }
            tasks = next;
        }
        ended.best = traversal.best;
        ended.nodes += traversal.nodes;
        ended.pruned += traversal.pruned;
        tasks
    }

    pub(crate) fn descend(&self, node: &SearchNode<C::Share>, traversal: &mut Traversal<'_, C>) {
        if traversal.is_stopped {
            if let Some(others) = &mut traversal.others {
                others.left.push(node.clone());
            }
            return;
        }
        if self.cuts(node, traversal) {
            traversal.pruned += 1;
            return;
        }
        let mut children = Vec::new();
        self.children(node, traversal, &mut children);
        children.sort_by(|a, b| a.bound.total_cmp(&b.bound));
        for child in &children {
            self.descend(child, traversal);
        }
    }

    /// Adds the children that may beat the best; whole placements are settled at once.
    pub(crate) fn children(
        &self,
        node: &SearchNode<C::Share>,
        traversal: &mut Traversal<'_, C>,
        children: &mut Vec<SearchNode<C::Share>>,
    ) {
        let lowest = node.left.trailing_zeros() as usize;
        for (llc, _) in self.space.symmetry.representatives(node.used) {
            let orbit = self.space.orbit_of[llc];
            for &index in &self.lists[orbit][lowest] {
                let set = self.groups[index].set;
                if set & !node.left != 0 || !self.takes_lowest_equals(set, node.left) {
                    continue;
                }
                if traversal.is_stopped && traversal.others.is_none() {
                    // Keeps the parent open: see `run`. Among others the children are left open.
                    return;
                }
                traversal.count();
                match self.child(node, index, llc, traversal) {
                    Some(child) if child.left == 0 => self.settle(&child, traversal),
                    Some(child) => children.push(child),
                    None => traversal.pruned += 1,
                }
            }
        }
    }

    /// Of equal programs that are left the lowest come first.
    fn takes_lowest_equals(&self, set: u32, left: u32) -> bool {
        let equals = &self.space.equals;
        members(left & !set).all(|out| {
            // Nobody in the set above `out` is its equal.
            !members(set).any(|taken| taken > out && equals[taken] == equals[out])
        })
    }

    fn child(
        &self,
        node: &SearchNode<C::Share>,
        index: usize,
        llc: usize,
        traversal: &mut Traversal<'_, C>,
    ) -> Option<SearchNode<C::Share>> {
        let group = &self.groups[index];
        let criterion = &self.completion.criterion;
        let layer = node.layer - self.completion.strides[group.orbit];
        let left = node.left & !group.set;
        let mut part = criterion.join(node.part, self.completion.parts[index]);
        let bound = self.completion.score(part, layer, left)?;
        let mut slots = node.slots.clone();
        slots.extend(self.space.slots_of(llc, &group.assignment));
        let bound = bound.max(self.bound_with_packages(part, layer, left, &slots)?);
        if self.is_out(bound, &slots, traversal) {
            return None;
        }
        let mut filtered = self.filtered(node.filtered, index, layer, left)?;
        let mut shares = node.shares.clone();
        shares.extend_from_slice(&group.shares);
        let mut child = SearchNode {
            left,
            used: node.used | 1 << llc,
            layer,
            part,
            filtered,
            bound: bound.max(node.bound),
            slots,
            shares,
        };
        if self.is_joint && left != 0 && node.used != 0 {
            let mut spans = std::mem::take(&mut traversal.spans);
            let (slots, shares) = (&child.slots, &child.shares);
            let span_ends = self.span_ends;
            traversal.bounder.spans(
                self.space,
                slots,
                shares,
                left,
                self.extremes,
                span_ends,
                &mut spans,
            );
            part = criterion.of_all(spans.iter().copied());
            if criterion.objective.is_of_power() {
                part = criterion.join(part, self.space.drawn(criterion, slots, shares));
            }
            if let Some(filter) = self.filter {
                filtered = filter.completion.criterion.of_all(spans.iter().copied());
            }
            traversal.spans = spans;
            child.part = part;
            let bound = self.bound_with_packages(part, layer, left, &child.slots)?;
            child.bound = child.bound.max(bound);
            child.filtered = self.passes(filtered, layer, left)?;
            if self.is_out(child.bound, &child.slots, traversal) {
                return None;
            }
        }
        Some(child)
    }

    /// The least score of a placement that contains these parts, which are in these slots.
    fn bound_with_packages(
        &self,
        part: PartialScore,
        layer: usize,
        left: u32,
        slots: &[CpuSlot],
    ) -> Option<f64> {
        let criterion = &self.completion.criterion;
        if !criterion.objective.is_of_power() {
            return self.completion.score(part, layer, left);
        }
        let packages = self.space.packages_drawn(criterion, slots);
        self.completion.score(criterion.join(part, packages), layer, left)
    }

    fn filtered(
        &self,
        placed: PartialScore,
        index: usize,
        layer: usize,
        left: u32,
    ) -> Option<PartialScore> {
        let Some(filter) = self.filter else { return Some(placed) };
        let completion = &filter.completion;
        self.passes(completion.criterion.join(placed, completion.parts[index]), layer, left)
    }

    /// The part, if a placement with it may pass the filter.
    fn passes(&self, part: PartialScore, layer: usize, left: u32) -> Option<PartialScore> {
        let Some(filter) = self.filter else { return Some(part) };
        let bound = filter.completion.score(part, layer, left)?;
        (least_key(bound) <= key(filter.most)).then_some(part)
    }

    fn settle(&self, leaf: &SearchNode<C::Share>, traversal: &mut Traversal<'_, C>) {
        let criterion = &self.completion.criterion;
        let bounder = &mut traversal.bounder;
        bounder.couple(self.space, &leaf.slots, &leaf.shares);
        let above_idle_w = if criterion.objective.is_of_power() {
            self.space.above_idle_w(&leaf.slots, &leaf.shares, &mut bounder.scratch)
        } else {
            None
        };
        let slowdowns = bounder.slowdowns();
        // What a filter goes by asks for no power.
        let is_kept =
            |filter: &Filter| filter.completion.criterion.score_of(slowdowns, None) <= filter.most;
        if !self.filter.is_none_or(is_kept) {
            return;
        }
        let score = criterion.score_of(slowdowns, above_idle_w);
        if traversal.best.as_ref().is_some_and(|best| key(score) > key(best.score)) {
            return;
        }
        let mut cpus = vec![0; self.space.programs];
        for slot in &leaf.slots {
            cpus[slot.program] = slot.cpu;
        }
        traversal.take(Candidate { score, placement: self.space.lowest(&cpus) });
    }

    /// The node in which these programs sit on these CPUs, whole groups, the lowest program's
    /// first; none where nothing in it can beat the best.
    pub(crate) fn node_of(
        &self,
        cpu: &[Option<usize>],
        traversal: &mut Traversal<'_, C>,
    ) -> Option<SearchNode<C::Share>> {
        let mut node = self.root();
        while node.left != 0 {
            let lowest = node.left.trailing_zeros() as usize;
            let Some(first) = cpu[lowest] else { break };
            let llc = self.space.place_of[first].0;
            let assignment = cpu.iter().enumerate().filter_map(|(program, &cpu)| {
                let (of, position) = self.space.place_of[cpu?];
                (of == llc).then_some((program, position))
            });
            let assignment: SlotAssignment = assignment.collect();
            // A group that is not there was found to be in no better placement.
            let list = &self.lists[self.space.orbit_of[llc]][lowest];
            let index = list.iter().find(|&&index| self.groups[index].assignment == assignment)?;
            node = self.child(&node, *index, llc, traversal)?;
        }
        Some(node)
    }

    pub(crate) fn cuts(&self, node: &SearchNode<C::Share>, traversal: &Traversal<'_, C>) -> bool {
        self.is_out(node.bound, &node.slots, traversal)
    }

    /// Can nothing of at least this score with these slots beat the best?
    fn is_out(&self, bound: f64, slots: &[CpuSlot], traversal: &Traversal<'_, C>) -> bool {
        let Some(best) = &traversal.best else { return false };
        let (least, known) = (least_key(bound), key(best.score));
        least > known || least == known && self.is_above(slots, &best.placement.llc)
    }

    /// Is every completion of these slots a higher placement than `llcs`?
    fn is_above(&self, slots: &[CpuSlot], llcs: &[usize]) -> bool {
        let space = self.space;
        space.symmetry.maps().iter().all(|map| {
            let mut placed = vec![None; space.programs];
            let mut used = 0u64;
            for slot in slots {
                let llc = map[space.place_of[slot.cpu].0];
                placed[slot.program] = Some(llc);
                used |= 1 << llc;
            }
            let mut lowest: Vec<usize> = placed
                .into_iter()
                .map(|llc| llc.unwrap_or(used.trailing_ones() as usize))
                .collect();
            space.sort_equals(&mut lowest);
            lowest.as_slice() > llcs
        })
    }
}
