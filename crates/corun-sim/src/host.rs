//! The policies' host: gives them a view, takes their plans.

use std::collections::BTreeMap;
use std::sync::Arc;

use corun_machine::{CpuSet, Machine};
use corun_policy::{
    ActionKind, Counted, CounterKind, Counters, Event, Interval, Nanoseconds, Plan, Policy, Scope,
    ScopedRate, Spinning, ThreadId, ThreadState, ThreadView, View, WaysCurve, solo_figures,
    ways_curve,
};

use crate::SimError;
use crate::engine::Engine;
use crate::thread::{State, Thread, Totals};
use crate::timers::Timer;

/// Rounds of events and answers at one moment before the engine says that they have no end.
const MOST_ROUNDS: u32 = 64;

/// Actions that the simulator carries out.
pub const SUPPORTED_ACTIONS: [ActionKind; 7] = [
    ActionKind::Place,
    ActionKind::Partition,
    ActionKind::CapBandwidth,
    ActionKind::MovePages,
    ActionKind::IdleCpu,
    ActionKind::SetWeight,
    ActionKind::OrderSlots,
];

/// Counters that the simulator models.
pub const SUPPORTED_COUNTERS: [CounterKind; 10] = [
    CounterKind::Instructions,
    CounterKind::Cycles,
    CounterKind::LlcReferences,
    CounterKind::LlcMisses,
    CounterKind::L1Accesses,
    CounterKind::Branches,
    CounterKind::MemoryBytes,
    CounterKind::MemoryStalls,
    CounterKind::MemoryRetries,
    CounterKind::LlcOccupancy,
];

/// What a policy saw of a thread when its last interval ended.
#[derive(Debug, Clone, Copy)]
struct Seen {
    id: ThreadId,
    totals: Totals,
    counters: Counters,
    /// Of the interval's CPU time, what was spun away.
    spin_share: f64,
}

struct Hosted {
    policy: Box<dyn Policy>,
    name: String,
    interval_ns: Option<u64>,
    due: bool,
    last: u64,
    /// By slot.
    seen: Vec<Seen>,
}

/// The policies that can act, and their views.
#[derive(Default)]
pub(crate) struct Host {
    hosted: Vec<Hosted>,
    owners: BTreeMap<ActionKind, usize>,
    views: Vec<ThreadView>,
    /// Slots in the order of the views.
    slots: Vec<usize>,
    /// Threads on CPUs and the LLCs that they are on.
    on_cpus: Vec<(ThreadId, usize)>,
    /// Does a policy need figures by ways?
    by_ways: bool,
    /// These figures by program and kind of CPU.
    curves: BTreeMap<(usize, usize), Option<Arc<WaysCurve>>>,
    /// A thread came or went since the views were made.
    pub(crate) threads_changed: bool,
}

impl Host {
    /// Checks what the policies need. One that announces no action can change nothing, and is
    /// left out: it costs nothing.
    pub(crate) fn new(machine: &Machine, policies: Vec<Box<dyn Policy>>) -> Result<Self, SimError> {
        let mut host = Self { threads_changed: true, ..Self::default() };
        let clocks = machine.core_types().iter().map(|core| core.clock_mhz);
        let fastest_hz = clocks.fold(0.0, f64::max) * 1e6;
        for policy in policies {
            let needs = policy.needs();
            let name = policy.name().to_owned();
            if let Some(why) = policy.unfit_for(machine) {
                let machine = machine.name().to_owned();
                return Err(SimError::Unfit { policy: name, machine, why });
            }
            for counter in needs.counters {
                if !SUPPORTED_COUNTERS.contains(&counter) {
                    return Err(SimError::Counter { policy: name, counter });
                }
            }
            if needs.by_ways {
                let known = |llc: &corun_machine::Llc| {
                    let ways = llc.cache.and_then(|cache| cache.ways);
                    ways.is_some_and(|ways| (1..=64).contains(&ways))
                };
                if let Some(llc) = machine.llcs().iter().position(|llc| !known(llc)) {
                    return Err(SimError::ByWays { policy: name, llc });
                }
                host.by_ways = true;
            }
            let place = host.hosted.len();
            for &kind in &needs.controls {
                if !SUPPORTED_ACTIONS.contains(&kind) {
                    return Err(SimError::Control { policy: name, kind });
                }
                if let Some(owner) = host.owners.insert(kind, place)
                    && owner != place
                {
                    let first = host.hosted[owner].name.clone();
                    return Err(SimError::TwoOwners { first, second: name, kind });
                }
            }
            let interval_ns = match needs.interval {
                Interval::Never => None,
                Interval::Time(time) => Some(time.0),
                Interval::Cycles(cycles) => Some((cycles as f64 / fastest_hz * 1e9).round() as u64),
            };
            if interval_ns == Some(0) {
                return Err(SimError::Interval { policy: name });
            }
            if !needs.controls.is_empty() {
                let hosted =
                    Hosted { policy, name, interval_ns, due: false, last: 0, seen: Vec::new() };
                host.hosted.push(hosted);
            }
        }
        Ok(host)
    }

