//! What the kernel's scheduler counts of threads: switches, wake-ups, waits for a CPU, idle time, and who wakes whom.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use corun_linux::Roots;
use corun_linux::procfs::{SchedulerCounts, scheduler_counts};
use corun_policy::{CounterKind, Nanoseconds, Scope, ThreadId, Waker};
use corun_scx::{ThreadCounts, Wakeups};

use super::{Source, SourceError};
use crate::Threads;

/// What corun's scheduler in the kernel counted, which [`crate::KernelPlacement`] reads once a tick.
#[derive(Debug, Default)]
pub struct InKernelCounts {
    /// Of each thread that has a plan, by the kernel's number.
    pub(crate) threads: BTreeMap<u32, ThreadCounts>,
    /// Who woke whom, ascending; empty where nobody asked for it.
    pub(crate) wakeups: Vec<Wakeups>,
}

/// The same for those who write and those who read it.
pub type SharedCounts = Arc<Mutex<InKernelCounts>>;

/// Counts what the kernel's scheduler knows of threads.
///
/// Of a thread in corun's scheduler that scheduler says it. Of others `/proc` does: switches and waits in `schedstat`;
/// a wake-up is a voluntary switch, the sleep that it ends. Idle is the time that is left of the wall clock's. A wait
/// is counted when it is over.
#[derive(Debug)]
pub struct SchedulerSource {
    roots: Roots,
    kinds: Vec<CounterKind>,
    in_kernel: SharedCounts,
    threads: BTreeMap<ThreadId, Followed>,
}

/// Who said what was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Proc,
    InKernel,
}

/// A thread as it was counted last.
#[derive(Debug, Clone, Copy)]
struct Followed {
    origin: Origin,
    counts: SchedulerCounts,
    /// When that was, and for how long it was on CPUs since.
    since: Nanoseconds,
    ran: Nanoseconds,
}

impl SchedulerSource {
    /// Counts those of `wanted` that the scheduler knows. `in_kernel`: what corun's scheduler in the kernel counts.
    pub fn new(roots: &Roots, wanted: &[CounterKind], in_kernel: SharedCounts) -> Self {
        let is_wanted = |kind: &CounterKind| wanted.contains(kind);
        Self {
            roots: roots.clone(),
            kinds: CounterKind::OF_SCHEDULER.into_iter().filter(is_wanted).collect(),
            in_kernel,
            threads: BTreeMap::new(),
        }
    }
}

impl Source for SchedulerSource {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn counters(&self) -> Vec<CounterKind> {
        self.kinds.clone()
    }

    fn count(&mut self, now: Nanoseconds, threads: &mut Threads) -> Result<(), SourceError> {
        let in_kernel = self.in_kernel.lock().unwrap_or_else(PoisonError::into_inner);
        show_wakers(&in_kernel.wakeups, threads);
        self.threads.retain(|id, _| threads.index_of(*id).is_some());
        if self.kinds.is_empty() {
            return Ok(());
        }
        for (view, thread) in threads.iter_mut() {
            let task = thread.task();
            let mut last = self.threads.get_mut(&view.id);
            let known =
                in_kernel.threads.get(&task.tid).map(|counts| (Origin::InKernel, of(counts)));
            // Who was on no CPU has no other counts in /proc than before.
            let unchanged = last.as_ref().filter(|_| thread.ran().0 == 0).map(|last| last.counts);
            let read = || unchanged.or_else(|| scheduler_counts(&self.roots, task.pid, task.tid));
            let Some((origin, counts)) = known.or_else(|| Some((Origin::Proc, read()?))) else {
                if let Some(last) = &mut last {
                    last.ran.0 += thread.ran().0;
                }
                continue;
            };
            let fresh = Followed { origin, counts, since: now, ran: Nanoseconds(0) };
            let Some(last) = last.filter(|last| last.origin == origin) else {
                self.threads.insert(view.id, fresh);
                continue;
            };
            let elapsed = Nanoseconds(now.0 - last.since.0);
            let ran_ns = last.ran.0 + thread.ran().0;
            let since =
                |of: fn(&SchedulerCounts) -> u64| of(&counts).saturating_sub(of(&last.counts));
            let wait_ns = since(|of| of.wait_ns);
            for &kind in &self.kinds {
                let amount = match kind {
                    CounterKind::ContextSwitches => since(|of| of.switches),
                    CounterKind::WakeUps => since(|of| of.wakeups),
                    CounterKind::RunQueueWait => wait_ns,
                    // A wait that began earlier may be longer than this time.
                    _ => elapsed.0.saturating_sub(ran_ns).saturating_sub(wait_ns),
                };
                view.counts.add(kind, amount as f64, elapsed, Scope::Demand);
            }
            *last = fresh;
        }
        Ok(())
    }
}

fn of(counts: &ThreadCounts) -> SchedulerCounts {
    SchedulerCounts {
        switches: counts.switches,
        wakeups: counts.wakeups,
        wait_ns: counts.wait.as_nanos() as u64,
    }
}

