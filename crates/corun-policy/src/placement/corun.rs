//! `corun`: threads go where the model predicts that all do best, and the ways of each LLC are divided so.
//!
//! Each interval the policy asks the model what the programs do to one another where they are, searches a
//! better placement by exchanges and moves of single threads ([`search`]) and a division of each LLC's ways among
//! clusters of programs ([`ways`]), and takes it up where the predicted gain until the next change exceeds what
//! the change costs and what the estimate may be wrong by ([`planning`]). Programs are described by their stored
//! profiles where the host has them, else by curves that the policy estimates from counters while they run
//! ([`curve`], [`learned`]) and from trials with more or fewer ways ([`trial`]); a placement that rests on these is
//! visited before it is taken up ([`checking`]). On machines of several nodes pages move where that pays, on machines of
//! several core types threads take turns on the fast cores ([`turns`]). With more threads than CPUs, who shares a CPU is
//! what is searched ([`crowd`]).

mod checking;
mod cost;
mod crowd;
mod curve;
mod exploring;
mod learned;
mod learner;
mod objective;
mod packing;
mod parameters;
mod parts;
mod phases;
mod planning;
mod programs;
mod search;
mod shared_caches;
mod trial;
mod turns;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use corun_machine::Machine;
use corun_model::{Model, ModelOptions};

use self::checking::{Checking, Checks};
use self::crowd::Crowd;
use self::learned::{Expected, Learned, Spell, World, Worlds};
use self::objective::Objective;
use self::parameters::{
    CAUTION, FOOTPRINT, INTERVAL, LEAST_ESTIMATED_GAIN, LEAST_GAIN, MOST_LOSS, OBJECTIVE, PROFILES,
    TARGET, TRIALS, WAYS,
};
use self::parts::{Layout, Parts};
use self::planning::Settled;
use self::search::{Situation, Thread};
use self::trial::Trials;
use self::turns::Turns;
use crate::{
    Action, ActionKind, Build, BuildOptions, CounterKind, Event, Interval, LiveForm,
    LoadedPredictor, Nanoseconds, Needs, Plan, Policy, PolicyEntry, Predictor, ThreadId,
    ThreadView, View,
};

pub use self::learned::LearnedProgram;
pub use self::learner::CurveLearner;

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "corun",
    summary: "places threads and memory and divides caches where the model predicts that all do best",
    source: "corun",
    parameters: &[
        INTERVAL,
        OBJECTIVE,
        TARGET,
        MOST_LOSS,
        LEAST_GAIN,
        LEAST_ESTIMATED_GAIN,
        CAUTION,
        PROFILES,
        WAYS,
        TRIALS,
        FOOTPRINT,
    ],
    build: Build::Policy(|options: &BuildOptions| Box::new(Corun::new(options))),
    live: LiveForm::AS_LIVE,
};

/// The policy with its parameters.
struct Corun {
    interval_cycles: u64,
    objective: Objective,
    most_loss: f64,
    least_gain: f64,
    least_estimated_gain: f64,
    caution: f64,
    uses_profiles: bool,
    footprint_bytes: f64,
    moves_pages: bool,
    divides_ways: bool,
    predictor: Option<Arc<dyn Predictor>>,
    /// Why the model cannot stand on the machine.
    failure: Option<String>,
    learned: Learned,
    /// What each thread had at the last look: its ways, and who shared them.
    shared: BTreeMap<ThreadId, Shared>,
    /// The programs present, and since when they are the same ones.
    programs: Vec<String>,
    same_since: Nanoseconds,
    /// Nodes that pages were sent to and have not reached yet.
    sent: BTreeMap<ThreadId, usize>,
    /// Threads that this policy holds.
    held: BTreeSet<ThreadId>,
    /// How the LLCs are divided.
    parts: Parts,
    trials: Trials,
    /// The placement that is tried before it is taken up.
    checks: Checks,
    /// Where the threads of a placement on trial were before, by CPU index.
    origin: Option<BTreeMap<ThreadId, usize>>,
    /// Who shares a CPU, where there are more threads than CPUs.
    crowd: Option<Crowd>,
    /// What the last search that changed nothing was about.
    settled: Option<Settled>,
    /// How fast threads were where they take turns.
    turns: Turns,
    /// Who was said to be slower than the target.
    told_slower: Vec<ThreadId>,
}

/// The core type that a thread runs on, the ways of its LLC that it has, and who shares them, itself included.
#[derive(Debug, Clone, PartialEq)]
struct Shared {
    core_type: Option<usize>,
    llc: Option<usize>,
    /// 0: all.
    mask: u64,
    by: Arc<BTreeSet<ThreadId>>,
}

