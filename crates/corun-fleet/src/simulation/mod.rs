//! A cluster over weeks: programs come, are placed, slow each other down, and go.

mod machines;
mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use corun_app::{Cancel, Error, Result, find_machine, open_library, round};
use corun_model::ModelOptions;
use corun_profile::{Library, Profile};
use rayon::prelude::*;
use serde::Serialize;

use crate::arrivals::{Arrival, ArrivalSettings, SIZES, arrivals};
use crate::bound::{Bounds, round_down};
use crate::description::NodeGroup;
use crate::fleet::Ground;
use crate::kind::NodeKind;
use crate::node::PodId;
use crate::objective::Objective;
use crate::schedulers::{MICROBENCHMARKS, SchedulerName};
use crate::workload::Workload;

use machines::{MOST_TIMES, Measure};
use run::Run;

/// Moments at which the bound on lost work is computed.
pub const BOUND_MOMENTS: usize = 6;
/// Digits after the point in documents.
const DIGITS: i32 = 6;
/// Shares of the CPUs that can be simulated as taken in the mean.
pub const UTILISATIONS: RangeInclusive<f64> = 0.001..=1.0;
/// Hours between two repairs that can be simulated.
pub const REPAIR_HOURS: RangeInclusive<f64> = 0.01..=1e6;

/// What is simulated.
#[derive(Debug, Clone)]
pub struct SimulationSettings {
    /// Groups of nodes.
    pub nodes: Vec<NodeGroup>,
    /// Arrivals, those at the start included.
    pub arrivals: usize,
    /// Share of the CPUs that is taken in the mean, one of [`UTILISATIONS`].
    pub utilisation: f64,
    /// How far the rate of arrivals rises above its mean in a day, as a share of it, 0 to 1.
    pub daily_depth: f64,
    /// Hours between two repairs, one of [`REPAIR_HOURS`].
    pub repair_h: f64,
    /// Seconds of a program's work that a move costs.
    pub move_s: f64,
    /// The slowdown that no program may exceed where the machines needed are counted.
    pub slowdown_bound: f64,
    /// Who decides, in turn.
    pub schedulers: Vec<SchedulerName>,
    /// The same seed gives the same figures.
    pub seed: u64,
}

impl SimulationSettings {
    fn check(&self) -> Result {
        for (name, found, range) in [
            ("utilisation", self.utilisation, UTILISATIONS),
            ("daily_depth", self.daily_depth, 0.0..=1.0),
            ("repair_h", self.repair_h, REPAIR_HOURS),
        ] {
            if !range.contains(&found) {
                let (low, high) = (range.start(), range.end());
                let why = format!("{name}: found {found}, expected a number from {low} to {high}");
                return Err(Error::input(why));
            }
        }
        Ok(())
    }
}

/// The JSON document of a simulation. docs/json.md is its reference.
#[derive(Debug, Serialize)]
pub struct SimulationDocument {
    /// Nodes.
    pub nodes: usize,
    /// Their CPUs.
    pub cpus: u32,
    /// Arrivals.
    pub arrivals: usize,
    /// Hours from the start to the last arrival.
    pub hours: f64,
    /// Share of the CPUs that programs took, over the time.
    pub utilisation: f64,
    /// Seed.
    pub seed: u64,
    /// Programs of the library that the arrivals are drawn from.
    pub programs: usize,
    /// The bound on slowdown for the machines needed.
    pub slowdown_bound: f64,
    /// Mean over [`BOUND_MOMENTS`] moments of the share of work that every plan loses of all who would run then, were
    /// nobody rejected; rounded down.
    pub lost_work_bound: Option<f64>,
    /// The fewest nodes that could keep the bound on slowdown for the programs of the busiest moment.
    pub machines_bound: Option<f64>,
    /// Programs of the busiest moment.
    pub busiest_programs: usize,
    /// Of these left out of the machines needed: alone on an empty node they are slower than the bound.
    pub busiest_left_out: usize,
    /// A line for each scheduler.
    pub schedulers: Vec<SchedulerFigures>,
}

