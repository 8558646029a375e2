//! The policy around the algorithms: what is measured, when processes are mapped anew, and how the
//! mapping is held.

use std::collections::BTreeMap;

use corun_machine::{Cpu, CpuSet, Machine, NumaPenaltyFit};

use super::mapping::{Process, Seats, maximum_local, refine};
use super::penalty;
use super::processors::Processors;
use super::words;
use crate::placement::spread::usable_cpus;
use crate::{
    Action, ActionKind, BuildOptions, CounterKind, Interval, Nanoseconds, Needs, Parameter,
    ParameterKind, Plan, ProcessId, ThreadId, ThreadView, View,
};

/// Seconds of an epoch (section 3.4).
pub(crate) const EPOCH: Parameter = Parameter {
    name: "epoch-seconds",
    kind: ParameterKind::Number,
    default: 1.0,
    min: 1e-3,
    max: 1e6,
    summary: "seconds between two looks at the counters",
};

/// The change of a miss rate that makes processes be mapped anew (section 3.4).
pub(crate) const CHANGE: Parameter = Parameter {
    name: "change-percent",
    kind: ParameterKind::Number,
    default: 20.0,
    min: 0.0,
    max: 1e6,
    summary: "change of a program's MPKI, in percent, at which all are mapped anew",
};

/// A change of less is no change. The paper calls programs below 1 MPKI not memory-bound.
pub(crate) const LEAST_CHANGE: Parameter = Parameter {
    name: "least-change-mpki",
    kind: ParameterKind::Number,
    default: 1.0,
    min: 0.0,
    max: 1e6,
    summary: "change of a program's MPKI below which nothing is mapped anew; 0: as published",
};

/// Where penalties come from.
pub(crate) const REGRESSION: Parameter = Parameter {
    name: "regression",
    kind: ParameterKind::SWITCH,
    default: 0.0,
    min: 0.0,
    max: 1.0,
    summary: "1: NUMA penalties from the MPKI alone; 0: from the profile where there is one",
};

/// Where miss rates come from.
pub(crate) const PROFILE_MPKI: Parameter = Parameter {
    name: "profile-mpki",
    kind: ParameterKind::SWITCH,
    default: 0.0,
    min: 0.0,
    max: 1.0,
    summary: "1: the profile's MPKI, as in the paper's evaluation; 0: the MPKI as measured",
};

/// When memory follows.
pub(crate) const MOVE_PAGES: Parameter = Parameter {
    name: "move-pages-after-epochs",
    kind: ParameterKind::WholeNumber,
    default: 0.0,
    min: 0.0,
    max: 1e6,
    summary: "epochs in a row away from its memory after which that follows a program; 0: never",
};

/// What a link bears.
pub(crate) const THRESHOLD: Parameter = Parameter {
    name: "threshold-mpki",
    kind: ParameterKind::Number,
    default: 0.0,
    min: 0.0,
    max: 1e6,
    summary: "pressure under one cache above which nobody is sent there to run away from its \
              memory; 0: the machine's",
};

/// Does the mapping end with algorithm 3?
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Refinement {
    /// Algorithm 2 alone.
    None,
    /// With the threshold, where it is not the machine's, in misses per 1000 instructions.
    Balanced {
        /// The threshold; none: the machine's.
        threshold_mpki: Option<f64>,
    },
}

/// Why a policy between nodes has nothing to do on this machine.
pub(crate) fn one_node(machine: &Machine) -> Option<String> {
    let with_cpus = machine.nodes().iter().filter(|node| !node.cpus.is_empty()).count();
    (with_cpus < 2).then(|| {
        format!(
            "it decides on which NUMA node programs run, and here {with_cpus} has CPUs (expected at \
             least 2); `dio` spreads programs over the caches of a node"
        )
    })
}

/// What is remembered of a thread.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// Last measured, in misses per 1000 instructions.
    measured_mpki: Option<f64>,
    /// The node where it was first seen to run: its home while nobody says where its pages are.
    first_node: Option<usize>,
    /// What it was mapped by.
    mapped: Option<Mapped>,
    /// Epochs in a row that it has been away from its memory.
    epochs_away: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Mapped {
    processor: usize,
    mpki: Option<f64>,
    home: Option<usize>,
    /// Did it take a seat?
    counted: bool,
}

/// What was worked out for the machine, and for which CPUs.
struct Ground {
    cpus: Vec<Cpu>,
    usable: CpuSet,
    processors: Processors,
    fit: NumaPenaltyFit,
    machine_threshold_mpki: f64,
}

