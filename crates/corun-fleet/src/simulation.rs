//! A cluster over weeks: programs come, are placed, slow each other down, and go.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Instant;

use corun_app::{Cancel, Error, Result, find_machine, open_library, round};
use corun_model::ModelOptions;
use corun_profile::Profile;
use rayon::prelude::*;
use serde::Serialize;

use crate::arrivals::{Arrival, ArrivalSettings, SIZES, arrivals};
use crate::bound::Bounds;
use crate::description::NodeGroup;
use crate::fleet::{Fleet, Ground, Hold};
use crate::kind::{NodeKind, Prediction};
use crate::node::PodId;
use crate::objective::Objective;
use crate::repair::repair;
use crate::schedulers::{Scheduler, SchedulerName};
use crate::workload::Workload;

/// Moments at which the bound is computed.
const BOUND_MOMENTS: usize = 6;
/// Slowdowns are counted by steps of this.
const SLOWDOWN_STEP: f64 = 0.001;
/// Slowdowns from here on count as this.
const HIGHEST_SLOWDOWN: f64 = 30.0;
/// Digits after the point in documents.
const DIGITS: i32 = 6;
/// A fleet for the bound on slowdown has at most so many times the nodes of the simulated one.
const MOST_TIMES: usize = 4;

/// What is simulated.
#[derive(Debug, Clone)]
pub struct SimulationSettings {
    /// Groups of nodes.
    pub nodes: Vec<NodeGroup>,
    /// Arrivals, those at the start included.
    pub arrivals: usize,
    /// Share of the CPUs that is taken in the mean.
    pub utilisation: f64,
    /// How far the rate of arrivals rises above its mean in a day, as a share of it.
    pub daily_depth: f64,
    /// Hours between two repairs.
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
    /// No plan of who ran loses less work: mean over moments of the simulation.
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
    /// Share of the work of all CPUs in use that was lost to interference, moves included.
    pub lost_work: f64,
    /// How much less than under `least-allocated`, as a share of that; none without it.
    pub saved: Option<f64>,
    /// Mean slowdown of the threads, over the time.
    pub mean_slowdown: f64,
    /// The slowdown that threads exceed for 1 % of their time.
    pub slowdown_p99: f64,
    /// Share of the threads' time in which they were slower than the bound on slowdown.
    pub above_bound: f64,
    /// Nodes needed for no program slower than the bound, for the programs of the busiest moment; none
    /// where four times the fleet is too few.
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
}

