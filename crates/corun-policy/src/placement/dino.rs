//! `dino`: Distributed Intensity NUMA Online (Blagodurov, Zhuravlev, Dashti and Fedorova, A Case for NUMA-aware
//! Contention Management on Multicore Systems, USENIX ATC 2011): threads are spread by the class of their miss rate,
//! so that they move seldom, and memory moves along.
//!
//! The introduction could be read, and the authors' public implementation (the scheduler Clavis); the whole paper
//! could not. docs/policies.md lists what is ours.

mod classes;

use std::collections::{BTreeMap, BTreeSet};

use self::classes::{Classes, Limits};
use crate::placement::dio_2010::{INTERVAL, MEASURE, needs};
use crate::placement::spread::{Memory, Spread};
use crate::{
    Action, ActionKind, Build, BuildOptions, Event, LiveForm, Needs, Parameter, ParameterKind,
    Plan, Policy, PolicyEntry, ProcessId, ThreadView, View,
};

const DEVIL: Parameter = Parameter {
    name: "devil-mpki",
    kind: ParameterKind::Number,
    default: 2.0,
    min: 0.0,
    max: 1e6,
    summary: "misses per 1000 instructions from which on a thread is a devil, not a turtle",
};

const SUPER_DEVIL: Parameter = Parameter {
    name: "super-devil-mpki",
    kind: ParameterKind::Number,
    default: 100.0,
    min: 0.0,
    max: 1e6,
    summary: "misses per 1000 instructions from which on a thread is a super-devil",
};

const READINGS: Parameter = Parameter {
    name: "readings",
    kind: ParameterKind::WholeNumber,
    default: 10.0,
    min: 1.0,
    max: 1000.0,
    summary: "latest readings of which half must be of another class before a thread changes to it",
};

const MOST_MOVES: Parameter = Parameter {
    name: "most-page-moves",
    kind: ParameterKind::WholeNumber,
    default: 5.0,
    min: 0.0,
    max: 1e6,
    summary: "times that a program's memory is moved at most; 0: never",
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "dino",
    summary: "spreads threads by the class of their miss rate, moves few, and moves memory along between nodes",
    source: "Blagodurov et al., USENIX ATC 2011, by its introduction and the authors' implementation",
    parameters: &[INTERVAL, DEVIL, SUPER_DEVIL, READINGS, MOST_MOVES],
    build: Build::Policy(|options: &BuildOptions| Box::new(Dino::new(options))),
    live: LiveForm::AS_LIVE,
};

/// The policy with its parameters.
struct Dino {
    interval_cycles: u64,
    classes: Classes,
    memory: Memory,
    /// Can and shall memory be moved? How often at most?
    most_page_moves: u32,
    /// How often each program's memory was moved.
    page_moves: BTreeMap<ProcessId, u32>,
}

impl Dino {
    fn new(options: &BuildOptions) -> Self {
        let limits = Limits {
            devil_mpki: options.value(&DEVIL),
            super_devil_mpki: options.value(&SUPER_DEVIL),
            readings: options.value(&READINGS) as usize,
        };
        Self {
            interval_cycles: options.value(&INTERVAL) as u64,
            classes: Classes::new(limits),
            memory: Memory::default(),
            most_page_moves: options.value(&MOST_MOVES) as u32,
            page_moves: BTreeMap::new(),
        }
    }