/// Shows each thread who woke it, of the threads that are here.
fn show_wakers(wakeups: &[Wakeups], threads: &mut Threads) {
    if wakeups.is_empty() {
        return;
    }
    let ids: BTreeMap<u32, ThreadId> =
        threads.iter().map(|(view, thread)| (thread.task().tid, view.id)).collect();
    let mut by_wakee: BTreeMap<ThreadId, BTreeSet<(ThreadId, u64)>> = BTreeMap::new();
    for one in wakeups {
        if let (Some(&waker), Some(&wakee)) = (ids.get(&one.waker), ids.get(&one.wakee)) {
            by_wakee.entry(wakee).or_default().insert((waker, one.count));
        }
    }
    for (view, _) in threads.iter_mut() {
        let wakers = by_wakee.remove(&view.id).unwrap_or_default();
        let waker = |(thread, count)| Waker { thread, count };
        view.woken_by = wakers.into_iter().map(waker).collect();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use corun_linux::Task;
    use corun_policy::Counts;

    use super::*;
    use crate::backend::fixture;

    const SECOND: u64 = 1_000_000_000;

    /// Two threads in `/proc`: 100 and 200.
    struct World {
        folder: tempfile::TempDir,
        source: SchedulerSource,
        shared: SharedCounts,
        threads: Threads,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let shared = SharedCounts::default();
            let roots = Roots::below(folder.path());
            let wanted = CounterKind::ALL;
            let source = SchedulerSource::new(&roots, wanted, shared.clone());
            let mut threads = Threads::new(0);
            for (id, tid) in [(0, 100), (1, 200)] {
                fixture::insert(&mut threads, id, Task { pid: tid, tid, start_ticks: 1 }, "p");
            }
            Self { folder, source, shared, threads }
        }

        fn says(&self, tid: u32, waited_ms: u64, switches: u64, voluntary: u64) {
            let folder = Roots::below(self.folder.path()).proc.join(format!("{tid}/task/{tid}"));
            fs::create_dir_all(&folder).unwrap();
            let line = format!("123 {} {switches}\n", waited_ms * 1_000_000);
            fs::write(folder.join("schedstat"), line).unwrap();
            let status = format!("Name:\tp\nvoluntary_ctxt_switches:\t{voluntary}\n");
            fs::write(folder.join("status"), status).unwrap();
        }

        /// After so many seconds, of which the threads ran so many milliseconds in the last one.
        fn count(&mut self, seconds: u64, ran_ms: u64) -> Vec<Counts> {
            for (_, thread) in self.threads.iter_mut() {
                thread.ran = Nanoseconds(ran_ms * 1_000_000);
            }
            self.source.count(Nanoseconds(seconds * SECOND), &mut self.threads).unwrap();
            self.threads.views().iter().map(|view| view.counts).collect()
        }
    }

    fn totals(counts: &Counts) -> Option<[f64; 4]> {
        Some([
            counts.context_switches?.total,
            counts.wakeups?.total,
            counts.run_queue_wait_ns?.total / 1e6,
            counts.idle_ns?.total / 1e6,
        ])
    }

    /// Of the second, 300 ms on a CPU and 250 in a queue leave 450.
    #[test]
    fn proc_counts_switches_waits_and_sleeps() {
        let mut world = World::new();
        world.says(100, 1000, 40, 30);
        assert_eq!(totals(&world.count(1, 0)[0]), None, "nothing is known of one look");
        world.says(100, 1250, 47, 36);
        let counts = world.count(2, 300);
        assert_eq!(totals(&counts[0]), Some([7.0, 6.0, 250.0, 450.0]));
        assert_eq!(totals(&counts[1]), None, "a thread that /proc does not have");
        let rates = counts[0].since(&Counts::default());
        assert_eq!((rates.run_queue_wait_share, rates.idle_share), (Some(0.25), Some(0.45)));
        // It slept: nothing was read, though there would be something else to read.
        world.says(100, 9999, 99, 99);
        assert_eq!(totals(&world.count(3, 0)[0]), Some([7.0, 6.0, 250.0, 1450.0]));
    }

    #[test]
    fn the_scheduler_in_the_kernel_goes_before_proc_and_its_counts_are_not_mixed() {
        let mut world = World::new();
        world.says(100, 0, 10, 10);
        world.count(1, 0);
        let said = |switches, wakeups, wait_ms| {
            let mut counts = ThreadCounts::default();
            (counts.switches, counts.wakeups) = (switches, wakeups);
            counts.wait = std::time::Duration::from_millis(wait_ms);
            counts
        };
        world.shared.lock().unwrap().threads.insert(100, said(1000, 500, 20));
        assert_eq!(totals(&world.count(2, 100)[0]), None, "another who counts");
        world.shared.lock().unwrap().threads.insert(100, said(1100, 550, 50));
        assert_eq!(totals(&world.count(3, 100)[0]), Some([100.0, 50.0, 30.0, 870.0]));
        world.shared.lock().unwrap().threads.clear();
        world.says(100, 0, 5000, 5000);
        assert_eq!(totals(&world.count(4, 100)[0]), Some([100.0, 50.0, 30.0, 870.0]));
    }

    #[test]
    fn each_thread_is_shown_who_woke_it_of_those_that_are_here() {
        let mut world = World::new();
        let woke = |waker, wakee, count| Wakeups { waker, wakee, count };
        world.shared.lock().unwrap().wakeups = vec![woke(7, 100, 9), woke(200, 100, 4)];
        world.count(1, 0);
        let views = world.threads.views();
        assert_eq!(views[0].woken_by, [Waker { thread: ThreadId(1), count: 4 }]);
        assert_eq!(views[1].woken_by, []);
    }
}
