//! The ways of each LLC: clusters of programs, and how many ways each has.
//!
//! The search starts from the divisions that partitioners find in the programs' curves (`fair-clusters`, `lfoc`,
//! `kpart` by misses per cycle, `ucp-slowdown`) and from the present one, goes on from each by small steps (a way more for one
//! cluster and less for another, a program to another cluster, two clusters to one, a program to a cluster of its own), and takes
//! what the model predicts to be best.

use std::collections::{BTreeMap, BTreeSet};

use corun_machine::Machine;

use super::learned::World;
use super::search::{Predicted, Search, Situation};
use crate::partitioning::members::peak_bytes_per_s;
use crate::partitioning::{Input, Partition, mask};
use crate::{BuildOptions, ProcessId, WaysCurve, build_partitioner, ways_curve};

/// Partitioners whose divisions the search starts from, with a parameter each where the default is not meant.
const STARTS: [(&str, &[(&str, f64)]); 4] = [
    ("fair-clusters", &[]),
    ("lfoc", &[]),
    ("kpart", &[("per-cycle", 1.0)]),
    ("ucp-slowdown", &[]),
];
/// Machines that a decision asks the model about for ways, all LLCs together: a bound on its time.
const MOST_QUESTIONS: usize = 600;
/// A step has to lower the objective by this share.
const LEAST_STEP: f64 = 1e-4;

/// Ways of an LLC that can be divided: how many, and the fewest of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Divisible {
    pub(super) ways: u32,
    pub(super) least: u32,
}

impl Divisible {
    /// None where the hardware is not known to divide it, or it has no ways for two parts, or more than masks can
    /// name.
    pub(super) fn of(machine: &Machine, llc: usize) -> Option<Self> {
        let cache = machine.llcs()[llc].cache.filter(|cache| cache.can_be_partitioned)?;
        let (ways, least) = (cache.ways?, cache.min_partition_ways.max(1));
        (ways <= 64 && ways >= 2 * least).then_some(Self { ways, least })
    }

    /// All ways.
    pub(super) fn all(self) -> u64 {
        mask(0, self.ways)
    }
}

/// How the ways of one LLC are divided among programs.
#[derive(Debug, Clone, PartialEq)]
struct Division {
    /// By program: its cluster.
    cluster: Vec<usize>,
    /// By cluster.
    ways: Vec<u32>,
}

/// The programs of an LLC: the threads of each, by their places.
struct Programs {
    llc: Divisible,
    threads: Vec<Vec<usize>>,
}

