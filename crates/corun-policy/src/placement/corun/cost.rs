//! What a decision costs, in seconds of threads' time.

use corun_model::{Model, Outcome};

use super::search::{Situation, Thread};

/// Bytes a second at which the kernel moves pages between nodes: 150,000 pages of 4 KiB, as the simulator has.
const PAGE_BYTES_PER_S: f64 = 150_000.0 * 4096.0;
/// What fetching a line costs where the model does not say what a miss costs, in ns.
const LINE_NS: f64 = 90.0;

pub(super) struct Cost<'a> {
    pub(super) model: &'a Model,
    /// Memory of a program.
    pub(super) footprint_bytes: f64,
}

impl Cost<'_> {
    /// From one situation to another, in which the model says this of the threads. A thread that changes its
    /// LLC fetches anew what it will hold there, each line at what a miss costs it; one whose memory moves
    /// waits for its pages.
    pub(super) fn thread_seconds(
        &self,
        from: &Situation,
        to: &Situation,
        outcomes: &[Outcome],
        threads: &[Thread],
    ) -> f64 {
        let machine = self.model.machine();
        let of = |thread: usize| {
            let [before, after] = [from, to].map(|at| machine.cpus()[at.cpus[thread]]);
            let refill = if before.llc == after.llc {
                0.0
            } else {
                let outcome = &outcomes[thread];
                let clock_hz = machine.core_types()[after.core_type].clock_mhz * 1e6;
                let stalls = outcome.memory_stall_share / outcome.ipc;
                let per_miss_s = stalls / (outcome.llc_mpki * 1e-3) / clock_hz;
                let known = per_miss_s.is_finite() && outcome.llc_mpki > 0.05;
                let per_miss_s = if known { per_miss_s } else { LINE_NS * 1e-9 };
                outcome.occupancy_bytes / crate::REQUEST_BYTES * per_miss_s
            };
            let pages = if from.homes[thread] == to.homes[thread] {
                0.0
            } else {
                self.footprint_bytes / PAGE_BYTES_PER_S
            };
            refill + pages
        };
        (0..threads.len()).map(of).sum()
    }
}
