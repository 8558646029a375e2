//! Samples by the number of events: each time that one of a thread's counts has grown by so much,
//! the kernel itself takes down what all of them are.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use corun_machine::CpuId;
use perf_event::data::{Record, Sample};
use perf_event::{Clock, Counter, SampleFlag, Sampler};
use rustix::time::{ClockId, clock_gettime};

use super::counters::{CountTarget, GroupReading, Part, builder, cannot_join, join, together};
use super::events::{Encoding, PerfEvent};
use super::sampling::{Increase, open_new};
use crate::Task;

/// The kernel's shortest time between two samples by a clock.
const SHORTEST_NS: u64 = 10_000;
/// Bytes of each thread's buffer: some 300 samples of four events.
const BUFFER_BYTES: usize = 32 << 10;

/// Why threads cannot be sampled by the number of events.
#[derive(Debug, thiserror::Error)]
pub enum OverflowError {
    /// The kernel counts the event and cannot sample by it.
    #[error(
        "`{event}` cannot be sampled by: its counter does not tell when it has counted so much; \
         expected an event of a core's counters or one that the kernel counts itself"
    )]
    NoOverflow {
        /// The event's name.
        event: String,
    },
    /// A clock was to be sampled more often than the kernel does.
    #[error("{found} ns of `{event}` is too short: expected 10000 ns or more")]
    TooOften {
        /// The event's name.
        event: String,
        /// What was asked for.
        found: u64,
    },
    /// The hardware does not count them all at the same time.
    #[error(
        "`{event}` cannot be counted at the same time as `{by}`: samples by the number of events \
         need all events in counters at once; ask for fewer"
    )]
    TooMany {
        /// The event's name.
        event: String,
        /// The event that is sampled by.
        by: String,
    },
    /// The kernel refuses.
    #[error("`{event}` cannot be sampled by: {source}")]
    Refused {
        /// The event's name.
        event: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// A thread's sample.
#[derive(Debug, Clone, PartialEq)]
pub struct OverflowSample {
    /// The thread.
    pub task: Task,
    /// When the count was reached, since [`OverflowSampling::new`] or
    /// [`OverflowSampling::times_from_now`].
    pub at: Duration,
    /// Time since the thread's sample before, or since it is counted.
    pub interval: Duration,
    /// Where it ran.
    pub cpu: CpuId,
    /// What happened in that time.
    pub counts: Increase,
}

/// Takes a sample of a thread each time that an event has happened so often.
#[derive(Debug)]
pub struct OverflowSampling {
    events: usize,
    /// One for each kind of core that counts the event, which comes first.
    groups: Vec<Vec<(usize, Encoding)>>,
    every: u64,
    began: Duration,
    threads: BTreeMap<Task, Vec<OpenSampler>>,
    uncounted: usize,
    lost: u64,
    held_back: u64,
}

struct OpenSampler {
    sampler: Sampler,
    /// Counts in step with the first.
    _others: Vec<Counter>,
    places: Vec<usize>,
    before: GroupReading,
    before_at: Duration,
}

impl std::fmt::Debug for OpenSampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenSampler").field("places", &self.places).finish_non_exhaustive()
    }
}

impl OverflowSampling {
    /// Makes ready to count these events and to take a sample each time that the one at `by` has
    /// happened `every` times; of clocks it is nanoseconds.
    ///
    /// # Errors
    ///
    /// When that event cannot be sampled by here, or not together with the others.
    ///
    /// # Panics
    ///
    /// Where there is no event at `by`.
    pub fn new(events: &[PerfEvent], by: usize, every: u64) -> Result<Self, OverflowError> {
        let event = &events[by];
        let name = || event.name.clone();
        if event.is_time && every < SHORTEST_NS {
            return Err(OverflowError::TooOften { event: name(), found: every });
        }
        let groups = event.encodings.iter().map(|first| group(events, by, first)).collect();
        let sampling = Self {
            events: events.len(),
            groups,
            every,
            began: monotonic(),
            threads: BTreeMap::new(),
            uncounted: 0,
            lost: 0,
            held_back: 0,
        };
        sampling.probe(events, by)?;
        Ok(sampling)
    }

    /// Opens all of it for the calling thread, once.
    fn probe(&self, events: &[PerfEvent], by: usize) -> Result<(), OverflowError> {
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let name = |place: usize| events[place].name.clone();
        for group in &self.groups {
            let opened = OpenSampler::open(own, group, self.every, self.began);
            opened.map(drop).map_err(|(place, source)| match place {
                _ if !refuses_what_is_asked(&source) => {
                    OverflowError::Refused { event: name(place), source }
                }
                _ if place == by => OverflowError::NoOverflow { event: name(by) },
                _ => OverflowError::TooMany { event: name(place), by: name(by) },
            })?;
        }
        Ok(())
    }

    /// Samples' times are those since now; earlier samples stand at zero.
    pub fn times_from_now(&mut self) {
        self.began = monotonic();
    }

    /// Threads that could not be sampled when threads were last watched.
    pub fn uncounted(&self) -> usize {
        self.uncounted
    }