/// Maps processes in epochs.
pub(crate) struct Epochs {
    refinement: Refinement,
    epoch: Nanoseconds,
    change: f64,
    least_change_mpki: f64,
    regression: bool,
    profile_mpki: bool,
    move_pages_after: u64,
    known: BTreeMap<ThreadId, Known>,
    ground: Option<Ground>,
    /// Why each is where it is, from the last mapping.
    reasons: BTreeMap<ThreadId, String>,
}

impl Epochs {
    pub(crate) fn new(options: &BuildOptions, refinement: Refinement) -> Self {
        Self {
            refinement,
            epoch: Nanoseconds::from_secs_f64(options.value(&EPOCH)),
            change: options.value(&CHANGE) / 100.0,
            least_change_mpki: options.value(&LEAST_CHANGE),
            regression: options.is_on(&REGRESSION),
            profile_mpki: options.is_on(&PROFILE_MPKI),
            move_pages_after: options.value(&MOVE_PAGES) as u64,
            known: BTreeMap::new(),
            ground: None,
            reasons: BTreeMap::new(),
        }
    }

    /// Miss rates out of profiles need no counters; else a thread without a profile would stay
    /// unknown for ever.
    pub(crate) fn needs(&self) -> Needs {
        let counters = vec![CounterKind::Instructions, CounterKind::LlcMisses];
        let mut controls = vec![ActionKind::Place];
        if self.move_pages_after > 0 {
            controls.push(ActionKind::MovePages);
        }
        Needs {
            interval: Interval::Time(self.epoch),
            counters: if self.profile_mpki { Vec::new() } else { counters },
            controls,
            solo_figures: self.profile_mpki,
            by_ways: false,
        }
    }

    /// Gives those who came since the last mapping a place by algorithm 2; nobody else moves, since
    /// nothing is measured yet.
    pub(crate) fn arrived(&mut self, view: &View<'_>) -> Plan {
        let ground = self.ground(view);
        let processes = self.processes(view, &ground);
        let mut seats = Seats::new(&ground.processors, counted(&processes));
        let mut new = Vec::new();
        for (thread, process) in view.threads.iter().zip(&processes) {
            let known = self.known.get(&thread.id).and_then(|known| known.mapped);
            match known {
                Some(mapped) if process.is_some() => seats.occupy(mapped.processor),
                None => new.push(thread.id),
                _ => {}
            }
        }
        let turns = |(thread, process): (&ThreadView, Option<Process>)| {
            Some((thread.id, process?)).filter(|(id, _)| new.contains(id))
        };
        let (ids, newcomers): (Vec<ThreadId>, Vec<Process>) =
            view.threads.iter().zip(processes).filter_map(turns).unzip();
        let mapping = maximum_local(&ground.processors, &newcomers, &mut seats);
        for ((id, process), place) in ids.into_iter().zip(&newcomers).zip(mapping.on) {
            let (Some(processor), Some(thread)) = (place, view.thread(id)) else { continue };
            let from_profile = self.penalty_is_from_profile(thread);
            let reason = words::local(thread, process, from_profile, &ground.processors, processor);
            self.reasons.insert(id, reason);
            let mpki = self.mpki(thread);
            // Not counted: the next epoch maps all.
            let mapped = Mapped { processor, mpki, home: process.home, counted: false };
            self.known.entry(id).or_default().mapped = Some(mapped);
        }
        let plan = self.hold(view, &ground);
        self.ground = Some(ground);
        plan
    }

    /// An epoch is over.
    pub(crate) fn epoch(&mut self, view: &View<'_>) -> Plan {
        let left_a_core = self.forget_gone(view);
        let ground = self.ground(view);
        self.measure(view);
        let processes = self.processes(view, &ground);
        if left_a_core || self.has_changed(view, &processes) {
            self.map(view, &ground, processes);
        }
        let mut plan = self.hold(view, &ground);
        if self.move_pages_after > 0 {
            self.let_memory_follow(view, &ground, &mut plan);
        }
        self.ground = Some(ground);
        plan
    }

    /// The processors and coefficients; made anew when the usable CPUs are others.
    fn ground(&mut self, view: &View<'_>) -> Ground {
        let usable = usable_cpus(view, |thread| &view.threads[thread].may_run_on);
        let known = self.ground.take();
        known
            .filter(|known| known.usable == usable && known.cpus == view.machine.cpus())
            .unwrap_or_else(|| {
                // Places are numbers of other processors now.
                for known in self.known.values_mut() {
                    known.mapped = None;
                }
                Ground {
                    cpus: view.machine.cpus().to_vec(),
                    processors: Processors::new(view.machine, &usable),
                    usable,
                    fit: penalty::fit_of(view.machine),
                    machine_threshold_mpki: penalty::threshold_mpki(view.machine),
                }
            })
    }

