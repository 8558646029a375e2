//! A good placement to start from: exchanges of two programs and moves to free CPUs, as long as
//! they help.

use rayon::prelude::*;

use crate::contention::Contention;
use crate::groups::MOST_PROGRAMS;
use crate::objective::{Criterion, key};
use crate::search::{Candidate, StopRule};
use crate::search_space::SearchSpace;

/// Programs dealt out to the LLCs by turns.
pub(crate) fn dealt<C: Contention>(space: &SearchSpace<C>) -> Vec<usize> {
    let rounds = space.llcs.iter().map(|slots| slots.len()).max().unwrap_or(0);
    let turns = (0..rounds).flat_map(|round| {
        space.llcs.iter().filter_map(move |slots| slots.cpus.get(round).copied())
    });
    turns.take(space.programs).collect()
}

/// Takes the best exchange or move until none helps, or it is time to stop; of more than
/// [`MOST_PROGRAMS`] programs all that help. Gives the placement and how many were looked at.
pub(crate) fn local_search<C: Contention>(
    space: &SearchSpace<C>,
    criterion: &Criterion,
    start: Vec<usize>,
    stop: &StopRule<'_>,
) -> (Candidate, u64) {
    let mut scratch = C::Scratch::default();
    let score = |cpus: &[usize], scratch: &mut C::Scratch| {
        criterion.score_of(&space.slowdowns(cpus, scratch))
    };
    let mut at = start;
    let mut reached = score(&at, &mut scratch);
    let mut looked = 1;
    loop {
        let steps = steps(space, &at);
        if stop.is_due() || looked + steps.len() as u64 > stop.nodes {
            break;
        }
        looked += steps.len() as u64;
        let scores: Vec<f64> = steps
            .par_iter()
            .map_init(C::Scratch::default, |scratch, step| score(&step.of(&at), scratch))
            .collect();
        let mut better: Vec<usize> =
            (0..steps.len()).filter(|&step| key(scores[step]) < key(reached)).collect();
        better.sort_by_key(|&step| (key(scores[step]), step));
        let Some(&best) = better.first() else { break };
        at = steps[best].of(&at);
        reached = scores[best];
        if at.len() <= MOST_PROGRAMS {
            continue;
        }
        // No search comes after this: as many steps a round as still help, one after the other.
        for step in better.iter().skip(1).map(|&step| &steps[step]) {
            let changed = step.of(&at);
            if stop.is_due() || !step.is_free(&at) {
                continue;
            }
            looked += 1;
            let score = score(&changed, &mut scratch);
            if key(score) < key(reached) {
                (at, reached) = (changed, score);
            }
        }
    }
    (Candidate { score: reached, placement: space.lowest(&at) }, looked)
}

/// A small change of a placement.
enum Step {
    Exchange(usize, usize),
    Move(usize, usize),
}

impl Step {
    /// Is the CPU that a program moves to still free?
    fn is_free(&self, cpus: &[usize]) -> bool {
        match self {
            Self::Exchange(..) => true,
            Self::Move(_, cpu) => !cpus.contains(cpu),
        }
    }

    fn of(&self, cpus: &[usize]) -> Vec<usize> {
        let mut changed = cpus.to_vec();
        match *self {
            Self::Exchange(first, second) => changed.swap(first, second),
            Self::Move(program, cpu) => changed[program] = cpu,
        }
        changed
    }
}

fn steps<C: Contention>(space: &SearchSpace<C>, cpus: &[usize]) -> Vec<Step> {
    let mut steps = Vec::new();
    for first in 0..cpus.len() {
        for second in first + 1..cpus.len() {
            if space.equals[first] != space.equals[second] {
                steps.push(Step::Exchange(first, second));
            }
        }
    }
    let free: Vec<usize> = (0..space.cpus()).filter(|cpu| !cpus.contains(cpu)).collect();
    for program in 0..cpus.len() {
        steps.extend(free.iter().map(|&cpu| Step::Move(program, cpu)));
    }
    steps
}
