//! More threads than CPUs: who shares a CPU.
//!
//! Threads that take turns on a CPU never run at the same time, so that those who hurt each other most are best put
//! on one CPU. A grouping gives each CPU equally many threads, as the kernel does, and holds them there; what it is
//! worth is the mean slowdown over moments at which each CPU runs one of its threads
//! ([`corun_model::slowdowns_in_turns`]). Where the threads cannot be divided evenly, may not run everywhere, or are
//! not all known by stored profiles, and on machines of several core types, the kernel decides alone: it evens out CPU time,
//! which a grouping would not.

use std::collections::BTreeMap;
use std::sync::Arc;

use corun_machine::{CpuSet, Machine};
use corun_model::{LoadedProgram, Member, Model, Running, Scratch, moments, slowdowns_in_turns};

use super::Corun;
use super::cost::LINE_NS;
use crate::{Action, Plan, Predictor, ThreadId, ThreadView, View};

/// Machines that a search asks the model about: a bound on its time.
const MOST_QUESTIONS: usize = 3000;
/// A grouping is looked for again when nobody came or went for so many times as long.
const HORIZON_GROWN: f64 = 2.0;

/// The grouping that was decided on, or that none pays.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    /// The CPU (index) of each thread, and its program: one that ends and starts again gets its former CPU.
    threads: BTreeMap<ThreadId, (usize, String)>,
    /// Are the threads held on their CPUs?
    is_held: bool,
    /// For how long nothing had changed when it was looked for.
    horizon_s: f64,
}

/// A thread that is awake, with its program and the nodes of its memory.
struct Awake<'a> {
    thread: &'a ThreadView,
    program: Arc<LoadedProgram>,
    home: Vec<f64>,
}

impl Corun {
    /// What to do where more threads are awake than there are CPUs; none where there are not.
    pub(super) fn crowd(&mut self, view: &View<'_>) -> Option<Plan> {
        let is_awake = |thread: &&ThreadView| !thread.is_mostly_asleep();
        let awake: Vec<&ThreadView> = view.threads.iter().filter(is_awake).collect();
        if awake.len() <= view.machine.cpus().len() {
            if self.crowd.take().is_some_and(|crowd| crowd.is_held) {
                return Some(self.release(view, "there are CPUs for all", |_| true));
            }
            return None;
        }
        self.trials.end();
        self.origin = None;
        self.settled = None;
        let mut plan = Plan::none();
        match self.grouped(view, &awake) {
            Some(grouped) => {
                plan.steps
                    .extend(self.release(view, "it sleeps", ThreadView::is_mostly_asleep).steps);
                plan.steps.extend(grouped.steps);
            }
            None => {
                self.crowd = None;
                plan.steps.extend(self.release(view, "more threads than CPUs", |_| true).steps);
            }
        }
        self.parts.make_whole("more threads than CPUs", &mut plan);
        Some(plan)
    }

