//! `overlap-annealing` and `overlap-annealing-online`: a search over masks that may overlap, in the spirit of
//! DCAPS (Xiang et al., DCAPS: Dynamic Cache Allocation with Partial Sharing, EuroSys 2018).
//!
//! Of DCAPS only the abstract could be read: a prediction of who holds how much of the cache under any masks, and a
//! simulated annealing over masks for a given target. Both are built here anew; all numbers are ours.

mod estimate;

use std::collections::VecDeque;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use self::estimate::Estimate;
use super::kpart_dynaway::{self, Dynaway};
use crate::partitioning::online::SAMPLING;
use crate::partitioning::{Input, Partition, PartitionError, Partitioner, mask};
use crate::{Build, BuildOptions, LiveForm, Parameter, ParameterKind, PolicyEntry, WaysCurve};

const STEPS: Parameter = Parameter {
    name: "steps",
    kind: ParameterKind::WholeNumber,
    default: 3000.0,
    min: 1.0,
    max: 1e7,
    summary: "plans that the annealing tries; where there are no more, all are tried",
};

const TARGET: Parameter = Parameter {
    name: "target",
    kind: ParameterKind::Choice(&["unfairness", "mean-slowdown", "worst-slowdown"]),
    default: 0.0,
    min: 0.0,
    max: 2.0,
    summary: "what is lowered: 0 unfairness, 1 the mean slowdown, 2 the worst slowdown",
};

const CLASSES: Parameter = Parameter {
    name: "classes",
    kind: ParameterKind::WholeNumber,
    default: 15.0,
    min: 1.0,
    max: 64.0,
    summary: "different masks at most, as many as the hardware has classes",
};

const OWN: &[Parameter] = &[STEPS, TARGET, CLASSES];

const ONLINE_LISTS: &[&[Parameter]] = &[kpart_dynaway::OWN, SAMPLING, OWN];

const SOURCE: &str = "after Xiang et al., DCAPS, EuroSys 2018, by its abstract";

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry::partitioning(
    "overlap-annealing",
    "searches masks that may overlap by simulated annealing, judged by an estimate of who holds what",
    SOURCE,
    OWN,
    |options: &BuildOptions| Box::new(OverlapAnnealing::new(options)),
);

/// The line in the registry of the policy that samples.
pub(crate) const ONLINE: PolicyEntry = PolicyEntry {
    name: "overlap-annealing-online",
    summary: "as overlap-annealing, on curves that it measures with every number of ways while programs run",
    source: SOURCE,
    parameters: &Parameter::joined::<{ Parameter::count(ONLINE_LISTS) }>(ONLINE_LISTS),
    build: Build::Online(|options: &BuildOptions| {
        let inner = Box::new(OverlapAnnealing::new(options));
        Dynaway::policy("overlap-annealing-online", inner, options)
    }),
    live: LiveForm::Untested {
        why: "in simulation as live it cost 8 % with 8 programs on four LLCs",
    },
};

/// What a target of the search makes of slowdowns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Unfairness,
    Mean,
    Worst,
}

/// The weight of the mean slowdown beside the target. Without it programs may be slowed down to make others look
/// equal.
const MEAN_WEIGHT: f64 = 0.1;
/// The temperature at the start and at the end, as a share of the cost at the start.
const HOT: f64 = 0.05;
const COLD: f64 = 0.0005;
/// A change that lowers the cost by a smaller share than this is rounding.
const LEAST_GAIN: f64 = 1e-9;

struct OverlapAnnealing {
    seed: u64,
    steps: u64,
    target: Target,
    classes: usize,
    estimate: Estimate,
    /// The latest answers, the newest last: a host asks again with the same curves, and an annealing takes long.
    answers: VecDeque<Answer>,
}

/// What was asked, and what came of it.
struct Answer {
    curves: Vec<WaysCurve>,
    ways: u32,
    least_ways: u32,
    runs: Vec<Run>,
}

/// Answers that are kept: enough for the LLCs of a machine.
const ANSWERS: usize = 32;

/// Ways side by side: the first, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first: u32,
    ways: u32,
}

impl Run {
    fn mask(self) -> u64 {
        mask(self.first, self.ways)
    }

