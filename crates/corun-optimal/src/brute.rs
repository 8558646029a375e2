//! Everything enumerated: every injective map of programs to CPUs, without symmetry or bounds.
//! Slow by design; it is what the search is checked against.

use corun_machine::Machine;

use crate::contention::Contention;
use crate::objective::{Criterion, Goal, Objective, key};
use crate::search_space::{CpuPlacement, SearchSpace};
use crate::solve::UNFAIRNESS_ROOM;

/// The outcome of an enumeration.
#[derive(Debug, Clone, PartialEq)]
pub struct Enumerated {
    /// LLC of each program in the best (or worst) placement; of equal ones the lowest.
    pub llc: Vec<usize>,
    /// CPU index of each program.
    pub cpu: Vec<usize>,
    /// The objective's value there.
    pub value: f64,
    /// Its mean over all maps.
    pub mean: f64,
    /// Maps visited.
    pub count: u64,
}

/// A map of programs to CPUs, and what comes of it.
struct Judged {
    slowdowns: Vec<f64>,
    /// In watts; none where the machine's file does not say.
    above_idle_w: Option<f64>,
    placement: CpuPlacement,
}

/// All maps of programs to CPUs, each looked at once for all objectives and goals.
pub struct EveryPlacement<'a, C: Contention> {
    space: SearchSpace<'a, C>,
    all: Vec<Judged>,
}

impl<'a, C: Contention> EveryPlacement<'a, C> {
    /// Visits all maps of so many programs: none where there are more programs than CPUs, or no program.
    pub fn new(machine: &'a Machine, contention: &'a C, programs: usize) -> Self {
        let space = SearchSpace::new(machine, contention, (0..programs).collect(), &[]);
        let mut all = Vec::new();
        let mut scratch = C::Scratch::default();
        maps(space.cpus(), programs, &mut Vec::new(), &mut |cpus| {
            let (slowdowns, above_idle_w) = space.judged(Objective::Energy, cpus, &mut scratch);
            let llc = cpus.iter().map(|&cpu| space.place_of[cpu].0).collect();
            let placement = CpuPlacement { llc, cpu: cpus.to_vec() };
            all.push(Judged { slowdowns, above_idle_w, placement });
        });
        Self { space, all }
    }

    /// The best, or the worst, of the maps in which nobody is slower than `most_slowdown` (infinite: of all). `None` when
    /// there are none.
    pub fn first(
        &self,
        objective: Objective,
        goal: Goal,
        most_slowdown: f64,
    ) -> Option<Enumerated> {
        let kept = |one: &&Judged| one.slowdowns.iter().all(|&slowdown| slowdown <= most_slowdown);
        let kept: Vec<&Judged> = self.all.iter().filter(kept).collect();
        let scores = |criterion: &Criterion| -> Vec<f64> {
            kept.iter().map(|one| criterion.score_of(&one.slowdowns, one.above_idle_w)).collect()
        };
        let lowest = |scores: &[f64], keep: &dyn Fn(usize) -> bool| {
            let by = |&place: &usize| (key(scores[place]), &kept[place].placement);
            (0..kept.len()).filter(|&place| keep(place)).min_by(|a, b| by(a).cmp(&by(b)))
        };
        let criterion = self.space.criterion(objective, goal);
        let by_objective = scores(&criterion);
        let mut best = lowest(&by_objective, &|_| true)?;
        if objective == Objective::Unfairness && goal == Goal::Best {
            let most = by_objective[best] * (1.0 + UNFAIRNESS_ROOM);
            let by_stp = scores(&self.space.criterion(Objective::Stp, Goal::Best));
            best = lowest(&by_stp, &|place| by_objective[place] <= most)?;
        }
        let sum: f64 = by_objective.iter().map(|&score| criterion.value(score)).sum();
        let CpuPlacement { llc, cpu } = kept[best].placement.clone();
        Some(Enumerated {
            value: criterion.value(by_objective[best]),
            llc,
            cpu,
            mean: sum / kept.len() as f64,
            count: kept.len() as u64,
        })
    }
}

fn maps(cpus: usize, programs: usize, taken: &mut Vec<usize>, visit: &mut impl FnMut(&[usize])) {
    if taken.len() == programs {
        visit(taken);
        return;
    }
    for cpu in 0..cpus {
        if !taken.contains(&cpu) {
            taken.push(cpu);
            maps(cpus, programs, taken, visit);
            taken.pop();
        }
    }
}
