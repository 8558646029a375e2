//! One scheduler's run over all arrivals.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use corun_app::{Cancel, Result, round};

use super::{DIGITS, SchedulerFigures, Simulation};
use crate::arrivals::Arrival;
use crate::fleet::Fleet;
use crate::kind::Prediction;
use crate::node::PodId;
use crate::repair::repair;
use crate::schedulers::{Scheduler, SchedulerName};

/// Chains of moves that each repair tries, at most: between two of the many repairs little changes.
const REPAIR_TRIES: usize = 1_000;
/// Slowdowns are counted by steps of this.
const SLOWDOWN_STEP: f64 = 0.001;
/// Slowdowns from here on count as this.
const HIGHEST_SLOWDOWN: f64 = 30.0;

/// A scheduler's run over all arrivals.
pub(super) struct Run<'a> {
    simulation: &'a Simulation,
    fleet: Fleet,
    scheduler: Scheduler,
    prediction: Prediction,
    /// Departures: moments in order of their bits, as none is negative.
    leaving: BinaryHeap<Reverse<(u64, PodId)>>,
    now_h: f64,
    /// When the last repair was.
    repaired_h: f64,
    /// Has nothing come, gone or been moved since the last repair began?
    settled: bool,
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
    pub(super) fn new(simulation: &'a Simulation, name: SchedulerName) -> Self {
        let fleet = Fleet::new(simulation.ground.clone(), simulation.nodes.clone());
        let scheduler =
            Scheduler::new(name, &fleet, simulation.settings.seed, simulation.microbenchmarks);
        Self {
            simulation,
            counted_h: vec![0.0; fleet.nodes.len()],
            fleet,
            scheduler,
            prediction: Prediction::default(),
            leaving: BinaryHeap::new(),
            now_h: 0.0,
            repaired_h: 0.0,
            settled: false,
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

    pub(super) fn finish(mut self, cancel: &Cancel) -> Result<SchedulerFigures> {
        let simulation = self.simulation;
        for (pod, arrival) in simulation.arrivals.iter().enumerate() {
            if pod % 1024 == 0 {
                cancel.check()?;
            }
            if self.scheduler.name == SchedulerName::CorunRepair {
                self.repair_until(arrival.at_h, cancel)?;
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
            self.settled = false;
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
        self.settled = false;
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

    /// All repairs up to a moment.
    fn repair_until(&mut self, at_h: f64, cancel: &Cancel) -> Result {
        let every_h = self.simulation.settings.repair_h;
        while self.repaired_h + every_h <= at_h {
            cancel.check()?;
            // Where nothing came, went or was moved since a repair, the next finds nothing to move either.
            if self.settled {
                let leaves_h = self.leaving.peek().map_or(at_h, |one| f64::from_bits(one.0.0));
                let idle = ((leaves_h.min(at_h) - self.repaired_h) / every_h).floor() - 1.0;
                self.repaired_h += idle.max(0.0) * every_h;
            }
            self.repaired_h += every_h;
            self.leave_until(self.repaired_h);
            self.now_h = self.repaired_h;
            self.repair();
        }
        Ok(())
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
        let moves = repair(&mut self.fleet, cost, REPAIR_TRIES, &mut self.prediction).moves;
        self.deciding_s += started.elapsed().as_secs_f64();
        self.settled = moves.is_empty();
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
        let ran = all > 0.0;
        let share = |hours: f64| ran.then(|| round(hours / all, DIGITS));
        SchedulerFigures {
            scheduler: self.scheduler.name.name(),
            lost_work: share(self.lost_h + self.moved_h),
            saved: None,
            mean_slowdown: share(self.slowdown_h),
            slowdown_p99: ran.then(|| round(exceeded(0.01), DIGITS)),
            above_bound: share(above),
            machines_needed: None,
            rejected: self.rejected,
            moves: self.moves,
            decisions_per_s: self.decisions as f64 / self.deciding_s.max(1e-9),
        }
    }
}