    /// Samples for which there was no room: what they had to say is in the thread's next one.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// How often the kernel stopped counting for a moment, as samples came too fast.
    pub fn held_back(&self) -> u64 {
        self.held_back
    }

    /// Begins to sample those of these threads that are new. Gives the last error of one that
    /// cannot be sampled though it is there.
    pub fn watch(&mut self, threads: &[Task]) -> Option<io::Error> {
        let open = |tid: u32| {
            let now = monotonic();
            let each = self.groups.iter();
            each.map(|group| OpenSampler::open(tid, group, self.every, now))
                .collect::<Result<Vec<_>, _>>()
                .map_err(|(_, error)| error)
        };
        let (uncounted, refused) = open_new(&mut self.threads, threads, open);
        self.uncounted = uncounted;
        refused
    }

    /// The samples since the last call, in the order of time. A thread that is not among `now`, which is
    /// sorted, has ended: its last ones are there.
    pub fn take(&mut self, now: &[Task]) -> Vec<OverflowSample> {
        let mut found = Vec::new();
        let Self { threads, events, began, lost, held_back, .. } = self;
        threads.retain(|&task, samplers| {
            for sampler in samplers {
                let mut taken = Taken { lost, held_back, began: *began, events: *events };
                sampler.take(task, &mut taken, &mut found);
            }
            now.binary_search(&task).is_ok()
        });
        found.sort_by_key(|sample| (sample.at, sample.task));
        found
    }
}

struct Taken<'a> {
    lost: &'a mut u64,
    held_back: &'a mut u64,
    began: Duration,
    events: usize,
}

impl OpenSampler {
    /// The error with the place of the event that was refused.
    fn open(
        tid: u32,
        members: &[(usize, Encoding)],
        every: u64,
        now: Duration,
    ) -> Result<Self, (usize, io::Error)> {
        let Some(((first, encoding), others)) = members.split_first() else {
            unreachable!("a group has the event that is sampled by");
        };
        let refused = |place: usize| move |error: io::Error| (place, error);
        let counted = CountTarget::Thread(tid);
        let mut of_leader = builder(counted, encoding, true);
        let fields = SampleFlag::TIME | SampleFlag::CPU | SampleFlag::READ;
        of_leader.enabled(false).sample_period(every).sample(fields).clockid(Clock::MONOTONIC);
        let mut leader = of_leader.build().map_err(refused(*first))?;
        let mut counters = Vec::with_capacity(others.len());
        for (place, encoding) in others {
            let mut member = builder(counted, encoding, true);
            // A group has one clock.
            member.clockid(Clock::MONOTONIC);
            counters.push(join(&member, &mut leader, &of_leader).map_err(refused(*place))?);
        }
        let mut sampler = leader.sampled(BUFFER_BYTES).map_err(|error| (*first, no_room(error)))?;
        sampler.enable().map_err(refused(*first))?;
        let values = vec![0; members.len()];
        Ok(Self {
            sampler,
            _others: counters,
            places: members.iter().map(|(place, _)| *place).collect(),
            before: GroupReading { values, ..GroupReading::default() },
            before_at: now,
        })
    }

    fn take(&mut self, task: Task, taken: &mut Taken<'_>, found: &mut Vec<OverflowSample>) {
        while let Some(record) = self.sampler.next_record() {
            let parsed = record.parse_record();
            match &parsed {
                Ok(Record::Sample(sample)) => {
                    let (before, places) = ((&mut self.before, &mut self.before_at), &self.places);
                    found.extend(sampled(task, sample, before, places, taken));
                }
                Ok(Record::Lost(lost)) => *taken.lost += lost.lost,
                Ok(Record::LostSamples(lost)) => *taken.lost += lost.lost,
                Ok(Record::Throttle(_)) => *taken.held_back += 1,
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(thread = %task, %error, "a sample cannot be read");
                    *taken.lost += 1;
                }
            }
        }
    }
}

/// None where the kernel left something out, which it never should.
fn sampled(
    task: Task,
    sample: &Sample<'_>,
    (before, before_at): (&mut GroupReading, &mut Duration),
    places: &[usize],
    taken: &Taken<'_>,
) -> Option<OverflowSample> {
    let group = sample.values()?;
    let now = GroupReading {
        enabled_ns: group.time_enabled()?,
        running_ns: group.time_running()?,
        values: group.entries().map(|entry| entry.value()).collect(),
    };
    let now_at = Duration::from_nanos(sample.time()?);
    let mut counts = vec![None; taken.events];
    for (at, &place) in places.iter().enumerate() {
        counts[place] = together(&[Part::between(before, &now, at)]);
    }
    let interval = now_at.saturating_sub(std::mem::replace(before_at, now_at));
    *before = now;
    let at = now_at.saturating_sub(taken.began);
    Some(OverflowSample { task, at, interval, cpu: CpuId(sample.cpu()?), counts })
}

