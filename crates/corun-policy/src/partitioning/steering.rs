//! Policies that steer: every interval they see what each program did with what it had, and change ways and caps on
//! memory traffic step by step. What such policies share.
//!
//! A [`Controller`] decides for one LLC; [`SteeringPolicy`] counts, follows who comes and goes, and asks for what
//! has changed.

use std::collections::BTreeMap;

use super::asked::{Division, InForce};
use super::members::{Members, is_among, members};
use super::online::window::{Sample, Window};
use super::online::{Cache, cache, may_show_newcomers, no_two_partitions};
use crate::{
    Action, ActionKind, CachePart, CounterKind, Event, Interval, Nanoseconds, Needs, Parameter,
    ParameterKind, Plan, Policy, ProcessId, View,
};

/// How often a steering policy decides unless its source says otherwise.
pub(crate) const INTERVAL_MS: Parameter = Parameter {
    name: "interval-ms",
    kind: ParameterKind::Number,
    default: 500.0,
    min: 1.0,
    max: 1e6,
    summary: "time between decisions, in ms",
};

/// A program on the LLC and what it did in the last interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Program {
    pub(crate) process: ProcessId,
    /// None where nothing was counted: it slept, it is new, or a reading failed.
    pub(crate) sample: Option<Sample>,
    /// Bytes of the LLC that it holds, where that is counted.
    pub(crate) held_bytes: Option<f64>,
}

/// What a program is to have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Setting {
    /// Its ways, bit i for way i.
    pub(crate) mask: u64,
    /// The most that it may draw from memory, in MB/s (1e6 bytes a second); none: as much as it gets.
    pub(crate) cap_mb_per_s: Option<f64>,
    /// What decided, in words.
    pub(crate) why: String,
}

/// Decides for one LLC.
pub(crate) trait Controller: Send {
    /// What each program is to have in the next interval, in their order. There are two programs or more, and
    /// ways for two partitions.
    fn step(&mut self, programs: &[Program], cache: &Cache) -> Vec<Setting>;
}

/// What makes a controller for an LLC.
pub(crate) type Make = Box<dyn Fn() -> Box<dyn Controller> + Send>;

/// Runs a controller on every LLC.
pub(crate) struct SteeringPolicy {
    name: &'static str,
    interval: Nanoseconds,
    counters: Vec<CounterKind>,
    caps: bool,
    make: Make,
    llcs: Vec<SteeredLlc>,
}

#[derive(Default)]
struct SteeredLlc {
    members: Members,
    windows: BTreeMap<ProcessId, Window>,
    controller: Option<Box<dyn Controller>>,
    /// By program, what was decided last.
    settings: BTreeMap<ProcessId, Setting>,
    asked: InForce,
}

impl SteeringPolicy {
    /// `caps`: does the controller cap traffic?
    pub(crate) fn new(
        name: &'static str,
        interval_ms: f64,
        counters: Vec<CounterKind>,
        caps: bool,
        make: Make,
    ) -> Self {
        let interval = Nanoseconds((interval_ms * 1e6) as u64);
        Self { name, interval, counters, caps, make, llcs: Vec::new() }
    }

    fn follow(&mut self, view: &View<'_>) {
        let members = members(view);
        self.llcs.resize_with(members.len(), SteeredLlc::default);
        for (llc, members) in self.llcs.iter_mut().zip(members) {
            llc.follow(members);
        }
    }

    fn plan(&mut self, view: &View<'_>) -> Plan {
        let mut plan = Plan::none();
        for (index, llc) in self.llcs.iter_mut().enumerate() {
            llc.ask(index, cache(view, index), self.caps, view, &mut plan);
        }
        plan
    }
}

impl SteeredLlc {
    /// Takes over who is here.
    fn follow(&mut self, members: Members) {
        let is_here = |process: &ProcessId| members.iter().any(|(one, _)| one == process);
        self.windows.retain(|process, _| is_here(process));
        self.settings.retain(|process, _| is_here(process));
        self.members = members;
    }

