//! The simulated machine as a backend of the runtime: it says which threads there are, counts what they do,
//! and carries out plans.

use std::collections::BTreeMap;
use std::sync::Arc;

use corun_machine::{CpuSet, Machine};
use corun_policy::{
    ActionKind, CounterKind, Counts, Event, Nanoseconds, Policy, Scope, Step, ThreadId,
    ThreadState, ThreadView, WaysCurve, solo_figures, ways_curve,
};
use corun_runtime::{
    Backend, Capabilities, Decision, Runtime, RuntimeOptions, Scan, ThreadTable, Verdict,
};

use crate::engine::Engine;
use crate::error::ActionError;
use crate::observation::Observer;
use crate::thread::{Mask, State, Thread};
use crate::{LogEntry, Observation, SimError};

/// Ticks at one moment before the engine says that policies answer their own events without end.
const MOST_TICKS: u32 = 64;

/// What the engine keeps for its policies.
#[derive(Default)]
pub(crate) struct Watched {
    /// What happened since the last tick.
    pub(crate) happened: Vec<Event>,
    /// A thread came or went since the last tick.
    pub(crate) threads_changed: bool,
    /// Threads on CPUs and the LLCs that they are on, at the last tick.
    pub(crate) on_cpus: Vec<(ThreadId, usize)>,
    /// None where policies see everything at once.
    pub(crate) observer: Option<Observer>,
    /// Does a policy need figures by ways?
    by_ways: bool,
    /// Figures by ways, by program and kind of CPU.
    curves: BTreeMap<(usize, usize), Option<Arc<WaysCurve>>>,
}

impl Watched {
    pub(crate) fn by(policies: &[Box<dyn Policy>], observer: Option<Observer>) -> Self {
        let by_ways = policies.iter().any(|policy| policy.needs().by_ways);
        Self { by_ways, observer, threads_changed: true, ..Self::default() }
    }
}

/// The policies over the simulated machine; none where none of them can do anything.
pub(crate) fn runtime<'a>(
    machine: &Machine,
    policies: Vec<Box<dyn Policy>>,
    observation: Option<&Observation>,
) -> Result<Option<Runtime<Engine<'a>>>, SimError> {
    let missing = observation.map_or(&[][..], |observation| &observation.missing);
    let counted = CounterKind::ALL.iter().filter(|kind| !missing.contains(kind));
    let lacking = observation.map_or(&[][..], |observation| &observation.missing_controls);
    let controls = ActionKind::ALL.iter().filter(|kind| !lacking.contains(kind));
    let given = Capabilities {
        counters: counted.copied().collect(),
        controls: controls.copied().collect(),
        profiles: true,
        latencies: observation.is_none_or(|observation| observation.latencies),
        sources: "the simulator".to_owned(),
    };
    let shortest = observation.map_or(Nanoseconds(0), |observation| observation.shortest);
    let options = RuntimeOptions { interval: None, shortest };
    let runtime = Runtime::new(machine, policies, &given, options)?;
    Ok((!runtime.is_idle()).then_some(runtime))
}

impl<'a> Engine<'a> {
    /// Tells the policies what happened and carries out their plans, until nobody has more to say.
    pub(crate) fn consult(&mut self) -> Result<(), SimError> {
        let Some(mut runtime) = self.runtime.take() else {
            self.watched.happened.clear();
            return Ok(());
        };
        let result = match self.watched.observer.take() {
            Some(observer) => self.tick_if_due(&mut runtime, observer),
            None => self.tick_until_settled(&mut runtime),
        };
        self.runtime = Some(runtime);
        result
    }

    /// One tick, where its time has come: what happened since the last is known now.
    fn tick_if_due(
        &mut self,
        runtime: &mut Runtime<Self>,
        mut observer: Observer,
    ) -> Result<(), SimError> {
        let is_due = observer.next_tick() <= self.now;
        let decides = runtime.next_due().is_some_and(|due| due.0 <= self.now);
        self.watched.observer = Some(observer);
        if !is_due {
            return Ok(());
        }
        for thread in self.threads.iter_mut().filter(|one| one.state == State::Running) {
            thread.account(self.now);
        }
        if decides {
            self.show_latencies();
        }
        let known = |id: &ThreadId| runtime.table().index_of(*id).is_some();
        self.watched.happened.retain(|event| match event {
            Event::Arrived(id) => self.records[id.0 as usize].end.is_none(),
            // Of one that came and went between two ticks nothing is ever known.
            Event::Exited(id) => known(id),
            Event::Slept(_) | Event::Woke(_) | Event::Switched { .. } => false,
        });
        let has_gone = |event: &Event| matches!(event, Event::Exited(_));
        self.watched.happened.sort_by_key(|event| (has_gone(event), thread_of(event)));
        let tick = runtime.tick(self, self.machine, Nanoseconds(self.now))?;
        observer = self.watched.observer.take().expect("a tick leaves it");
        observer.end_tick(self.now, runtime.next_due());
        self.watched.observer = Some(observer);
        tick.decisions.into_iter().try_for_each(|decision| self.note_decision(decision))
    }

