//! Hardware counters by thread, through perf_event.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use corun_linux::perf::{
    CountTarget, EventGroups, Meaning, OpenCounters, PerfEvent, PlatformEvent, PlatformEvents,
    Pmus, counter_advice, try_event,
};
use corun_linux::{Roots, Task};
use corun_linux::{is_exhausted, raise_descriptor_limit};
use corun_policy::{CounterKind, Counts, Nanoseconds, Scope, ThreadId};

use super::{Source, SourceError};
use crate::Threads;

const NAME: &str = "perf";

/// Counts what threads do with the processor's own counters.
///
/// What policies compare is counted at the same time: instructions, cycles and the LLC's events in
/// one group, the rest in a second. Where the hardware has to take turns, counts are scaled by the
/// time they were counted; what was never counted in an interval is absent. What the kernel does
/// for a thread counts too, where this user may see that.
#[derive(Debug)]
pub struct PerfSource {
    kinds: Vec<CounterKind>,
    meanings: Vec<(Meaning, Scope)>,
    groups: EventGroups,
    threads: BTreeMap<ThreadId, Watched>,
    told_limit: bool,
}

#[derive(Debug)]
struct Watched {
    task: Task,
    counters: OpenCounters,
    /// When they were read last.
    since: Nanoseconds,
}

impl PerfSource {
    /// Makes ready to count what a host's policies want of it, as far as this machine can;
    /// [`Source::counters`] says how far. Raises this process's limit of open files.
    ///
    /// # Errors
    ///
    /// When nothing of it can be counted here.
    pub fn new(roots: &Roots, wanted: &[CounterKind]) -> Result<Self, SourceError> {
        let pmus = Pmus::read(roots);
        if !pmus.has_hardware() {
            return Err(failed(
                "the kernel shows no hardware counters (no `cpu` in /sys/bus/event_source/devices)",
                Some("a virtual machine has them only where its host passes them on".to_owned()),
                None,
            ));
        }
        raise_descriptor_limit();
        let platform = PlatformEvents::new(roots, &pmus);
        let meanings: BTreeSet<Meaning> =
            wanted.iter().flat_map(|kind| meanings_of(*kind)).copied().collect();
        let mut found: Vec<(Meaning, PerfEvent, Scope)> = Vec::new();
        let mut refused = None;
        let mut user_only = false;
        for meaning in meanings {
            let Some(found_event) = platform.event(meaning) else { continue };
            let PlatformEvent { mut event, with_prefetches } = found_event;
            let scope = if with_prefetches { Scope::DemandAndPrefetch } else { Scope::Demand };
            match try_event(&mut event, &mut user_only) {
                Ok(()) => found.push((meaning, event, scope)),
                Err(error) => refused = Some(error),
            }
        }
        if user_only {
            tracing::info!("what the kernel does for programs is not counted: no permission");
            let all = found.iter_mut().flat_map(|(_, event, _)| &mut event.encodings);
            all.for_each(|encoding| encoding.user_only = true);
        }
        let meanings: Vec<_> = found.iter().map(|(meaning, _, scope)| (*meaning, *scope)).collect();
        let has = |meaning: &Meaning| meanings.iter().any(|(one, _)| one == meaning);
        let kinds: Vec<CounterKind> =
            wanted.iter().copied().filter(|kind| is_complete(*kind, has)).collect();
        if kinds.is_empty() {
            let advice = refused.as_ref().and_then(|error| counter_advice(roots, error));
            return Err(failed("nothing that was asked for can be counted", advice, refused));
        }
        let events = found.iter().map(|(meaning, event, _)| (group_of(*meaning), event));
        let groups = EventGroups::new(events);
        Ok(Self { kinds, meanings, groups, threads: BTreeMap::new(), told_limit: false })
    }