/// What came of a scheduler's decisions.
#[derive(Debug, Clone, Serialize)]
pub struct SchedulerFigures {
    /// Its name.
    pub scheduler: &'static str,
    /// Share of the work of all CPUs in use that was lost to interference, moves included; none where nothing ran for any time,
    /// as is so of all figures by time.
    pub lost_work: Option<f64>,
    /// How much less than under `least-allocated`, as a share of that; none without it.
    pub saved: Option<f64>,
    /// Mean slowdown of the threads, over the time.
    pub mean_slowdown: Option<f64>,
    /// The slowdown that threads exceed for 1 % of their time.
    pub slowdown_p99: Option<f64>,
    /// Share of the threads' time in which they were slower than the bound on slowdown.
    pub above_bound: Option<f64>,
    /// Nodes needed for no program slower than the bound, for the programs of the busiest moment; none
    /// where four times the fleet is too few. Of `corun` and `corun-repair` these are the nodes in use after
    /// packing, of all others the smallest fleet on which the scheduler's own choices keep the bound.
    pub machines_needed: Option<usize>,
    /// Programs that found no room.
    pub rejected: usize,
    /// Moves.
    pub moves: usize,
    /// Decisions a second, by the clock; not part of documents, whose bytes do not depend on a clock.
    #[serde(skip)]
    pub decisions_per_s: f64,
}

/// A simulation that is ready to run.
pub struct Simulation {
    settings: SimulationSettings,
    ground: Arc<Ground>,
    nodes: Vec<(String, usize)>,
    arrivals: Vec<Arrival>,
    /// As which of their programs the kinds of node have loaded [`MICROBENCHMARKS`].
    microbenchmarks: [usize; 2],
}

impl Simulation {
    /// Looks up machines and programs and draws the arrivals.
    ///
    /// # Errors
    /// An unknown machine, a library without programs, or a figure out of its range.
    pub fn new(
        settings: SimulationSettings,
        profiles: Option<&std::path::Path>,
        options: ModelOptions,
    ) -> Result<Self> {
        settings.check()?;
        let library = open_library(profiles)?;
        let profiles: Vec<Profile> = library.iter().cloned().collect();
        if profiles.is_empty() {
            return Err(Error::input("the library is empty: expected at least one program"));
        }
        let (loaded, microbenchmarks) = with_microbenchmarks(&profiles)?;
        let mut kinds = Vec::new();
        for group in &settings.nodes {
            let memory_mib = group.memory_gib.map(|gib| (gib * 1024.0) as u64);
            let machine = find_machine(&group.machine)?;
            kinds.push(NodeKind::new(machine, &loaded, group.seats, memory_mib, options)?);
        }
        let nodes = mixed(&settings.nodes, 1);
        let cpus: u32 = nodes.iter().map(|node| kinds[node.1].cpus()).sum();
        let drawn = ArrivalSettings {
            arrivals: settings.arrivals,
            cpus: f64::from(cpus),
            utilisation: settings.utilisation,
            daily_depth: settings.daily_depth,
            seed: settings.seed,
        };
        let arrivals = arrivals(&drawn, profiles.len());
        let workload = |index: usize| {
            let (program, size) = (index / SIZES.len(), index % SIZES.len());
            let name = format!("{}-{}", profiles[program].name, SIZES[size]);
            Workload { name, program, cpus: SIZES[size], ..Workload::default() }
        };
        let workloads = (0..profiles.len() * SIZES.len()).map(workload).collect();
        let names: Vec<String> = profiles.iter().map(|profile| profile.name.clone()).collect();
        let shares = vec![1.0; names.len()];
        let objective = Objective::LostWork;
        let bound = settings.slowdown_bound;
        let ground = Ground::new(kinds, names, workloads, &shares, objective, bound);
        Ok(Self { settings, ground: Arc::new(ground), nodes, arrivals, microbenchmarks })
    }

