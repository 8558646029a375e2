//! `corun`: threads go where the model predicts that all do best.
//!
//! Each interval the policy asks the model what the programs do to one another where they are, searches a
//! better placement by exchanges and moves of single threads, and takes it up where the predicted gain until
//! the next change exceeds what the moves cost and what the estimate may be wrong by. Programs are described
//! by their stored profiles where the host has them, else by curves that the policy estimates from counters
//! while they run ([`curve`], [`learned`]). On machines of several nodes pages move where that pays.

mod cost;
mod curve;
mod learned;
mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use corun_machine::{CpuSet, Machine};
use corun_model::{Model, ModelOptions, Outcome, Scratch};

use self::cost::Cost;
use self::learned::{Expected, Learned, World, Worlds};
use self::search::{Objective, Search, Situation, Thread};
use crate::{
    Action, ActionKind, Build, BuildOptions, CounterKind, Event, Interval, LoadedPredictor,
    Nanoseconds, Needs, Parameter, Plan, Policy, PolicyEntry, Predictor, ThreadId, ThreadView,
    View,
};

const INTERVAL: Parameter = Parameter {
    name: "interval-cycles",
    default: super::BILLION_CYCLES as f64,
    min: 1e5,
    max: 1e15,
    summary: "cycles between two looks at the counters",
};
const OBJECTIVE: Parameter = Parameter {
    name: "objective",
    default: 0.0,
    min: 0.0,
    max: 2.0,
    summary: "what is made small: 0 the mean slowdown, 1 the worst, 2 unfairness (worst / least)",
};
const MOST_LOSS: Parameter = Parameter {
    name: "most-loss-percent",
    default: 50.0,
    min: 0.0,
    max: 99.0,
    summary: "the most of its speed that any program may lose by a decision, as predicted",
};
const LEAST_GAIN: Parameter = Parameter {
    name: "least-gain-percent",
    default: 0.5,
    min: 0.0,
    max: 100.0,
    summary: "by how much a decision must lower the objective, as predicted",
};
const PROFILES: Parameter = Parameter {
    name: "profiles",
    default: 1.0,
    min: 0.0,
    max: 1.0,
    summary: "1: curves from stored profiles where there are; 0: all are estimated while programs run",
};
const FOOTPRINT: Parameter = Parameter {
    name: "footprint-mib",
    default: 256.0,
    min: 1.0,
    max: 1e7,
    summary: "memory of a program in MiB, for the cost of moving it",
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "corun",
    summary: "places threads and their memory where the model predicts that all do best",
    source: "corun",
    parameters: &[INTERVAL, OBJECTIVE, MOST_LOSS, LEAST_GAIN, PROFILES, FOOTPRINT],
    build: Build::Policy(|options: &BuildOptions| Box::new(Corun::new(options))),
};

/// The longest time for which things are taken to stay as they are.
const LONGEST_HORIZON_S: f64 = 60.0;
/// A placement that did not pay is looked at again when the horizon has grown by this factor.
const HORIZON_GROWN: f64 = 1.25;

/// The policy with its parameters.
struct Corun {
    interval_cycles: u64,
    objective: Objective,
    most_loss: f64,
    least_gain: f64,
    uses_profiles: bool,
    footprint_bytes: f64,
    moves_pages: bool,
    predictor: Option<Arc<dyn Predictor>>,
    learned: Learned,
    /// Who shared each thread's LLC at the last look.
    neighbours: BTreeMap<ThreadId, BTreeSet<ThreadId>>,
    /// The programs present, and since when they are the same ones.
    programs: Vec<String>,
    same_since: Nanoseconds,
    /// Nodes that pages were sent to and have not reached yet.
    sent: BTreeMap<ThreadId, usize>,
    /// Threads that this policy holds.
    held: BTreeSet<ThreadId>,
    /// What the last search that changed nothing was about.
    settled: Option<Settled>,
}

/// A search that changed nothing: the same question has the same answer until the horizon has grown.
struct Settled {
    at: Situation,
    /// Each thread's program and the CPUs that it may run on.
    threads: Vec<(Worlds, Vec<bool>)>,
    horizon_s: f64,
}

impl Settled {
    fn answers(&self, at: &Situation, threads: &[Thread], horizon_s: f64) -> bool {
        let same = |((worlds, may), now): (&(Worlds, Vec<bool>), &Thread)| {
            Arc::ptr_eq(&worlds.likely, &now.worlds.likely) && *may == now.may
        };
        self.at == *at
            && horizon_s < HORIZON_GROWN * self.horizon_s
            && self.threads.len() == threads.len()
            && self.threads.iter().zip(threads).all(same)
    }
}