    pub(crate) fn name(&self, policy: usize) -> &str {
        self.hosted.get(policy).map_or("", |hosted| &hosted.name)
    }

    pub(crate) fn intervals(&self) -> Vec<(usize, u64)> {
        let intervals = self.hosted.iter().enumerate();
        intervals.filter_map(|(place, hosted)| Some((place, hosted.interval_ns?))).collect()
    }

    /// A policy's interval is over.
    pub(crate) fn interval_due(&mut self, policy: usize) {
        self.hosted[policy].due = true;
    }

    /// Can the policy go on?
    fn check_policy(&self, policy: usize, now: u64) -> Result<(), SimError> {
        let Hosted { policy, name, .. } = &self.hosted[policy];
        match policy.failure() {
            None => Ok(()),
            Some(why) => Err(SimError::Policy { policy: name.clone(), at: Nanoseconds(now), why }),
        }
    }

    /// How long the policy's next interval is.
    fn next_interval(&self, policy: usize) -> Result<Option<u64>, SimError> {
        let hosted = &self.hosted[policy];
        let asked = hosted.policy.next_interval().map(|next| next.0);
        if asked == Some(0) {
            return Err(SimError::Interval { policy: hosted.name.clone() });
        }
        Ok(asked.or(hosted.interval_ns))
    }

    pub(crate) fn owns(&self, policy: usize, kind: ActionKind) -> bool {
        self.owners.get(&kind) == Some(&policy)
    }
}