    fn tick_until_settled(&mut self, runtime: &mut Runtime<Self>) -> Result<(), SimError> {
        for _ in 0..MOST_TICKS {
            // In the order of the threads; a thread's own events stay in theirs.
            self.watched.happened.sort_by_key(thread_of);
            self.note_switches();
            let is_due = runtime.next_due().is_some_and(|due| due.0 <= self.now);
            if self.watched.happened.is_empty() && !is_due {
                return Ok(());
            }
            if is_due {
                self.show_latencies();
                for thread in self.threads.iter_mut().filter(|one| one.state == State::Running) {
                    thread.account(self.now);
                }
            }
            let tick = runtime.tick(self, self.machine, Nanoseconds(self.now))?;
            for decision in tick.decisions {
                self.note_decision(decision)?;
            }
        }
        Err(self.stalled("policies answer their own events without end"))
    }

    /// Steps that changed something are logged; one that cannot be carried out ends the run.
    fn note_decision(&mut self, decision: Decision<(), ActionError>) -> Result<(), SimError> {
        let Decision { at, policy, action, reason, verdict } = decision;
        match verdict {
            Verdict::Refused(source) => Err(SimError::Action { policy, at, source }),
            Verdict::Done(_) => {
                self.log.push(LogEntry { at, policy, action, reason });
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Backend for Engine<'_> {
    /// The thread's slot.
    type Thread = usize;
    type Change = ();
    type Refusal = ActionError;
    type Error = SimError;

    fn scan(
        &mut self,
        _now: Nanoseconds,
        table: &mut ThreadTable<usize>,
    ) -> Result<Scan, SimError> {
        if std::mem::take(&mut self.watched.threads_changed) {
            table.retain(|view, &mut slot| {
                self.threads[slot].id == view.id && self.threads[slot].is_present()
            });
            let new = |thread: &Thread| thread.is_present() && table.index_of(thread.id).is_none();
            let slots = 0..self.threads.len();
            let mut slots: Vec<usize> = slots.filter(|&slot| new(&self.threads[slot])).collect();
            slots.sort_by_key(|&slot| self.threads[slot].id);
            for slot in slots {
                table.insert(self.new_view(slot), slot);
            }
        }
        let events = std::mem::take(&mut self.watched.happened);
        Ok(Scan { events, ..Scan::default() })
    }

    fn count(&mut self, _now: Nanoseconds, table: &mut ThreadTable<usize>) -> Vec<String> {
        self.refresh(table);
        self.observe(table);
        Vec::new()
    }

    fn apply(
        &mut self,
        _now: Nanoseconds,
        policy: usize,
        steps: &[Step],
        table: &mut ThreadTable<usize>,
    ) -> Vec<Verdict<(), ActionError>> {
        let mut verdicts = Vec::with_capacity(steps.len());
        for step in steps {
            if self.watched.observer.as_mut().is_some_and(Observer::refuses) {
                let why = "one of the steps that the observation refuses";
                verdicts.push(Verdict::Failed(why.to_owned()));
                continue;
            }
            match self.act(policy, &step.action) {
                Ok(true) => verdicts.push(Verdict::Done(Vec::new())),
                Ok(false) => verdicts.push(Verdict::AsAsked),
                Err(error) => {
                    verdicts.push(Verdict::Refused(error));
                    return verdicts;
                }
            }
        }
        self.place_displaced();
        self.reschedule();
        match &self.watched.observer {
            None => self.refresh(table),
            Some(_) => self.show_where_held(table),
        }
        verdicts
    }
}

impl Engine<'_> {
    /// Makes the views as poor as the observation says.
    fn observe(&mut self, table: &mut ThreadTable<usize>) {
        let Some(mut observer) = self.watched.observer.take() else { return };
        observer.retain(|id| table.index_of(id).is_some());
        let has_occupancy = observer.counts(CounterKind::LlcOccupancy);
        for (view, &mut slot) in table.iter_mut() {
            let thread = &self.threads[slot];
            let totals = thread.counted(self.now);
            let wants_cpu = !matches!(thread.state, State::Sleeping | State::Absent);
            let has_mix = thread.mix.is_some();
            (view.counts, view.state) =
                observer.observe(view.id, self.now, totals, wants_cpu, has_mix);
            view.cpu = Some(self.machine.cpus()[thread.cpu].id);
            view.spins = None;
            view.llc_occupancy_bytes = view.llc_occupancy_bytes.filter(|_| has_occupancy);
        }
        self.watched.observer = Some(observer);
    }

    /// After a plan nothing new is known of threads but where they are held.
    fn show_where_held(&self, table: &mut ThreadTable<usize>) {
        for (view, &mut slot) in table.iter_mut() {
            view.allowed = self.cpu_set(&self.threads[slot].allowed);
        }
    }

    /// Brings the views up to date.
    fn refresh(&mut self, table: &mut ThreadTable<usize>) {
        let mut curves = std::mem::take(&mut self.watched.curves);
        for (view, &mut slot) in table.iter_mut() {
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
            view.spins = Some(thread.spinning);
            view.counts = self.counts(thread);
            view.latency = self.shown_latency(thread.app);
            let llc = self.machine.cpus()[thread.cpu].llc;
            let part = self.parts.of(llc, thread.id);
            let held = part.map(|part| self.parts.part(part).occupancy(slot, self.now));
            view.llc_occupancy_bytes = held;
            self.show_pages(thread, view);
            if self.watched.by_ways {
                self.show_curve(thread, view, &mut curves);
            }
        }
        self.watched.curves = curves;
    }

    /// What was counted since a thread's start. What its instructions are is known of recorded programs alone.
    fn counts(&self, thread: &Thread) -> Counts {
        let start = self.records[thread.id.0 as usize].start;
        let known = Nanoseconds(self.now - start.0);
        let mut counts = thread.counted(self.now).counts(known, Scope::DemandAndPrefetch);
        if thread.mix.is_none() {
            (counts.l1_accesses, counts.branches) = (None, None);
        }
        counts
    }

    fn show_pages(&self, thread: &Thread, view: &mut ThreadView) {
        if thread.home.is_some() {
            view.pages_by_node.resize(self.machine.nodes().len(), 0.0);
        }
        for (node, share) in view.pages_by_node.iter_mut().enumerate() {
            *share = f64::from(u8::from(thread.home == Some(node)));
        }
    }

    /// The figures by ways of the LLC that a thread is on.
    fn show_curve(
        &self,
        thread: &Thread,
        view: &mut ThreadView,
        curves: &mut BTreeMap<(usize, usize), Option<Arc<WaysCurve>>>,
    ) {
        let kind = (thread.program, self.tables.kind(thread.cpu));
        let curve = curves.entry(kind).or_insert_with(|| {
            let program = self.tables.program(thread.program);
            ways_curve(self.model, program, thread.cpu).map(Arc::new)
        });
        if view.by_ways.as_ref().map(Arc::as_ptr) != curve.as_ref().map(Arc::as_ptr) {
            view.by_ways.clone_from(curve);
        }
    }

    fn new_view(&self, slot: usize) -> ThreadView {
        let thread = &self.threads[slot];
        let spec = &self.experiment.apps[thread.app];
        ThreadView {
            weight: thread.weight,
            important: spec.important,
            profile: Some(Arc::from(&*spec.program.name)),
            allowed: self.cpu_set(&thread.allowed),
            solo: Some(solo_figures(&spec.program)),
            ..ThreadView::new(thread.id, thread.process, &*spec.name, &self.cpu_set(&thread.user))
        }
    }

    /// The name of a policy by its index.
    pub(crate) fn policy_name(&self, policy: usize) -> String {
        self.runtime.as_ref().map_or_else(String::new, |runtime| runtime.name(policy).to_owned())
    }

    pub(crate) fn cpu_set(&self, mask: &Mask) -> CpuSet {
        mask.ones().map(|cpu| self.machine.cpus()[cpu].id).collect()
    }

    fn is_set(&self, set: &CpuSet, mask: &Mask) -> bool {
        let mut count = 0;
        let holds = |cpu: usize| {
            count += 1;
            set.contains(self.machine.cpus()[cpu].id)
        };
        mask.ones().all(holds) && set.len() == count
    }
}

fn thread_of(event: &Event) -> u64 {
    match event {
        Event::Arrived(id) | Event::Exited(id) | Event::Slept(id) | Event::Woke(id) => id.0,
        Event::Switched { .. } => u64::MAX,
    }
}