impl Corun {
    fn new(options: &BuildOptions) -> Self {
        Self {
            interval_cycles: options.value(&INTERVAL) as u64,
            objective: Objective::of(options.value(&OBJECTIVE)),
            most_loss: options.value(&MOST_LOSS) / 100.0,
            least_gain: options.value(&LEAST_GAIN) / 100.0,
            uses_profiles: options.value(&PROFILES) != 0.0,
            footprint_bytes: options.value(&FOOTPRINT) * 1048576.0,
            moves_pages: true,
            predictor: None,
            learned: Learned::default(),
            neighbours: BTreeMap::new(),
            programs: Vec::new(),
            same_since: Nanoseconds(0),
            sent: BTreeMap::new(),
            held: BTreeSet::new(),
            settled: None,
        }
    }

    /// The host's predictor, else one that knows the machine alone; none where the model cannot stand on it.
    fn predictor(&mut self, machine: &Machine) -> Option<Arc<dyn Predictor>> {
        if self.predictor.is_none() {
            let model = Model::new(Arc::new(machine.clone()), ModelOptions::default()).ok()?;
            self.predictor = Some(Arc::new(LoadedPredictor::new(Arc::new(model), [])));
        }
        self.predictor.clone()
    }

    /// What is known of a thread's program.
    fn worlds(&mut self, thread: &ThreadView, predictor: &dyn Predictor) -> Option<Worlds> {
        let profiled = || predictor.profiled(thread.profile.as_deref()?);
        let stored = if self.uses_profiles { profiled() } else { None };
        match stored {
            Some(program) => Some(Worlds::known(program)),
            None => self.learned.worlds(thread, predictor.model()),
        }
    }

    /// Since when the same programs run.
    fn note_programs(&mut self, view: &View<'_>) {
        let mut programs: Vec<String> =
            view.threads.iter().map(|thread| thread.program.clone()).collect();
        programs.sort_unstable();
        if programs != self.programs {
            (self.programs, self.same_since) = (programs, view.now);
        }
    }

    /// Threads whose neighbours changed have counted two situations in one interval.
    fn note_neighbours(&mut self, view: &View<'_>) {
        let llc = |thread: &ThreadView| {
            Some(view.machine.cpus()[view.machine.cpu_index(thread.cpu?)?].llc)
        };
        let mut now = BTreeMap::new();
        for thread in view.threads {
            let own = llc(thread);
            let beside = view.threads.iter().filter(|other| llc(other) == own);
            now.insert(thread.id, beside.map(|other| other.id).collect::<BTreeSet<ThreadId>>());
        }
        for (id, beside) in &now {
            if self.neighbours.get(id) != Some(beside) {
                self.learned.forget_rates(*id);
            }
        }
        self.neighbours = now;
    }

    /// Where each thread is; none where one has not run yet.
    fn situation(&self, view: &View<'_>) -> Option<Situation> {
        let cpu = |thread: &ThreadView| view.machine.cpu_index(thread.cpu?);
        let cpus: Vec<usize> = view.threads.iter().map(cpu).collect::<Option<_>>()?;
        let home = |(thread, &cpu): (&ThreadView, &usize)| {
            let one_hot = |node: usize| {
                let nodes = 0..view.machine.nodes().len();
                nodes.map(|other| f64::from(u8::from(other == node))).collect()
            };
            match self.sent.get(&thread.id) {
                Some(&node) => one_hot(node),
                None if thread.pages_by_node.iter().sum::<f64>() > 0.0 => {
                    thread.pages_by_node.clone()
                }
                None => one_hot(view.machine.cpus()[cpu].node),
            }
        };
        let homes = if view.machine.nodes().len() > 1 {
            view.threads.iter().zip(&cpus).map(home).collect()
        } else {
            vec![Vec::new(); cpus.len()]
        };
        Some(Situation { cpus, homes })
    }

    /// Forgets pages that arrived and threads that ended.
    fn note_pages(&mut self, view: &View<'_>) {
        let arrived = |thread: &ThreadView, node: usize| {
            thread.pages_by_node.get(node).is_some_and(|&share| share > 0.9)
        };
        self.sent.retain(|id, node| view.thread(*id).is_some_and(|one| !arrived(one, *node)));
        self.held.retain(|id| view.thread(*id).is_some());
    }

