//! Everything enumerated: every injective map of programs to CPUs, without symmetry or bounds.
//! Slow by design; it is what the search is checked against.

use corun_machine::Machine;

use crate::contention::Contention;
use crate::objective::{Criterion, Goal, Objective, key};
use crate::search::Candidate;
use crate::search_space::SearchSpace;
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

/// Visits all maps. `None` when there are more programs than CPUs, or no program.
pub fn enumerate<C: Contention>(
    machine: &Machine,
    contention: &C,
    programs: usize,
    objective: Objective,
    goal: Goal,
) -> Option<Enumerated> {
    enumerate_within(machine, contention, programs, f64::INFINITY, objective, goal)
}

/// Visits all maps, and looks at those in which nobody is slower than `most_slowdown`. `None` when there are none.
pub fn enumerate_within<C: Contention>(
    machine: &Machine,
    contention: &C,
    programs: usize,
    most_slowdown: f64,
    objective: Objective,
    goal: Goal,
) -> Option<Enumerated> {
    let space = SearchSpace::new(machine, contention, (0..programs).collect(), &[]);
    let criterion = space.criterion(objective, goal);
    let mut every = Vec::new();
    let mut scratch = C::Scratch::default();
    maps(space.cpus(), programs, &mut Vec::new(), &mut |cpus| {
        let (slowdowns, above_idle_w) = space.judged(objective, cpus, &mut scratch);
        if slowdowns.iter().all(|&slowdown| slowdown <= most_slowdown) {
            every.push(((slowdowns, above_idle_w), cpus.to_vec()));
        }
    });
    let score = |criterion: &Criterion, (slowdowns, above_idle_w): &(Vec<f64>, Option<f64>)| {
        criterion.score_of(slowdowns, *above_idle_w)
    };
    let values = every.iter().map(|(judged, _)| criterion.value(score(&criterion, judged)));
    let mean = values.sum::<f64>() / every.len() as f64;
    let lowest = |criterion: &Criterion, keep: &dyn Fn(f64) -> bool, by: &Criterion| {
        every
            .iter()
            .filter(|(judged, _)| keep(score(by, judged)))
            .map(|(judged, cpus)| {
                let llc = cpus.iter().map(|&cpu| space.place_of[cpu].0).collect();
                let placement = crate::search_space::CpuPlacement { llc, cpu: cpus.clone() };
                Candidate { score: score(criterion, judged), placement }
            })
            .min_by(|a, b| (key(a.score), &a.placement).cmp(&(key(b.score), &b.placement)))
    };
    let mut best = lowest(&criterion, &|_| true, &criterion)?;
    if objective == Objective::Unfairness && goal == Goal::Best {
        let stp = space.criterion(Objective::Stp, Goal::Best);
        let most = best.score * (1.0 + UNFAIRNESS_ROOM);
        best = lowest(&stp, &|unfairness| unfairness <= most, &criterion)?;
    }
    let value = criterion.value(space.score(&criterion, &best.placement.cpu, &mut scratch));
    Some(Enumerated {
        value,
        llc: best.placement.llc,
        cpu: best.placement.cpu,
        mean,
        count: every.len() as u64,
    })
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