    /// The threads in groups of equal size, where that pays; none where the kernel is to decide.
    fn grouped(&mut self, view: &View<'_>, awake: &[&ThreadView]) -> Option<Plan> {
        let machine = view.machine;
        let cpus = machine.cpus().len();
        let may_everywhere = |thread: &&ThreadView| {
            machine.cpus().iter().all(|cpu| thread.may_run_on.contains(cpu.id))
        };
        if machine.core_types().len() > 1
            || !awake.len().is_multiple_of(cpus)
            || !self.uses_profiles
            || !awake.iter().all(may_everywhere)
        {
            return None;
        }
        let predictor = self.predictor(machine)?;
        let known: Vec<Awake<'_>> = awake
            .iter()
            .map(|thread| known(machine, thread, &*predictor))
            .collect::<Option<_>>()?;
        let horizon_s = self.horizon_s(view);
        let last = self.crowd.take().unwrap_or_default();
        let still = last.with_newcomers(view, awake);
        let is_held = last.is_held && still.is_some();
        if let Some(threads) = still
            && horizon_s < HORIZON_GROWN * last.horizon_s
        {
            let crowd = Crowd { threads, ..last };
            return Some(self.taken_up(view, awake, crowd, "as its program before it"));
        }
        // Who has not run yet has no CPU.
        let present = |one: &Awake<'_>| machine.cpu_index(one.thread.cpu?);
        let from: Vec<usize> = known.iter().map(present).collect::<Option<_>>()?;
        let mut search = Search::new(predictor.model(), &known);
        let start = even(&from, cpus);
        let [before, even] = [&from, &start].map(|cpus| search.mean_slowdown(cpus));
        let (found, after) = search.swapped(start, even);
        let gain = 1.0 - after / before.min(even) - refill_share(machine, &from, &found, horizon_s);
        let pays = gain >= self.least_gain;
        // A grouping that is held stays where nothing better is found.
        let cpus = if is_held && !pays { from } else { found };
        let mut crowd = Crowd { threads: BTreeMap::new(), is_held: is_held || pays, horizon_s };
        for (one, cpu) in known.iter().zip(cpus) {
            crowd.threads.insert(one.thread.id, (cpu, one.thread.program.clone()));
        }
        let why = format!("all {before:.3} to {after:.3} times their time alone, predicted");
        Some(self.taken_up(view, awake, crowd, &why))
    }

    fn taken_up(
        &mut self,
        view: &View<'_>,
        awake: &[&ThreadView],
        crowd: Crowd,
        why: &str,
    ) -> Plan {
        let plan = if crowd.is_held {
            self.held_so(view.machine, awake, &crowd, why)
        } else {
            self.release(view, "more threads than CPUs", |_| true)
        };
        self.crowd = Some(crowd);
        plan
    }

    /// Holds each thread on the CPU of its group.
    fn held_so(
        &mut self,
        machine: &Machine,
        awake: &[&ThreadView],
        crowd: &Crowd,
        why: &str,
    ) -> Plan {
        let mut plan = Plan::none();
        for thread in awake {
            let Some((cpu, program)) = crowd.threads.get(&thread.id) else { continue };
            let cpus: CpuSet = std::iter::once(machine.cpus()[*cpu].id).collect();
            if thread.allowed == cpus {
                continue;
            }
            let beside =
                crowd.threads.iter().filter(|(id, (at, _))| at == cpu && **id != thread.id);
            let names: Vec<&str> = beside.map(|(_, (_, name))| name.as_str()).collect();
            let reason = format!("{program}: shares a CPU with {}; {why}", names.join(", "));
            plan.push(Action::Allow { thread: thread.id, cpus }, reason);
            self.held.insert(thread.id);
        }
        plan
    }
}

impl Crowd {
    /// The threads that are awake now, with newcomers on the CPUs of ended threads of the same programs; none where
    /// others came or went.
    fn with_newcomers(
        &self,
        view: &View<'_>,
        awake: &[&ThreadView],
    ) -> Option<BTreeMap<ThreadId, (usize, String)>> {
        if awake.len() != self.threads.len() {
            return None;
        }
        let mut threads = self.threads.clone();
        for thread in awake {
            if threads.contains_key(&thread.id) {
                continue;
            }
            let is_former = |(id, (_, program)): &(&ThreadId, &(usize, String))| {
                view.thread(**id).is_none() && *program == thread.program
            };
            let former = *threads.iter().find(is_former)?.0;
            let place = threads.remove(&former)?;
            threads.insert(thread.id, place);
        }
        Some(threads)
    }
}

/// What is known of a thread; none without a stored profile.
fn known<'a>(
    machine: &Machine,
    thread: &'a ThreadView,
    predictor: &dyn Predictor,
) -> Option<Awake<'a>> {
    let program = predictor.profiled(thread.profile.as_deref()?)?;
    let has_pages = machine.nodes().len() > 1 && thread.pages_by_node.iter().sum::<f64>() > 0.0;
    let home = if has_pages { thread.pages_by_node.clone() } else { Vec::new() };
    Some(Awake { thread, program, home })
}

