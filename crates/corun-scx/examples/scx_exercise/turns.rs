//! What threads had of CPUs while another waited, counted in turns: true by any clock, also of an emulator whose CPUs
//! stand still by turns.

use std::collections::BTreeMap;

use anyhow::Result;
use corun_machine::{CpuId, CpuSet};
use corun_scx::{Scheduler, Stint};
use rustix::time::{ClockId, clock_gettime};

/// A time on a CPU. What interrupted it, and was no thread with a plan, is part of it.
struct Turn {
    tid: u32,
    /// None: it had not ended when the stints were taken.
    cpu: Option<CpuId>,
    since_ns: u64,
    until_ns: u64,
}

/// Between two turns of a thread, or after its last.
pub(crate) struct Wait {
    pub(crate) tid: u32,
    since_ns: u64,
    until_ns: u64,
}

/// All turns until a moment, in the order in which they began.
pub(crate) struct Turns {
    turns: Vec<Turn>,
    until_ns: u64,
}

impl Turns {
    /// Of the stints that the scheduler kept.
    pub(crate) fn take(scheduler: &Scheduler) -> Result<Self> {
        let now = clock_gettime(ClockId::Monotonic);
        let until_ns = (now.tv_sec * 1_000_000_000 + now.tv_nsec) as u64;
        let mut stints = scheduler.take_stints()?;
        stints.retain(|stint| stint.since_ns < until_ns);
        stints.sort_by_key(|stint| stint.since_ns);
        Ok(Self { turns: joined(stints), until_ns })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.turns.len()
    }

    pub(crate) fn waits(&self) -> Vec<Wait> {
        let mut waits_since: BTreeMap<u32, u64> = BTreeMap::new();
        let mut waits = Vec::new();
        for turn in &self.turns {
            if let Some(since_ns) = waits_since.insert(turn.tid, turn.until_ns) {
                waits.push(Wait { tid: turn.tid, since_ns, until_ns: turn.since_ns });
            }
        }
        let waiting = waits_since.into_iter().filter(|&(_, since_ns)| since_ns < self.until_ns);
        waits.extend(waiting.map(|(tid, since_ns)| Wait {
            tid,
            since_ns,
            until_ns: self.until_ns,
        }));
        waits
    }

    /// The most slices that another thread of the same queue took during the wait, before the last turn that it began. A
    /// turn takes a slice, or less where it was cut short: by a thread of the kernel, or for a way home after a spill.
    pub(crate) fn most_slices_of_another(&self, wait: &Wait, queue: &[u32], slice_ns: u64) -> f64 {
        let slices = |tid: u32| {
            let of_it = self.turns.iter().filter(|turn| turn.tid == tid);
            let begun =
                of_it.filter(|turn| (wait.since_ns..wait.until_ns).contains(&turn.since_ns));
            let lengths = begun.map(|turn| turn.until_ns - turn.since_ns);
            let mut slices: Vec<f64> =
                lengths.map(|length| length.min(slice_ns) as f64 / slice_ns as f64).collect();
            slices.pop();
            slices.iter().sum()
        };
        queue.iter().filter(|&&tid| tid != wait.tid).map(|&tid| slices(tid)).fold(0.0, f64::max)
    }

    /// The turns of a queue's threads from a wait's begin to its end, each with the microseconds since the begin.
    pub(crate) fn around(&self, wait: &Wait, queue: &[u32]) -> String {
        let micros = |at: u64| (at as i128 - i128::from(wait.since_ns)) / 1000;
        let is_near = |turn: &&Turn| {
            queue.contains(&turn.tid)
                && turn.until_ns >= wait.since_ns
                && turn.since_ns <= wait.until_ns
        };
        let told = |turn: &Turn| {
            let (cpu, until) = (turn.cpu.map(|cpu| cpu.0), micros(turn.until_ns.min(u64::MAX / 4)));
            format!("{} on CPU {cpu:?} {}..{until} us", turn.tid, micros(turn.since_ns))
        };
        let turns: Vec<String> = self.turns.iter().filter(is_near).map(told).collect();
        format!("{} waits {} us; {}", wait.tid, micros(wait.until_ns), turns.join("; "))
    }

    /// The most that others began on one of these CPUs after the thread had waited for so long.
    pub(crate) fn most_after(&self, bound_ns: u64, wait: &Wait, cpus: &CpuSet) -> usize {
        let late_ns = wait.since_ns.saturating_add(bound_ns);
        let begun = |cpu: CpuId| self.begun(late_ns, wait.until_ns, |turn| turn.cpu == Some(cpu));
        cpus.iter().map(begun).max().unwrap_or_default()
    }

    fn begun(&self, since_ns: u64, until_ns: u64, is_meant: impl Fn(&Turn) -> bool) -> usize {
        let begins =
            |turn: &&Turn| since_ns <= turn.since_ns && turn.since_ns < until_ns && is_meant(turn);
        self.turns.iter().filter(begins).count()
    }
}

/// Stints in the order in which they began, those of a thread on a CPU as one where neither was elsewhere between them.
fn joined(stints: Vec<Stint>) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut last_on: BTreeMap<CpuId, usize> = BTreeMap::new();
    let mut last_of: BTreeMap<u32, usize> = BTreeMap::new();
    for Stint { since_ns, until_ns, tid, cpu } in stints {
        let until_ns = until_ns.unwrap_or(u64::MAX);
        let last = last_of.get(&tid).copied();
        if let Some(last) = last.filter(|last| cpu.and_then(|cpu| last_on.get(&cpu)) == Some(last))
        {
            turns[last].until_ns = until_ns;
            continue;
        }
        last_of.insert(tid, turns.len());
        last_on.extend(cpu.map(|cpu| (cpu, turns.len())));
        turns.push(Turn { tid, cpu, since_ns, until_ns });
    }
    turns
}