    /// Gives all threads back to the kernel.
    fn release(&mut self, view: &View<'_>) -> Plan {
        let mut plan = Plan::none();
        for id in std::mem::take(&mut self.held) {
            let Some(thread) = view.thread(id) else { continue };
            if thread.allowed != thread.may_run_on {
                let cpus = thread.may_run_on.clone();
                let reason =
                    format!("{}: more threads than CPUs, left to the kernel", thread.program);
                plan.push(Action::Allow { thread: id, cpus }, reason);
            }
        }
        plan
    }

    /// For how long things are taken to stay as they are: as long as they did so far.
    fn horizon_s(&self, view: &View<'_>) -> f64 {
        let clocks = view.machine.core_types().iter().map(|core| core.clock_mhz);
        let interval_s = self.interval_cycles as f64 / (clocks.fold(1.0, f64::max) * 1e6);
        let since = view.now.as_secs_f64() - self.same_since.as_secs_f64();
        since.clamp(interval_s, LONGEST_HORIZON_S)
    }

    fn plan(&mut self, view: &View<'_>, threads: &[Thread], model: &Model) -> Plan {
        let Some(now) = self.situation(view) else { return Plan::none() };
        let horizon_s = self.horizon_s(view);
        if self.settled.as_ref().is_some_and(|one| one.answers(&now, threads, horizon_s)) {
            return Plan::none();
        }
        let plan = self.searched(view, threads, model, &now);
        self.settled = plan.steps.is_empty().then(|| Settled {
            at: now,
            threads: threads.iter().map(|one| (one.worlds.clone(), one.may.clone())).collect(),
            horizon_s,
        });
        plan
    }

    fn searched(
        &mut self,
        view: &View<'_>,
        threads: &[Thread],
        model: &Model,
        now: &Situation,
    ) -> Plan {
        let mut search = Search {
            model,
            threads,
            objective: self.objective,
            most_loss: self.most_loss,
            scratch: Scratch::default(),
            questions: 0,
        };
        let start = apart(view.machine, now, threads);
        let Some(start) = start else { return Plan::none() };
        let nodes = view.machine.nodes().iter().filter(|node| !node.cpus.is_empty()).count();
        let goal = search.better(&start, self.moves_pages && nodes > 1);
        if goal == *now {
            return Plan::none();
        }
        let from = search.outcomes(World::Likely, now);
        let to = search.outcomes(World::Likely, &goal);
        let cost = Cost { model, footprint_bytes: self.footprint_bytes };
        // As a share of all threads' time until the next change.
        let time_s = self.horizon_s(view) * threads.len() as f64;
        let share = cost.thread_seconds(now, &goal, &to, threads) / time_s;
        let gains = [World::Likely, World::Steep, World::Flat]
            .map(|world| 1.0 - search.value(world, &goal) / search.value(world, now));
        let mean = gains.iter().sum::<f64>() / gains.len() as f64;
        let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
        if mean - share < self.least_gain || least - share < -self.least_gain {
            return Plan::none();
        }
        let values = [now, &goal].map(|at| search.value(World::Likely, at));
        self.steps(view, (now, &goal), (&from, &to), values)
    }

    fn steps(
        &mut self,
        view: &View<'_>,
        (now, goal): (&Situation, &Situation),
        (from, to): (&[Outcome], &[Outcome]),
        [before, after]: [f64; 2],
    ) -> Plan {
        let mut plan = Plan::none();
        for (index, thread) in view.threads.iter().enumerate() {
            let cpu = view.machine.cpus()[goal.cpus[index]].id;
            let cpus: CpuSet = std::iter::once(cpu).collect();
            let (slower, then) = (from[index].slowdown, to[index].slowdown);
            let told = format!(
                "{}: {slower:.2} to {then:.2} times its time alone, all {before:.3} to {after:.3}, predicted",
                thread.program
            );
            if thread.allowed != cpus {
                let reason = if now.cpus[index] == goal.cpus[index] {
                    format!("{told}; held where it is")
                } else {
                    told.clone()
                };
                plan.push(Action::Allow { thread: thread.id, cpus }, reason);
                self.held.insert(thread.id);
            }
            if now.homes[index] != goal.homes[index] {
                let node = goal.homes[index].iter().position(|&share| share > 0.5).unwrap_or(0);
                plan.push(Action::MovePages { thread: thread.id, node }, told);
                self.sent.insert(thread.id, node);
            }
        }
        plan
    }
}

