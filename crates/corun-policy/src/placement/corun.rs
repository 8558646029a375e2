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
use corun_model::{Model, ModelOptions, Scratch};

use self::cost::Cost;
use self::learned::{Expected, Learned, World, Worlds};
use self::search::{Objective, Predicted, Search, Situation, Thread};
use crate::{
    Action, ActionKind, Build, BuildOptions, CounterKind, Event, Interval, LiveForm,
    LoadedPredictor, Nanoseconds, Needs, Parameter, Plan, Policy, PolicyEntry, Predictor, ThreadId,
    ThreadView, View,
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
    live: LiveForm::AS_LIVE,
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
    /// Why the model cannot stand on the machine.
    failure: Option<String>,
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
            failure: None,
            learned: Learned::default(),
            neighbours: BTreeMap::new(),
            programs: Vec::new(),
            same_since: Nanoseconds(0),
            sent: BTreeMap::new(),
            held: BTreeSet::new(),
            settled: None,
        }
    }

    /// The host's predictor, else one that knows the machine alone; none, and a failure, where the model cannot
    /// stand on it.
    fn predictor(&mut self, machine: &Machine) -> Option<Arc<dyn Predictor>> {
        if self.predictor.is_none() && self.failure.is_none() {
            match Model::new(Arc::new(machine.clone()), ModelOptions::default()) {
                Ok(model) => {
                    self.predictor = Some(Arc::new(LoadedPredictor::new(Arc::new(model), [])));
                }
                Err(error) => self.failure = Some(format!("no model of the machine: {error}")),
            }
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
    fn note_programs(&mut self, now: Nanoseconds, running: &[&ThreadView]) {
        let mut programs: Vec<String> =
            running.iter().map(|thread| thread.program.clone()).collect();
        programs.sort_unstable();
        if programs != self.programs {
            (self.programs, self.same_since) = (programs, now);
        }
    }

    /// Threads whose neighbours changed have counted two situations in one interval.
    fn note_neighbours(&mut self, machine: &Machine, running: &[&ThreadView]) {
        let llc = |thread: &ThreadView| Some(machine.cpus()[machine.cpu_index(thread.cpu?)?].llc);
        let mut now = BTreeMap::new();
        for thread in running {
            let own = llc(thread);
            let beside = running.iter().filter(|other| llc(other) == own);
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
    fn situation(&self, machine: &Machine, running: &[&ThreadView]) -> Option<Situation> {
        let cpu = |thread: &&ThreadView| machine.cpu_index(thread.cpu?);
        let cpus: Vec<usize> = running.iter().map(cpu).collect::<Option<_>>()?;
        let home = |(thread, &cpu): (&&ThreadView, &usize)| {
            let one_hot = |node: usize| {
                let nodes = 0..machine.nodes().len();
                nodes.map(|other| f64::from(u8::from(other == node))).collect()
            };
            match self.sent.get(&thread.id) {
                Some(&node) => one_hot(node),
                None if thread.pages_by_node.iter().sum::<f64>() > 0.0 => {
                    thread.pages_by_node.clone()
                }
                None => one_hot(machine.cpus()[cpu].node),
            }
        };
        let homes = if machine.nodes().len() > 1 {
            running.iter().zip(&cpus).map(home).collect()
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

    /// Gives threads that it holds back to the kernel.
    fn release(&mut self, view: &View<'_>, why: &str, which: impl Fn(&ThreadView) -> bool) -> Plan {
        let mut plan = Plan::none();
        for thread in view.threads.iter().filter(|thread| which(thread)) {
            if self.held.remove(&thread.id) && thread.allowed != thread.may_run_on {
                let cpus = thread.may_run_on.clone();
                let reason = format!("{}: {why}, left to the kernel", thread.program);
                plan.push(Action::Allow { thread: thread.id, cpus }, reason);
            }
        }
        plan
    }

    /// All threads back, where more want to run than there are CPUs.
    fn release_crowd(&mut self, view: &View<'_>) -> Option<Plan> {
        let awake = view.threads.iter().filter(|thread| !thread.is_mostly_asleep()).count();
        (awake > view.machine.cpus().len())
            .then(|| self.release(view, "more threads than CPUs", |_| true))
    }

    /// For how long things are taken to stay as they are: as long as they did so far.
    fn horizon_s(&self, view: &View<'_>) -> f64 {
        let clocks = view.machine.core_types().iter().map(|core| core.clock_mhz);
        let interval_s = self.interval_cycles as f64 / (clocks.fold(1.0, f64::max) * 1e6);
        let since = view.now.as_secs_f64() - self.same_since.as_secs_f64();
        since.clamp(interval_s, LONGEST_HORIZON_S)
    }

    fn plan(
        &mut self,
        view: &View<'_>,
        running: &[&ThreadView],
        threads: &[Thread],
        model: &Model,
    ) -> Plan {
        let Some(now) = self.situation(view.machine, running) else { return Plan::none() };
        let horizon_s = self.horizon_s(view);
        if self.settled.as_ref().is_some_and(|one| one.answers(&now, threads, horizon_s)) {
            return Plan::none();
        }
        let mut search = self.search(model, threads);
        let found = self.searched(view.machine, horizon_s, &mut search, &now);
        let plan =
            found.map_or(Plan::none(), |(from, to)| self.steps(view.machine, running, &from, &to));
        self.settled = plan.steps.is_empty().then(|| Settled {
            at: now,
            threads: threads.iter().map(|one| (one.worlds.clone(), one.may.clone())).collect(),
            horizon_s,
        });
        plan
    }

    fn search<'a>(&self, model: &'a Model, threads: &'a [Thread]) -> Search<'a> {
        Search {
            model,
            threads,
            objective: self.objective,
            most_loss: self.most_loss,
            scratch: Scratch::default(),
            questions: 0,
        }
    }

    /// The present situation and one that is worth going to; none where there is no such.
    fn searched(
        &self,
        machine: &Machine,
        horizon_s: f64,
        search: &mut Search<'_>,
        now: &Situation,
    ) -> Option<(Predicted, Predicted)> {
        let start = apart(machine, now, search.threads)?;
        let from = search.predicted(now.clone());
        let start = if start == *now { from.clone() } else { search.predicted(start) };
        let nodes = machine.nodes().iter().filter(|node| !node.cpus.is_empty()).count();
        let goal = search.better(start, self.moves_pages && nodes > 1);
        if goal.situation == *now {
            return None;
        }
        let cost = Cost { model: search.model, footprint_bytes: self.footprint_bytes };
        // As a share of all threads' time until the next change.
        let time_s = horizon_s * search.threads.len() as f64;
        let share =
            cost.thread_seconds(now, &goal.situation, &goal.outcomes, search.threads) / time_s;
        let gains = search.gains(&from, &goal);
        let mean = gains.iter().sum::<f64>() / gains.len() as f64;
        let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
        let pays = mean - share >= self.least_gain && least - share >= -self.least_gain;
        pays.then_some((from, goal))
    }

    fn steps(
        &mut self,
        machine: &Machine,
        running: &[&ThreadView],
        from: &Predicted,
        to: &Predicted,
    ) -> Plan {
        let mut plan = Plan::none();
        let (now, goal) = (&from.situation, &to.situation);
        let [before, after] = [from, to].map(|at| self.objective.value(&at.outcomes));
        for (index, thread) in running.iter().enumerate() {
            let cpu = machine.cpus()[goal.cpus[index]].id;
            let cpus: CpuSet = std::iter::once(cpu).collect();
            let (slower, then) = (from.outcomes[index].slowdown, to.outcomes[index].slowdown);
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

/// Is a thread one to place: it ran, may run on CPUs of the machine, and does not leave its core to others?
fn takes_part(machine: &Machine, thread: &ThreadView) -> bool {
    let may = |cpu: corun_machine::CpuId| thread.may_run_on.contains(cpu);
    !thread.is_mostly_asleep()
        && thread.cpu.is_some_and(|cpu| machine.cpu_index(cpu).is_some())
        && machine.cpus().iter().any(|place| may(place.id))
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

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        if matches!(event, Event::Arrived(_)) { self.release_crowd(view) } else { None }
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        let Some(predictor) = self.predictor(view.machine) else { return Plan::none() };
        let model = predictor.model();
        let running: Vec<&ThreadView> =
            view.threads.iter().filter(|thread| takes_part(view.machine, thread)).collect();
        self.note_programs(view.now, &running);
        self.note_neighbours(view.machine, &running);
        self.note_pages(view);
        let threads = self.threads(view, &running, predictor.as_ref());
        let expected = self.expected(view.machine, &running, threads.as_deref(), model);
        self.learned.measure(view, &running, model, &expected);
        if let Some(plan) = self.release_crowd(view) {
            return plan;
        }
        // Their CPUs may be given to others, and they are not to wait for those when they wake.
        let mut plan = self.release(view, "it sleeps", ThreadView::is_mostly_asleep);
        match self.threads(view, &running, predictor.as_ref()) {
            Some(threads) if !threads.is_empty() => {
                plan.steps.extend(self.plan(view, &running, &threads, model).steps);
            }
            _ => {}
        }
        plan
    }
}

impl Corun {
    /// The running threads with what is known of them; none where one is not known yet.
    fn threads(
        &mut self,
        view: &View<'_>,
        running: &[&ThreadView],
        predictor: &dyn Predictor,
    ) -> Option<Vec<Thread>> {
        let mut threads = Vec::with_capacity(running.len());
        for thread in running {
            let places = view.machine.cpus().iter();
            let may: Vec<bool> = places.map(|place| thread.may_run_on.contains(place.id)).collect();
            let of_process = view.threads.iter().filter(|other| other.process == thread.process);
            let moves_memory = of_process.count() == 1;
            threads.push(Thread { worlds: self.worlds(thread, predictor)?, may, moves_memory });
        }
        Some(threads)
    }

    /// What is expected of each running thread where it is.
    fn expected(
        &self,
        machine: &Machine,
        running: &[&ThreadView],
        threads: Option<&[Thread]>,
        model: &Model,
    ) -> Vec<Expected> {
        let solved = threads
            .zip(self.situation(machine, running))
            .map(|(threads, at)| self.search(model, threads).outcomes(World::Likely, &at));
        let each = running.iter().enumerate();
        each.map(|(index, thread)| Expected {
            outcome: solved.as_ref().map(|outcomes| outcomes[index]),
            sharers: self.neighbours.get(&thread.id).map_or(1, |beside| beside.len() as u32),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests;
