//! Policies on this machine: the runtime over the live backend, with the clock and the undoing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use corun_linux::Roots;
use corun_machine::{CpuSet, Machine};
use corun_policy::{
    Action, CounterKind, Nanoseconds, Needs, Policy, Rates, Step, ThreadId, ThreadView,
};
use corun_runtime::{Backend as _, Runtime, RuntimeOptions};

use crate::act::{other_than, still_there};
use crate::backend::{LiveBackend, locked};
use crate::{
    ActError, Actuator, Decision, Gate, Journal, LiveError, ManagedThread, Restored, Scanner,
    Source, Target, Tick, Verdict,
};

/// How a host works.
#[derive(Debug, Clone, PartialEq)]
pub struct HostOptions {
    /// Time between two ticks where no policy asks for a shorter one.
    pub tick_every: Nanoseconds,
    /// The interval of every policy that has one, in place of its own.
    pub interval: Option<Nanoseconds>,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self { tick_every: Nanoseconds(1_000_000_000), interval: None }
    }
}

/// A thread in the host's care, with what the last tick found.
#[derive(Debug, Clone, Copy)]
pub struct SampledThread<'a> {
    /// As policies see it.
    pub view: &'a ThreadView,
    /// What the kernel says of it, and what corun keeps of it.
    pub thread: &'a ManagedThread,
    /// The rates since the tick before.
    pub rates: Rates,
}

/// Why not all that a person asked for was carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}{}", if .stuck.is_empty() { "nothing was done" } else { "not all was done" },
    .stuck.iter().map(|why| format!("; and not taken back: {why}")).collect::<String>())]
pub struct HalfMade {
    /// Why a step was refused or failed.
    pub why: String,
    /// Of each step before it that could not be taken back, why.
    pub stuck: Vec<String>,
}

/// The shortest next interval that a policy gets when it asks for one: scanning all threads takes a
/// millisecond or so.
const SHORTEST: Nanoseconds = Nanoseconds(5_000_000);
/// Who decided where a person did.
const BY_HAND: &str = "by hand";

/// Runs policies on this machine. Nothing happens by itself: each [`Host::tick`] goes once around, and
/// [`Host::next_tick`] says when the next is due.
///
/// Without a journal the host only looks: it prepares what a plan asks for, shows it to the policy
/// as if it were done, and changes nothing.
pub struct Host {
    runtime: Runtime<LiveBackend>,
    backend: LiveBackend,
    options: HostOptions,
    ticked_at: Option<Nanoseconds>,
    started: Instant,
}

impl Host {
    /// Checks that this machine gives the policies what they need. The host only looks until
    /// [`Self::act_under`]. A counter is given by one source alone.
    ///
    /// # Errors
    /// When a policy needs a counter that no source gives or an action that no actuator carries
    /// out, when two policies need the same kind of action, and when a policy's interval is 0.
    pub fn new(
        machine: Arc<Machine>,
        policies: Vec<Box<dyn Policy>>,
        scanner: Box<dyn Scanner>,
        sources: Vec<Box<dyn Source>>,
        actuators: Vec<Box<dyn Actuator>>,
        roots: Roots,
        options: HostOptions,
    ) -> Result<Self, LiveError> {
        let backend = LiveBackend::new(machine, scanner, sources, actuators, roots);
        let runtime_options = RuntimeOptions { interval: options.interval, shortest: SHORTEST };
        let (machine, given) = (backend.machine(), backend.capabilities());
        let runtime = Runtime::new(machine, policies, &given, runtime_options)?;
        Ok(Self { runtime, backend, options, ticked_at: None, started: Instant::now() })
    }

    /// From now on plans are carried out, each written into this journal before.
    pub fn act_under(&mut self, journal: Journal) {
        self.backend.act_under(journal);
    }

    /// From now on each plan passes this gate before it is carried out, and is judged afterwards.
    pub fn gate_by(&mut self, gate: Gate) {
        self.backend.gate_by(gate);
    }