    fn fits(self, input: &Input<'_>) -> bool {
        self.ways >= input.least_ways && self.first + self.ways <= input.ways
    }
}

impl OverlapAnnealing {
    fn new(options: &BuildOptions) -> Self {
        Self {
            seed: options.seed,
            steps: options.value(&STEPS) as u64,
            target: match options.value(&TARGET) {
                unfairness if unfairness < 0.5 => Target::Unfairness,
                mean if mean < 1.5 => Target::Mean,
                _ => Target::Worst,
            },
            classes: options.value(&CLASSES) as usize,
            estimate: Estimate::default(),
            answers: VecDeque::new(),
        }
    }

    /// The masks for an input, searched once.
    fn answer(&mut self, input: &Input<'_>) -> Vec<Run> {
        let (ways, least_ways) = (input.ways, input.least_ways);
        let known = self.answers.iter().find(|one| {
            (one.ways, one.least_ways) == (ways, least_ways)
                && one.curves.len() == input.curves.len()
                && one.curves.iter().zip(input.curves).all(|(one, other)| one == *other)
        });
        if let Some(known) = known {
            return known.runs.clone();
        }
        self.estimate.prepare(input);
        let runs = self.search(input);
        if self.answers.len() == ANSWERS {
            self.answers.pop_front();
        }
        let curves = input.curves.iter().map(|&curve| curve.clone()).collect();
        self.answers.push_back(Answer { curves, ways, least_ways, runs: runs.clone() });
        runs
    }

    /// The lower the better.
    fn cost(&mut self, runs: &[Run]) -> f64 {
        let slowdowns = self.estimate.slowdowns(runs);
        let mean = slowdowns.iter().sum::<f64>() / slowdowns.len() as f64;
        let most = slowdowns.iter().copied().fold(0.0, f64::max);
        let least = slowdowns.iter().copied().fold(f64::INFINITY, f64::min);
        match self.target {
            Target::Unfairness => most / least + MEAN_WEIGHT * mean,
            Target::Mean => mean,
            Target::Worst => most + MEAN_WEIGHT * mean,
        }
    }

    /// The best masks of all where there are no more plans than the annealing would try; else what the annealing comes
    /// by, after a descent.
    fn search(&mut self, input: &Input<'_>) -> Vec<Run> {
        let runs = all_runs(input);
        let plans = (runs.len() as f64).powi(input.curves.len() as i32);
        if plans <= self.steps as f64 {
            return self.best_of_all(&runs, input.curves.len());
        }
        let mut found = self.anneal(input);
        self.descend(&mut found, input);
        found
    }

    /// The best of all plans; of equal ones the first.
    fn best_of_all(&mut self, runs: &[Run], programs: usize) -> Vec<Run> {
        let mut at = vec![0; programs];
        let (mut best, mut least) = (vec![runs[0]; programs], f64::INFINITY);
        loop {
            let now: Vec<Run> = at.iter().map(|&one| runs[one]).collect();
            if distinct(&now) <= self.classes {
                let cost = self.cost(&now);
                if cost < least {
                    (best, least) = (now, cost);
                }
            }
            let Some(next) = at.iter().position(|&one| one + 1 < runs.len()) else { return best };
            at[..next].fill(0);
            at[next] += 1;
        }
    }

    /// Gives each program in turn its best mask, or the best exchange of masks, while the others keep theirs, for as long
    /// as that lowers the cost.
    fn descend(&mut self, now: &mut Vec<Run>, input: &Input<'_>) {
        let runs = all_runs(input);
        let mut cost = self.cost(now);
        // Programs since the last change.
        let (mut settled, mut one) = (0, 0);
        while settled < now.len() {
            settled += 1;
            for changed in single_changes(now, one, &runs) {
                if distinct(&changed) > self.classes {
                    continue;
                }
                let then = self.cost(&changed);
                if then < cost * (1.0 - LEAST_GAIN) {
                    cost = then;
                    *now = changed;
                    settled = 0;
                }
            }
            one = (one + 1) % now.len();
        }
    }