impl Engine<'_> {
    /// Tells the policies what happened and carries out their plans, until nobody has more to
    /// say.
    pub(crate) fn consult(&mut self) -> Result<(), SimError> {
        if self.host.hosted.is_empty() {
            self.happened.clear();
            return Ok(());
        }
        let mut host = std::mem::take(&mut self.host);
        let result = self.consult_host(&mut host);
        self.host = host;
        result
    }

    fn consult_host(&mut self, host: &mut Host) -> Result<(), SimError> {
        for _ in 0..MOST_ROUNDS {
            host.threads_changed |= std::mem::take(&mut self.host.threads_changed);
            // In the order of the threads; a thread's own events stay in theirs.
            self.happened.sort_by_key(thread_of);
            self.note_switches(&mut host.on_cpus);
            let events = std::mem::take(&mut self.happened);
            if events.is_empty() && !host.hosted.iter().any(|hosted| hosted.due) {
                return Ok(());
            }
            for policy in 0..host.hosted.len() {
                for event in &events {
                    self.refresh_views(host, policy);
                    let view = self.view(&host.views);
                    let plan = host.hosted[policy].policy.on_event(event, &view);
                    host.check_policy(policy, self.now)?;
                    if let Some(plan) = plan {
                        self.carry_out(host, policy, plan)?;
                    }
                }
                if std::mem::take(&mut host.hosted[policy].due) {
                    self.close_interval(host, policy);
                    self.refresh_views(host, policy);
                    let plan = host.hosted[policy].policy.decide(&self.view(&host.views));
                    host.check_policy(policy, self.now)?;
                    self.carry_out(host, policy, plan)?;
                    if let Some(next_ns) = host.next_interval(policy)? {
                        self.timers.set(self.now + next_ns, Timer::Policy(policy));
                    }
                }
            }
        }
        Err(self.stalled("policies answer their own events without end"))
    }

    fn carry_out(&mut self, host: &Host, policy: usize, plan: Plan) -> Result<(), SimError> {
        if plan.steps.is_empty() {
            return Ok(());
        }
        self.apply(host, policy, plan)?;
        self.reschedule();
        Ok(())
    }

    fn view<'v>(&'v self, threads: &'v [ThreadView]) -> View<'v> {
        View { machine: self.machine, threads, now: Nanoseconds(self.now) }
    }

    /// Counts what happened in a policy's interval.
    fn close_interval(&mut self, host: &mut Host, policy: usize) {
        let hosted = &mut host.hosted[policy];
        for (slot, thread) in self.threads.iter_mut().enumerate() {
            if thread.state == State::Running {
                thread.account(self.now);
            }
            let nobody = Seen {
                id: ThreadId(u64::MAX),
                totals: Totals::default(),
                counters: Counters::default(),
                spin_share: 0.0,
            };
            if hosted.seen.len() <= slot {
                hosted.seen.push(nobody);
            }
            if !thread.is_present() {
                hosted.seen[slot] = nobody;
                continue;
            }
            let known = hosted.seen[slot].id == thread.id;
            // A thread that came within the interval is counted from its start.
            let start = self.records[thread.id.0 as usize].start.0;
            let since = if known { hosted.last } else { start.max(hosted.last) };
            let before = if known { hosted.seen[slot].totals } else { Totals::default() };
            let mut counters = counters(&before, &thread.totals, self.now - since);
            if thread.mix.is_none() {
                (counters.l1_accesses_per_s, counters.branches_per_s) = (None, None);
            }
            let ran_ns = thread.totals.cpu_ns - before.cpu_ns;
            let spun_ns = thread.totals.spun_ns - before.spun_ns;
            let spin_share = spun_ns as f64 / ran_ns.max(1) as f64;
            hosted.seen[slot] = Seen { id: thread.id, totals: thread.totals, counters, spin_share };
        }
        hosted.last = self.now;
    }

    fn refresh_views(&self, host: &mut Host, policy: usize) {
        if std::mem::take(&mut host.threads_changed) {
            let present = 0..self.threads.len();
            host.slots = present.filter(|&slot| self.threads[slot].is_present()).collect();
            host.slots.sort_by_key(|&slot| self.threads[slot].id);
            host.views = host.slots.iter().map(|&slot| self.new_view(slot)).collect();
        }
        if host.by_ways {
            self.refresh_curves(host);
        }
        let seen = &host.hosted[policy].seen;
        for (view, &slot) in host.views.iter_mut().zip(&host.slots) {
            let thread = &self.threads[slot];
            view.weight = thread.weight;
            view.state = match thread.state {
                State::Running => ThreadState::Running,
                State::Sleeping => ThreadState::Sleeping,
                State::Runnable | State::Displaced | State::Absent => ThreadState::Runnable,
            };
            let has_run = thread.ran_on.is_some() || thread.state == State::Running;
            view.cpu = has_run.then(|| self.machine.cpus()[thread.cpu].id);
            if !self.is_set(&view.allowed, &thread.allowed) {
                view.allowed = self.cpu_set(&thread.allowed);
            }
            let seen = seen.get(slot).filter(|seen| seen.id == thread.id);
            view.counters = seen.map_or_else(Counters::default, |seen| seen.counters);
            view.spinning = Some(Spinning {
                now: thread.spinning,
                share: seen.map_or(0.0, |seen| seen.spin_share),
            });
            view.counted = counted(&thread.counted(self.now));
            let llc = self.machine.cpus()[thread.cpu].llc;
            let part = self.parts.of(llc, thread.id);
            let held = part.map(|part| self.parts.part(part).occupancy(slot, self.now));
            view.llc_occupancy_bytes = held;
            for (node, share) in view.pages_by_node.iter_mut().enumerate() {
                *share = f64::from(u8::from(thread.home == Some(node)));
            }
            if thread.home.is_some() && view.pages_by_node.is_empty() {
                view.pages_by_node = (0..self.machine.nodes().len())
                    .map(|node| f64::from(u8::from(thread.home == Some(node))))
                    .collect();
            }
        }
    }

    /// Each thread's figures by ways of the LLC it is on.
    fn refresh_curves(&self, host: &mut Host) {
        for (view, &slot) in host.views.iter_mut().zip(&host.slots) {
            let thread = &self.threads[slot];
            let kind = (thread.program, self.tables.kind(thread.cpu));
            let curve = host.curves.entry(kind).or_insert_with(|| {
                let program = self.tables.program(thread.program);
                ways_curve(self.model, program, thread.cpu).map(Arc::new)
            });
            if view.by_ways.as_ref().map(Arc::as_ptr) != curve.as_ref().map(Arc::as_ptr) {
                view.by_ways = curve.clone();
            }
        }
    }

    fn new_view(&self, slot: usize) -> ThreadView {
        let thread: &Thread = &self.threads[slot];
        let spec = &self.experiment.apps[thread.app];
        ThreadView {
            id: thread.id,
            process: thread.process,
            program: spec.name.clone(),
            weight: thread.weight,
            important: spec.important,
            state: ThreadState::Runnable,
            cpu: None,
            may_run_on: self.cpu_set(&thread.user),
            allowed: self.cpu_set(&thread.allowed),
            counters: Counters::default(),
            counted: Default::default(),
            spinning: None,
            solo: Some(solo_figures(&spec.program)),
            by_ways: None,
            llc_occupancy_bytes: None,
            pages_by_node: Vec::new(),
        }
    }

    pub(crate) fn cpu_set(&self, mask: &crate::thread::Mask) -> CpuSet {
        mask.ones().map(|cpu| self.machine.cpus()[cpu].id).collect()
    }

    fn is_set(&self, set: &CpuSet, mask: &crate::thread::Mask) -> bool {
        set.iter().eq(mask.ones().map(|cpu| self.machine.cpus()[cpu].id))
    }
}