    /// Runs every scheduler over the same arrivals.
    ///
    /// # Errors
    /// The caller wants to stop, or a machine for which there can be no bound.
    pub fn run(&self, cancel: &Cancel) -> Result<SimulationDocument> {
        let moments = self.moments();
        let threads = |pods: &Vec<PodId>| pods.iter().map(|&pod| self.cpus(pod)).sum::<u32>();
        let busiest = moments.iter().max_by_key(|pods| threads(pods)).cloned().unwrap_or_default();
        let keep = self.keep_bound_alone();
        let tested: Vec<PodId> =
            busiest.iter().copied().filter(|&pod| keep[self.workload(pod)]).collect();
        let schedulers: BTreeSet<SchedulerName> =
            self.settings.schedulers.iter().copied().collect();
        let measures: BTreeSet<Measure> =
            schedulers.iter().map(|&name| Measure::of(name)).collect();
        // The last schedulers take longest: they begin first, each for itself, so that no CPU is idle for long at
        // the end.
        let longest_first: Vec<SchedulerName> = schedulers.into_iter().rev().collect();
        let run = |&name: &SchedulerName| Ok((name, Run::new(self, name).finish(cancel)?));
        let measure =
            |&measure: &Measure| Ok((measure, self.machines_needed(measure, &tested, cancel)?));
        let (runs, (needed, bounds)) = rayon::join(
            || {
                longest_first
                    .par_iter()
                    .with_max_len(1)
                    .map(run)
                    .collect::<Result<BTreeMap<_, _>>>()
            },
            || {
                rayon::join(
                    || measures.par_iter().map(measure).collect::<Result<BTreeMap<_, _>>>(),
                    || self.bounds(&moments, &tested, cancel),
                )
            },
        );
        let (runs, needed, (lost_work_bound, machines_bound)) = (runs?, needed?, bounds?);
        let least = runs.get(&SchedulerName::LeastAllocated);
        let least = least.and_then(|one| one.lost_work).filter(|&lost| lost > 0.0);
        let figures = |name: &SchedulerName| SchedulerFigures {
            saved: least
                .zip(runs[name].lost_work)
                .map(|(least, lost)| round(1.0 - lost / least, DIGITS)),
            machines_needed: needed[&Measure::of(*name)],
            ..runs[name].clone()
        };
        let figures = self.settings.schedulers.iter().map(figures).collect();
        let cpus: u32 = self.nodes.iter().map(|node| self.ground.kinds[node.1].cpus()).sum();
        Ok(SimulationDocument {
            nodes: self.nodes.len(),
            cpus,
            arrivals: self.arrivals.len(),
            hours: round(self.end_h(), 3),
            utilisation: round(self.utilisation(cpus), DIGITS),
            seed: self.settings.seed,
            programs: self.ground.programs.len(),
            slowdown_bound: self.settings.slowdown_bound,
            lost_work_bound: lost_work_bound.map(|bound| round_down(bound, DIGITS)),
            machines_bound,
            busiest_programs: busiest.len(),
            busiest_left_out: busiest.len() - tested.len(),
            schedulers: figures,
        })
    }

    fn end_h(&self) -> f64 {
        self.arrivals.last().map_or(0.0, |last| last.at_h)
    }

    fn workload(&self, pod: PodId) -> usize {
        let one = &self.arrivals[pod];
        one.program * SIZES.len() + one.size
    }

    fn cpus(&self, pod: PodId) -> u32 {
        SIZES[self.arrivals[pod].size]
    }

    /// Who would run at moments evenly over the simulation, were nobody rejected.
    fn moments(&self) -> Vec<Vec<PodId>> {
        let moment = |part: usize| self.end_h() * (part as f64 + 0.5) / BOUND_MOMENTS as f64;
        (0..BOUND_MOMENTS).map(|part| self.running_at(moment(part))).collect()
    }

    fn running_at(&self, at_h: f64) -> Vec<PodId> {
        let runs = |&pod: &PodId| {
            let one = &self.arrivals[pod];
            one.at_h <= at_h && at_h < one.until_h
        };
        (0..self.arrivals.len()).filter(runs).collect()
    }

