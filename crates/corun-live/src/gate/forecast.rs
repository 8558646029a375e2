//! What the model expects of a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use corun_machine::CpuSet;
use corun_model::{LoadedProgram, Member, Model, Outcome, Running, Scratch};
use corun_policy::{Action, Step, ThreadId, ThreadState};
use corun_profile::Library;

use crate::act::{exchanged, managed};
use crate::observe::turns;
use crate::{ManagedThread, Threads};

/// A thread that is on a CPU for a smaller share of the time disturbs nobody.
const LEAST_SHARE: f64 = 0.02;

/// What a plan is expected to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expectation {
    /// By the model.
    Told {
        /// The geometric mean of the programs' speeds after over before, less 1.
        gain: f64,
        /// That of the program that gains least.
        worst: f64,
        /// Its name.
        program: Arc<str>,
    },
    /// The model cannot tell.
    Unknown { why: String },
}

/// What a plan is expected to do, and who takes turns by it.
#[derive(Debug)]
pub(super) struct Foreseen {
    pub(super) expected: Expectation,
    /// Threads that change places with threads on cores of other kinds: what they gain or lose by that is theirs by turns.
    pub(super) turns: BTreeSet<ThreadId>,
}

/// Asks the model. Each program is taken for what its profile says on average over its phases.
pub(super) struct Forecast {
    model: Arc<Model>,
    library: Library,
    /// By the profile's name; the reason where there is none, or it cannot be used on this machine.
    loaded: BTreeMap<String, Result<Arc<LoadedProgram>, String>>,
    scratch: Scratch,
}

/// A kind of place: the core type, how many hardware threads of the core are busy, and how many threads want the CPU.
type Seat = (usize, usize, usize);

/// A thread that wants a CPU.
struct Wanting {
    /// Index in the table.
    thread: usize,
    /// Share of a CPU that it would use alone.
    demand: f64,
    /// Index of its present CPU.
    cpu: usize,
}

impl Forecast {
    pub(super) fn new(model: Arc<Model>, library: Library) -> Self {
        let (loaded, scratch) = (BTreeMap::new(), Scratch::default());
        Self { model, library, loaded, scratch }
    }

    /// Is each thread held already as the plan says?
    pub(super) fn changes_nothing(&self, steps: &[Step], table: &Threads, online: &CpuSet) -> bool {
        let before = held(table, online);
        sent(steps, table, online).is_ok_and(|after| after == before)
    }

    pub(super) fn expect(&mut self, steps: &[Step], table: &Threads, online: &CpuSet) -> Foreseen {
        let unknown = |why| Expectation::Unknown { why };
        let before = held(table, online);
        let placed = sent(steps, table, online).and_then(|after| {
            let wanting = self.wanting(table, &before, &after)?;
            let now = self.balanced(&wanting, &before)?;
            let then = self.balanced(&wanting, &after)?;
            Ok((wanting, now, then))
        });
        let (wanting, now, then) = match placed {
            Ok(placed) => placed,
            Err(why) => return Foreseen { expected: unknown(why), turns: BTreeSet::new() },
        };
        let turning = self.turning(&now, &then);
        let id = |&one: &usize| table.at(wanting[one].thread).0.id;
        let turns = turning.iter().map(id).collect();
        let expected = self.expected(table, &wanting, (&now, &then), !turning.is_empty());
        Foreseen { expected: expected.unwrap_or_else(unknown), turns }
    }

    /// The threads that want a CPU, and those that the plan sends elsewhere.
    fn wanting(
        &self,
        table: &Threads,
        before: &[CpuSet],
        after: &[CpuSet],
    ) -> Result<Vec<Wanting>, String> {
        let mut wanting = Vec::new();
        for (thread, (view, own)) in table.iter().enumerate() {
            let share = own.cpu_share().unwrap_or(0.0);
            // One that wants a CPU now may have had less of it than it wants.
            let demand = if view.state == ThreadState::Sleeping { share } else { 1.0 };
            let is_sent = before[thread] != after[thread];
            if demand < LEAST_SHARE && !is_sent {
                continue;
            }
            let cpu = self.model.machine().cpu_index(own.facts.cpu);
            let cpu = cpu.ok_or_else(|| format!("CPU {} is not described", own.facts.cpu.0))?;
            wanting.push(Wanting { thread, demand: demand.max(LEAST_SHARE), cpu });
        }
        Ok(wanting)
    }