    /// Returns whether a thread that took a core is gone: the core may be another's home.
    fn forget_gone(&mut self, view: &View<'_>) -> bool {
        let mut left_a_core = false;
        self.known.retain(|&id, known| {
            let is_here = view.thread(id).is_some();
            left_a_core |= !is_here && known.mapped.is_some_and(|mapped| mapped.counted);
            is_here
        });
        self.reasons.retain(|&id, _| view.thread(id).is_some());
        left_a_core
    }

    fn measure(&mut self, view: &View<'_>) {
        for thread in view.threads {
            let known = self.known.entry(thread.id).or_default();
            let now = thread.rates.llc_mpki().filter(|mpki| mpki.is_finite());
            known.measured_mpki = now.or(known.measured_mpki);
        }
    }

    /// What the algorithms go by, in the order of the view; none for a thread that takes no part: it
    /// may run nowhere, or it sleeps most of the time and leaves its core to others.
    fn processes(&mut self, view: &View<'_>, ground: &Ground) -> Vec<Option<Process>> {
        view.threads.iter().map(|thread| self.process(view, ground, thread)).collect()
    }

    fn process(
        &mut self,
        view: &View<'_>,
        ground: &Ground,
        thread: &ThreadView,
    ) -> Option<Process> {
        let processors = ground.processors.of(&thread.may_run_on);
        if thread.is_mostly_asleep() || processors.as_ref().is_some_and(Vec::is_empty) {
            return None;
        }
        let mpki = self.mpki(thread).unwrap_or(0.0);
        let stored = thread.solo.and_then(|solo| solo.numa_penalty);
        let penalty = match stored.filter(|_| !self.regression) {
            Some(penalty) => penalty,
            None => ground.fit.at(mpki),
        };
        let home = self.home(view, thread);
        Some(Process { home, mpki, penalty: penalty.max(1.0), processors })
    }

    fn penalty_is_from_profile(&self, thread: &ThreadView) -> bool {
        !self.regression && thread.solo.is_some_and(|solo| solo.numa_penalty.is_some())
    }

    fn mpki(&self, thread: &ThreadView) -> Option<f64> {
        let measured = self.known.get(&thread.id).and_then(|known| known.measured_mpki);
        let stored = thread.solo.map(|solo| solo.llc_mpki).filter(|mpki| mpki.is_finite());
        if self.profile_mpki { stored.or(measured) } else { measured.or(stored) }
    }

    /// The node of most of its pages; where nobody says, the node where it was first seen to run.
    fn home(&mut self, view: &View<'_>, thread: &ThreadView) -> Option<usize> {
        let mut home = None;
        for (node, &share) in thread.pages_by_node.iter().enumerate() {
            if share > home.map_or(0.0, |(_, most)| most) {
                home = Some((node, share));
            }
        }
        if let Some((node, _)) = home {
            return Some(node);
        }
        let known = self.known.entry(thread.id).or_default();
        if known.first_node.is_none() {
            let cpu = thread.cpu.and_then(|cpu| view.machine.cpu_index(cpu));
            known.first_node = cpu.map(|cpu| view.machine.cpus()[cpu].node);
        }
        known.first_node
    }

    /// Is there somebody new, with another home or with another miss rate than mapped by?
    fn has_changed(&self, view: &View<'_>, processes: &[Option<Process>]) -> bool {
        view.threads.iter().zip(processes).any(|(thread, process)| {
            let known = self.known.get(&thread.id).and_then(|known| known.mapped);
            match (known, process) {
                (None, process) => process.is_some(),
                (Some(mapped), None) => mapped.counted,
                (Some(mapped), Some(process)) => {
                    !mapped.counted
                        || mapped.home != process.home
                        || self.mpki_has_changed(mapped.mpki, self.mpki(thread))
                }
            }
        })
    }

    fn mpki_has_changed(&self, before: Option<f64>, now: Option<f64>) -> bool {
        match (before, now) {
            (Some(before), Some(now)) => {
                let change = (now - before).abs();
                change > self.change * before && change >= self.least_change_mpki
            }
            (before, now) => before.is_some() != now.is_some(),
        }
    }