impl Search<'_> {
    /// A situation with the same placement whose ways the world finds best, and its outcomes: the given one where
    /// no division is better. Nobody may exceed its bound. `most`: questions, at most.
    pub(super) fn divided(&mut self, now: Predicted, world: World, bounds: &[f64]) -> Predicted {
        let llcs = programs_by_llc(self.model.machine(), self.threads_by_process(&now.situation));
        let most = MOST_QUESTIONS / llcs.len().max(1);
        let mut at = now;
        for programs in &llcs {
            let until = self.questions + most;
            at = self.divided_llc(programs, at, (world, until), bounds);
        }
        at
    }

    fn threads_by_process(&self, at: &Situation) -> BTreeMap<(usize, ProcessId), Vec<usize>> {
        let mut of: BTreeMap<(usize, ProcessId), Vec<usize>> = BTreeMap::new();
        for (index, thread) in self.threads.iter().enumerate() {
            let llc = self.model.machine().cpus()[at.cpus[index]].llc;
            of.entry((llc, thread.process)).or_default().push(index);
        }
        of
    }

    fn divided_llc(
        &mut self,
        programs: &Programs,
        now: Predicted,
        (world, until): (World, usize),
        bounds: &[f64],
    ) -> Predicted {
        let mut starts: Vec<(Division, Predicted)> = Division::of(programs, &now.situation)
            .map(|one| (one, now.clone()))
            .into_iter()
            .collect();
        let mut asked = BTreeSet::from([now.situation.masks.clone()]);
        for start in self.starts(programs, &now.situation, world) {
            let known = (&mut asked, &now, f64::INFINITY);
            if let Some(found) = self.tried(programs, &start, known, (world, bounds)) {
                starts.push((start, found));
            }
        }
        // The best start first: questions may run out.
        let value = |at: &Predicted, search: &Self| search.value(at);
        starts.sort_by(|a, b| value(&a.1, self).total_cmp(&value(&b.1, self)));
        let mut best = now;
        for start in starts {
            let end = self.climbed(programs, start, &mut asked, (world, until), bounds);
            if value(&end, self) < value(&best, self) * (1.0 - LEAST_STEP) {
                best = end;
            }
        }
        best
    }

    /// Where small steps lead from a division. Each that is better is taken at once; the climb ends when none of a round was.
    /// What another climb looked at is passed over: that one went on to what is no worse.
    fn climbed(
        &mut self,
        programs: &Programs,
        (mut division, mut at): (Division, Predicted),
        asked: &mut BTreeSet<Vec<u64>>,
        (world, until): (World, usize),
        bounds: &[f64],
    ) -> Predicted {
        let mut again = true;
        while again {
            again = false;
            for step in division.steps(programs.llc) {
                if self.questions >= until {
                    return at;
                }
                let Some(next) = division.after(step, programs.llc.least) else { continue };
                let value = self.value(&at);
                let known = (&mut *asked, &at, value);
                if let Some(better) = self.tried(programs, &next, known, (world, bounds)) {
                    (division, at, again) = (next, better, true);
                    break;
                }
            }
        }
        at
    }

    /// The situation with this division, where it was not asked about before, is better than a value and exceeds no bound.
    fn tried(
        &mut self,
        programs: &Programs,
        division: &Division,
        (asked, at, value): (&mut BTreeSet<Vec<u64>>, &Predicted, f64),
        (world, bounds): (World, &[f64]),
    ) -> Option<Predicted> {
        let mut situation = at.situation.clone();
        division.write(programs, &mut situation);
        if !asked.insert(situation.masks.clone()) {
            return None;
        }
        let reached = self.value_within(world, &situation, bounds)?;
        (reached < value * (1.0 - LEAST_STEP)).then(|| self.predicted_again(world, situation))
    }

    /// The divisions that the search starts from.
    fn starts(&self, programs: &Programs, at: &Situation, world: World) -> Vec<Division> {
        let llc = programs.llc;
        let curve = |threads: &Vec<usize>| {
            let first = threads[0];
            ways_curve(self.model, self.threads[first].worlds.of(world), at.cpus[first])
        };
        let curves: Option<Vec<WaysCurve>> = programs.threads.iter().map(curve).collect();
        let Some(curves) = curves else { return Vec::new() };
        let curves: Vec<&WaysCurve> = curves.iter().collect();
        let machine = self.model.machine();
        let first = programs.threads[0][0];
        let input = Input {
            curves: &curves,
            ways: llc.ways,
            least_ways: llc.least,
            peak_bytes_per_s: peak_bytes_per_s(machine, machine.cpus()[at.cpus[first]].llc),
        };
        let mut starts = vec![Division::whole(programs)];
        for (name, parameters) in STARTS {
            let mut options = BuildOptions::default();
            options.parameters.extend(parameters.iter().map(|&(name, to)| (name.to_owned(), to)));
            if name == "fair-clusters"
                && let Some(target) = self.objective.target()
            {
                options.parameters.insert("target-slowdown".to_owned(), target);
            }
            let mut out = Partition::default();
            let built = build_partitioner(name, &options).ok();
            let divides = built.is_some_and(|mut one| one.partition(&input, &mut out).is_ok());
            if divides {
                let ways = out.masks.iter().map(|mask| mask.count_ones()).collect();
                starts.push(Division { cluster: out.cluster, ways });
            }
        }
        starts
    }
}

/// The LLCs that can be divided and on which there are programs to divide them among.
fn programs_by_llc(
    machine: &Machine,
    threads: BTreeMap<(usize, ProcessId), Vec<usize>>,
) -> Vec<Programs> {
    let mut by_llc: BTreeMap<usize, Programs> = BTreeMap::new();
    for ((llc, _), threads) in threads {
        let Some(divisible) = Divisible::of(machine, llc) else { continue };
        let empty = || Programs { llc: divisible, threads: Vec::new() };
        by_llc.entry(llc).or_insert_with(empty).threads.push(threads);
    }
    by_llc.into_values().filter(|programs| programs.threads.len() > 1).collect()
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// A way of the one cluster goes to the other.
    Way(usize, usize),
    /// A program goes to a cluster.
    Program(usize, usize),
    /// Two clusters become one.
    Merge(usize, usize),
    /// A program gets a cluster of its own, of so many ways of its former one.
    Split(usize, u32),
}

