//! Any events, by thread or by CPU, from one sample to the next.

use std::collections::BTreeMap;
use std::io;

use corun_machine::CpuId;

use super::counters::{CountTarget, EventGroups, OpenCounters, try_event};
use super::events::PerfEvent;
use crate::{Task, is_gone};

/// How much more of each event happened since the last sample, in the order of the events. None:
/// it was never counted in that time.
pub type Increase = Vec<Option<f64>>;

/// Counts events of threads or CPUs.
#[derive(Debug)]
pub struct Sampling {
    events: Vec<PerfEvent>,
    groups: EventGroups,
    threads: BTreeMap<Task, OpenCounters>,
    family: Option<OpenCounters>,
    cpus: BTreeMap<CpuId, OpenCounters>,
    user_only: bool,
    uncounted: usize,
}

impl Sampling {
    /// Makes ready to count these events. Those of hardware are counted four at a time, each four
    /// always together; where that is more than the processor has, they take turns.
    ///
    /// # Errors
    ///
    /// The first event that cannot be counted here, and the kernel's answer.
    pub fn new(mut events: Vec<PerfEvent>) -> Result<Self, (PerfEvent, io::Error)> {
        let mut user_only = false;
        for event in &mut events {
            if let Err(error) = try_event(event, &mut user_only) {
                return Err((event.clone(), error));
            }
        }
        let mut hardware: usize = 0;
        let group = |event: &PerfEvent| {
            // The kernel's own events take no counter, and are in a group of their own.
            if event.is_software {
                return 0;
            }
            hardware += 1;
            hardware.div_ceil(4)
        };
        let numbers: Vec<usize> = events.iter().map(group).collect();
        let groups = EventGroups::new(numbers.into_iter().zip(&events));
        let (threads, cpus) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { events, groups, threads, family: None, cpus, user_only, uncounted: 0 })
    }

    /// The events.
    pub fn events(&self) -> &[PerfEvent] {
        &self.events
    }

    /// Is what the kernel does for programs left out, as this user may not see it?
    pub fn is_user_only(&self) -> bool {
        self.user_only
    }

    /// Threads that could not be counted when threads were last watched.
    pub fn uncounted(&self) -> usize {
        self.uncounted
    }

    /// Counts a thread and all that it starts from now on, threads and processes, also those that
    /// no sample ever sees.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    pub fn count_family(&mut self, tid: u32) -> io::Result<()> {
        self.family = Some(OpenCounters::open(CountTarget::Family(tid), &self.groups)?);
        Ok(())
    }

    /// What the family did since the last call; none without one.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    pub fn family(&mut self) -> io::Result<Option<Increase>> {
        let events = self.events.len();
        self.family.as_mut().map(|counters| counters.advance(events)).transpose()
    }

    /// Counts all that happens on these CPUs from now on.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    pub fn count_cpus(&mut self, cpus: impl IntoIterator<Item = CpuId>) -> io::Result<()> {
        for cpu in cpus {
            let counters = OpenCounters::open(CountTarget::Cpu(cpu), &self.groups)?;
            self.cpus.insert(cpu, counters);
        }
        Ok(())
    }

    /// What happened on each CPU since the last call.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    pub fn cpus(&mut self) -> io::Result<Vec<(CpuId, Increase)>> {
        let events = self.events.len();
        let each = self.cpus.iter_mut();
        each.map(|(&cpu, counters)| Ok((cpu, counters.advance(events)?))).collect()
    }

    /// Begins to count those of these threads that are new. Gives the last error of one that
    /// cannot be counted though it is there.
    pub fn watch(&mut self, threads: &[Task]) -> Option<io::Error> {
        let open = |tid: u32| OpenCounters::open(CountTarget::Thread(tid), &self.groups);
        let (uncounted, refused) = open_new(&mut self.threads, threads, open);
        self.uncounted = uncounted;
        refused
    }

    /// What each watched thread did since the last call, or since it is watched, in the order of
    /// their tasks. One that is not among `now`, which is sorted, has ended: it is there for the last time.
    pub fn threads(&mut self, now: &[Task]) -> Vec<(Task, Increase)> {
        let events = self.events.len();
        let mut found = Vec::with_capacity(self.threads.len());
        self.threads.retain(|task, counters| {
            match counters.advance(events) {
                Ok(increase) => found.push((*task, increase)),
                Err(error) => tracing::debug!(thread = %task, %error, "cannot be read"),
            }
            now.binary_search(task).is_ok()
        });
        found
    }
}

/// Opens what is not open yet of these threads. How many are there and could not be opened, and the
/// last one's error.
pub(super) fn open_new<T>(
    known: &mut BTreeMap<Task, T>,
    threads: &[Task],
    open: impl Fn(u32) -> io::Result<T>,
) -> (usize, Option<io::Error>) {
    let mut uncounted = 0;
    let mut refused = None;
    for task in threads {
        if known.contains_key(task) {
            continue;
        }
        match open(task.tid) {
            Ok(opened) => {
                known.insert(*task, opened);
            }
            // It has ended meanwhile.
            Err(error) if is_gone(&error) => {}
            Err(error) => {
                uncounted += 1;
                refused = Some(error);
            }
        }
    }
    (uncounted, refused)
}