    /// Reads the counters and lets the controller decide.
    fn step(&mut self, cache: &Cache, make: &Make, view: &View<'_>) {
        let mut programs = Vec::with_capacity(self.members.len());
        for (process, threads) in &self.members {
            let views = || threads.iter().filter_map(|&id| view.thread(id));
            let window = self.windows.entry(*process).or_default();
            window.look(views());
            let held: Option<f64> = views().map(|thread| thread.llc_occupancy_bytes).sum();
            programs.push(Program {
                process: *process,
                sample: window.close(1.0),
                held_bytes: held.filter(|held| held.is_finite() && *held >= 0.0),
            });
        }
        if programs.len() < 2 || cache.ways < 2 * cache.least_ways {
            self.controller = None;
            self.settings.clear();
            return;
        }
        let settings = self.controller.get_or_insert_with(make).step(&programs, cache);
        self.settings = programs.iter().map(|one| one.process).zip(settings).collect();
    }

    /// Adds to the plan what has to change. A program of which nothing is decided yet has all ways and no cap.
    fn ask(
        &mut self,
        index: usize,
        cache: Option<Cache>,
        caps: bool,
        view: &View<'_>,
        plan: &mut Plan,
    ) {
        let whole = cache.map_or(0, |cache| super::mask(0, cache.ways));
        let mut asked = Division::default();
        let mut words = Vec::new();
        for (process, threads) in &self.members {
            let setting = self.settings.get(process);
            let mask = setting.map_or(whole, |setting| setting.mask);
            match asked.parts.iter_mut().find(|part| part.mask == mask) {
                Some(part) => part.threads.extend_from_slice(threads),
                None => asked.parts.push(CachePart { mask, threads: threads.clone() }),
            }
            let cap = setting.and_then(|setting| setting.cap_mb_per_s).filter(|_| caps);
            asked.caps.extend(cap.map(|cap| (threads.clone(), cap)));
            let name = threads.first().and_then(|&id| view.thread(id));
            let name = name.map_or("", |thread| thread.program.as_str());
            let why = setting.map_or("nothing is known of it yet", |setting| &setting.why);
            words.push(format!("{name} {} ways ({why})", mask.count_ones()));
        }
        if asked.parts.iter().all(|part| part.mask == whole) {
            asked.parts.clear();
        }
        let reason = || format!("LLC {index}: {}", words.join(", "));
        self.asked.ask((index, asked), reason, "capped", view, plan);
    }
}

impl Policy for SteeringPolicy {
    fn name(&self) -> &str {
        self.name
    }

    fn needs(&self) -> Needs {
        let mut controls = vec![ActionKind::Partition];
        if self.caps {
            controls.push(ActionKind::CapBandwidth);
        }
        Needs {
            interval: Interval::Time(self.interval),
            counters: self.counters.clone(),
            controls,
            solo_figures: false,
            by_ways: false,
        }
    }

    /// Ways alone are steered where nothing caps traffic.
    fn do_without(&mut self, control: ActionKind) -> bool {
        let is_caps = control == ActionKind::CapBandwidth;
        self.caps &= !is_caps;
        is_caps
    }

    fn unfit_for(&self, machine: &corun_machine::Machine) -> Option<String> {
        no_two_partitions(machine)
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        may_show_newcomers(event).then(|| {
            self.follow(view);
            self.plan(view)
        })
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.follow(view);
        for (index, llc) in self.llcs.iter_mut().enumerate() {
            if let Some(cache) = cache(view, index) {
                llc.step(&cache, &self.make, view);
            }
            llc.asked.begin_interval();
        }
        self.plan(view)
    }

    fn not_in_force(&mut self, action: &Action) {
        for (index, llc) in self.llcs.iter_mut().enumerate() {
            llc.asked.not_in_force(index, |one| is_among(&llc.members, *one), action);
        }
    }
}

#[cfg(test)]
mod tests;