    /// Opens a thread's counters. Counting starts now, so that nothing is known yet.
    fn watch(&mut self, now: Nanoseconds, id: ThreadId, task: Task) {
        let counters = match OpenCounters::open(CountTarget::Thread(task.tid), &self.groups) {
            Ok(counters) => counters,
            Err(error) => {
                if is_exhausted(&error) && !std::mem::replace(&mut self.told_limit, true) {
                    tracing::warn!(
                        "no descriptor is left for more counters: {} threads are counted, others \
                         are not; raise the limit of open files (LimitNOFILE=)",
                        self.threads.len()
                    );
                } else {
                    tracing::debug!(thread = %task, %error, "cannot be counted");
                }
                // Tried again when the thread is next seen.
                return;
            }
        };
        self.threads.insert(id, Watched { task, counters, since: now });
    }
}

impl Source for PerfSource {
    fn name(&self) -> &'static str {
        NAME
    }

    fn counters(&self) -> Vec<CounterKind> {
        self.kinds.clone()
    }

    fn count(&mut self, now: Nanoseconds, threads: &mut Threads) -> Result<(), SourceError> {
        self.threads.retain(|id, watched| {
            let index = threads.index_of(*id);
            index.is_some_and(|index| threads.at(index).1.task() == watched.task)
        });
        for (view, thread) in threads.iter_mut() {
            let Some(watched) = self.threads.get_mut(&view.id) else {
                self.watch(now, view.id, thread.task());
                continue;
            };
            match watched.counters.advance(self.groups.events()) {
                Ok(counts) => {
                    // A reading that failed is made up for by the next: what is counted then is of the
                    // whole time since the last one that did not.
                    let since = std::mem::replace(&mut watched.since, now);
                    let elapsed = Nanoseconds(now.0.saturating_sub(since.0));
                    add(&mut view.counts, &self.meanings, &counts, elapsed);
                }
                Err(error) => {
                    tracing::debug!(thread = %watched.task, %error, "cannot be read");
                }
            }
        }
        Ok(())
    }
}

/// The events from which perf counts a counter; empty where perf does not count it.
fn meanings_of(kind: CounterKind) -> &'static [Meaning] {
    match kind {
        CounterKind::Instructions => &[Meaning::Instructions],
        CounterKind::Cycles => &[Meaning::Cycles],
        CounterKind::LlcReferences => &[Meaning::LlcReferences],
        CounterKind::LlcMisses => &[Meaning::LlcMisses],
        CounterKind::L1Accesses => &[Meaning::L1Loads, Meaning::L1Stores],
        CounterKind::Branches => &[Meaning::Branches],
        CounterKind::MemoryStalls => &[Meaning::Cycles, Meaning::StallCycles],
        _ => &[],
    }
}

/// Counters that a policy relates to one another share a group; two groups fit the four counters
/// that most cores have.
fn group_of(meaning: Meaning) -> usize {
    match meaning {
        Meaning::Instructions
        | Meaning::Cycles
        | Meaning::LlcReferences
        | Meaning::LlcMisses
        | Meaning::StallCycles => 0,
        Meaning::L1Loads | Meaning::L1Stores | Meaning::Branches => 1,
    }
}

/// Can a counter be given? The L1's stores are left out where they are not told apart.
fn is_complete(kind: CounterKind, has: impl Fn(&Meaning) -> bool) -> bool {
    match kind {
        CounterKind::L1Accesses => has(&Meaning::L1Loads),
        other => {
            let parts = meanings_of(other);
            !parts.is_empty() && parts.iter().all(has)
        }
    }
}

