//! `casc`: cache-aware scheduling for multithreaded chip multiprocessors (Fedorova et al.): who misses
//! much may run on few CPUs, so that such threads are seldom on CPUs together.
//!
//! The miss ratio of the group on the CPUs is taken to be the mean of its threads' PCMRs, misses per
//! 100 references with 1/n of the cache. Groups are measured whenever they happen to run; from the
//! ratios of groups follow the PCMRs, from these each CPU's MAX_PCMR.

mod buckets;
mod measure;
mod newcomers;
mod parameters;
mod sampled;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use corun_machine::{CpuId, CpuSet};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use self::buckets::{Buckets, Item, Limits, bucketize};
use self::measure::{Interval, Mean, Measured, Rows};
use self::newcomers::Newcomers;
use self::parameters::{
    GROWTH, LOOK, MIN_INTERVAL, MIN_RUN, MIN_THREADS, PARTED, REMEASURE, START_DELAY, THRESHOLD,
    WEIGHT,
};
use self::sampled::{COLD, Samples};
use crate::placement::spread::usable_cpus;
use crate::{
    Action, ActionKind, Build, BuildOptions, CounterKind, Event, LiveForm, Nanoseconds, Needs,
    Plan, Policy, PolicyEntry, ThreadId, ThreadState, ThreadView, View,
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "casc",
    summary: "lets threads that miss much in the shared cache run on few CPUs, never together",
    source: "Fedorova et al., CASC: cache-aware scheduling for chip multithreading processors",
    parameters: parameters::ALL,
    build: Build::Policy(|options: &BuildOptions| Box::new(Casc::new(options))),
    live: LiveForm::AS_LIVE,
};

/// The initial measurement ends with the rows that it has after so long (the paper's took 10 s).
const PATIENCE_S: f64 = 15.0;
/// Priorities that are raised for a measurement expire after so many looks unless raised again.
const LOOKS_A_RAISE: u64 = 4;
/// Observed and predicted ratios are compared over so much measured time.
const WATCH_S: f64 = 0.25;
/// Ratios that differ by less never count as parted, in misses per 100 references.
const LEAST_PARTED: f64 = 2.0;

/// What the policy has found out: for studies that look into it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CascFindings {
    /// Misses per 100 references of each thread with its part of the cache, where known.
    pub pcmr: BTreeMap<ThreadId, f64>,
    /// MAX_PCMR by CPU; empty before the first bucketization.
    pub max_pcmr: Vec<u32>,
    /// The threshold that was aimed at, and whether it was reached.
    pub threshold: f64,
    /// See [`Self::threshold`].
    pub threshold_met: bool,
    /// When the initial measurement ended; none before.
    pub initial_end: Option<Nanoseconds>,
    /// When all threads were measured; none before.
    pub all_known: Option<Nanoseconds>,
    /// Group miss ratios since then: seconds, predicted, observed.
    pub groups: Vec<(f64, f64, f64)>,
    /// How often the measurement was begun anew.
    pub measured_anew: u32,
}

/// Groups kept in [`CascFindings::groups`] at most.
const MOST_GROUPS: usize = 100_000;

/// The policy, and what it finds out.
pub fn casc_observed(options: &BuildOptions) -> (Box<dyn Policy>, Arc<Mutex<CascFindings>>) {
    let mut policy = Casc::new(options);
    let findings = Arc::new(Mutex::new(CascFindings::default()));
    policy.told = Some(findings.clone());
    (Box::new(policy), findings)
}

/// How observed and predicted ratios have compared.
#[derive(Debug, Default)]
struct Watch {
    observed: Mean,
    predicted: Mean,
    /// Observed less predicted when the present estimates were new: what the rule of the mean is
    /// wrong by.
    usual: Option<f64>,
}

struct Casc {
    limits: Limits,
    min_run_s: f64,
    min_interval_s: f64,
    start_delay: Nanoseconds,
    weight: f64,
    look: Nanoseconds,
    parted_percent: f64,
    remeasure: Nanoseconds,
    generator: Pcg64Mcg,
    arrived: BTreeMap<ThreadId, Nanoseconds>,
    pcmr: BTreeMap<ThreadId, f64>,
    /// The lower ends of the PCMRs' intervals, where they have intervals.
    low: BTreeMap<ThreadId, f64>,
    rows: Option<Rows>,
    /// Weights before they were raised.
    raised: BTreeMap<ThreadId, f64>,
    newcomers: Newcomers,
    buckets: Option<Buckets>,
    /// The CPUs that the buckets are of.
    divided: Vec<CpuId>,
    interval: Option<Interval>,
    /// Has the host ever said that threads were switched?
    switched: bool,
    samples: Samples,
    watch: Watch,
    forgotten: Nanoseconds,
    told: Option<Arc<Mutex<CascFindings>>>,
}