impl Division {
    /// All programs together.
    fn whole(programs: &Programs) -> Self {
        Self { cluster: vec![0; programs.threads.len()], ways: vec![programs.llc.ways] }
    }

    /// The present one; none where programs' masks do not show it.
    fn of(programs: &Programs, at: &Situation) -> Option<Self> {
        let masks: Vec<u64> = programs.threads.iter().map(|threads| at.masks[threads[0]]).collect();
        if masks.contains(&0) {
            return Some(Self::whole(programs));
        }
        let mut distinct: Vec<u64> = Vec::new();
        let mut cluster = Vec::new();
        for &mask in &masks {
            let place = distinct.iter().position(|&one| one == mask).unwrap_or_else(|| {
                distinct.push(mask);
                distinct.len() - 1
            });
            cluster.push(place);
        }
        let mut ways: Vec<u32> = distinct.iter().map(|mask| mask.count_ones()).collect();
        // Ways of programs that ended are nobody's.
        let left = programs.llc.ways.checked_sub(ways.iter().sum())?;
        *ways.first_mut()? += left;
        Some(Self { cluster, ways })
    }

    /// Into the masks of a situation: side by side in the order of each cluster's first program.
    fn write(&self, programs: &Programs, at: &mut Situation) {
        let partition = Partition::of_clusters(&self.cluster, &self.ways);
        for (program, threads) in programs.threads.iter().enumerate() {
            let mask = partition.mask(program);
            let mask = if mask == programs.llc.all() { 0 } else { mask };
            threads.iter().for_each(|&thread| at.masks[thread] = mask);
        }
    }

    fn size(&self, cluster: usize) -> usize {
        self.cluster.iter().filter(|&&one| one == cluster).count()
    }

    fn steps(&self, llc: Divisible) -> Vec<Step> {
        let clusters = self.ways.len();
        let mut steps = Vec::new();
        for from in (0..clusters).filter(|&one| self.ways[one] > llc.least) {
            steps.extend((0..clusters).filter(|&to| to != from).map(|to| Step::Way(from, to)));
        }
        for (program, &own) in self.cluster.iter().enumerate() {
            if self.size(own) > 1 {
                let most = self.ways[own].saturating_sub(llc.least);
                let mut parts = vec![llc.least, self.ways[own] / 2];
                parts.dedup();
                let fits = |ways: &u32| (llc.least..=most).contains(ways);
                steps.extend(parts.into_iter().filter(fits).map(|ways| Step::Split(program, ways)));
            }
            let others = (0..clusters).filter(|&to| to != own);
            steps.extend(others.map(|to| Step::Program(program, to)));
        }
        for one in 0..clusters {
            steps.extend((one + 1..clusters).map(|other| Step::Merge(one, other)));
        }
        steps
    }

    /// None where a step leads to parts that cannot be.
    fn after(&self, step: Step, least: u32) -> Option<Self> {
        let mut next = self.clone();
        match step {
            Step::Way(from, to) => {
                next.ways[from] -= 1;
                next.ways[to] += 1;
            }
            Step::Program(program, to) => {
                let from = next.cluster[program];
                next.cluster[program] = to;
                if next.size(from) == 0 {
                    next.ways[to] += next.ways[from];
                    next.remove(from);
                }
            }
            Step::Merge(one, other) => {
                next.ways[one] += next.ways[other];
                next.cluster.iter_mut().filter(|at| **at == other).for_each(|at| *at = one);
                next.remove(other);
            }
            Step::Split(program, ways) => {
                let from = next.cluster[program];
                next.ways[from] -= ways;
                next.cluster[program] = next.ways.len();
                next.ways.push(ways);
            }
        }
        next.ways.iter().all(|&ways| ways >= least).then_some(next)
    }

    /// Forgets a cluster without programs.
    fn remove(&mut self, cluster: usize) {
        self.ways.remove(cluster);
        self.cluster.iter_mut().filter(|at| **at > cluster).for_each(|at| *at -= 1);
    }
}