    /// Who changes places with a thread on a core of another kind, by place among the wanting, where the plan does no more: afterwards
    /// there is a thread on each kind of place that had one before.
    fn turning(&self, now: &[usize], then: &[usize]) -> Vec<usize> {
        let machine = self.model.machine();
        let [before, after] = [now, then].map(|cpus| self.seats(cpus));
        let [mut sorted, mut sorted_after] = [before.clone(), after.clone()];
        sorted.sort_unstable();
        sorted_after.sort_unstable();
        if machine.core_types().len() < 2 || sorted != sorted_after {
            return Vec::new();
        }
        (0..before.len()).filter(|&one| before[one] != after[one]).collect()
    }

    /// What kind of place each thread has, by its CPU.
    fn seats(&self, cpus: &[usize]) -> Vec<Seat> {
        let places = self.model.machine().cpus();
        let used: BTreeSet<usize> = cpus.iter().copied().collect();
        let seat = |&cpu: &usize| {
            let core = places[cpu].core;
            let busy = used.iter().filter(|&&other| places[other].core == core).count();
            let on_cpu = cpus.iter().filter(|&&other| other == cpu).count();
            (places[cpu].core_type, busy, on_cpu)
        };
        cpus.iter().map(seat).collect()
    }

    fn expected(
        &mut self,
        table: &Threads,
        wanting: &[Wanting],
        (now, then): (&[usize], &[usize]),
        are_turns: bool,
    ) -> Result<Expectation, String> {
        let mut loaded = Vec::with_capacity(wanting.len());
        for one in wanting {
            let (view, own) = table.at(one.thread);
            // One that was found for the process by its command line goes before the name of what it belongs to.
            let profile = view.profile.as_deref().unwrap_or(&own.profile);
            loaded.push(self.program(profile, &view.program)?);
        }
        let now = self.speeds(wanting, &loaded, now, are_turns);
        let then = self.speeds(wanting, &loaded, then, are_turns);
        let mut programs: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for ((one, now), then) in wanting.iter().zip(now).zip(then) {
            let speeds = programs.entry(&table.at(one.thread).0.program).or_default();
            (speeds.0, speeds.1) = (speeds.0 + now, speeds.1 + then);
        }
        let ratios = programs.iter().filter(|(_, (now, _))| *now > 0.0);
        let ratios: Vec<(&str, f64)> =
            ratios.map(|(name, (now, then))| (*name, then / now)).collect();
        let worst = ratios.iter().min_by(|one, other| one.1.total_cmp(&other.1));
        let &(program, worst) = worst.ok_or("no thread wants a CPU")?;
        let mean = ratios.iter().map(|(_, ratio)| ratio.ln()).sum::<f64>() / ratios.len() as f64;
        Ok(Expectation::Told {
            gain: mean.exp() - 1.0,
            worst: worst - 1.0,
            program: program.into(),
        })
    }

    /// The program of a profile. `program`: whose profile it is, for people.
    fn program(&mut self, profile: &str, program: &str) -> Result<Arc<LoadedProgram>, String> {
        if let Some(known) = self.loaded.get(profile) {
            return known.clone();
        }
        let loaded = match self.library.find(profile) {
            None => Err(format!("there is no profile of {program}")),
            Some(found) => self.model.load(found).map(Arc::new).map_err(|error| {
                format!("the profile {profile} cannot be used on this machine: {error}")
            }),
        };
        self.loaded.insert(profile.to_owned(), loaded.clone());
        loaded
    }

    /// Instructions a second of each thread on its CPU; where threads take turns, as a share of what it does alone on such a place.
    fn speeds(
        &mut self,
        wanting: &[Wanting],
        programs: &[Arc<LoadedProgram>],
        cpus: &[usize],
        are_turns: bool,
    ) -> Vec<f64> {
        let mut by_cpu: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (one, &cpu) in cpus.iter().enumerate() {
            by_cpu.entry(cpu).or_default().push(one);
        }
        let mut sums = vec![(0.0, 0_u32); wanting.len()];
        for on in turns(&by_cpu) {
            let member = |one: usize, cpu| {
                let member = Member { program: &programs[one], phase: LoadedProgram::WHOLE, cpu };
                Running { member, home: &[], group: None }
            };
            let running: Vec<Running<'_>> = on.iter().map(|&(one, cpu)| member(one, cpu)).collect();
            let mut outcomes: Vec<Outcome> = Vec::new();
            self.model.solve(&running, &mut self.scratch, &mut outcomes);
            for (&(one, _), outcome) in on.iter().zip(&outcomes) {
                sums[one].0 += outcome.instructions_per_s;
                sums[one].1 += 1;
            }
        }
        for here in by_cpu.values() {
            let asked: f64 = here.iter().map(|&one| wanting[one].demand).sum();
            for &one in here {
                sums[one].0 *= wanting[one].demand / asked.max(1.0);
            }
        }
        let mut speeds: Vec<f64> =
            sums.into_iter().map(|(sum, turns)| sum / f64::from(turns.max(1))).collect();
        if are_turns {
            for (one, (_, busy, on_cpu)) in self.seats(cpus).into_iter().enumerate() {
                let alone = self.model.solo(&programs[one], LoadedProgram::WHOLE, cpus[one]);
                let of_core = self.model.thread_speed(cpus[one], busy as u32) / on_cpu as f64;
                speeds[one] /= alone.instructions_per_s * of_core;
            }
        }
        speeds
    }

