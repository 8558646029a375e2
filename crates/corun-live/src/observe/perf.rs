//! Hardware counters by thread, through perf_event.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use corun_policy::{CounterKind, Nanoseconds, Rates, Scope, ScopedRate, ThreadId};

use super::counts::{Counted, EventGroups, OpenCounters, probe};
use super::descriptors::{is_exhausted, raise_descriptor_limit};
use super::permission::counter_advice;
use super::{Observed, Reading, Source, SourceError};
use crate::events::{Event, Meaning, Platform, Pmus};
use crate::{Roots, Task};

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
        let platform = Platform::new(roots, &pmus);
        let meanings: BTreeSet<Meaning> =
            wanted.iter().flat_map(|kind| Meaning::for_kind(*kind)).copied().collect();
        let mut found: Vec<(Meaning, Event, Scope)> = Vec::new();
        let mut refused = None;
        let mut user_only = false;
        for meaning in meanings {
            let Some((mut event, scope)) = platform.event(meaning) else { continue };
            match probe(&mut event, &mut user_only) {
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
    fn watch(&mut self, now: Nanoseconds, thread: &Observed) {
        let counters = match OpenCounters::open(Counted::Thread(thread.task.tid), &self.groups) {
            Ok(counters) => counters,
            Err(error) => {
                if is_exhausted(&error) && !std::mem::replace(&mut self.told_limit, true) {
                    tracing::warn!(
                        "no descriptor is left for more counters: {} threads are counted, others \
                         are not; raise the limit of open files (LimitNOFILE=)",
                        self.threads.len()
                    );
                } else {
                    tracing::debug!(thread = %thread.task, %error, "cannot be counted");
                }
                // Tried again when the thread is next seen.
                return;
            }
        };
        let watched = Watched { task: thread.task, counters, since: now };
        self.threads.insert(thread.id, watched);
    }
}

impl Source for PerfSource {
    fn name(&self) -> &'static str {
        NAME
    }

    fn counters(&self) -> Vec<CounterKind> {
        self.kinds.clone()
    }

    fn read(
        &mut self,
        now: Nanoseconds,
        threads: &[Observed],
        readings: &mut [Reading],
    ) -> Result<(), SourceError> {
        let there = |id: &ThreadId| threads.binary_search_by_key(id, |thread| thread.id);
        self.threads
            .retain(|id, watched| there(id).is_ok_and(|place| threads[place].task == watched.task));
        for (thread, reading) in threads.iter().zip(readings) {
            let Some(watched) = self.threads.get_mut(&thread.id) else {
                self.watch(now, thread);
                continue;
            };
            let seconds = now.0.saturating_sub(watched.since.0) as f64 * 1e-9;
            match watched.counters.advance(self.groups.events()) {
                Ok(counts) if seconds > 0.0 => {
                    fill(&mut reading.counters, &self.meanings, &counts, seconds);
                }
                Ok(_) => {}
                Err(error) => tracing::debug!(thread = %thread.task, %error, "cannot be read"),
            }
            watched.since = now;
        }
        Ok(())
    }
}

/// Rates that a policy relates to one another share a group; two groups fit the four counters
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
            let parts = Meaning::for_kind(other);
            !parts.is_empty() && parts.iter().all(has)
        }
    }
}

fn fill(to: &mut Rates, meanings: &[(Meaning, Scope)], counts: &[Option<f64>], seconds: f64) {
    let find = |wanted: Meaning| {
        let place = meanings.iter().position(|(meaning, _)| *meaning == wanted)?;
        Some(ScopedRate { per_s: counts[place]? / seconds, scope: meanings[place].1 })
    };
    let rate = |wanted: Meaning| find(wanted).map(|rate| rate.per_s);
    let keep = |field: &mut Option<f64>, value: Option<f64>| *field = value.or(*field);
    keep(&mut to.instructions_per_s, rate(Meaning::Instructions));
    keep(&mut to.cycles_per_s, rate(Meaning::Cycles));
    keep(&mut to.branches_per_s, rate(Meaning::Branches));
    to.llc_references = find(Meaning::LlcReferences).or(to.llc_references);
    to.llc_misses = find(Meaning::LlcMisses).or(to.llc_misses);
    let has_stores = meanings.iter().any(|(meaning, _)| *meaning == Meaning::L1Stores);
    let stores = if has_stores { rate(Meaning::L1Stores) } else { Some(0.0) };
    let accesses = rate(Meaning::L1Loads).zip(stores).map(|(loads, stores)| loads + stores);
    keep(&mut to.l1_accesses_per_s, accesses);
    let stalled = rate(Meaning::StallCycles).zip(rate(Meaning::Cycles));
    let share =
        stalled.filter(|(_, cycles)| *cycles > 0.0).map(|(stalled, cycles)| stalled / cycles);
    keep(&mut to.memory_stall_share, share.map(|share| share.min(1.0)));
}

fn failed(what: &str, advice: Option<String>, reason: Option<io::Error>) -> SourceError {
    SourceError { source_name: NAME, what: what.to_owned(), advice, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_over_the_wall_clock() {
        let meanings = [
            (Meaning::Instructions, Scope::Demand),
            (Meaning::Cycles, Scope::Demand),
            (Meaning::LlcMisses, Scope::DemandAndPrefetch),
            (Meaning::StallCycles, Scope::Demand),
            (Meaning::L1Loads, Scope::Demand),
        ];
        let counts = [Some(4e9), Some(2e9), None, Some(5e8), Some(1e9)];
        let before = ScopedRate { per_s: 1.0, scope: Scope::Demand };
        let mut counters = Rates { llc_misses: Some(before), ..Rates::default() };
        fill(&mut counters, &meanings, &counts, 2.0);
        let expected = Rates {
            instructions_per_s: Some(2e9),
            cycles_per_s: Some(1e9),
            // Unknown here: what an earlier source said stays.
            llc_misses: Some(before),
            memory_stall_share: Some(0.25),
            l1_accesses_per_s: Some(5e8),
            ..Rates::default()
        };
        assert_eq!(counters, expected);
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
        let thread = |id, tid, start_ticks| Observed {
            id: ThreadId(id),
            task: Task { pid: std::process::id(), tid, start_ticks },
            program: "p".into(),
            cpu: corun_machine::CpuId(0),
            state: corun_policy::ThreadState::Running,
            cpu_share: None,
        };
        let mut read = |now, threads: &[Observed]| {
            let mut readings = vec![Reading::default(); threads.len()];
            source.read(Nanoseconds(now), threads, &mut readings).unwrap();
            let rates = readings.iter().map(|reading| reading.counters.instructions_per_s);
            (rates.collect::<Vec<_>>(), source.threads.len())
        };
        // One that is there, one that has ended.
        let both = [thread(1, own, 1), thread(2, u32::MAX >> 1, 1)];
        let (first, watched) = read(0, &both);
        if watched == 0 {
            return eprintln!("skipped: counters cannot be opened here");
        }
        assert_eq!((first, watched), (vec![None, None], 1));
        let spin = std::time::Instant::now();
        while spin.elapsed() < std::time::Duration::from_millis(20) {}
        let (second, _) = read(1_000_000_000, &both);
        assert!(second[0].unwrap() > 1e6 && second[1].is_none(), "{second:?}");
        // The same number, another thread: counted anew.
        assert_eq!(read(2_000_000_000, &[thread(1, own, 2)]), (vec![None], 1));
        assert_eq!(read(3_000_000_000, &[]), (vec![], 0));
    }
}
