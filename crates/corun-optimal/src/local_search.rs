//! A good placement to start from: exchanges of two programs and moves to free CPUs, as long as
//! they help.

use rayon::prelude::*;

use crate::contention::Contention;
use crate::cpu_slots::SlotAssignment;
use crate::groups::MOST_PROGRAMS;
use crate::objective::{Criterion, key};
use crate::search::{Candidate, StopRule};
use crate::search_space::SearchSpace;

/// Programs dealt out by turns to the LLCs of the first packages, so many of them.
fn dealt<C: Contention>(space: &SearchSpace<C>, packages: usize) -> Vec<usize> {
    let machine = space.machine;
    let is_used = |cpu: &usize| machine.cpus()[*cpu].package < packages;
    let rounds = space.llcs.iter().map(|slots| slots.len()).max().unwrap_or(0);
    let turns = (0..rounds).flat_map(|round| {
        space.llcs.iter().filter_map(move |slots| slots.cpus.get(round).copied())
    });
    turns.filter(is_used).take(space.programs).collect()
}

/// What exchanges and moves make of programs dealt out to all LLCs by turns, and how many placements were looked at.
/// Where the packages draw power, the best of what they make of programs dealt out to so many packages and fewer: one move
/// after the other empties no package, as long as each by itself saves nothing.
pub(crate) fn searched_from_dealt<C: Contention>(
    space: &SearchSpace<C>,
    criterion: &Criterion,
    stop: &StopRule<'_>,
) -> (Candidate, u64) {
    let packages = space.machine.packages().len();
    let (mut best, mut looked) = local_search(space, criterion, dealt(space, packages), stop);
    if !criterion.objective.is_of_power() {
        return (best, looked);
    }
    let fewer = (1..packages).map(|packages| dealt(space, packages));
    for start in fewer.filter(|start| start.len() == space.programs) {
        let rest = StopRule { nodes: stop.nodes.saturating_sub(looked), ..*stop };
        let (found, more) = local_search(space, criterion, start, &rest);
        looked += more;
        if found.beats(&best) {
            best = found;
        }
    }
    (best, looked)
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
    let score = |cpus: &[usize], scratch: &mut C::Scratch| space.score(criterion, cpus, scratch);
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

/// The changes to try, without those that another one is the mirror image of: of free CPUs that nothing tells apart one
/// stands for all, and programs on such CPUs are not exchanged.
fn steps<C: Contention>(space: &SearchSpace<C>, cpus: &[usize]) -> Vec<Step> {
    let mut steps = Vec::new();
    let assignments = assignments(space, cpus);
    for first in 0..cpus.len() {
        for second in first + 1..cpus.len() {
            if space.equals[first] != space.equals[second]
                && !is_mirrored(space, &assignments, [first, second].map(|one| (one, cpus[one])))
            {
                steps.push(Step::Exchange(first, second));
            }
        }
    }
    let free = free_cpus(space, &assignments);
    for program in 0..cpus.len() {
        steps.extend(free.iter().map(|&cpu| Step::Move(program, cpu)));
    }
    steps
}

/// Of each LLC who sits where.
fn assignments<C: Contention>(space: &SearchSpace<C>, cpus: &[usize]) -> Vec<SlotAssignment> {
    let mut assignments = vec![SlotAssignment::new(); space.llcs.len()];
    for (program, &cpu) in cpus.iter().enumerate() {
        let (llc, position) = space.place_of[cpu];
        assignments[llc].push((program, position));
    }
    assignments
}

/// Does an exchange of two programs (with their CPUs) leave their LLC as it was, up to its mirror images?
fn is_mirrored<C: Contention>(
    space: &SearchSpace<C>,
    assignments: &[SlotAssignment],
    [first, second]: [(usize, usize); 2],
) -> bool {
    let [(llc, here), (other, there)] = [first, second].map(|(_, cpu)| space.place_of[cpu]);
    if llc != other {
        return false;
    }
    let mut exchanged = assignments[llc].clone();
    for (program, position) in &mut exchanged {
        if *program == first.0 {
            *position = there;
        } else if *program == second.0 {
            *position = here;
        }
    }
    let slots = &space.llcs[llc];
    slots.lowest(&exchanged) == slots.lowest(&assignments[llc])
}

/// The free CPUs, ascending, one of each set that nothing tells apart.
fn free_cpus<C: Contention>(space: &SearchSpace<C>, assignments: &[SlotAssignment]) -> Vec<usize> {
    let used = (0..assignments.len()).filter(|&llc| !assignments[llc].is_empty());
    let empty = space.symmetry.representatives(used.clone().fold(0, |used, llc| used | 1 << llc));
    let llcs = used.chain(empty.into_iter().map(|(llc, _)| llc));
    let mut free: Vec<usize> = llcs
        .flat_map(|llc| {
            let slots = &space.llcs[llc];
            slots.free_positions(&assignments[llc]).into_iter().map(|position| slots.cpus[position])
        })
        .collect();
    free.sort_unstable();
    free
}

#[cfg(test)]
#[path = "local_search_tests.rs"]
mod tests;