    /// Algorithm 1.
    fn map(&mut self, view: &View<'_>, ground: &Ground, processes: Vec<Option<Process>>) {
        let processors = &ground.processors;
        let (mut threads, mut part) = (Vec::new(), Vec::new());
        for (place, process) in processes.into_iter().enumerate() {
            if let Some(process) = process {
                threads.push(place);
                part.push(process);
            } else if let Some(known) = self.known.get_mut(&view.threads[place].id) {
                known.mapped = known.mapped.map(|mapped| Mapped { counted: false, ..mapped });
            }
        }
        let mut seats = Seats::new(processors, part.len());
        let mut mapping = maximum_local(processors, &part, &mut seats);
        let moves = match self.refinement {
            Refinement::None => Vec::new(),
            Refinement::Balanced { threshold_mpki } => {
                let threshold = threshold_mpki.unwrap_or(ground.machine_threshold_mpki);
                refine(processors, &part, &mut mapping, &mut seats, threshold)
            }
        };
        self.reasons.clear();
        for (index, (&place, process)) in threads.iter().zip(&part).enumerate() {
            let thread = &view.threads[place];
            let Some(processor) = mapping.on[index] else { continue };
            let from_profile = self.penalty_is_from_profile(thread);
            let step = moves.iter().rev().find(|step| step.process == index);
            let mpki = self.mpki(thread);
            let known = self.known.entry(thread.id).or_default();
            known.mapped = Some(Mapped { processor, mpki, home: process.home, counted: true });
            let held = held_on(ground, processor, thread);
            // Words take longer than the rest of a decision: they are found where they are needed.
            if thread.allowed != held {
                let reason = match step {
                    Some(step) => words::moved(thread, process, from_profile, processors, step),
                    None => words::local(thread, process, from_profile, processors, processor),
                };
                self.reasons.insert(thread.id, reason);
            }
        }
    }

    /// Holds each thread on the CPUs of its processor: which of them it has is the kernel's business.
    fn hold(&self, view: &View<'_>, ground: &Ground) -> Plan {
        let mut plan = Plan::none();
        for thread in view.threads {
            let Some(mapped) = self.known.get(&thread.id).and_then(|known| known.mapped) else {
                continue;
            };
            let cpus = held_on(ground, mapped.processor, thread);
            if cpus.is_empty() || thread.allowed == cpus {
                continue;
            }
            let reason = self.reasons.get(&thread.id).cloned();
            let again = || format!("{}: back on CPUs {cpus}, where it was mapped", thread.program);
            let reason = reason.unwrap_or_else(again);
            plan.push(Action::Allow { thread: thread.id, cpus }, reason);
        }
        plan
    }

    /// Moves the pages of processes whose threads have all been away from them for long, on one node.
    fn let_memory_follow(&mut self, view: &View<'_>, ground: &Ground, plan: &mut Plan) {
        // By process: the node where its threads run, none where they disagree.
        let mut away: BTreeMap<ProcessId, Option<usize>> = BTreeMap::new();
        for thread in view.threads {
            let Some(known) = self.known.get_mut(&thread.id) else { continue };
            let Some(mapped) = known.mapped.filter(|mapped| mapped.counted) else { continue };
            let node = ground.processors.list[mapped.processor].node;
            let is_away = mapped.home.is_some_and(|home| home != node);
            known.epochs_away = if is_away { known.epochs_away + 1 } else { 0 };
            let long = known.epochs_away >= self.move_pages_after;
            let target = Some(node).filter(|_| long);
            let known = away.entry(thread.process).or_insert(target);
            *known = known.filter(|known| target == Some(*known));
        }
        for thread in view.threads {
            let Some(node) = away.insert(thread.process, None).flatten() else { continue };
            let epochs = self.known.get(&thread.id).map_or(0, |known| known.epochs_away);
            let reason = words::memory_follows(thread, view.machine, node, epochs);
            plan.push(Action::MovePages { thread: thread.id, node }, reason);
            for other in view.threads.iter().filter(|other| other.process == thread.process) {
                if let Some(known) = self.known.get_mut(&other.id) {
                    known.epochs_away = 0;
                }
            }
        }
    }
}

fn counted(processes: &[Option<Process>]) -> usize {
    processes.iter().flatten().count()
}

/// The CPUs on which a thread of a processor is held.
fn held_on(ground: &Ground, processor: usize, thread: &ThreadView) -> CpuSet {
    let cpus = &ground.processors.list[processor].cpus;
    if cpus.is_subset(&thread.may_run_on) {
        return cpus.clone();
    }
    cpus.intersection(&thread.may_run_on)
}
