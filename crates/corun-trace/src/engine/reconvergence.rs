//! Where the two directions of a mispredicted branch reconverge: go on alike.
//!
//! Until a branch is resolved, a core goes on in the direction that it predicted. What it loads there is of use where both
//! directions soon come to the same code: behind most mispredicted branches (Rotenberg, Jacobson and Smith, "A study of
//! control independence in superscalar processors", HPCA 1999). Which code stands on the other direction is seen when the
//! same branch goes there, in this stretch or in one before. Two blocks that end at the same instruction are the same code
//! from the shorter one's beginning on.
//!
//! A loop comes to the same again and again, so that there are several such places, each with another part of either
//! direction before it: where a search in a hash table goes on to its next slot or to the next key, the next key comes on
//! both directions, and so does the next slot, of another key. The place is chosen from which on the most loads do not hang on
//! what either direction does before, the sooner the better, since that is what the core will have asked for.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::block::{Block, Exit, Registers};

/// How far a core goes on: the largest reorder buffers.
pub(crate) const REACH: usize = 512;
/// Directions of a branch that are known at a time: an indirect one has many.
const MOST_WAYS: usize = 2;
/// Branches whose ways are known.
const MOST_BRANCHES: usize = 1 << 15;

/// A block that ran.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    step: Step,
    /// Its first entry in the micro-trace, and that of its last instruction.
    entries: [usize; 2],
    /// Can it go on in more than one direction?
    is_open: bool,
    /// Was its direction mispredicted?
    is_wrong: bool,
}

/// A block of code.
#[derive(Debug, Clone)]
struct Step {
    start: u64,
    /// Address of its last instruction.
    last: u64,
    /// By instruction, what it writes.
    written: Arc<[Registers]>,
}

/// A place where a mispredicted branch would have come to the same in the other direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReconvergencePoint {
    /// The first entry that both directions have.
    pub(crate) entry: usize,
    /// Instructions that the other direction has before it.
    pub(crate) other_instructions: usize,
    /// What these write.
    pub(crate) written: Registers,
}

/// Where the directions of a mispredicted branch reconverge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reconvergences {
    /// The branch's entry.
    pub(crate) branch: usize,
    /// Those that are sooner on one direction the later they are on the other, from the soonest on the right one on.
    pub(crate) places: Vec<ReconvergencePoint>,
    /// Are none within a core's reach, rather than that too little was seen to tell?
    pub(crate) is_never: bool,
}

/// What stands on the directions of branches, of earlier micro-traces.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ways {
    /// By the address of a branch, those seen last at the end.
    known: FxHashMap<u64, VecDeque<Box<[Step]>>>,
}

impl Ran {
    /// Of a block of which these are the first and the last entry.
    pub(crate) fn new(block: &Block, entries: [usize; 2], is_wrong: bool) -> Self {
        let is_open = matches!(block.exit, Exit::Conditional | Exit::Indirect | Exit::IndirectCall);
        let written = block.ops.iter().map(|op| op.written).collect();
        let step = Step { start: block.start, last: block.last, written };
        Self { step, entries, is_open, is_wrong }
    }
}

impl Step {
    fn instructions(&self) -> usize {
        self.written.len()
    }
}

impl Ways {
    /// Where mispredicted branches would have come to the same in the other direction, in turn. `path`: the blocks of a
    /// micro-trace. What is seen of ways is kept for the next one.
    pub(crate) fn reconvergences(&mut self, path: &[Ran]) -> Vec<Reconvergences> {
        let mut open: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
        for (at, block) in path.iter().enumerate().filter(|(_, block)| block.is_open) {
            open.entry(block.step.last).or_default().push(at);
        }
        let wrong = path.iter().enumerate().filter(|(_, block)| block.is_open && block.is_wrong);
        let found = wrong.filter_map(|(at, block)| {
            let next = path.get(at + 1)?.step.start;
            let other = match other_in(path, &open[&block.step.last], at, next) {
                Some(way) => way,
                None => self.other(block.step.last, next)?.to_vec(),
            };
            Some(met(&path[at..], &other))
        });
        let found = found.collect();
        for (&branch, places) in &open {
            for &at in places {
                self.learn(branch, path, at);
            }
        }
        found
    }