impl Simulation {
    /// Looks up machines and programs and draws the arrivals.
    ///
    /// # Errors
    /// An unknown machine, a library without programs, or a figure that cannot be.
    pub fn new(
        settings: SimulationSettings,
        profiles: Option<&std::path::Path>,
        options: ModelOptions,
    ) -> Result<Self> {
        let library = open_library(profiles)?;
        let profiles: Vec<Profile> = library.iter().cloned().collect();
        if profiles.is_empty() {
            return Err(Error::input("the library is empty: expected at least one program"));
        }
        let mut kinds = Vec::new();
        for group in &settings.nodes {
            let memory_mib = group.memory_gib.map(|gib| (gib * 1024.0) as u64);
            let machine = find_machine(&group.machine)?;
            kinds.push(NodeKind::new(machine, &profiles, group.seats, memory_mib, options)?);
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
        Ok(Self { settings, ground: Arc::new(ground), nodes, arrivals })
    }

    /// Runs every scheduler over the same arrivals.
    ///
    /// # Errors
    /// The caller wants to stop, or a machine for which there can be no bound.
    pub fn run(&self, cancel: &Cancel) -> Result<SimulationDocument> {
        let runs: Result<Vec<SchedulerFigures>> = self
            .settings
            .schedulers
            .par_iter()
            .map(|&name| Run::new(self, name).finish(cancel))
            .collect();
        let mut figures = runs?;
        let least = figures.iter().find(|one| one.scheduler == "least-allocated");
        let least = least.map(|one| one.lost_work).filter(|&lost| lost > 0.0);
        for one in &mut figures {
            one.saved = least.map(|least| round(1.0 - one.lost_work / least, DIGITS));
        }
        let hours = self.end_h();
        let cpus: u32 = self.nodes.iter().map(|node| self.ground.kinds[node.1].cpus()).sum();
        let moment = |part: usize| hours * (part as f64 + 0.5) / BOUND_MOMENTS as f64;
        let moments: Vec<Vec<PodId>> =
            (0..BOUND_MOMENTS).map(|part| self.running_at(moment(part))).collect();
        let threads = |pods: &Vec<PodId>| pods.iter().map(|&pod| self.cpus(pod)).sum::<u32>();
        let busiest = moments.iter().max_by_key(|pods| threads(pods)).cloned().unwrap_or_default();
        let tested: Vec<PodId> =
            busiest.iter().copied().filter(|&pod| self.keeps_bound_alone(pod)).collect();
        let needed: Result<Vec<Option<usize>>> = self
            .settings
            .schedulers
            .par_iter()
            .map(|&name| self.machines_needed(name, &tested, cancel))
            .collect();
        for (one, needed) in figures.iter_mut().zip(needed?) {
            one.machines_needed = needed;
        }
        let (lost_work_bound, machines_bound) = self.bounds(&moments, &tested)?;
        Ok(SimulationDocument {
            nodes: self.nodes.len(),
            cpus,
            arrivals: self.arrivals.len(),
            hours: round(hours, 3),
            utilisation: round(self.utilisation(cpus), DIGITS),
            seed: self.settings.seed,
            programs: self.ground.programs.len(),
            slowdown_bound: self.settings.slowdown_bound,
            lost_work_bound: lost_work_bound.map(|bound| round(bound, DIGITS)),
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

    /// Does a program keep the bound on slowdown alone on an empty node of each kind, however it is held?
    fn keeps_bound_alone(&self, pod: PodId) -> bool {
        let nodes = (0..self.ground.kinds.len()).map(|kind| (kind.to_string(), kind)).collect();
        let fleet = Fleet::new(self.ground.clone(), nodes);
        let workload = self.workload(pod);
        let program = self.ground.workloads[workload].program;
        let mut prediction = Prediction::default();
        (0..fleet.nodes.len()).all(|node| {
            [Hold::OnLlc, Hold::AsLinux].into_iter().all(|hold| {
                let fits = fleet.nodes[node].obstacle(workload, &self.ground.workloads).is_none();
                let cpus = fleet.cpus_on(node, workload, hold);
                let alone = fleet.cost_on((node, cpus), program, &mut prediction);
                fits && alone.worst <= self.settings.slowdown_bound
            })
        })
    }

    /// The fewest nodes, of the fleet's mix, on which a scheduler places these programs one by one and none
    /// of them is slower than the bound: by halving.
    fn machines_needed(
        &self,
        name: SchedulerName,
        pods: &[PodId],
        cancel: &Cancel,
    ) -> Result<Option<usize>> {
        let most = mixed(&self.settings.nodes, MOST_TIMES);
        let corun = matches!(name, SchedulerName::Corun | SchedulerName::CorunRepair);
        if corun {
            return Ok(self.packed(most, pods));
        }
        let (mut too_few, mut enough) = (0, most.len());
        if !self.all_keep(name, most.clone(), pods) {
            return Ok(None);
        }
        // To the nearest half percent.
        while enough - too_few > 1 + enough / 200 {
            stop_if_asked(cancel)?;
            let middle = (too_few + enough) / 2;
            if self.all_keep(name, most[..middle].to_vec(), pods) {
                enough = middle;
            } else {
                too_few = middle;
            }
        }
        Ok(Some(enough))
    }

    /// Does a scheduler place all programs on these nodes so that all keep the bound?
    fn all_keep(&self, name: SchedulerName, nodes: Vec<(String, usize)>, pods: &[PodId]) -> bool {
        let mut fleet = Fleet::new(self.ground.clone(), nodes);
        let mut scheduler = Scheduler::new(name, &fleet, self.settings.seed);
        let mut prediction = Prediction::default();
        let predicts = name == SchedulerName::CorunNode;
        for &pod in pods {
            let workload = self.workload(pod);
            let Some(place) = scheduler.choose(&fleet, workload, &mut prediction) else {
                return false;
            };
            if predicts {
                fleet.insert(pod, workload, place, &mut prediction);
            } else {
                fleet.insert_unpredicted(pod, workload, place);
            }
        }
        (0..fleet.nodes.len()).all(|node| {
            fleet.predict(node, &mut prediction);
            fleet.nodes[node].cost().worst <= self.settings.slowdown_bound
        })
    }

    /// Nodes that these programs take when each goes to the fullest node where all keep the bound.
    fn packed(&self, nodes: Vec<(String, usize)>, pods: &[PodId]) -> Option<usize> {
        let ground = self.ground.for_objective(Objective::Machines);
        let mut fleet = Fleet::new(Arc::new(ground), nodes);
        let mut prediction = Prediction::default();
        for &pod in pods {
            let workload = self.workload(pod);
            let place = fleet.best_place(workload, &mut prediction).ok()?;
            fleet.insert(pod, workload, (place.node, place.cpus), &mut prediction);
        }
        Some(fleet.nodes_used())
    }

    /// The bound on lost work, over the moments, and on the machines needed.
    fn bounds(
        &self,
        moments: &[Vec<PodId>],
        tested: &[PodId],
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
            let one = lost.bound(&asked(pods))?;
            sum = sum.zip(one).map(|(sum, one)| sum + one.value);
        }
        let mean = sum.map(|sum| sum / moments.len() as f64);
        let most: Vec<usize> = counts.iter().map(|count| count * MOST_TIMES).collect();
        let ground = Arc::new(self.ground.for_objective(Objective::Machines));
        let machines = Bounds::new(ground, &most, &present)?.bound(&asked(tested))?;
        Ok((mean, machines.map(|bound| bound.value)))
    }
}

fn stop_if_asked(cancel: &Cancel) -> Result {
    if cancel.flag().load(std::sync::atomic::Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    Ok(())
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

/// A scheduler's run over all arrivals.
struct Run<'a> {
    simulation: &'a Simulation,
    fleet: Fleet,
    scheduler: Scheduler,
    prediction: Prediction,
    /// Departures: moments in order of their bits, as none is negative.
    leaving: BinaryHeap<Reverse<(u64, PodId)>>,
    now_h: f64,
    /// When each node's programs were last counted.
    counted_h: Vec<f64>,
    /// Hours of threads by step of slowdown.
    histogram: Vec<f64>,
    lost_h: f64,
    slowdown_h: f64,
    moved_h: f64,
    rejected: usize,
    moves: usize,
    decisions: usize,
    deciding_s: f64,
}

impl<'a> Run<'a> {
    fn new(simulation: &'a Simulation, name: SchedulerName) -> Self {
        let fleet = Fleet::new(simulation.ground.clone(), simulation.nodes.clone());
        let scheduler = Scheduler::new(name, &fleet, simulation.settings.seed);
        Self {
            simulation,
            counted_h: vec![0.0; fleet.nodes.len()],
            fleet,
            scheduler,
            prediction: Prediction::default(),
            leaving: BinaryHeap::new(),
            now_h: 0.0,
            histogram: vec![0.0; ((HIGHEST_SLOWDOWN - 1.0) / SLOWDOWN_STEP) as usize + 2],
            lost_h: 0.0,
            slowdown_h: 0.0,
            moved_h: 0.0,
            rejected: 0,
            moves: 0,
            decisions: 0,
            deciding_s: 0.0,
        }
    }

    fn finish(mut self, cancel: &Cancel) -> Result<SchedulerFigures> {
        let simulation = self.simulation;
        let mut repaired_h = 0.0;
        for (pod, arrival) in simulation.arrivals.iter().enumerate() {
            if pod % 1024 == 0 {
                stop_if_asked(cancel)?;
            }
            let repairs = self.scheduler.name == SchedulerName::CorunRepair;
            while repairs && repaired_h + simulation.settings.repair_h <= arrival.at_h {
                repaired_h += simulation.settings.repair_h;
                self.leave_until(repaired_h);
                self.now_h = repaired_h;
                self.repair();
            }
            self.leave_until(arrival.at_h);
            self.now_h = arrival.at_h;
            self.arrive(pod, arrival);
        }
        self.leave_until(simulation.end_h());
        self.now_h = simulation.end_h();
        for node in 0..self.fleet.nodes.len() {
            self.count(node);
        }
        Ok(self.figures())
    }

    fn leave_until(&mut self, at_h: f64) {
        while let Some(&Reverse((bits, pod))) = self.leaving.peek() {
            let leaves_h = f64::from_bits(bits);
            if leaves_h > at_h {
                return;
            }
            self.leaving.pop();
            self.now_h = leaves_h;
            let Some(node) = self.fleet.node_of(pod) else { continue };
            self.count(node);
            self.fleet.remove(pod, &mut self.prediction);
        }
    }

    fn arrive(&mut self, pod: PodId, arrival: &Arrival) {
        let workload = self.simulation.workload(pod);
        let started = Instant::now();
        let place = self.scheduler.choose(&self.fleet, workload, &mut self.prediction);
        self.deciding_s += started.elapsed().as_secs_f64();
        self.decisions += 1;
        let Some((node, cpus)) = place else {
            self.rejected += 1;
            return;
        };
        self.count(node);
        self.fleet.insert(pod, workload, (node, cpus), &mut self.prediction);
        self.leaving.push(Reverse((arrival.until_h.to_bits(), pod)));
        if let Some((moved, to)) = self.scheduler.react(&self.fleet, node) {
            self.count(node);
            self.count(to.0);
            let workload = self.simulation.workload(moved);
            self.fleet.remove(moved, &mut self.prediction);
            self.fleet.insert(moved, workload, to, &mut self.prediction);
            self.moved(moved);
        }
    }

    fn repair(&mut self) {
        // Moves change nodes that nobody can name beforehand.
        for node in 0..self.fleet.nodes.len() {
            self.count(node);
        }
        let settings = &self.simulation.settings;
        // A move must save more until the next repair than it costs.
        let cost = settings.move_s / 3600.0 / settings.repair_h;
        let started = Instant::now();
        let moves = repair(&mut self.fleet, cost, usize::MAX, &mut self.prediction);
        self.deciding_s += started.elapsed().as_secs_f64();
        for one in &moves {
            self.moved(one.pod);
        }
    }

    fn moved(&mut self, pod: PodId) {
        self.moves += 1;
        let hours = self.simulation.settings.move_s / 3600.0;
        self.moved_h += hours * f64::from(self.simulation.cpus(pod));
    }

    /// Counts the time of a node's threads since it was last done.
    fn count(&mut self, node: usize) {
        let hours = self.now_h - std::mem::replace(&mut self.counted_h[node], self.now_h);
        if hours <= 0.0 {
            return;
        }
        let at = &self.fleet.nodes[node];
        self.lost_h += at.cost().sum * hours;
        for one in &at.residents {
            let threads = one.cpus.len() as f64 * hours;
            self.slowdown_h += threads * one.slowdown;
            let step = (one.slowdown.min(HIGHEST_SLOWDOWN) - 1.0).max(0.0) / SLOWDOWN_STEP;
            self.histogram[step.round() as usize] += threads;
        }
    }

    fn figures(self) -> SchedulerFigures {
        let all: f64 = self.histogram.iter().sum();
        let exceeded = |share: f64| {
            let mut left = all * share;
            let found = self.histogram.iter().rposition(|&hours| {
                left -= hours;
                left < 0.0
            });
            1.0 + found.unwrap_or(0) as f64 * SLOWDOWN_STEP
        };
        let bound = (self.simulation.settings.slowdown_bound - 1.0) / SLOWDOWN_STEP;
        let above: f64 = self.histogram[bound.round() as usize + 1..].iter().sum();
        let share = |hours: f64| round(hours / all.max(1e-12), DIGITS);
        SchedulerFigures {
            scheduler: self.scheduler.name.name(),
            lost_work: share(self.lost_h + self.moved_h),
            saved: None,
            mean_slowdown: share(self.slowdown_h),
            slowdown_p99: round(exceeded(0.01), DIGITS),
            above_bound: share(above),
            machines_needed: None,
            rejected: self.rejected,
            moves: self.moves,
            decisions_per_s: self.decisions as f64 / self.deciding_s.max(1e-9),
        }
    }
}