    /// The CPU of each thread: the present one where it may stay, moved to a less loaded one as the kernel's
    /// balancing would.
    fn balanced(&self, wanting: &[Wanting], allowed: &[CpuSet]) -> Result<Vec<usize>, String> {
        let machine = self.model.machine();
        let choices: Vec<Vec<usize>> = wanting
            .iter()
            .map(|one| {
                allowed[one.thread].iter().filter_map(|cpu| machine.cpu_index(cpu)).collect()
            })
            .collect();
        if choices.iter().any(Vec::is_empty) {
            return Err("a thread has no CPU that is on line".to_owned());
        }
        let mut load: BTreeMap<usize, f64> = BTreeMap::new();
        let mut cpus = Vec::with_capacity(wanting.len());
        for (one, choices) in wanting.iter().zip(&choices) {
            let stays = choices.contains(&one.cpu).then_some(one.cpu);
            let cpu = stays.unwrap_or_else(|| least_loaded(choices, &load));
            *load.entry(cpu).or_default() += one.demand;
            cpus.push(cpu);
        }
        for (at, (one, choices)) in wanting.iter().zip(&choices).enumerate() {
            let from = load[&cpus[at]];
            let to = least_loaded(choices, &load);
            let there = load.get(&to).copied().unwrap_or(0.0);
            if from > 1.0 && there + one.demand < from {
                *load.entry(cpus[at]).or_default() -= one.demand;
                *load.entry(to).or_default() += one.demand;
                cpus[at] = to;
            }
        }
        Ok(cpus)
    }
}

/// The CPU with the least load, the first of several.
fn least_loaded(choices: &[usize], load: &BTreeMap<usize, f64>) -> usize {
    let of = |cpu: &usize| load.get(cpu).copied().unwrap_or(0.0);
    let least = choices.iter().min_by(|one, other| of(one).total_cmp(&of(other)));
    *least.expect("threads without a CPU are told before")
}

/// Where each thread may run now.
fn held(table: &Threads, online: &CpuSet) -> Vec<CpuSet> {
    table.iter().map(|(_, thread)| thread.allowed.intersection(online)).collect()
}

/// Where each thread may run once the steps are carried out, one after the other. A step that the actuators refuse
/// moves nobody.
fn sent(steps: &[Step], table: &Threads, online: &CpuSet) -> Result<Vec<CpuSet>, String> {
    let mut held: Vec<CpuSet> = table.iter().map(|(_, thread)| thread.allowed.clone()).collect();
    let movable = |id: &ThreadId| {
        let (_, thread) = managed(table, *id).ok()?;
        Some((table.index_of(*id)?, thread))
    };
    // What a thread gets of the CPUs asked for.
    let granted = |(index, thread): (usize, &ManagedThread), asked: &CpuSet, held: &[CpuSet]| {
        let cpus = asked.intersection(&thread.may_run_on).intersection(online);
        let is_there = cpus == held[index].intersection(online);
        let cpus = if is_there { held[index].clone() } else { cpus };
        (!cpus.is_empty()).then_some((index, cpus))
    };
    for Step { action, .. } in steps {
        let moved = match action {
            Action::Allow { thread, cpus } => {
                movable(thread).and_then(|thread| granted(thread, cpus, &held)).map(|one| vec![one])
            }
            Action::Swap { first, second } => {
                movable(first).zip(movable(second)).and_then(|(first, second)| {
                    let sides = [first, second].map(|(index, thread)| (thread, &held[index]));
                    let [to_first, to_second] = exchanged(sides[0], sides[1])?;
                    let first = granted(first, &to_first, &held)?;
                    Some(vec![first, granted(second, &to_second, &held)?])
                })
            }
            other => {
                let kind = other.kind().name();
                return Err(format!("the plan has an action of the kind {kind}"));
            }
        };
        for (index, cpus) in moved.into_iter().flatten() {
            held[index] = cpus;
        }
    }
    Ok(held.into_iter().map(|cpus| cpus.intersection(online)).collect())
}