    /// Moves the memory of programs whose threads are all to be held on one node, and that is another than the one of
    /// most of its pages. `plan` holds the threads' moves.
    fn let_memory_follow(&mut self, view: &View<'_>, plan: &mut Plan) {
        self.page_moves.retain(|process, _| view.threads.iter().any(|one| one.process == *process));
        if view.machine.nodes().len() < 2 {
            return;
        }
        let moved = |thread: &ThreadView| {
            plan.steps.iter().any(|step| match &step.action {
                Action::Allow { thread: one, .. } => *one == thread.id,
                Action::Swap { first, second } => *first == thread.id || *second == thread.id,
                _ => false,
            })
        };
        let moving: Vec<&ThreadView> = view.threads.iter().filter(|one| moved(one)).collect();
        let mut seen = BTreeSet::new();
        let mut steps = Vec::new();
        for thread in moving {
            if !seen.insert(thread.process) {
                continue;
            }
            let Some(node) = target_node(view, plan, thread.process) else { continue };
            if memory_node(view, thread).is_none_or(|home| home == node) {
                continue;
            }
            let moves = self.page_moves.entry(thread.process).or_default();
            if *moves >= self.most_page_moves {
                continue;
            }
            *moves += 1;
            let reason = format!("{}: its memory goes along to node {node}", thread.program);
            steps.push((Action::MovePages { thread: thread.id, node }, reason));
        }
        for (action, reason) in steps {
            plan.push(action, reason);
        }
    }
}

/// The node on which all threads of a process will be held; none where they are not held on one.
fn target_node(view: &View<'_>, plan: &Plan, process: ProcessId) -> Option<usize> {
    let of = |thread: &ThreadView| {
        let held = |id| view.thread(id).map(|one| one.allowed.clone());
        let mut cpus = thread.allowed.clone();
        for step in &plan.steps {
            match &step.action {
                Action::Allow { thread: one, cpus: to } if *one == thread.id => cpus = to.clone(),
                Action::Swap { first, second } if *first == thread.id => cpus = held(*second)?,
                Action::Swap { first, second } if *second == thread.id => cpus = held(*first)?,
                _ => {}
            }
        }
        let mut nodes = cpus.iter().filter_map(|cpu| view.machine.cpu_index(cpu));
        let first = view.machine.cpus()[nodes.next()?].node;
        nodes.all(|cpu| view.machine.cpus()[cpu].node == first).then_some(first)
    };
    let mut threads = view.threads.iter().filter(|one| one.process == process).map(of);
    let first = threads.next()??;
    threads.all(|node| node == Some(first)).then_some(first)
}

/// The node of most of a thread's pages; where nobody says, the node where it runs.
fn memory_node(view: &View<'_>, thread: &ThreadView) -> Option<usize> {
    let shares = thread.pages_by_node.iter().copied().enumerate();
    let most = shares.fold(None, |most: Option<(usize, f64)>, (node, share)| {
        if share > most.map_or(0.0, |one| one.1) { Some((node, share)) } else { most }
    });
    let here = || Some(view.machine.cpus()[view.machine.cpu_index(thread.cpu?)?].node);
    most.map(|(node, _)| node).or_else(here)
}

impl Policy for Dino {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn needs(&self) -> Needs {
        let mut needs = needs(self.interval_cycles);
        if self.most_page_moves > 0 {
            needs.controls.push(ActionKind::MovePages);
        }
        needs
    }

    /// Threads are still spread by their classes where memory cannot be moved.
    fn do_without(&mut self, control: ActionKind) -> bool {
        if control == ActionKind::MovePages {
            self.most_page_moves = 0;
        }
        control == ActionKind::MovePages
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        if !matches!(event, Event::Arrived(_)) {
            return None;
        }
        let figures = self.classes.figures(view);
        let spread = Spread::new(view, &figures, &mut self.memory);
        Some(spread.plan_for_newcomers(&spread.arrived(), MEASURE))
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.classes.read(view);
        let figures = self.classes.figures(view);
        if figures.iter().all(Option::is_none) {
            return Plan::none();
        }
        let spread = Spread::new(view, &figures, &mut self.memory);
        let places = spread.sorted(&mut self.memory);
        let mut plan = spread.plan(&places, MEASURE);
        if self.most_page_moves > 0 {
            self.let_memory_follow(view, &mut plan);
        }
        plan
    }
}

#[cfg(test)]
mod tests;
