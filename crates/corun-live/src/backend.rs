//! This machine as a backend of the runtime: the kernel says which threads there are, sources count what they
//! do, actuators prepare what a plan asks for, and the journal remembers how it was before.

mod apply;
#[cfg(test)]
pub(crate) mod fixture;
mod makers;
mod scan;
mod switches;
mod thread;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use corun_linux::{Roots, Task};
use corun_machine::{CpuSet, Machine};
use corun_policy::{Action, CounterKind, Event, Nanoseconds, ProcessId, Step, ThreadId};
use corun_runtime::{Backend, Capabilities, Scan, ThreadTable};

#[cfg(test)]
pub(crate) use makers::tests::LOOKED_AT;
pub use thread::{HeldGroup, ManagedThread};

use crate::{Actuator, Change, Gate, Journal, LiveError, Refusal, ScannedThread, Source, Target};

/// The threads that corun schedules here.
pub type Threads = ThreadTable<ManagedThread>;
/// What became of an action that a policy asked for.
pub type Verdict = corun_runtime::Verdict<Change, Refusal>;
/// An action that a policy asked for, and what became of it.
pub type Decision = corun_runtime::Decision<Change, Refusal>;
/// What happened in one tick.
pub type Tick = corun_runtime::Tick<Change, Refusal>;

/// Finds the threads to schedule.
pub trait Scanner: Send {
    /// The programs that are to be scheduled, in the order in which they were given.
    fn targets(&self) -> &[Target];

    /// All their threads now, ascending by task. Called once a tick, before anything else.
    ///
    /// # Errors
    /// When the kernel's list of processes cannot be read at all.
    fn scan(&mut self) -> Result<Vec<ScannedThread>, LiveError>;

    /// As [`Self::scan`], into the list of the last scan: what has not changed since may stay as it is.
    ///
    /// # Errors
    /// As [`Self::scan`].
    fn scan_again(&mut self, found: &mut Vec<ScannedThread>) -> Result<(), LiveError> {
        *found = self.scan()?;
        Ok(())
    }

    /// One more program to schedule.
    ///
    /// # Errors
    /// When it says nothing that a process could be known by.
    fn add(&mut self, target: Target) -> Result<(), LiveError>;

    /// The CPUs that were on line at the last scan; none where the running kernel is to say.
    fn online(&self) -> Option<CpuSet> {
        None
    }
}

/// This machine, or a recording in its place.
pub(crate) struct LiveBackend {
    machine: Arc<Machine>,
    scanner: Box<dyn Scanner>,
    /// What it found last.
    found: Vec<ScannedThread>,
    sources: Vec<Box<dyn Source>>,
    actuators: Vec<Box<dyn Actuator>>,
    /// None in a dry run: plans are shown as if they were done, and nothing is changed.
    journal: Option<Arc<Mutex<Journal>>>,
    /// None where every plan is carried out.
    gate: Option<Gate>,
    roots: Roots,
    ids: BTreeMap<Task, ThreadId>,
    /// By the kernel's number: the id of the process, and how many of its threads are in the table.
    processes: BTreeMap<u32, (ProcessId, usize)>,
    /// By name: the threads of each cgroup that is held.
    groups: BTreeMap<Arc<str>, BTreeSet<ThreadId>>,
    next_thread: u64,
    next_process: u64,
    online: CpuSet,
    scanned_at: Option<Nanoseconds>,
    switches: switches::Switches,
    /// Actions that were taken back since policies were last told, each with the index of its policy.
    taken_back: Vec<(usize, Action)>,
}

impl LiveBackend {
    pub(crate) fn new(
        machine: Arc<Machine>,
        scanner: Box<dyn Scanner>,
        sources: Vec<Box<dyn Source>>,
        actuators: Vec<Box<dyn Actuator>>,
        roots: Roots,
    ) -> Self {
        let online = machine.cpu_set();
        Self {
            machine,
            scanner,
            found: Vec::new(),
            sources,
            actuators,
            journal: None,
            gate: None,
            roots,
            ids: BTreeMap::new(),
            processes: BTreeMap::new(),
            groups: BTreeMap::new(),
            next_thread: 0,
            next_process: 0,
            online,
            scanned_at: None,
            switches: switches::Switches::default(),
            taken_back: Vec::new(),
        }
    }

    /// What policies get here.
    pub(crate) fn capabilities(&self) -> Capabilities {
        let names: Vec<&str> = self.sources.iter().map(|source| source.name()).collect();
        Capabilities {
            counters: self.counters().into_iter().collect(),
            controls: self.actuators.iter().flat_map(|actuator| actuator.kinds()).collect(),
            profiles: self.knows_profiles(),
            latencies: false,
            sources: if names.is_empty() { "none".to_owned() } else { names.join(", ") },
        }
    }