/// The situation with no two threads on one CPU: where the kernel has not spread them yet, those that came
/// later go to the nearest idle CPU. None where there is no idle CPU for one.
fn apart(machine: &Machine, now: &Situation, threads: &[Thread]) -> Option<Situation> {
    let mut at = now.clone();
    let mut taken = vec![false; machine.cpus().len()];
    let mut without = Vec::new();
    for (index, &cpu) in now.cpus.iter().enumerate() {
        if taken[cpu] || !threads[index].may[cpu] {
            without.push(index);
        } else {
            taken[cpu] = true;
        }
    }
    for index in without {
        let from = machine.cpus()[now.cpus[index]];
        let idle = (0..taken.len()).filter(|&cpu| !taken[cpu] && threads[index].may[cpu]);
        let nearest = idle.min_by_key(|&cpu| {
            let to = machine.cpus()[cpu];
            let siblings = (0..taken.len())
                .filter(|&other| taken[other] && machine.cpus()[other].core == to.core);
            (siblings.count(), to.llc != from.llc, to.node != from.node, cpu)
        })?;
        taken[nearest] = true;
        at.cpus[index] = nearest;
    }
    Some(at)
}

impl Policy for Corun {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn needs(&self) -> Needs {
        let mut controls = vec![ActionKind::Place];
        if self.moves_pages {
            controls.push(ActionKind::MovePages);
        }
        Needs {
            interval: Interval::Cycles(self.interval_cycles),
            counters: vec![CounterKind::Instructions, CounterKind::Cycles, CounterKind::LlcMisses],
            controls,
            solo_figures: false,
            by_ways: false,
        }
    }

    fn do_without(&mut self, control: ActionKind) -> bool {
        if control == ActionKind::MovePages {
            self.moves_pages = false;
        }
        control == ActionKind::MovePages
    }

    fn unfit_for(&self, machine: &Machine) -> Option<String> {
        let types = machine.core_types().len();
        (types > 1).then(|| format!("it has {types} core types, and corun does not weigh them"))
    }

    fn predict_by(&mut self, predictor: &Arc<dyn Predictor>) {
        self.predictor = Some(predictor.clone());
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        let crowded = view.threads.len() > view.machine.cpus().len();
        (matches!(event, Event::Arrived(_)) && crowded).then(|| self.release(view))
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        let Some(predictor) = self.predictor(view.machine) else { return Plan::none() };
        self.note_programs(view);
        self.note_neighbours(view);
        self.note_pages(view);
        let threads = self.threads(view, predictor.as_ref());
        let expected = self.expected(view, threads.as_deref(), predictor.model());
        self.learned.measure(view, predictor.model(), &expected);
        if view.threads.len() > view.machine.cpus().len() {
            return self.release(view);
        }
        match self.threads(view, predictor.as_ref()) {
            Some(threads) if !threads.is_empty() => self.plan(view, &threads, predictor.model()),
            _ => Plan::none(),
        }
    }
}

impl Corun {
    /// All threads with what is known of them; none where one is not known yet or may run nowhere.
    fn threads(&mut self, view: &View<'_>, predictor: &dyn Predictor) -> Option<Vec<Thread>> {
        let mut threads = Vec::with_capacity(view.threads.len());
        for thread in view.threads {
            let places = view.machine.cpus().iter();
            let may: Vec<bool> = places.map(|place| thread.may_run_on.contains(place.id)).collect();
            if !may.contains(&true) {
                return None;
            }
            let of_process = view.threads.iter().filter(|other| other.process == thread.process);
            let moves_memory = of_process.count() == 1;
            threads.push(Thread { worlds: self.worlds(thread, predictor)?, may, moves_memory });
        }
        Some(threads)
    }

    /// What is expected of each thread where it is.
    fn expected(
        &self,
        view: &View<'_>,
        threads: Option<&[Thread]>,
        model: &Model,
    ) -> Vec<Expected> {
        let solved = threads.zip(self.situation(view)).map(|(threads, at)| {
            let (scratch, questions) = (Scratch::default(), 0);
            let (objective, most_loss) = (self.objective, self.most_loss);
            let mut search = Search { model, threads, objective, most_loss, scratch, questions };
            search.outcomes(World::Likely, &at)
        });
        let each = view.threads.iter().enumerate();
        each.map(|(index, thread)| Expected {
            outcome: solved.as_ref().map(|outcomes| outcomes[index]),
            sharers: self.neighbours.get(&thread.id).map_or(1, |beside| beside.len() as u32),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests;