    /// The best masks that the annealing comes by; at the start everybody has all ways.
    fn anneal(&mut self, input: &Input<'_>) -> Vec<Run> {
        let programs = input.curves.len();
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let mut now = vec![Run { first: 0, ways: input.ways }; programs];
        let mut cost = self.cost(&now);
        let (hot, cooling) = (HOT * cost, (COLD / HOT).powf(1.0 / self.steps as f64));
        let (mut best, mut least) = (now.clone(), cost);
        let mut temperature = hot;
        for _ in 0..self.steps {
            temperature *= cooling;
            let before = now.clone();
            if !neighbour(&mut now, input, &mut random) || distinct(&now) > self.classes {
                now = before;
                continue;
            }
            let then = self.cost(&now);
            let rise = then - cost;
            if rise <= 0.0 || random.random_range(0.0..1.0) < (-rise / temperature).exp() {
                cost = then;
                if cost < least {
                    least = cost;
                    best.clone_from(&now);
                }
            } else {
                now = before;
            }
        }
        best
    }
}

/// Changes the masks a little: one grows, shrinks or shifts by a way, becomes that of another program or any
/// other, or two change owners. False where the change cannot be.
fn neighbour(runs: &mut [Run], input: &Input<'_>, random: &mut Pcg64Mcg) -> bool {
    let one = random.random_range(0..runs.len());
    let other = random.random_range(0..runs.len());
    let Run { first, ways } = runs[one];
    let changed = match random.random_range(0..9) {
        0 => Some(Run { first, ways: ways + 1 }),
        1 => first.checked_sub(1).map(|first| Run { first, ways: ways + 1 }),
        2 => Some(Run { first, ways: ways - 1 }),
        3 => Some(Run { first: first + 1, ways: ways - 1 }),
        4 => Some(Run { first: first + 1, ways }),
        5 => first.checked_sub(1).map(|first| Run { first, ways }),
        6 => Some(runs[other]),
        7 => {
            let first = random.random_range(0..input.ways);
            Some(Run { first, ways: random.random_range(1..=input.ways - first) })
        }
        _ => {
            runs.swap(one, other);
            return runs[one] != runs[other];
        }
    };
    match changed.filter(|run| run.fits(input) && *run != runs[one]) {
        Some(run) => {
            runs[one] = run;
            true
        }
        None => false,
    }
}

/// All masks that a program may have.
fn all_runs(input: &Input<'_>) -> Vec<Run> {
    let from = |first| (input.least_ways..=input.ways - first).map(move |ways| Run { first, ways });
    (0..input.ways).flat_map(from).collect()
}

/// The plans in which one program has another mask, or exchanges it with another program's.
fn single_changes<'a>(
    from: &[Run],
    one: usize,
    runs: &'a [Run],
) -> impl Iterator<Item = Vec<Run>> + use<'a> {
    let from = from.to_vec();
    let others = (one + 1..from.len()).filter(|&other| from[other] != from[one]);
    let exchanges: Vec<Vec<Run>> = others
        .map(|other| {
            let mut changed = from.clone();
            changed.swap(one, other);
            changed
        })
        .collect();
    let own = from[one];
    let replaced = runs.iter().filter(move |run| **run != own).map(move |&run| {
        let mut changed = from.clone();
        changed[one] = run;
        changed
    });
    exchanges.into_iter().chain(replaced)
}

fn distinct(runs: &[Run]) -> usize {
    (0..runs.len()).filter(|&one| !runs[..one].contains(&runs[one])).count()
}

impl Partitioner for OverlapAnnealing {
    fn partition(&mut self, input: &Input<'_>, out: &mut Partition) -> Result<(), PartitionError> {
        input.check()?;
        let runs = if input.curves.is_empty() { Vec::new() } else { self.answer(input) };
        let mut masks: Vec<u64> = Vec::new();
        out.cluster.clear();
        for run in runs {
            let place = masks.iter().position(|&one| one == run.mask()).unwrap_or_else(|| {
                masks.push(run.mask());
                masks.len() - 1
            });
            out.cluster.push(place);
        }
        out.masks = masks;
        out.caps.clear();
        Ok(())
    }

    fn reason(&self, curve: &WaysCurve, ways: u32) -> String {
        format!("{:.2} x slowdown alone there", curve.at(ways).slowdown)
    }
}

#[cfg(test)]
mod tests;