impl Corun {
    fn new(options: &BuildOptions) -> Self {
        Self {
            interval_cycles: options.value(&INTERVAL) as u64,
            objective: Objective::of(options.value(&OBJECTIVE), options.value(&TARGET)),
            most_loss: options.value(&MOST_LOSS) / 100.0,
            least_gain: options.value(&LEAST_GAIN) / 100.0,
            least_estimated_gain: options.value(&LEAST_ESTIMATED_GAIN) / 100.0,
            caution: options.value(&CAUTION),
            uses_profiles: options.is_on(&PROFILES),
            footprint_bytes: options.value(&FOOTPRINT) * 1048576.0,
            moves_pages: true,
            divides_ways: options.is_on(&WAYS),
            predictor: None,
            failure: None,
            learned: Learned::default(),
            shared: BTreeMap::new(),
            programs: Vec::new(),
            same_since: Nanoseconds(0),
            sent: BTreeMap::new(),
            held: BTreeSet::new(),
            parts: Parts::default(),
            trials: Trials::new(options.value(&TRIALS)),
            checks: Checks::default(),
            origin: None,
            crowd: None,
            settled: None,
            turns: Turns::default(),
            told_slower: Vec::new(),
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

    /// Threads whose core type, neighbours or ways changed have counted two situations in one interval.
    fn note_neighbours(&mut self, machine: &Machine, running: &[&ThreadView]) {
        let place = |thread: &ThreadView| {
            let llc = machine.cpu_index(thread.cpu?).map(|cpu| machine.cpus()[cpu].llc)?;
            Some((llc, self.parts.asked.mask(llc, thread.id)))
        };
        let places: Vec<Option<(usize, u64)>> = running.iter().map(|one| place(one)).collect();
        let mut beside: BTreeMap<Option<(usize, u64)>, BTreeSet<ThreadId>> = BTreeMap::new();
        for (thread, &place) in running.iter().zip(&places) {
            beside.entry(place).or_default().insert(thread.id);
        }
        let beside: BTreeMap<_, _> =
            beside.into_iter().map(|(place, by)| (place, Arc::new(by))).collect();
        let mut now = BTreeMap::new();
        for (thread, place) in running.iter().zip(&places) {
            let (llc, mask) = place.map_or((None, 0), |(llc, mask)| (Some(llc), mask));
            let cpu = thread.cpu.and_then(|cpu| machine.cpu_index(cpu));
            let core_type = cpu.map(|cpu| machine.cpus()[cpu].core_type);
            now.insert(thread.id, Shared { core_type, llc, mask, by: beside[place].clone() });
        }
        for (id, shared) in &now {
            if self.shared.get(id) != Some(shared) {
                self.learned.forget_rates(*id);
            }
        }
        self.shared = now;
    }

    /// Where each thread is and which ways it has by these parts; none where one has not run yet.
    fn situation(
        &self,
        machine: &Machine,
        running: &[&ThreadView],
        parts: &Layout,
    ) -> Option<Situation> {
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
        let masks = parts.masks(machine, running, &cpus);
        Some(Situation { cpus, homes, masks })
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
            self.turns.leave(thread.id);
            if self.held.remove(&thread.id) && thread.allowed != thread.may_run_on {
                let cpus = thread.may_run_on.clone();
                let reason = format!("{}: {why}, left to the kernel", thread.program);
                plan.push(Action::Allow { thread: thread.id, cpus }, reason);
            }
        }
        plan
    }

    /// The time between two decisions where nothing is tried.
    fn interval_s(&self, machine: &Machine) -> f64 {
        let clocks = machine.core_types().iter().map(|core| core.clock_mhz);
        self.interval_cycles as f64 / (clocks.fold(1.0, f64::max) * 1e6)
    }

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
            let (worlds, process) = (self.worlds(thread, predictor)?, thread.process);
            threads.push(Thread { worlds, may, moves_memory, process });
        }
        Some(threads)
    }

    /// Learns from what the running threads counted.
    fn measure(
        &mut self,
        view: &View<'_>,
        running: &[&ThreadView],
        predictor: &dyn Predictor,
        spell: Spell,
    ) {
        let model = predictor.model();
        let threads = self.threads(view, running, predictor);
        let expected = self.expected(view.machine, running, threads.as_deref(), model);
        self.learned.measure(view, running, model, &expected, spell);
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
            .zip(self.situation(machine, running, &self.parts.asked))
            .map(|(threads, at)| self.search(model, threads).outcomes(World::Likely, &at));
        let equal_share = |thread: &ThreadView| {
            let shared = self.shared.get(&thread.id)?;
            let cache = machine.llcs()[shared.llc?].cache?;
            let bytes = match cache.ways.filter(|_| shared.mask != 0) {
                Some(ways) => {
                    let share = f64::from(shared.mask.count_ones()) / f64::from(ways);
                    cache.size_bytes as f64 * share
                }
                None => cache.size_bytes as f64,
            };
            Some(bytes / shared.by.len().max(1) as f64)
        };
        let each = running.iter().enumerate();
        each.map(|(index, thread)| Expected {
            outcome: solved.as_ref().map(|outcomes| outcomes[index]),
            equal_share_bytes: equal_share(thread).unwrap_or(f64::INFINITY),
        })
        .collect()
    }
}