/// Equally many on each CPU: who is on a CPU that has too many goes to the first that has too few.
fn even(from: &[usize], cpus: usize) -> Vec<usize> {
    let most = from.len() / cpus;
    let mut count = vec![0; cpus];
    let mut without = Vec::new();
    let mut at = from.to_vec();
    for (place, &cpu) in from.iter().enumerate() {
        if count[cpu] < most {
            count[cpu] += 1;
        } else {
            without.push(place);
        }
    }
    for place in without {
        if let Some(cpu) = (0..cpus).find(|&cpu| count[cpu] < most) {
            (at[place], count[cpu]) = (cpu, count[cpu] + 1);
        }
    }
    at
}

/// What threads that change their LLC fetch anew, a CPU's part of the LLC each, as a share of all threads' time.
fn refill_share(machine: &Machine, from: &[usize], to: &[usize], horizon_s: f64) -> f64 {
    let llc = |cpu: usize| machine.cpus()[cpu].llc;
    let fetched_s = |(&from, &to): (&usize, &usize)| {
        let here = machine.cpus().iter().filter(|cpu| cpu.llc == llc(to)).count();
        let bytes = machine.llcs()[llc(to)].cache.map_or(0.0, |cache| cache.size_bytes as f64);
        let lines = bytes / here as f64 / crate::REQUEST_BYTES;
        if llc(from) == llc(to) { 0.0 } else { lines * LINE_NS * 1e-9 }
    };
    from.iter().zip(to).map(fetched_s).sum::<f64>() / (horizon_s * from.len() as f64)
}

struct Search<'a> {
    model: &'a Model,
    threads: &'a [Awake<'a>],
    scratch: Scratch,
    questions: usize,
}

impl<'a> Search<'a> {
    fn new(model: &'a Model, threads: &'a [Awake<'a>]) -> Self {
        Self { model, threads, scratch: Scratch::default(), questions: 0 }
    }

    /// Of the threads on these CPUs.
    fn mean_slowdown(&mut self, cpus: &[usize]) -> f64 {
        let running = self.threads.iter().zip(cpus).map(|(one, &cpu)| Running {
            member: Member { program: &one.program, phase: LoadedProgram::WHOLE, cpu },
            home: &one.home,
            group: None,
        });
        let running: Vec<Running<'_>> = running.collect();
        let on = |cpu: usize| cpus.iter().filter(|&&one| one == cpu).count();
        self.questions +=
            moments((0..self.model.machine().cpus().len()).map(on).max().unwrap_or(1));
        let slowdowns = slowdowns_in_turns(self.model, &running, &mut self.scratch);
        slowdowns.iter().sum::<f64>() / cpus.len() as f64
    }

    /// Threads change places while that helps, and their mean slowdown then.
    fn swapped(&mut self, start: Vec<usize>, value: f64) -> (Vec<usize>, f64) {
        let (mut cpus, mut value) = (start, value);
        let mut is_better = true;
        while is_better {
            is_better = false;
            for one in 0..cpus.len() {
                for other in one + 1..cpus.len() {
                    if self.questions >= MOST_QUESTIONS {
                        return (cpus, value);
                    }
                    let are_alike =
                        Arc::ptr_eq(&self.threads[one].program, &self.threads[other].program);
                    if cpus[one] == cpus[other] || are_alike {
                        continue;
                    }
                    cpus.swap(one, other);
                    let swapped = self.mean_slowdown(&cpus);
                    if swapped < value * (1.0 - 1e-5) {
                        (value, is_better) = (swapped, true);
                    } else {
                        cpus.swap(one, other);
                    }
                }
            }
        }
        (cpus, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two CPUs, two threads each: of three on the first the last one goes to the second.
    #[test]
    fn the_first_that_fit_stay() {
        assert_eq!(even(&[0, 0, 0, 1], 2), [0, 0, 1, 1]);
        assert_eq!(even(&[1, 1, 1, 1], 2), [1, 1, 0, 0]);
        assert_eq!(even(&[0, 1, 0, 1], 2), [0, 1, 0, 1]);
    }
}