/// Adds to a thread's counts what its events counted in a time. What is unknown adds nothing; no more
/// cycles are stalled than there are.
fn add(
    to: &mut Counts,
    meanings: &[(Meaning, Scope)],
    counts: &[Option<f64>],
    elapsed: Nanoseconds,
) {
    let find = |wanted: Meaning| {
        let place = meanings.iter().position(|(meaning, _)| *meaning == wanted)?;
        Some((counts[place]?, meanings[place].1))
    };
    let demand = |amount: f64| (amount, Scope::Demand);
    let has_stores = meanings.iter().any(|(meaning, _)| *meaning == Meaning::L1Stores);
    let stores = if has_stores { find(Meaning::L1Stores) } else { Some(demand(0.0)) };
    let accesses = find(Meaning::L1Loads).zip(stores);
    let stalled = find(Meaning::StallCycles).zip(find(Meaning::Cycles));
    for (kind, found) in [
        (CounterKind::Instructions, find(Meaning::Instructions)),
        (CounterKind::Cycles, find(Meaning::Cycles)),
        (CounterKind::LlcReferences, find(Meaning::LlcReferences)),
        (CounterKind::LlcMisses, find(Meaning::LlcMisses)),
        (CounterKind::L1Accesses, accesses.map(|(loads, stores)| demand(loads.0 + stores.0))),
        (CounterKind::Branches, find(Meaning::Branches)),
        (CounterKind::MemoryStalls, stalled.map(|(stalled, all)| demand(stalled.0.min(all.0)))),
    ] {
        if let Some((amount, scope)) = found {
            to.add(kind, amount, elapsed, scope);
        }
    }
}

fn failed(what: &str, advice: Option<String>, reason: Option<io::Error>) -> SourceError {
    SourceError { source_name: NAME, what: what.to_owned(), advice, reason }
}

#[cfg(test)]
mod tests {
    use corun_linux::perf::{GroupReader, GroupReading};
    use corun_policy::{Rates, ScopedRate};

    use super::*;
    use crate::backend::fixture;

    #[test]
    fn counts_are_those_of_the_events() {
        let meanings = [
            (Meaning::Instructions, Scope::Demand),
            (Meaning::Cycles, Scope::Demand),
            (Meaning::LlcMisses, Scope::DemandAndPrefetch),
            (Meaning::StallCycles, Scope::Demand),
            (Meaning::L1Loads, Scope::Demand),
        ];
        let (mut counts, before) = (Counts::default(), Counts::default());
        let first = [Some(4e9), Some(2e9), Some(6.0), Some(5e8), Some(1e9)];
        add(&mut counts, &meanings, &first, Nanoseconds(2_000_000_000));
        // Misses were not counted this time.
        let second = [Some(4e9), Some(2e9), None, Some(9e9), Some(1e9)];
        add(&mut counts, &meanings, &second, Nanoseconds(2_000_000_000));
        let expected = Rates {
            instructions_per_s: Some(2e9),
            cycles_per_s: Some(1e9),
            llc_misses: Some(ScopedRate { per_s: 3.0, scope: Scope::DemandAndPrefetch }),
            memory_stall_share: Some(0.625),
            l1_accesses_per_s: Some(5e8),
            ..Rates::default()
        };
        assert_eq!(counts.since(&before), expected);
    }

    #[test]
    fn a_counter_needs_all_its_parts() {
        let has = |meaning: &Meaning| matches!(meaning, Meaning::Cycles | Meaning::L1Loads);
        assert!(is_complete(CounterKind::Cycles, has));
        assert!(is_complete(CounterKind::L1Accesses, has));
        assert!(!is_complete(CounterKind::MemoryStalls, has));
        assert!(!is_complete(CounterKind::MemoryBytes, has));
    }

    #[test]
    fn without_hardware_counters_the_reason_is_said() {
        let empty = tempfile::tempdir().unwrap();
        let roots = Roots { sys: empty.path().to_owned(), ..Roots::default() };
        let error = PerfSource::new(&roots, &[CounterKind::Cycles]).unwrap_err().to_string();
        assert!(error.starts_with("perf: the kernel shows no hardware counters"), "{error}");
        assert!(error.contains("virtual machine"), "{error}");
    }