    /// Does it only look?
    pub fn is_dry_run(&self) -> bool {
        self.backend.journal().is_none()
    }

    /// The machine that it schedules.
    pub fn machine(&self) -> &Machine {
        self.backend.machine()
    }

    /// Time since it was made.
    pub fn now(&self) -> Nanoseconds {
        Nanoseconds(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Schedules one more program from now on.
    ///
    /// # Errors
    /// As [`Scanner::add`].
    pub fn add(&mut self, target: Target) -> Result<(), LiveError> {
        self.backend.scanner_mut().add(target)
    }

    /// When the next tick is due: at the end of the first interval to end, and at least as often
    /// as [`HostOptions::tick_every`].
    pub fn next_tick(&self) -> Nanoseconds {
        let latest = self.ticked_at.map_or(0, |at| at.0 + self.options.tick_every.0);
        let due = self.runtime.next_due().map_or(latest, |due| due.0.min(latest));
        Nanoseconds(due).max(self.ticked_at.unwrap_or_default())
    }

    /// The threads in its care as the policies see them, with the rates that the last of them was shown.
    pub fn views(&self) -> &[ThreadView] {
        self.runtime.table().views()
    }

    /// The threads in its care, ascending by id, with what the last tick found.
    pub fn threads(&self) -> impl Iterator<Item = SampledThread<'_>> {
        let threads = self.runtime.table().iter();
        threads.map(|(view, thread)| SampledThread { view, thread, rates: thread.rates(view) })
    }

    /// What its sources count.
    pub fn counters(&self) -> BTreeSet<CounterKind> {
        self.backend.counters()
    }

    /// What each of its policies needs, without what the policy does without here.
    pub fn needs(&self) -> impl Iterator<Item = &Needs> {
        self.runtime.needs()
    }

    /// Does a source give figures from stored profiles?
    pub fn knows_profiles(&self) -> bool {
        self.backend.knows_profiles()
    }

    /// The programs that it was told to schedule.
    pub fn targets(&self) -> &[Target] {
        self.backend.scanner().targets()
    }

    /// The CPUs that were on line at the last tick.
    pub fn online(&self) -> &CpuSet {
        self.backend.online()
    }

    /// Goes once around: who came and went, what they did, what the policies want; and does it.
    ///
    /// # Errors
    /// When the processes cannot be listed, when a policy fails or panics, and when the journal is no longer
    /// where it would be looked for. The caller undoes and stops.
    pub fn tick(&mut self) -> Result<Tick, LiveError> {
        self.tick_at(self.now())
    }

    /// As [`Self::tick`], at a moment that is given: for what is not the running machine. Moments
    /// must not go back.
    ///
    /// # Errors
    /// As [`Self::tick`].
    pub fn tick_at(&mut self, now: Nanoseconds) -> Result<Tick, LiveError> {
        self.ticked_at = Some(now);
        let machine = self.backend.machine().clone();
        self.runtime.tick(&mut self.backend, &machine, now)
    }

    /// Carries out what a person asks for beside the policies: each step with what became of it. The threads are those of the
    /// last tick.
    pub fn carry_out(&mut self, steps: Vec<Step>) -> Vec<Decision> {
        let at = self.now();
        let verdicts = self.backend.apply(at, 0, &steps, self.runtime.table_mut());
        let decided = steps.into_iter().zip(verdicts);
        decided
            .map(|(Step { action, reason }, verdict)| Decision {
                at,
                policy: BY_HAND.to_owned(),
                action,
                reason,
                verdict,
            })
            .collect()
    }

    /// As [`Self::carry_out`], whole or not at all: where a step is refused or fails, the steps before it are taken back.
    ///
    /// # Errors
    /// Why not all steps are in force, and of each step that could not be taken back, why.
    pub fn carry_out_whole(&mut self, steps: Vec<Step>) -> Result<(), HalfMade> {
        let before: BTreeMap<ThreadId, CpuSet> =
            self.views().iter().map(|view| (view.id, view.allowed.clone())).collect();
        let why = |one: &Decision| match &one.verdict {
            Verdict::Refused(why) => Some(why.0.clone()),
            Verdict::Failed(why) => Some(why.clone()),
            _ => None,
        };
        let decided = self.carry_out(steps);
        let is_not_so = |one: &Decision| match &one.verdict {
            Verdict::AsAsked => self.changed_by_others(&one.action),
            _ => why(one),
        };
        let Some(reason) = decided.iter().find_map(is_not_so) else { return Ok(()) };
        let made = decided.iter().filter(|one| matches!(one.verdict, Verdict::Done(_)));
        let moved: BTreeSet<ThreadId> = made.flat_map(|one| one.action.placed()).collect();
        let back = |thread| {
            let action = Action::Allow { thread, cpus: before.get(&thread)?.clone() };
            Some(Step { action, reason: "taken back".to_owned() })
        };
        let back: Vec<Step> = moved.into_iter().filter_map(back).collect();
        let answers = self.carry_out(back);
        let stuck =
            answers.iter().filter(|one| !one.action.placed().iter().all(|id| self.is_over(*id)));
        Err(HalfMade { why: reason, stuck: stuck.filter_map(why).collect() })
    }

    /// Why a placement that is in force as far as corun remembers is not: the affinity of one of its threads is another by now,
    /// or cannot be read.
    fn changed_by_others(&self, action: &Action) -> Option<String> {
        let table = self.runtime.table();
        let changed = |id| {
            let thread = table.at(table.index_of(id)?).1;
            let (task, expected) = (thread.task(), &thread.expected);
            match other_than(self.backend.roots(), &task, expected) {
                Ok(None) | Err(ActError::Gone { .. }) => None,
                Ok(Some(found)) => Some(ActError::ChangedByOthers {
                    what: format!("the affinity of thread {task}"),
                    found: found.to_string(),
                    expected: expected.to_string(),
                }),
                Err(error) => Some(error),
            }
        };
        action.placed().into_iter().find_map(changed).map(|error| error.to_string())
    }

    /// Has a thread ended, or gone, since the last tick?
    fn is_over(&self, id: ThreadId) -> bool {
        let table = self.runtime.table();
        let task = table.index_of(id).map(|index| table.at(index).1.task());
        task.is_none_or(|task| {
            matches!(still_there(self.backend.roots(), &task), Err(ActError::Gone { .. }))
        })
    }

    /// What carried plans out has to tell at the end, in lines for people: before [`Self::undo`].
    pub fn told(&mut self) -> Vec<String> {
        self.backend.told()
    }

    /// Undoes everything that it did, newest first.
    pub fn undo(&mut self) -> Vec<Restored> {
        self.backend.forget_changes(self.runtime.table_mut());
        if let Some(gate) = self.backend.gate_mut() {
            gate.forget();
        }
        let journal = self.backend.journal();
        journal.map(|journal| locked(journal).undo(self.backend.roots())).unwrap_or_default()
    }

    /// What undoes everything while the host itself stands still, from another thread.
    pub fn undoer(&self) -> Undoer {
        let roots = self.backend.roots().clone();
        Undoer { journal: self.backend.journal().cloned(), roots }
    }
}

/// Undoes what a host did. Clones are of the same host.
#[derive(Debug, Clone)]
pub struct Undoer {
    journal: Option<Arc<Mutex<Journal>>>,
    roots: Roots,
}

impl Undoer {
    /// Undoes everything, newest first; none when the journal is in use and stays so for a second.
    /// The host must do nothing any more.
    pub fn undo(&self) -> Option<Vec<Restored>> {
        let Some(journal) = &self.journal else { return Some(Vec::new()) };
        let since = Instant::now();
        loop {
            match journal.try_lock() {
                Ok(mut journal) => return Some(journal.undo(&self.roots)),
                Err(TryLockError::Poisoned(poisoned)) => {
                    return Some(PoisonError::into_inner(poisoned).undo(&self.roots));
                }
                Err(TryLockError::WouldBlock) if since.elapsed() > Duration::from_secs(1) => {
                    return None;
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