    /// Share of the CPUs that is taken over the time, were nobody rejected.
    fn utilisation(&self, cpus: u32) -> f64 {
        let end = self.end_h();
        let hours =
            |one: &Arrival| (one.until_h.min(end) - one.at_h).max(0.0) * f64::from(SIZES[one.size]);
        let all: f64 = self.arrivals.iter().map(hours).sum();
        if end > 0.0 { all / end / f64::from(cpus) } else { 0.0 }
    }

    /// The bound on lost work, over the moments, and on the machines needed.
    fn bounds(
        &self,
        moments: &[Vec<PodId>],
        tested: &[PodId],
        cancel: &Cancel,
    ) -> Result<(Option<f64>, Option<f64>)> {
        let mut counts = vec![0; self.ground.kinds.len()];
        for node in &self.nodes {
            counts[node.1] += 1;
        }
        let present: Vec<usize> = (0..self.ground.programs.len()).collect();
        let asked = |pods: &[PodId]| {
            let mut asked: BTreeMap<(usize, u32), f64> = BTreeMap::new();
            for &pod in pods {
                *asked.entry((self.arrivals[pod].program, self.cpus(pod))).or_default() += 1.0;
            }
            let one = |((program, cpus), count)| (program, cpus, count);
            asked.into_iter().map(one).collect::<Vec<(usize, u32, f64)>>()
        };
        let lost = Bounds::new(self.ground.clone(), &counts, &present)?;
        // One after the other: each begins with the groups that decided those before.
        let mut sum = Some(0.0);
        for pods in moments {
            let one = lost.bound(&asked(pods), cancel)?;
            sum = sum.zip(one).map(|(sum, one)| sum + one.value);
        }
        let mean = sum.map(|sum| sum / moments.len() as f64);
        let most: Vec<usize> = counts.iter().map(|count| count * MOST_TIMES).collect();
        let ground = Arc::new(self.ground.for_objective(Objective::Machines));
        let machines = Bounds::new(ground, &most, &present)?.bound(&asked(tested), cancel)?;
        Ok((mean, machines.map(|bound| bound.value)))
    }
}

/// The profiles and, behind them, those microbenchmarks of the shipped library that they lack: a library of one's
/// own mostly does. With the place of each microbenchmark.
fn with_microbenchmarks(profiles: &[Profile]) -> Result<(Vec<Profile>, [usize; 2])> {
    let place = |name: &str| profiles.iter().position(|one| one.name == name);
    if let [Some(one), Some(other)] = MICROBENCHMARKS.map(place) {
        return Ok((profiles.to_vec(), [one, other]));
    }
    let shipped = Library::shipped()?;
    let mut all = profiles.to_vec();
    let mut places = [0; 2];
    for (found, name) in places.iter_mut().zip(MICROBENCHMARKS) {
        *found = place(name).unwrap_or(all.len());
        if *found == all.len() {
            all.push(shipped.get(name)?.clone());
        }
    }
    Ok((all, places))
}

/// Nodes by name and kind, so many times each group's count, evenly mixed: the first of them have the mix of
/// all, nearly.
fn mixed(groups: &[NodeGroup], times: usize) -> Vec<(String, usize)> {
    let mut all: Vec<(f64, usize, usize)> = Vec::new();
    for (kind, group) in groups.iter().enumerate() {
        let count = group.count as usize * times;
        all.extend((0..count).map(|one| ((one as f64 + 0.5) / count as f64, kind, one)));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all.into_iter().map(|(_, kind, one)| (format!("{kind}-{one}"), kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragons_microbenchmarks_are_there_whatever_the_library() {
        let shipped: Vec<Profile> = Library::shipped().unwrap().iter().cloned().collect();
        let (all, places) = with_microbenchmarks(&shipped).unwrap();
        assert_eq!(all.len(), shipped.len());
        assert_eq!(places.map(|at| all[at].name.as_str()), MICROBENCHMARKS);
        let own: Vec<Profile> = shipped
            .into_iter()
            .filter(|one| one.name == "xz" || one.name == MICROBENCHMARKS[1])
            .collect();
        let (all, places) = with_microbenchmarks(&own).unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!(places.map(|at| all[at].name.as_str()), MICROBENCHMARKS);
        assert_eq!(all[..2], own);
    }
}