fn thread_of(event: &Event) -> u64 {
    match event {
        Event::Arrived(id) | Event::Exited(id) | Event::Slept(id) | Event::Woke(id) => id.0,
        Event::Switched { .. } => u64::MAX,
    }
}

fn counted(totals: &Totals) -> Counted {
    Counted {
        cpu_s: Some(totals.cpu_ns as f64 * 1e-9),
        instructions: Some(totals.instructions),
        cycles: Some(totals.cycles),
        llc_references: Some(totals.references),
        llc_misses: Some(totals.misses),
        memory_stall_cycles: Some(totals.stall_cycles),
    }
}

fn counters(before: &Totals, after: &Totals, ns: u64) -> Counters {
    if ns == 0 {
        return Counters::default();
    }
    let seconds = ns as f64 * 1e-9;
    let rate = |of: fn(&Totals) -> f64| (of(after) - of(before)) / seconds;
    let scoped = |of| Some(ScopedRate { per_s: rate(of), scope: Scope::DemandAndPrefetch });
    let cycles = rate(|totals| totals.cycles);
    let stalled = rate(|totals| totals.stall_cycles);
    Counters {
        cpu_share: Some((after.cpu_ns - before.cpu_ns) as f64 / ns as f64),
        instructions_per_s: Some(rate(|totals| totals.instructions)),
        cycles_per_s: Some(cycles),
        llc_references: scoped(|totals| totals.references),
        llc_misses: scoped(|totals| totals.misses),
        l1_accesses_per_s: Some(rate(|totals| totals.l1_accesses)),
        branches_per_s: Some(rate(|totals| totals.branches)),
        memory_bytes_per_s: Some(rate(|totals| totals.bytes)),
        memory_stall_share: (cycles > 0.0).then(|| stalled / cycles),
        memory_retries_per_s: Some(rate(|totals| totals.retries)),
    }
}
