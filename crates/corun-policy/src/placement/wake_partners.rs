//! Processes whose threads wake each other often, and so share data.

use std::collections::BTreeMap;

use crate::{ProcessId, ThreadId, View};

/// Seconds of an epoch: wake-ups of before count half after each.
const EPOCH_S: f64 = 0.01;

/// Which processes count as one, because their threads wake each other often.
#[derive(Debug, Clone, Default)]
pub(super) struct Partners {
    /// Wake-ups a second between two processes from which they count as one; 0: never.
    pub(super) from_per_s: f64,
    /// By waker and wakee: how often, up to the last look.
    counts: BTreeMap<(ThreadId, ThreadId), u64>,
    /// By two processes, the lower first: wake-ups a second either way.
    per_s: BTreeMap<(ProcessId, ProcessId), f64>,
    /// The first of those that a process counts as one with, where that is another.
    first: BTreeMap<ProcessId, ProcessId>,
}

impl Partners {
    pub(super) fn new(from_per_s: f64) -> Self {
        Self { from_per_s, ..Self::default() }
    }

    /// The process by which one is known: itself, or the first of those that it counts as one with.
    pub(super) fn of(&self, process: ProcessId) -> ProcessId {
        self.first.get(&process).copied().unwrap_or(process)
    }

    /// In words, to whom a thread goes that is brought to the others of its process.
    pub(super) fn others(&self, process: ProcessId) -> &'static str {
        if self.first.values().any(|&first| first == process) {
            "those that it wakes and that wake it"
        } else {
            "the other threads"
        }
    }

    /// Takes in who woke whom in the epochs since the last look.
    pub(super) fn look(&mut self, view: &View<'_>, epochs: u64) {
        if self.from_per_s == 0.0 || epochs == 0 {
            return;
        }
        let process_of: BTreeMap<ThreadId, ProcessId> =
            view.threads.iter().map(|thread| (thread.id, thread.process)).collect();
        let mut woke: BTreeMap<(ProcessId, ProcessId), f64> = BTreeMap::new();
        let mut counts = BTreeMap::new();
        for thread in view.threads {
            for waker in &thread.woken_by {
                let pair = (waker.thread, thread.id);
                counts.insert(pair, waker.count);
                let (Some(&process), Some(&before)) =
                    (process_of.get(&waker.thread), self.counts.get(&pair))
                else {
                    continue;
                };
                if process != thread.process {
                    let both = (process.min(thread.process), process.max(thread.process));
                    *woke.entry(both).or_default() += waker.count.saturating_sub(before) as f64;
                }
            }
        }
        self.counts = counts;
        let kept = 0.5f64.powi(i32::try_from(epochs).unwrap_or(i32::MAX));
        let seconds = epochs as f64 * EPOCH_S;
        self.per_s.values_mut().for_each(|per_s| *per_s *= kept);
        for (both, count) in woke {
            *self.per_s.entry(both).or_default() += (1.0 - kept) * count / seconds;
        }
        let is_here = |process: &ProcessId| process_of.values().any(|one| one == process);
        self.per_s.retain(|(one, other), per_s| *per_s > 1e-3 && is_here(one) && is_here(other));
        self.bring_together();
    }

    /// Those who wake each other often are together, and with whom these are. Who was together before stays so from
    /// half as many wake-ups on.
    fn bring_together(&mut self) {
        let before = std::mem::take(&mut self.first);
        let of = |first: &BTreeMap<ProcessId, ProcessId>, process: ProcessId| {
            first.get(&process).copied().unwrap_or(process)
        };
        for (&(one, other), &per_s) in &self.per_s {
            let were_together = of(&before, one) == of(&before, other);
            let from = if were_together { 0.5 * self.from_per_s } else { self.from_per_s };
            if per_s < from {
                continue;
            }
            let (a, b) = (of(&self.first, one), of(&self.first, other));
            let (first, second) = (a.min(b), a.max(b));
            if first != second {
                for known in self.first.values_mut().filter(|known| **known == second) {
                    *known = first;
                }
                self.first.insert(second, first);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use corun_machine::Machine;

    use super::*;
    use crate::{Nanoseconds, ThreadView, Waker, fixture};

    /// Threads 0 to 3, each a process of its own.
    fn threads(machine: &Machine) -> Vec<ThreadView> {
        let mut threads = fixture::threads(machine, &[None; 4]);
        for (index, thread) in threads.iter_mut().enumerate() {
            thread.process = ProcessId(index as u64);
        }
        threads
    }

    fn woken(thread: &mut ThreadView, by: u64, count: u64) {
        thread.woken_by = vec![Waker { thread: ThreadId(by), count }];
    }

    /// From 1000 a second on: 3 wakes 1 12 times in the first 10 ms, which is 600 a second with half of before, which is
    /// nothing; 12 times more in the next, which is 900; then 1050. 2 wakes nobody.
    #[test]
    fn processes_that_wake_each_other_often_are_together_until_they_do_so_half_as_often() {
        let machine = fixture::tree(1, 2, 8);
        let mut threads = threads(&machine);
        let mut partners = Partners::new(1000.0);
        let mut look = |count: u64, threads: &mut Vec<ThreadView>| {
            woken(&mut threads[1], 3, count);
            let view = View { machine: &machine, threads, now: Nanoseconds(0) };
            partners.look(&view, 1);
            [0, 1, 2, 3].map(|process| partners.of(ProcessId(process)).0)
        };
        let alone = [0, 1, 2, 3];
        assert_eq!(look(50, &mut threads), alone, "what was before the first look says nothing");
        assert_eq!(look(62, &mut threads), alone);
        assert_eq!(look(74, &mut threads), alone);
        assert_eq!(look(86, &mut threads), [0, 1, 2, 1]);
        // Half of 1050 is still more than 500, a quarter is less.
        assert_eq!(look(86, &mut threads), [0, 1, 2, 1]);
        assert_eq!(look(86, &mut threads), alone);
    }

    #[test]
    fn partners_of_partners_are_together_and_a_thread_of_its_own_process_is_no_partner() {
        let machine = fixture::tree(1, 2, 8);
        let mut threads = threads(&machine);
        threads[0].process = ProcessId(1);
        let mut partners = Partners::new(100.0);
        for count in [0, 1000] {
            woken(&mut threads[0], 1, count);
            woken(&mut threads[2], 3, count);
            woken(&mut threads[3], 1, count);
            let view = View { machine: &machine, threads: &threads, now: Nanoseconds(0) };
            partners.look(&view, 100);
        }
        assert_eq!([1, 2, 3].map(|process| partners.of(ProcessId(process)).0), [1, 1, 1]);
        assert_eq!(partners.others(ProcessId(1)), "those that it wakes and that wake it");
        assert_eq!(partners.others(ProcessId(7)), "the other threads");
        let view = View { machine: &machine, threads: &threads[..1], now: Nanoseconds(0) };
        partners.look(&view, 100);
        assert_eq!(
            partners.of(ProcessId(2)),
            ProcessId(2),
            "of processes that ended nothing is left"
        );
    }
}