    /// Threads come and go; the same path as with hardware, over the kernel's own counters.
    #[test]
    fn threads_that_come_and_go_are_followed() {
        let clock = Pmus::default().event("task-clock").unwrap();
        let mut source = PerfSource {
            kinds: vec![CounterKind::Instructions],
            meanings: vec![(Meaning::Instructions, Scope::Demand)],
            groups: EventGroups::new([(0, &clock)]),
            threads: BTreeMap::new(),
            told_limit: false,
        };
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let threads = |those: &[(u64, u32, u64)]| {
            let mut threads = Threads::new(0);
            for &(id, tid, start_ticks) in those {
                let task = Task { pid: std::process::id(), tid, start_ticks };
                fixture::insert(&mut threads, id, task, "p");
            }
            threads
        };
        let mut count = |now, threads: &mut Threads| {
            source.count(Nanoseconds(now), threads).unwrap();
            let counts = threads.views().iter().map(|view| view.counts.instructions);
            (counts.collect::<Vec<_>>(), source.threads.len())
        };
        // One that is there, one that has ended.
        let mut both = threads(&[(1, own, 1), (2, u32::MAX >> 1, 1)]);
        let (first, watched) = count(0, &mut both);
        if watched == 0 {
            return eprintln!("skipped: counters cannot be opened here");
        }
        assert_eq!((first, watched), (vec![None, None], 1));
        for number in 0..2_000_000_u32 {
            std::hint::black_box(number);
        }
        let (second, _) = count(1_000_000_000, &mut both);
        let counted = second[0].unwrap();
        assert!(counted.total > 1e6 && second[1].is_none(), "{second:?}");
        assert_eq!(counted.known, Nanoseconds(1_000_000_000));
        // The same number, another thread: counted anew.
        assert_eq!(count(2_000_000_000, &mut threads(&[(1, own, 2)])), (vec![None], 1));
        assert_eq!(count(3_000_000_000, &mut threads(&[])), (vec![], 0));
    }

    #[derive(Debug)]
    struct ReadingsOfTest(Vec<io::Result<u64>>);

    impl GroupReader for ReadingsOfTest {
        fn read(&mut self) -> io::Result<GroupReading> {
            let value = self.0.remove(0)?;
            Ok(GroupReading { enabled_ns: value, running_ns: value, values: vec![value] })
        }
    }

    /// A reading that failed is made up for: what the next one counts is of the whole time since the last
    /// one that did not, so that the rate is right.
    #[test]
    fn after_a_reading_that_failed_the_rate_is_that_of_both_intervals() {
        let clock = Pmus::default().event("task-clock").unwrap();
        let failed = || Err(io::ErrorKind::Interrupted.into());
        let task = Task { pid: 1, tid: 1, start_ticks: 1 };
        // The second group is not read where the first cannot be.
        let readings = [vec![Ok(100), Ok(200), failed(), Ok(400)], vec![Ok(100), Ok(200), Ok(400)]];
        let group = |(place, readings)| {
            (Box::new(ReadingsOfTest(readings)) as Box<dyn GroupReader>, vec![place])
        };
        let counters = OpenCounters::read_by(readings.into_iter().enumerate().map(group));
        let mut source = PerfSource {
            kinds: vec![CounterKind::Instructions],
            meanings: vec![
                (Meaning::Instructions, Scope::Demand),
                (Meaning::Cycles, Scope::Demand),
            ],
            groups: EventGroups::new([(0, &clock), (1, &clock)]),
            threads: [(ThreadId(1), Watched { task, counters, since: Nanoseconds(0) })].into(),
            told_limit: false,
        };
        let mut threads = Threads::new(0);
        fixture::insert(&mut threads, 1, task, "p");
        let mut before = Counts::default();
        for second in 1..=4 {
            source.count(Nanoseconds(second * 1_000_000_000), &mut threads).unwrap();
            let now = threads.views()[0].counts;
            let rates = now.since(&before);
            before = now;
            let expected = (second != 3).then_some(100.0);
            assert_eq!(
                (rates.instructions_per_s, rates.cycles_per_s),
                (expected, expected),
                "{second}"
            );
        }
    }
}
