//! Turns on fast cores.
//!
//! On a machine of several core types some threads are on slow cores, whoever they are. Threads that take turns are slowed down
//! less on average than threads that stay: of two alike, which a slow core makes take three times as long, those that stay have
//! slowdowns of 1 and 3, and those that take turns 1.5 each, since it is speeds that add up over time. Each interval threads
//! therefore go where the sum of their speeds is largest, each weighed by what more speed is worth to the objective at the
//! thread's mean speed so far: the objective's derivative. With means over ever longer times that comes to the best of all
//! mixtures of placements (gradient scheduling: Stolyar, Operations Research 53(1), 2005). What counts are programs: of one of
//! several threads, the thread that had least.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use corun_machine::{CpuSet, Machine};
use corun_model::{LoadedProgram, Model};

use super::Corun;
use super::cost::Cost;
use super::learned::{MOST_PROGRAMS, Worlds};
use super::objective::Objective;
use super::planning::{LONGEST_HORIZON_S, apart};
use super::programs::{Programs, STEEP};
use super::search::{Predicted, Thread};
use crate::placement::spread::held_on;
use crate::{Action, Nanoseconds, Plan, ThreadId, ThreadView, View};

/// By which share of a thread's weighed speed each step of a search has to raise the sum of all: of programs that have had
/// nearly the same, none is moved for the rest.
const LEAST_TURN: f64 = 0.08;
/// Who hardly ran has had this share of its speed alone.
const LEAST_SPEED: f64 = 1e-3;
/// Moves between core types after which what was counted weighs as much as the prediction.
const MOVES_AS_SURE: f64 = 4.0;
/// Moves of which the mean is: of more, those of long ago fade.
const MOST_MOVES: f64 = 64.0;
/// The most by which one move says that a prediction is wrong: more is another phase of the program.
const MOST_OFF: f64 = 3.0;

/// Who was how fast. Speeds are shares of a program's speed alone on the fastest core type.
#[derive(Debug, Default)]
pub(super) struct Turns {
    means: BTreeMap<ThreadId, MeanSpeed>,
    /// Where each thread was put last, and when that was.
    pub(super) put: BTreeMap<ThreadId, Put>,
    since: Nanoseconds,
    /// The CPU (index) on which each thread was put last.
    seats: BTreeMap<ThreadId, usize>,
    /// What each thread did at the last look: its core type, and its instructions a second over its predicted speed.
    did: BTreeMap<ThreadId, (usize, f64)>,
    /// By program and core type.
    counted: BTreeMap<String, Vec<Counted>>,
}

/// A thread on a core.
#[derive(Debug, Clone, Copy)]
pub(super) struct Put {
    pub(super) core_type: usize,
    /// As the model predicts, and with what was counted on this core type before.
    pub(super) predicted: f64,
    pub(super) likely: f64,
}

/// A mean over time, in which what was so long ago as a decision ever looks ahead counts 1/e.
#[derive(Debug, Clone, Copy, Default)]
struct MeanSpeed {
    progress_s: f64,
    time_s: f64,
}

/// By how much a program is faster on a core type than predicted, relative to the fastest: the logarithm, a mean over its moves
/// from one to the other or back. What it did just before and after a move is of one phase.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    log_off: f64,
    moves: f64,
}

/// How much of the past is left after so long.
fn kept(time_s: f64) -> f64 {
    (-time_s / LONGEST_HORIZON_S).exp()
}

impl MeanSpeed {
    fn add(&mut self, speed: f64, time_s: f64) {
        self.progress_s = self.progress_s * kept(time_s) + speed * time_s;
        self.time_s = self.time_s * kept(time_s) + time_s;
    }

    fn value(self) -> Option<f64> {
        (self.time_s > 0.0).then(|| self.progress_s / self.time_s)
    }
}

impl Counted {
    fn add(&mut self, off: f64) {
        self.moves += 1.0;
        let most = MOST_OFF.ln();
        self.log_off += (off.ln().clamp(-most, most) - self.log_off) / self.moves.min(MOST_MOVES);
    }

