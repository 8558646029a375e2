//! What the threads of a program do with their time: their counts at both ends, and samples in between.

use std::collections::BTreeMap;

use corun_linux::procfs::{Stat, scheduler_counts, waited_for_cpu};
use corun_linux::{Roots, Task, TaskFacts, facts};
use corun_machine::{CpuId, CpuSet};

use super::facts::ThreadTime;

/// Share of the samples in which a thread was runnable that its waits must explain, else the samples count: a wait is
/// counted by the kernel when it is over.
const EXPLAINED: f64 = 0.8;

/// The state of a thread that a tracer holds (proc(5)).
pub(super) const TRACED: char = 't';

#[derive(Debug)]
pub(super) struct WatchedThread {
    pub(super) at_start: TaskFacts,
    waited_s: Option<f64>,
    /// How often it had been woken.
    woken: Option<u64>,
    /// Samples in which it was runnable, by CPU.
    runnable: BTreeMap<CpuId, u32>,
    /// Samples in which it was in uninterruptible sleep.
    blocked: u32,
    /// Samples in which a signal had stopped it.
    stopped: u32,
    /// Samples in which a tracer held it.
    traced: u32,
    /// Samples in which its cgroup was frozen.
    frozen: u32,
    seen: u32,
}

/// What a thread did.
pub(super) struct ThreadUse {
    now: TaskFacts,
    time: ThreadTime,
    on_cpu: BTreeMap<CpuId, f64>,
}

/// What all threads did together.
pub(super) struct Sums {
    pub(super) threads: usize,
    pub(super) time: ThreadTime,
    /// Seconds on each CPU.
    pub(super) on_cpu: BTreeMap<CpuId, f64>,
    /// The CPUs on which they may run, each on all of them or some; none without threads.
    pub(super) may_run_on: Option<CpuSet>,
    /// May each of them run on all of those CPUs?
    pub(super) same_cpus: bool,
}

impl Sums {
    pub(super) fn of(uses: impl Iterator<Item = ThreadUse>) -> Self {
        let time = ThreadTime { waiting_s: Some(0.0), ..ThreadTime::default() };
        let mut sums =
            Self { threads: 0, time, on_cpu: BTreeMap::new(), may_run_on: None, same_cpus: true };
        for one in uses {
            sums.threads += 1;
            let time = &mut sums.time;
            time.on_cpu_s += one.time.on_cpu_s;
            time.blocked_s += one.time.blocked_s;
            time.stopped_s += one.time.stopped_s;
            time.traced_s += one.time.traced_s;
            time.frozen_s += one.time.frozen_s;
            time.asleep_s += one.time.asleep_s;
            time.waiting_s = time.waiting_s.zip(one.time.waiting_s).map(|(sum, one)| sum + one);
            time.waiting_is_sampled |= one.time.waiting_is_sampled;
            for (cpu, seconds) in one.on_cpu {
                *sums.on_cpu.entry(cpu).or_default() += seconds;
            }
            let before = sums.may_run_on.as_ref();
            sums.same_cpus &= before.is_none_or(|before| *before == one.now.affinity);
            sums.may_run_on = Some(match sums.may_run_on {
                None => one.now.affinity,
                Some(all) => all.union(&one.now.affinity),
            });
        }
        sums
    }
}

impl WatchedThread {
    pub(super) fn start(roots: &Roots, found: TaskFacts) -> Self {
        Self {
            waited_s: waited_s(roots, found.task),
            woken: woken(roots, found.task),
            at_start: as_now(roots, found),
            runnable: BTreeMap::new(),
            blocked: 0,
            stopped: 0,
            traced: 0,
            frozen: 0,
            seen: 0,
        }
    }

    /// What it does at this moment. A frozen thread is in some kind of sleep for the kernel.
    pub(super) fn sample(&mut self, stat: &Stat, is_frozen: bool) {
        self.seen += 1;
        match stat.state {
            'R' => *self.runnable.entry(CpuId(stat.cpu)).or_default() += 1,
            'T' => self.stopped += 1,
            TRACED => self.traced += 1,
            _ if is_frozen => self.frozen += 1,
            'D' => self.blocked += 1,
            _ => {}
        }
    }