/// Is a thread one to place: it ran, may run on CPUs of the machine, and does not leave its core to others?
fn takes_part(machine: &Machine, thread: &ThreadView) -> bool {
    let may = |cpu: corun_machine::CpuId| thread.may_run_on.contains(cpu);
    !thread.is_mostly_asleep()
        && thread.cpu.is_some_and(|cpu| machine.cpu_index(cpu).is_some())
        && machine.cpus().iter().any(|place| may(place.id))
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
        if self.divides_ways {
            controls.push(ActionKind::Partition);
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
        match control {
            ActionKind::MovePages => self.moves_pages = false,
            ActionKind::Partition => self.divides_ways = false,
            _ => return false,
        }
        true
    }

    fn unfit_for(&self, machine: &Machine) -> Option<String> {
        let is_unknown = self.objective.is_of_power() && machine.power().is_none();
        is_unknown.then(|| {
            "its machine file has no power figures ([power]), and the objective is energy"
                .to_owned()
        })
    }

    fn predict_by(&mut self, predictor: &Arc<dyn Predictor>) {
        self.predictor = Some(predictor.clone());
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        let came = match event {
            Event::Arrived(_) => true,
            Event::Switched { on, .. } => !on.is_empty(),
            Event::Exited(_) | Event::Slept(_) | Event::Woke(_) => false,
        };
        if matches!(event, Event::Arrived(_))
            && let Some(plan) = self.crowd(view)
        {
            return Some(plan);
        }
        if matches!(event, Event::Arrived(_)) && self.takes_turns(view.machine) {
            return self.welcome(view);
        }
        if came { self.parts.adopted(view) } else { None }
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        let Some(predictor) = self.predictor(view.machine) else { return Plan::none() };
        let model = predictor.model();
        let running: Vec<&ThreadView> =
            view.threads.iter().filter(|thread| takes_part(view.machine, thread)).collect();
        self.note_programs(view.now, &running);
        self.learned.interval_s = self.interval_s(view.machine);
        self.note_neighbours(view.machine, &running);
        self.note_pages(view);
        let mut plan = self.parts.adopted(view).unwrap_or_default();
        self.parts.forget_gone(view, &mut plan);
        let is_resting = self.checks.is_on() && !self.checks.is_visiting();
        if is_resting {
            self.measure(view, &running, predictor.as_ref(), Spell::Usual);
        } else if self.checks.is_on() {
            running.iter().for_each(|thread| self.learned.forget_rates(thread.id));
        }
        let mut passed = None;
        match self.check(view.machine, view.now, &running) {
            Checking::Busy(next) => {
                plan.steps.extend(next.steps);
                return plan;
            }
            Checking::Passed(places) => passed = Some(places),
            Checking::Off(next) => plan.steps.extend(next.steps),
        }
        if self.trials.is_settling() {
            // What was counted until now is of a cache that still fills.
            running.iter().for_each(|thread| self.learned.forget_rates(thread.id));
            self.trials.begin_counting();
            return plan;
        }
        let spell = match (self.trials.is_counting(), &self.origin) {
            (false, _) => Spell::Usual,
            (true, None) => Spell::TrialOfWays,
            (true, Some(_)) => Spell::TrialOfPlaces,
        };
        if !is_resting {
            self.measure(view, &running, predictor.as_ref(), spell);
        }
        if let Some(crowded) = self.crowd(view) {
            plan.steps.extend(crowded.steps);
            return plan;
        }
        // Their CPUs may be given to others, and they are not to wait for those when they wake.
        plan.steps.extend(self.release(view, "it sleeps", ThreadView::is_mostly_asleep).steps);
        self.trials.end();
        match self.threads(view, &running, predictor.as_ref()) {
            Some(threads) if !threads.is_empty() => {
                let next = match passed {
                    _ if self.takes_turns(view.machine) => {
                        self.turn(view, &running, &threads, model)
                    }
                    Some(places) => self.take_up(view, &running, &threads, model, &places),
                    None => self.plan(view, &running, &threads, model),
                };
                plan.steps.extend(next.steps);
            }
            _ => {}
        }
        plan
    }

    fn next_interval(&self) -> Option<Nanoseconds> {
        self.checks.next_interval().or_else(|| self.trials.next_interval())
    }

    fn not_in_force(&mut self, action: &Action) {
        match action {
            Action::Partition { llc, .. } => {
                self.trials.end();
                self.parts.not_in_force(*llc);
            }
            Action::MovePages { thread, .. } => {
                self.sent.remove(thread);
            }
            Action::Allow { thread, .. } => {
                self.checks.abandon();
                self.turns.leave(*thread);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