    fn correction(self) -> f64 {
        (self.moves / (self.moves + MOVES_AS_SURE) * self.log_off).exp()
    }
}

impl Turns {
    /// Takes in the time since threads were put where they are, and forgets those that are gone.
    pub(super) fn note(&mut self, view: &View<'_>) {
        let time_s = view.now.as_secs_f64() - self.since.as_secs_f64();
        let fastest = view.machine.fastest_core_type();
        let mut did = BTreeMap::new();
        for (&id, put) in &self.put {
            self.means.entry(id).or_default().add(put.likely, time_s);
            let Some(thread) = view.thread(id) else { continue };
            let Some(per_s) = thread.rates.instructions_per_s.filter(|&rate| rate > 0.0) else {
                continue;
            };
            let (here, now) = (put.core_type, per_s / put.predicted);
            did.insert(id, (here, now));
            let Some(&(before, then)) = self.did.get(&id) else { continue };
            let (of, off) =
                if before == fastest { (here, now / then) } else { (before, then / now) };
            if (here == fastest) != (before == fastest) {
                let counted = self.counted.entry(thread.program.clone()).or_default();
                counted.resize(view.machine.core_types().len(), Counted::default());
                counted[of].add(off);
            }
        }
        self.did = did;
        self.put.clear();
        self.means.retain(|id, _| view.thread(*id).is_some());
        self.seats.retain(|id, _| view.thread(*id).is_some());
        if self.counted.len() > MOST_PROGRAMS {
            let runs = |name: &String| view.threads.iter().any(|thread| thread.program == *name);
            self.counted.retain(|name, _| runs(name));
        }
    }

    /// How fast threads are from now on, where they are in a situation.
    fn note_speeds(
        &mut self,
        view: &View<'_>,
        running: &[&ThreadView],
        corrections: &[Vec<f64>],
        at: &Predicted,
    ) {
        for (index, thread) in running.iter().enumerate() {
            let core_type = view.machine.cpus()[at.situation.cpus[index]].core_type;
            let predicted = 1.0 / at.outcomes[index].slowdown;
            let likely = predicted * corrections[index][core_type];
            self.put.insert(thread.id, Put { core_type, predicted, likely });
        }
        self.since = view.now;
    }

    /// A thread is the kernel's again, or still.
    pub(super) fn leave(&mut self, thread: ThreadId) {
        self.seats.remove(&thread);
        self.put.remove(&thread);
    }

    /// The CPU (index) of each thread that was put on one or that may use one alone; none of those whom the kernel places.
    fn seats_of(&self, view: &View<'_>) -> Vec<Option<usize>> {
        let held = |thread: &ThreadView| view.machine.cpu_index(held_on(thread)?);
        let seat = |thread: &ThreadView| self.seats.get(&thread.id).copied();
        view.threads.iter().map(|thread| seat(thread).or_else(|| held(thread))).collect()
    }

    /// Mean speeds of threads; who is new has the others' mean.
    fn mean_speeds(&self, threads: &[&ThreadView]) -> Vec<f64> {
        let known = |thread: &&ThreadView| self.means.get(&thread.id).and_then(|one| one.value());
        let speeds: Vec<Option<f64>> = threads.iter().map(known).collect();
        let (mut sum, mut count) = (0.0, 0_u32);
        for speed in speeds.iter().flatten() {
            (sum, count) = (sum + speed, count + 1);
        }
        let usual = if count > 0 { sum / f64::from(count) } else { 1.0 };
        speeds.into_iter().map(|speed| speed.unwrap_or(usual)).collect()
    }

    /// What a program's predicted speed on each core type is to be multiplied by. One that is estimated and was not yet
    /// counted on both sides of a move gains as much on a fast core as the capacities say, so that it comes there and is counted.
    pub(super) fn corrections(&self, program: &str, worlds: &Worlds, model: &Model) -> Vec<f64> {
        let machine = model.machine();
        let counted = self.counted.get(program);
        let correction = |core_type: usize| {
            let counted = counted.and_then(|one| one.get(core_type)).filter(|one| one.moves > 0.0);
            if let Some(counted) = counted {
                return counted.correction();
            }
            let first = machine.cpus().iter().position(|cpu| cpu.core_type == core_type);
            let Some(cpu) = first.filter(|_| !worlds.are_one()) else { return 1.0 };
            let alone = model.solo(&worlds.likely, LoadedProgram::WHOLE, cpu);
            (machine.core_types()[core_type].capacity * alone.slowdown).min(1.0)
        };
        (0..machine.core_types().len()).map(correction).collect()
    }
}