    /// How often it was woken since the start; none where nobody counts it.
    pub(super) fn woken_since(&self, roots: &Roots) -> Option<u64> {
        woken(roots, self.at_start.task)?.checked_sub(self.woken?)
    }

    /// None where the thread ended.
    pub(super) fn time(&self, roots: &Roots, interval_s: f64) -> Option<ThreadUse> {
        let Task { pid, tid, start_ticks } = self.at_start.task;
        let now = facts(roots, pid, tid).ok().filter(|now| now.task.start_ticks == start_ticks)?;
        let on_cpu_s = now.cpu_ns.saturating_sub(self.at_start.cpu_ns) as f64 * 1e-9;
        let share = |count: u32| f64::from(count) / f64::from(self.seen.max(1));
        let runnable_s = share(self.runnable.values().sum()) * interval_s;
        let mut room_s = (interval_s - on_cpu_s).max(0.0);
        let mut of_room = |count: u32| {
            let seconds = (share(count) * interval_s).min(room_s);
            room_s -= seconds;
            seconds
        };
        let [blocked_s, stopped_s, traced_s, frozen_s] =
            [self.blocked, self.stopped, self.traced, self.frozen].map(&mut of_room);
        let counted_s = waited_s(roots, self.at_start.task).zip(self.waited_s);
        let counted_s = counted_s.map(|(now, before)| (now - before).max(0.0));
        let is_sampled =
            counted_s.is_some_and(|counted_s| on_cpu_s + counted_s < EXPLAINED * runnable_s);
        let waiting_s =
            counted_s.map(|counted_s| if is_sampled { runnable_s - on_cpu_s } else { counted_s });
        // A wait may have begun before the start.
        let waiting_s = waiting_s.map(|wait| wait.min(room_s));
        let asleep_s = room_s - waiting_s.unwrap_or(0.0);
        let runs: u32 = self.runnable.values().sum();
        let on_cpu = if runs == 0 {
            BTreeMap::from([(now.cpu, on_cpu_s)])
        } else {
            let part = |count: u32| on_cpu_s * f64::from(count) / f64::from(runs);
            self.runnable.iter().map(|(&cpu, &count)| (cpu, part(count))).collect()
        };
        Some(ThreadUse {
            now,
            time: ThreadTime {
                on_cpu_s,
                waiting_s,
                waiting_is_sampled: is_sampled,
                blocked_s,
                stopped_s,
                traced_s,
                frozen_s,
                asleep_s,
                ..ThreadTime::default()
            },
            on_cpu,
        })
    }
}

/// What was found of a thread, as it is now.
fn as_now(roots: &Roots, found: TaskFacts) -> TaskFacts {
    let now = facts(roots, found.task.pid, found.task.tid).ok();
    now.filter(|now| now.task == found.task).unwrap_or(found)
}

/// Each voluntary switch is taken for the wake-up that ends the sleep.
fn woken(roots: &Roots, task: Task) -> Option<u64> {
    scheduler_counts(roots, task.pid, task.tid).map(|counts| counts.wakeups)
}

fn waited_s(roots: &Roots, task: Task) -> Option<f64> {
    waited_for_cpu(roots, task.pid, task.tid).map(|waited| waited.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads, each held on a CPU of its own: the program runs on both CPUs.
    #[test]
    fn a_program_runs_where_any_of_its_threads_may() {
        let of = |cpu: u32| {
            let own = std::process::id();
            let mut now = facts(&Roots::default(), own, own).unwrap();
            now.affinity = CpuSet::from_iter([CpuId(cpu)]);
            let time = ThreadTime { on_cpu_s: 1.0, waiting_s: Some(0.5), ..ThreadTime::default() };
            ThreadUse { now, time, on_cpu: BTreeMap::from([(CpuId(cpu), 1.0)]) }
        };
        let sums = Sums::of([of(0), of(1)].into_iter());
        assert_eq!(sums.may_run_on, Some("0-1".parse().unwrap()));
        assert_eq!((sums.threads, sums.time.waiting_s), (2, Some(1.0)));
        assert_eq!(sums.on_cpu.len(), 2);
        assert_eq!(Sums::of(std::iter::empty()).may_run_on, None);
    }
}