impl Casc {
    fn new(options: &BuildOptions) -> Self {
        let ms = |parameter| Nanoseconds::from_secs_f64(options.value(parameter) * 1e-3);
        Self {
            limits: Limits {
                threshold: options.value(&THRESHOLD),
                growth: options.value(&GROWTH),
                min_threads: options.value(&MIN_THREADS) as usize,
            },
            min_run_s: options.value(&MIN_RUN) * 1e-3,
            min_interval_s: options.value(&MIN_INTERVAL) * 1e-3,
            start_delay: ms(&START_DELAY),
            weight: options.value(&WEIGHT),
            look: ms(&LOOK),
            parted_percent: options.value(&PARTED),
            remeasure: ms(&REMEASURE),
            generator: Pcg64Mcg::seed_from_u64(options.seed),
            arrived: BTreeMap::new(),
            pcmr: BTreeMap::new(),
            low: BTreeMap::new(),
            rows: None,
            raised: BTreeMap::new(),
            newcomers: Newcomers::default(),
            buckets: None,
            divided: Vec::new(),
            interval: None,
            switched: false,
            samples: Samples::default(),
            watch: Watch::default(),
            forgotten: Nanoseconds(0),
            told: None,
        }
    }

    fn tell(&self, what: impl FnOnce(&mut CascFindings)) {
        if let Some(told) = &self.told {
            what(&mut told.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Begins the initial measurement with the first n + 1 threads, where there are as many.
    fn begin(&mut self, view: &View<'_>, plan: &mut Plan) {
        let cpus = usable(view).len();
        let first: Vec<ThreadId> =
            placeable(view).map(|(thread, _)| thread.id).take(cpus + 1).collect();
        if self.rows.is_some() || self.buckets.is_some() || first.len() <= cpus {
            return;
        }
        self.rows = Some(Rows::new(first, view.now));
        // Where switches are not told, no group can be measured by itself, and nobody has to run ahead.
        if self.switched {
            self.raise(view, plan);
        }
    }

    /// Raises the priority of the group that is due, for a few looks more. The thread that
    /// it leaves out steps back: with all n + 1 ahead, those that have a CPU to themselves would keep it.
    fn raise(&mut self, view: &View<'_>, plan: &mut Plan) {
        let Some(rows) = &self.rows else { return };
        let until = Nanoseconds(view.now.0 + LOOKS_A_RAISE * self.look.0);
        let out = rows.threads[rows.due()];
        for thread in rows.threads.iter().filter_map(|&id| view.thread(id)) {
            if thread.id != out {
                let weight = *self.raised.entry(thread.id).or_insert(thread.weight) * self.weight;
                let reason = format!("{}: runs ahead while its group is measured", thread.program);
                let action = Action::SetWeight { thread: thread.id, weight, until: Some(until) };
                plan.push(action, reason);
            } else if let Some(weight) = self.raised.remove(&out) {
                let reason = format!("{}: the others' group is measured", thread.program);
                plan.push(Action::SetWeight { thread: out, weight, until: None }, reason);
            }
        }
    }

    fn lower(&mut self, view: &View<'_>, plan: &mut Plan) {
        for (id, weight) in std::mem::take(&mut self.raised) {
            if let Some(thread) = view.thread(id) {
                let reason = format!("{}: measured", thread.program);
                plan.push(Action::SetWeight { thread: id, weight, until: None }, reason);
            }
        }
    }

    /// The initial measurement is over, if it is.
    fn finish_rows(&mut self, view: &View<'_>, plan: &mut Plan) {
        let Some(rows) = &self.rows else { return };
        let waited_s = (view.now.0 - rows.since.0) as f64 * 1e-9;
        if !rows.is_complete(self.min_run_s) && waited_s < PATIENCE_S {
            return;
        }
        let Some(found) = rows.solve() else { return };
        self.pcmr.extend(rows.threads.iter().copied().zip(found));
        self.rows = None;
        self.lower(view, plan);
        self.watch = Watch::default();
        self.tell(|told| told.initial_end = Some(view.now));
        self.divide(view, plan);
    }

    /// Bucketization, and who may run where after it.
    fn divide(&mut self, view: &View<'_>, plan: &mut Plan) {
        let usable = usable(view);
        let cpus: Vec<CpuId> = usable.iter().collect();
        let item = |(thread, may): (&ThreadView, CpuSet)| {
            let pcmr = *self.pcmr.get(&thread.id)?;
            let held = (may != usable).then(|| cpus.iter().map(|&cpu| may.contains(cpu)).collect());
            Some(Item { pcmr, cpus: held })
        };
        let items: Vec<Item> = placeable(view).filter_map(item).collect();
        let limits = self.limits_here(items.len(), cpus.len());
        self.buckets = Some(bucketize(&items, cpus.len(), &limits));
        self.divided = cpus;
        self.hold(view, plan);
    }

    /// The threads or the CPUs are others now.
    fn divide_again(&mut self, view: &View<'_>, plan: &mut Plan) {
        if placeable(view).count() <= usable(view).len() {
            // One for each CPU, or fewer: there is nothing to choose.
            self.start_anew(view, plan);
        } else {
            self.divide(view, plan);
        }
    }

    /// Where switches are not told each CPU keeps its share of the threads: what a wrong estimate can cost is
    /// then who runs beside whom, and not CPU time.
    fn limits_here(&self, threads: usize, cpus: usize) -> Limits {
        let fair = if self.switched { 0 } else { threads / cpus.max(1) };
        Limits { min_threads: self.limits.min_threads.max(fair), ..self.limits }
    }

    /// Holds each thread where its PCMR lets it run; one that is not known on the first CPU, while it can be measured.
    fn hold(&mut self, view: &View<'_>, plan: &mut Plan) {
        let Some(buckets) = &self.buckets else { return };
        let mut all_known = true;
        let can_measure = can_measure(view);
        for (thread, may) in placeable(view) {
            let (cpus, reason) = match self.pcmr.get(&thread.id) {
                Some(&pcmr) => {
                    let cpus = self.divided.iter().copied().enumerate();
                    // What may be chance keeps nobody from a CPU.
                    let least = self.low.get(&thread.id).copied().unwrap_or(pcmr);
                    let open = cpus.filter(|(place, _)| buckets.allows(least, *place));
                    let open: CpuSet =
                        open.map(|(_, cpu)| cpu).filter(|&cpu| may.contains(cpu)).collect();
                    let reason = if buckets.met { "" } else { "; the threshold cannot be met" };
                    (
                        open,
                        format!(
                            "PCMR {pcmr:.1}, mean MAX_PCMR {:.1} for a threshold of {:.1}{reason}",
                            buckets::mean(&buckets.max_pcmr),
                            buckets.threshold
                        ),
                    )
                }
                None if self.switched => {
                    all_known = false;
                    if can_measure {
                        let first = may.first().map_or_else(CpuSet::default, one_cpu);
                        (first, "new, measured beside known threads".to_owned())
                    } else {
                        (may.clone(), "new, and too few run to be measured beside".to_owned())
                    }
                }
                None => continue,
            };
            // Who was measured beside others on a machine that changed since: anywhere.
            let cpus = if cpus.is_empty() { may } else { cpus };
            if thread.allowed != cpus {
                let reason = format!("{}: {reason}", thread.program);
                plan.push(Action::Allow { thread: thread.id, cpus }, reason);
            }
        }
        self.tell(|told| {
            told.pcmr.clone_from(&self.pcmr);
            told.max_pcmr.clone_from(&buckets.max_pcmr);
            (told.threshold, told.threshold_met) = (buckets.threshold, buckets.met);
            if !all_known {
                told.all_known = None;
            } else if told.all_known.is_none() {
                told.all_known = Some(view.now);
                told.groups.clear();
            }
        });
    }

    /// Forgets all and lets everybody run where his user allowed it.
    fn start_anew(&mut self, view: &View<'_>, plan: &mut Plan) {
        self.pcmr.clear();
        self.low.clear();
        self.newcomers = Newcomers::default();
        self.rows = None;
        self.buckets = None;
        self.interval = None;
        self.samples.clear();
        self.watch = Watch::default();
        self.lower(view, plan);
        for (thread, may) in placeable(view).filter(|(thread, may)| thread.allowed != *may) {
            let reason = format!("{}: all are measured anew", thread.program);
            plan.push(Action::Allow { thread: thread.id, cpus: may }, reason);
        }
    }

    /// Compares what a group did with what was predicted of it; true when they have parted.
    fn watch(&mut self, seconds: f64, observed: f64, predicted: f64) -> bool {
        self.tell(|told| {
            if told.all_known.is_some() && told.groups.len() < MOST_GROUPS {
                told.groups.push((seconds, predicted, observed));
            }
        });
        let watch = &mut self.watch;
        watch.observed.add(observed, seconds);
        watch.predicted.add(predicted, seconds);
        let (Some(observed), Some(predicted)) = (watch.observed.value(), watch.predicted.value())
        else {
            return false;
        };
        if watch.observed.seconds < WATCH_S {
            return false;
        }
        (watch.observed, watch.predicted) = (Mean::default(), Mean::default());
        let Some(usual) = watch.usual else {
            watch.usual = Some(observed - predicted);
            return false;
        };
        let parted = (observed - predicted - usual).abs();
        let limit = (self.parted_percent * 1e-2 * (predicted + usual).abs()).max(LEAST_PARTED);
        self.parted_percent > 0.0 && parted > limit
    }

    fn measure_anew(&mut self, view: &View<'_>, plan: &mut Plan) {
        self.tell(|told| {
            told.measured_anew += 1;
            told.all_known = None;
        });
        self.start_anew(view, plan);
        self.begin(view, plan);
    }

    /// The running set changed: ends the interval, uses it, begins the next.
    fn switched(&mut self, view: &View<'_>) -> Plan {
        let mut plan = Plan::none();
        if !std::mem::replace(&mut self.switched, true) {
            // The groups are there without anybody raised, or a look before the first switch dropped them.
            match self.rows {
                Some(_) => self.raise(view, &mut plan),
                None => self.begin(view, &mut plan),
            }
        }
        let ended = self.interval.take().and_then(|one| one.end(view, self.min_interval_s));
        if let Some(measured) = ended {
            self.use_interval(&measured, view, &mut plan);
        }
        self.interval = Interval::begin(view, usable(view).len());
        plan
    }

    fn use_interval(&mut self, measured: &Measured, view: &View<'_>, plan: &mut Plan) {
        let ready = |id: &ThreadId| {
            let arrived = self.arrived.get(id).copied().unwrap_or_default();
            measured.since.0 >= arrived.0 + self.start_delay.0
        };
        if !measured.members.iter().all(ready) {
            return;
        }
        if let Some(rows) = &mut self.rows {
            let before = rows.due();
            rows.add(measured, self.min_run_s);
            let next = rows.due() != before;
            self.finish_rows(view, plan);
            if next {
                self.raise(view, plan);
            }
            return;
        }
        if self.buckets.is_none() {
            return;
        }
        let known: Vec<f64> =
            measured.members.iter().filter_map(|id| self.pcmr.get(id).copied()).collect();
        if known.len() < measured.members.len() {
            return self.add_newcomer(measured, view, plan);
        }
        let predicted = known.iter().sum::<f64>() / known.len() as f64;
        if self.watch(measured.seconds, measured.miss_ratio, predicted) {
            self.measure_anew(view, plan);
        }
    }

    /// A look where the host does not say when threads are switched.
    fn sample(&mut self, view: &View<'_>, plan: &mut Plan) {
        self.rows = None;
        let warm: BTreeSet<ThreadId> = placeable(view)
            .map(|(thread, _)| thread.id)
            .filter(|id| self.arrived.get(id).is_none_or(|at| view.now.0 >= at.0 + COLD.0))
            .collect();
        let group = self.samples.add(view, |id| warm.contains(&id));
        let threads = placeable(view).count();
        if threads <= usable(view).len() {
            return;
        }
        let strangers = placeable(view).any(|(thread, _)| !self.pcmr.contains_key(&thread.id));
        if self.buckets.is_some() && !strangers {
            let Some((observed, shares)) = group else { return };
            let all: f64 = shares.iter().map(|one| one.1).sum();
            let of = |(id, share): &(ThreadId, f64)| share * self.pcmr.get(id).unwrap_or(&0.0);
            let predicted = shares.iter().map(of).sum::<f64>() / all;
            if self.watch(self.look.as_secs_f64(), observed, predicted) {
                self.tell(|told| told.measured_anew += 1);
                self.start_anew(view, plan);
            }
            return;
        }
        if !self.samples.is_enough() {
            return;
        }
        let found = self.samples.solve();
        if found.keys().any(|id| !self.pcmr.contains_key(id)) {
            self.pcmr = found.iter().map(|(&id, one)| (id, one.pcmr)).collect();
            self.low = found.iter().map(|(&id, one)| (id, one.low)).collect();
            self.watch = Watch::default();
            self.divide(view, plan);
        }
    }

    /// As if a thread had just come, now and then: what measuring costs.
    fn forget_one(&mut self, view: &View<'_>, plan: &mut Plan) {
        let due = self.forgotten.0 + self.remeasure.0;
        if self.remeasure.0 == 0 || view.now.0 < due || self.rows.is_some() || self.pcmr.is_empty()
        {
            return;
        }
        self.forgotten = view.now;
        let place = self.generator.random_range(0..self.pcmr.len());
        if let Some(id) = self.pcmr.keys().nth(place).copied() {
            self.pcmr.remove(&id);
            self.hold(view, plan);
        }
    }
}

/// The threads that may run anywhere on the machine at all, and where.
fn placeable<'v>(view: &View<'v>) -> impl Iterator<Item = (&'v ThreadView, CpuSet)> + use<'v> {
    let online = view.machine.cpu_set();
    let may = move |thread: &'v ThreadView| (thread, thread.may_run_on.intersection(&online));
    view.threads.iter().map(may).filter(|(_, may)| !may.is_empty())
}

/// The CPUs of the group: those that some thread may use.
fn usable(view: &View<'_>) -> CpuSet {
    usable_cpus(view, |thread| &view.threads[thread].may_run_on)
}

/// Are there threads for all CPUs, as a group needs?
fn can_measure(view: &View<'_>) -> bool {
    let awake = |(thread, _): &(&ThreadView, CpuSet)| thread.state != ThreadState::Sleeping;
    placeable(view).filter(awake).count() >= usable(view).len()
}

fn one_cpu(cpu: CpuId) -> CpuSet {
    CpuSet::from_iter([cpu])
}

impl Policy for Casc {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn needs(&self) -> Needs {
        Needs {
            interval: crate::Interval::Time(self.look),
            counters: vec![CounterKind::LlcReferences, CounterKind::LlcMisses],
            controls: vec![ActionKind::Place, ActionKind::SetWeight],
            ..Needs::default()
        }
    }

    fn hears_switches(&self) -> bool {
        true
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        let mut plan = Plan::none();
        match event {
            Event::Arrived(id) => {
                self.arrived.insert(*id, view.now);
                self.begin(view, &mut plan);
                if self.buckets.is_some() {
                    self.hold(view, &mut plan);
                }
            }
            Event::Exited(id) => {
                self.arrived.remove(id);
                self.pcmr.remove(id);
                self.low.remove(id);
                self.newcomers.forget(*id);
                self.raised.remove(id);
                if self.rows.as_ref().is_some_and(|rows| rows.threads.contains(id)) {
                    self.start_anew(view, &mut plan);
                    self.begin(view, &mut plan);
                } else if self.buckets.is_some() {
                    self.divide_again(view, &mut plan);
                }
            }
            Event::Slept(_) | Event::Woke(_) => {}
            Event::Switched { .. } => plan = self.switched(view),
        }
        (!plan.steps.is_empty()).then_some(plan)
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        let mut plan = Plan::none();
        let ran = |thread: &ThreadView| {
            thread.state == ThreadState::Running || thread.rates.cpu_share.is_some()
        };
        if self.buckets.is_some() && !usable(view).iter().eq(self.divided.iter().copied()) {
            self.divide_again(view, &mut plan);
        } else if self.switched {
            self.finish_rows(view, &mut plan);
            self.raise(view, &mut plan);
            self.forget_one(view, &mut plan);
            // A division at this look has said where newcomers run.
            if plan.steps.is_empty() {
                self.look_at_newcomers(view, &mut plan);
            }
        } else if view.threads.iter().any(ran) {
            self.sample(view, &mut plan);
        }
        let present: BTreeSet<ThreadId> = view.threads.iter().map(|thread| thread.id).collect();
        self.pcmr.retain(|id, _| present.contains(id));
        plan
    }
}

#[cfg(test)]
mod tests;