/// The event that is sampled by as one kind of core counts it, and the others that are counted
/// there, too.
fn group(events: &[PerfEvent], by: usize, first: &Encoding) -> Vec<(usize, Encoding)> {
    let mut group = vec![(by, first.clone())];
    for (place, event) in events.iter().enumerate().filter(|(place, _)| *place != by) {
        let fits =
            |one: &&Encoding| first.core.is_none() || one.core.is_none() || one.core == first.core;
        group.extend(event.encodings.iter().filter(fits).map(|one| (place, one.clone())));
    }
    group
}

/// Does the kernel say that what was asked does not go together, rather than that it is forbidden?
fn refuses_what_is_asked(error: &io::Error) -> bool {
    let unsupported = rustix::io::Errno::OPNOTSUPP.raw_os_error();
    cannot_join(error) || error.raw_os_error() == Some(unsupported)
}

/// What the kernel's answers mean where a buffer is asked for: that it is not permitted is one too
/// many, that there is no such thing a thread that has ended since.
fn no_room(error: io::Error) -> io::Error {
    let ended = rustix::io::Errno::NODEV.raw_os_error();
    if error.raw_os_error() == Some(ended) {
        return rustix::io::Errno::SRCH.into();
    }
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    io::Error::other(
        "no more memory for samples: raise kernel.perf_event_mlock_kb or the limit of locked memory \
         (ulimit -l)",
    )
}

/// The clock of the samples.
fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    // It starts at zero with the machine.
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::Pmus;
    use crate::{Roots, facts};

    fn encoding(kind: u32, config: u64, core: Option<usize>) -> Encoding {
        Encoding {
            kind,
            config,
            config1: 0,
            config2: 0,
            config3: 0,
            user_only: false,
            kernel_only: false,
            core,
        }
    }

    fn event(name: &str, encodings: Vec<Encoding>) -> PerfEvent {
        PerfEvent { name: name.to_owned(), encodings, is_time: false, is_software: false }
    }

    #[test]
    fn each_kind_of_core_counts_what_it_has_with_its_own_leader() {
        let on = |core: usize| encoding(4, 0xc0, Some(core));
        let events = [
            event("page-faults", vec![encoding(1, 2, None)]),
            event("instructions", vec![on(0), on(1)]),
            event("of-core-1", vec![on(1)]),
        ];
        let places = |first: &Encoding| -> Vec<usize> {
            group(&events, 1, first).into_iter().map(|(place, _)| place).collect()
        };
        assert_eq!(places(&on(0)), [1, 0]);
        assert_eq!(places(&on(1)), [1, 0, 2]);
        assert_eq!(group(&events, 1, &on(1))[2].1, on(1));
    }

    #[test]
    fn a_counter_that_never_tells_is_refused() {
        let kind = std::fs::read_to_string("/sys/bus/event_source/devices/msr/type");
        let Ok(kind) = kind else {
            eprintln!("skipped: this machine has no counter that cannot be sampled by");
            return;
        };
        // The time-stamp counter: user or kernel makes no difference to it.
        let tsc = event("tsc", vec![encoding(kind.trim().parse().unwrap(), 0, None)]);
        match OverflowSampling::new(&[tsc], 0, 1_000_000) {
            Err(OverflowError::NoOverflow { event }) => assert_eq!(event, "tsc"),
            Err(OverflowError::Refused { source, .. }) => eprintln!("skipped: {source}"),
            other => panic!("{other:?}"),
        }
        let pmus = Pmus::read(&Roots::default());
        let clock = pmus.event("task-clock").unwrap();
        let often = OverflowSampling::new(&[clock], 0, 9_999);
        assert!(matches!(often, Err(OverflowError::TooOften { found: 9_999, .. })), "{often:?}");
    }

    /// The counts of this thread's samples add up to what it did, whatever came between.
    #[test]
    fn a_thread_has_a_sample_for_each_so_many_page_faults() {
        let pmus = Pmus::read(&Roots::default());
        let events = ["task-clock", "page-faults"].map(|name| pmus.event(&format!("{name}:u")));
        let events: Vec<PerfEvent> = events.into_iter().map(Result::unwrap).collect();
        let mut sampling = match OverflowSampling::new(&events, 1, 16) {
            Ok(sampling) => sampling,
            Err(error) => {
                eprintln!("skipped: counters cannot be opened here: {error}");
                return;
            }
        };
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let facts = facts(&Roots::default(), std::process::id(), own).unwrap();
        let threads = [facts.task];
        if let Some(error) = sampling.watch(&threads) {
            eprintln!("skipped: {error}");
            return;
        }
        // Single pages, so that no huge one takes their place.
        let mut memory = vec![vec![0_u8; 4096]; 2000];
        memory.iter_mut().for_each(|page| page[0] = std::hint::black_box(1));
        let samples = sampling.take(&threads);
        assert_eq!(sampling.lost(), 0);
        assert!(samples.len() > 10, "{} samples", samples.len());
        for sample in &samples {
            assert_eq!((sample.task.tid, sample.counts[1]), (own, Some(16.0)));
            assert!(sample.counts[0].is_some_and(|ns| ns > 0.0), "{sample:?}");
        }
        assert!(samples.is_sorted_by_key(|sample| sample.at));
        // Gone from the list, it is forgotten.
        sampling.take(&[]);
        assert!(sampling.take(&threads).is_empty());
    }
}