/// Which CPUs have a thread.
struct Seating<'a> {
    machine: &'a Machine,
    is_taken: Vec<bool>,
    /// By core: CPUs that have one.
    busy: Vec<u32>,
}

impl<'a> Seating<'a> {
    fn new(machine: &'a Machine, cpus: impl Iterator<Item = usize>) -> Self {
        let is_taken = vec![false; machine.cpus().len()];
        let mut seating = Self { machine, is_taken, busy: vec![0; machine.cores().len()] };
        cpus.for_each(|cpu| seating.take(cpu));
        seating
    }

    fn take(&mut self, cpu: usize) {
        if !std::mem::replace(&mut self.is_taken[cpu], true) {
            self.busy[self.machine.cpus()[cpu].core] += 1;
        }
    }

    /// The idle CPU with which a thread adds most to what its core gets done, the first of equals; none where it may run on none.
    fn best(&self, model: &Model, thread: &ThreadView) -> Option<usize> {
        let places = self.machine.cpus();
        let more = |cpu: usize| {
            let beside = self.busy[places[cpu].core];
            let all = |threads: u32| f64::from(threads) * model.thread_speed(cpu, threads.max(1));
            let capacity = self.machine.core_types()[places[cpu].core_type].capacity;
            capacity * (all(beside + 1) - all(beside))
        };
        let may = |&cpu: &usize| !self.is_taken[cpu] && thread.may_run_on.contains(places[cpu].id);
        let idle = (0..places.len()).filter(may);
        idle.reduce(|best, next| if more(next) > more(best) { next } else { best })
    }
}

/// What more speed of each thread is worth: by how much its program's part of the objective falls.
pub(super) fn worth_of_speeds(
    objective: Objective,
    threads: &[&ThreadView],
    means: &[f64],
) -> Vec<f64> {
    let programs = Programs::of(threads.iter().map(|thread| thread.process));
    let slowdown = |&speed: &f64| 1.0 / speed.max(LEAST_SPEED);
    let of_programs = programs.slowdowns(means.iter().map(slowdown));
    let worth = |(thread, speed): (usize, &f64)| {
        let (program, count) = programs.of_thread(thread);
        let part = (slowdown(speed) / of_programs[program]).powi(STEEP + 1) / count;
        objective.worth_of_speed(1.0 / of_programs[program]) * part
    };
    means.iter().enumerate().map(worth).collect()
}

impl Corun {
    /// Do threads take turns? Energy is for the machine as it is at a moment, and power is no matter of turns.
    pub(super) fn takes_turns(&self, machine: &Machine) -> bool {
        machine.core_types().len() > 1 && !self.objective.is_of_power()
    }

    /// New threads go to the idle CPU with which the machine gets most done by its capacities, until the next look weighs who
    /// they are; who finds no idle CPU is left to the kernel.
    pub(super) fn welcome(&mut self, view: &View<'_>) -> Option<Plan> {
        let machine = view.machine;
        let predictor = self.predictor(machine)?;
        let seats = self.turns.seats_of(view);
        let mut seating = Seating::new(machine, seats.iter().flatten().copied());
        let mut plan = Plan::none();
        let new = view.threads.iter().zip(&seats).filter(|(_, seat)| seat.is_none());
        for (thread, _) in new.filter(|(thread, _)| !thread.is_mostly_asleep()) {
            let Some(cpu) = seating.best(predictor.model(), thread) else { continue };
            seating.take(cpu);
            self.turns.seats.insert(thread.id, cpu);
            let place = machine.cpus()[cpu];
            let cpus: CpuSet = std::iter::once(place.id).collect();
            if thread.allowed != cpus {
                let core_type = &machine.core_types()[place.core_type].name;
                let reason = format!("{}: new, to an idle CPU of type {core_type}", thread.program);
                plan.push(Action::Allow { thread: thread.id, cpus }, reason);
                self.held.insert(thread.id);
            }
        }
        Some(plan)
    }