    pub(crate) fn counters(&self) -> BTreeSet<CounterKind> {
        self.sources.iter().flat_map(|source| source.counters()).collect()
    }

    pub(crate) fn knows_profiles(&self) -> bool {
        self.sources.iter().any(|source| source.knows_profiles())
    }

    /// What actuators have to tell at the end.
    pub(crate) fn told(&mut self) -> Vec<String> {
        self.actuators.iter_mut().filter_map(|actuator| actuator.told()).collect()
    }

    pub(crate) fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    pub(crate) fn roots(&self) -> &Roots {
        &self.roots
    }

    pub(crate) fn scanner(&self) -> &dyn Scanner {
        self.scanner.as_ref()
    }

    pub(crate) fn scanner_mut(&mut self) -> &mut dyn Scanner {
        self.scanner.as_mut()
    }

    pub(crate) fn online(&self) -> &CpuSet {
        &self.online
    }

    pub(crate) fn journal(&self) -> Option<&Arc<Mutex<Journal>>> {
        self.journal.as_ref()
    }

    pub(crate) fn act_under(&mut self, journal: Journal) {
        match &self.journal {
            // Whoever may undo what the host does goes on with the new one.
            Some(known) => *known.lock().unwrap_or_else(PoisonError::into_inner) = journal,
            None => self.journal = Some(Arc::new(Mutex::new(journal))),
        }
    }

    pub(crate) fn gate_by(&mut self, gate: Gate) {
        self.gate = Some(gate);
    }

    pub(crate) fn gate_mut(&mut self) -> Option<&mut Gate> {
        self.gate.as_mut()
    }

    fn is_acting(&self) -> bool {
        self.journal.is_some()
    }
}

impl Backend for LiveBackend {
    type Thread = ManagedThread;
    type Change = Change;
    type Refusal = Refusal;
    type Error = LiveError;

    fn scan(&mut self, now: Nanoseconds, table: &mut Threads) -> Result<Scan, LiveError> {
        // As near to the moment as can be: what the kernel says in its own clock is told by it.
        let offset_ns = monotonic_ns().saturating_sub(now.0);
        if let Some(journal) = &self.journal {
            locked(journal).check()?;
        }
        let mut found = std::mem::take(&mut self.found);
        self.scanner.scan_again(&mut found)?;
        let online = self.scanner.online();
        let online = online.unwrap_or_else(|| scan::online(&self.roots, &self.machine));
        let scan::News { events, left_alone, inherited } = self.update(now, &found, &online, table);
        self.found = found;
        let mut unread = self.note_inherited(&inherited);
        let ended = self.actuators.iter_mut().find_map(|actuator| actuator.scanned(table));
        if let Some(why) = ended {
            self.release_preferred(table);
            unread.push(why);
        }
        let mut stints = Vec::new();
        for actuator in &mut self.actuators {
            match actuator.stints() {
                Ok(more) => stints.extend(more),
                Err(why) => unread.push(format!("{}: switches: {why}", actuator.name())),
            }
        }
        let (ids, machine) = (&self.ids, &self.machine);
        self.switches.begin_tick(now, (stints, offset_ns), ids, machine, table);
        Ok(Scan { events, left_alone, unread })
    }

    /// A source that fails is left out this time; what it counts keeps its count.
    fn count(&mut self, now: Nanoseconds, table: &mut Threads) -> Vec<String> {
        for (view, thread) in table.iter_mut() {
            thread.begin_count(view);
        }
        let mut unread = Vec::new();
        for source in &mut self.sources {
            if let Err(error) = source.count(now, table) {
                unread.push(error.to_string());
            }
        }
        unread.extend(self.expire(now, table));
        unread.extend(self.judge(now, table));
        unread
    }

    fn taken_back(&mut self) -> Vec<(usize, Action)> {
        std::mem::take(&mut self.taken_back)
    }

    fn switches(&self) -> usize {
        self.switches.len()
    }

    fn show_switch(&mut self, index: usize, table: &mut Threads) -> (Nanoseconds, Event) {
        self.switches.show(index, table)
    }

    fn show_present(&mut self, table: &mut Threads) {
        self.switches.show_present(table);
    }

    fn apply(
        &mut self,
        now: Nanoseconds,
        policy: usize,
        steps: &[Step],
        table: &mut Threads,
    ) -> Vec<Verdict> {
        self.carry_out_gated(now, policy, steps, table)
    }
}

/// The clock of the host and of [`corun_scx::Stint`], in nanoseconds.
fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64
}

/// A journal is whole after every call, so that one that panicked leaves nothing broken.
pub(crate) fn locked(journal: &Mutex<Journal>) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}
