//! What a miss costs.

/// Femtoseconds in a nanosecond: times are whole numbers of femtoseconds, so that sums do not
/// depend on their order.
pub(crate) const FS_PER_NS: f64 = 1e6;

/// Memory behind the shared cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryTiming {
    /// From a miss to its line, in nanoseconds, when nobody waits.
    pub latency_ns: f64,
    /// How long the controller works on a line, in nanoseconds: lines wait for one another in the
    /// order of their misses. 0: any number at once.
    pub service_ns: f64,
}

/// The state of the controller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Controller {
    latency: u64,
    service: u64,
    free_at: u64,
}

impl Controller {
    pub(crate) fn new(memory: MemoryTiming) -> Self {
        let whole = |ns: f64| (ns * FS_PER_NS).round() as u64;
        Self { latency: whole(memory.latency_ns), service: whole(memory.service_ns), free_at: 0 }
    }

    /// A miss at this time: how long it takes. Misses come in the order of time.
    #[inline]
    pub(crate) fn miss(&mut self, now: u64) -> u64 {
        let begins = self.free_at.max(now);
        self.free_at = begins.saturating_add(self.service);
        begins - now + self.latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_wait_for_one_another() {
        let mut controller = Controller::new(MemoryTiming { latency_ns: 50.0, service_ns: 10.0 });
        let ns = |time: u64| time as f64 / FS_PER_NS;
        let mut miss = |at: f64| ns(controller.miss((at * FS_PER_NS) as u64));
        // At 0 the controller is free; at 4 it is busy until 10, at 5 until 20; at 100 it is free.
        assert_eq!([0.0, 4.0, 5.0, 100.0].map(&mut miss), [50.0, 56.0, 65.0, 50.0]);
        let mut fixed = Controller::new(MemoryTiming { latency_ns: 50.0, service_ns: 0.0 });
        assert_eq!([1, 1, 2].map(|at| ns(fixed.miss(at))), [50.0; 3]);
    }
}
