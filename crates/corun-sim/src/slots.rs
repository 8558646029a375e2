//! Threads that take turns on a CPU.

use corun_policy::ThreadId;

/// The order of a CPU's threads. In an epoch, which is as long as all slots together, each thread may run
/// for one slot, those first in the order before those behind them: who wakes takes the CPU from those
/// behind it and waits for those before it, until its slot is used up. So does a fair scheduler whose
/// virtual runtimes make the order (Seo, Eom and Yeom, MLB, section 5.4.1). Epochs are counted from
/// time 0, so that CPUs whose threads all want to run change them together, whenever they were told to.
#[derive(Debug, Clone)]
pub(crate) struct SlotOrder {
    threads: Vec<ThreadId>,
    slot_ns: u64,
    /// Which epoch it is.
    epoch: u64,
    /// CPU time (ns) of each of the threads when it began.
    before_ns: Vec<u64>,
}

impl SlotOrder {
    /// `cpu_ns`: what each thread has run so far. Of an epoch that has begun the rest is left to them.
    pub(crate) fn new(threads: &[ThreadId], slot_ns: u64, now: u64, cpu_ns: Vec<u64>) -> Self {
        let threads = threads.to_vec();
        let epoch = now / (slot_ns * threads.len() as u64);
        Self { threads, slot_ns, epoch, before_ns: cpu_ns }
    }

    pub(crate) fn is_of(&self, threads: &[ThreadId], slot_ns: u64) -> bool {
        self.threads == threads && self.slot_ns == slot_ns
    }

    /// Lets a new epoch begin if its time has come. `cpu_ns`: what a thread has run up to now.
    pub(crate) fn renew(&mut self, now: u64, cpu_ns: impl Fn(ThreadId) -> u64) {
        let epoch = now / self.epoch_ns();
        if epoch != self.epoch {
            self.epoch = epoch;
            self.before_ns = self.threads.iter().map(|&thread| cpu_ns(thread)).collect();
        }
    }

    /// A thread's place in the order and what is left of its slot; none for one that has no slot left
    /// in this epoch.
    pub(crate) fn turn(&self, thread: ThreadId, cpu_ns: u64) -> Option<(usize, u64)> {
        let place = self.threads.iter().position(|&other| other == thread)?;
        let left = self.slot_ns.saturating_sub(cpu_ns - self.before_ns[place]);
        (left > 0).then_some((place, left))
    }

    /// When the epoch ends.
    pub(crate) fn epoch_end(&self) -> u64 {
        (self.epoch + 1) * self.epoch_ns()
    }

    fn epoch_ns(&self) -> u64 {
        self.slot_ns * self.threads.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads with slots of 100: an epoch is 200. Told at 250, in the second epoch.
    #[test]
    fn each_has_one_slot_an_epoch() {
        let (first, second) = (ThreadId(1), ThreadId(2));
        let mut order = SlotOrder::new(&[first, second], 100, 250, vec![1000, 70]);
        assert_eq!(order.epoch_end(), 400);
        assert_eq!(order.turn(first, 1000), Some((0, 100)));
        assert_eq!(order.turn(first, 1030), Some((0, 70)));
        assert_eq!(order.turn(first, 1100), None);
        assert_eq!(order.turn(second, 70), Some((1, 100)));
        assert_eq!(order.turn(ThreadId(3), 0), None);
        // The same epoch still: nothing is given anew.
        order.renew(399, |_| 1100);
        assert_eq!(order.turn(first, 1100), None);
        order.renew(400, |thread| if thread == first { 1100 } else { 120 });
        assert_eq!((order.turn(first, 1100), order.epoch_end()), (Some((0, 100)), 600));
        assert_eq!(order.turn(second, 130), Some((1, 90)));
    }
}