    /// Where each thread is until the next look.
    pub(super) fn turn(
        &mut self,
        view: &View<'_>,
        running: &[&ThreadView],
        threads: &[Thread],
        model: &Model,
    ) -> Plan {
        let mut plan = Plan::none();
        let machine = view.machine;
        self.turns.note(view);
        let Some(mut now) = self.situation(machine, running, &self.parts.decided) else {
            return plan;
        };
        // Who was put on a CPU since the view was taken is there.
        for (thread, cpu) in running.iter().zip(&mut now.cpus) {
            *cpu = self.turns.seats.get(&thread.id).copied().unwrap_or(*cpu);
        }
        let Some(start) = apart(machine, &now, threads) else { return plan };
        let means = self.turns.mean_speeds(running);
        let known = running.iter().zip(threads);
        let corrections: Vec<Vec<f64>> = known
            .map(|(thread, known)| self.turns.corrections(&thread.program, &known.worlds, model))
            .collect();
        let least = LEAST_TURN / threads.len() as f64;
        let mut search = self.search(model, threads);
        search.weigh(self.worth_by_type(running, &means, &corrections), least);
        let from = search.predicted(now.clone());
        let is_apart = start == now;
        let start = if is_apart { from.clone() } else { search.predicted(start) };
        let to = search.better(start, false);
        let cost = Cost { model, footprint_bytes: self.footprint_bytes };
        let time_s = self.interval_s(machine) * threads.len() as f64;
        let share = cost.thread_seconds(&from, &to, threads) / time_s;
        let gain = 1.0 - search.value(&to) / search.value(&from) - share;
        if is_apart && gain < least {
            self.turns.note_speeds(view, running, &corrections, &from);
            return plan;
        }
        self.take_turns(machine, running, &means, (&from, &to), &mut plan);
        self.turns.note_speeds(view, running, &corrections, &to);
        for (thread, &cpu) in running.iter().zip(&to.situation.cpus) {
            self.turns.seats.insert(thread.id, cpu);
        }
        plan
    }

    /// What a thread's predicted speed on each core type is worth; none while nothing is known of how fast any was, and the
    /// objective is made small as if threads stayed.
    fn worth_by_type(
        &self,
        running: &[&ThreadView],
        means: &[f64],
        corrections: &[Vec<f64>],
    ) -> Vec<Vec<f64>> {
        if self.turns.means.is_empty() {
            return Vec::new();
        }
        let worth = worth_of_speeds(self.objective, running, means);
        let of =
            |(worth, by_type): (f64, &Vec<f64>)| by_type.iter().map(|one| one * worth).collect();
        worth.into_iter().zip(corrections).map(of).collect()
    }

    fn take_turns(
        &mut self,
        machine: &Machine,
        running: &[&ThreadView],
        means: &[f64],
        (from, to): (&Predicted, &Predicted),
        plan: &mut Plan,
    ) {
        for (index, thread) in running.iter().enumerate() {
            let place = machine.cpus()[to.situation.cpus[index]];
            let cpus: CpuSet = std::iter::once(place.id).collect();
            if thread.allowed == cpus {
                continue;
            }
            let [here, there] = [from, to].map(|at| at.outcomes[index].slowdown);
            let mut reason = format!(
                "{}: {here:.2} to {there:.2} times its time alone on {}, predicted; {:.2} on average so far",
                thread.program,
                machine.core_types()[place.core_type].name,
                1.0 / means[index]
            );
            if from.situation.cpus[index] == to.situation.cpus[index] {
                let _ = write!(reason, "; held where it is");
            }
            plan.push(Action::Allow { thread: thread.id, cpus }, reason);
            self.held.insert(thread.id);
        }
    }
}
