//! What a decision costs, in seconds of threads' time.

use corun_model::{Model, Outcome};

use super::search::{Predicted, Thread};

/// Bytes a second at which the kernel moves pages between nodes: 150,000 pages of 4 KiB, as the simulator has.
const PAGE_BYTES_PER_S: f64 = 150_000.0 * 4096.0;
/// What fetching a line costs where the model does not say what a miss costs, in ns.
pub(super) const LINE_NS: f64 = 90.0;

pub(super) struct Cost<'a> {
    pub(super) model: &'a Model,
    /// Memory of a program.
    pub(super) footprint_bytes: f64,
}

impl Cost<'_> {
    /// From one situation to another. A thread that changes its LLC fetches anew what it will hold there, each
    /// line at what a miss costs it; where ways of an LLC are divided anew, a thread fetches what it will hold
    /// more than now. One whose memory moves waits for its pages.
    pub(super) fn thread_seconds(
        &self,
        from: &Predicted,
        to: &Predicted,
        threads: &[Thread],
    ) -> f64 {
        let machine = self.model.machine();
        let of = |thread: usize| {
            let [before, after] = [from, to].map(|at| machine.cpus()[at.situation.cpus[thread]]);
            let outcome = &to.outcomes[thread];
            let line = || {
                self.line_s(outcome, machine.core_types()[after.core_type].clock_mhz * 1e6)
                    / crate::REQUEST_BYTES
            };
            let refill = if before.llc != after.llc {
                outcome.occupancy_bytes * line()
            } else if from.situation.masks[thread] != to.situation.masks[thread] {
                let more = outcome.occupancy_bytes - from.outcomes[thread].occupancy_bytes;
                more.max(0.0) * line()
            } else {
                0.0
            };
            let stay = from.situation.homes[thread] == to.situation.homes[thread];
            let pages = if stay { 0.0 } else { self.footprint_bytes / PAGE_BYTES_PER_S };
            refill + pages
        };
        (0..threads.len()).map(of).sum()
    }

    /// Seconds that a line fetched costs a thread.
    fn line_s(&self, outcome: &Outcome, clock_hz: f64) -> f64 {
        let stalls = outcome.memory_stall_share / outcome.ipc;
        let per_miss_s = stalls / (outcome.llc_mpki * 1e-3) / clock_hz;
        let known = per_miss_s.is_finite() && outcome.llc_mpki > 0.05;
        if known { per_miss_s } else { LINE_NS * 1e-9 }
    }
}