    /// A way of a branch that does not begin with a block at this address.
    fn other(&self, branch: u64, next: u64) -> Option<&[Step]> {
        let ways = self.known.get(&branch)?;
        ways.iter().rev().find(|way| way[0].start != next).map(|way| &way[..])
    }

    /// Keeps the way that a branch, which stands at this place of the path, went, where it is not known. Short ways, at the
    /// end of a micro-trace, tell less.
    fn learn(&mut self, branch: u64, path: &[Ran], at: usize) {
        let Some(next) = path.get(at + 1).map(|block| block.step.start) else { return };
        let known = self.known.get(&branch);
        let is_known = known.is_some_and(|ways| ways.iter().any(|way| way[0].start == next));
        if is_known || known.is_none() && self.known.len() == MOST_BRANCHES {
            return;
        }
        let way = way(path, at);
        if length(&way) < REACH {
            return;
        }
        let ways = self.known.entry(branch).or_default();
        if ways.len() == MOST_WAYS {
            ways.pop_front();
        }
        ways.push_back(way.into());
    }
}

/// The way that the same branch went in another direction nearest by. `places`: where it stands in the path.
fn other_in(path: &[Ran], places: &[usize], at: usize, next: u64) -> Option<Vec<Step>> {
    let others = places
        .iter()
        .copied()
        .filter(|&place| path.get(place + 1).is_some_and(|block| block.step.start != next));
    let nearest = others.min_by_key(|&place| (place.abs_diff(at), place))?;
    let way = way(path, nearest);
    (length(&way) >= REACH).then_some(way)
}

/// The code behind a block of a path, as far as a core reaches.
fn way(path: &[Ran], at: usize) -> Vec<Step> {
    let mut passed = 0;
    let follows = path[at + 1..].iter().map(|block| &block.step);
    follows
        .take_while(|step| {
            let reaches = passed < REACH;
            passed += step.instructions();
            reaches
        })
        .cloned()
        .collect()
}

fn length(way: &[Step]) -> usize {
    way.iter().map(Step::instructions).sum()
}

/// Where the path behind its first block, a branch, and another way come to the same.
fn met(path: &[Ran], other: &[Step]) -> Reconvergences {
    // The step, and the instructions before it, by its last instruction.
    let mut steps: FxHashMap<u64, (usize, usize)> = FxHashMap::default();
    let mut before = 0;
    for (at, step) in other.iter().enumerate() {
        if before < REACH {
            steps.entry(step.last).or_insert((at, before));
        }
        before += step.instructions();
    }
    let mut places: Vec<ReconvergencePoint> = Vec::new();
    let mut passed = 0;
    for block in &path[1..] {
        if passed >= REACH {
            break;
        }
        let own = block.step.instructions();
        if let Some(&(at, before)) = steps.get(&block.step.last) {
            let both = own.min(other[at].instructions());
            let other_instructions = before + other[at].instructions() - both;
            let is_sooner =
                |last: &ReconvergencePoint| other_instructions < last.other_instructions;
            if places.last().is_none_or(is_sooner) {
                let [first, last] = block.entries;
                let entry = (first + own - both).min(last);
                let written = written(other, other_instructions);
                places.push(ReconvergencePoint { entry, other_instructions, written });
            }
        }
        passed += own;
    }
    Reconvergences { branch: path[0].entries[1], places, is_never: passed >= REACH }
}

/// What the first so many instructions of a way write.
fn written(way: &[Step], instructions: usize) -> Registers {
    let all = way.iter().flat_map(|step| step.written.iter());
    all.take(instructions).fold(Registers::default(), |all, &one| all.and(one))
}

#[cfg(test)]
#[path = "reconvergence_tests.rs"]
mod tests;
