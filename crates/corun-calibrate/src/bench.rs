//! Timing on a CPU: how long work takes, at what clock, and whether something got in between.

use std::sync::Barrier;
use std::time::Instant;

use corun_machine::CpuId;
use rustix::thread::{CpuSet as Affinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::CalibrateError;
use crate::kernel::dependent_adds;

/// Dependent additions of one look at the clock: some 15 us.
const CLOCK_ADDS: u64 = 1 << 16;
/// Two looks at the clock that are further apart than this have seen something else.
const CLOCK_CHANGE: f64 = 0.02;
/// Time that a thread may be without its CPU before a sample counts as disturbed: a share of the
/// sample, and what taking the time itself may cost.
const LOST_SHARE: f64 = 0.01;
const LOST_NS: f64 = 3000.0;

/// A value that was measured once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// In the unit of what is measured; not a number where nothing was measured.
    pub(crate) value: f64,
    /// Another value of the same moment, where there is one.
    pub(crate) beside: f64,
    /// Something else was seen to use the CPU meanwhile.
    pub(crate) disturbed: bool,
}

impl Sample {
    /// A value by itself.
    pub(crate) fn new(value: f64, disturbed: bool) -> Self {
        Self { value, beside: f64::NAN, disturbed }
    }
}

/// How long something took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// Time in ns.
    pub(crate) ns: f64,
    /// Clock of the core around it, in cycles per ns.
    pub(crate) cycles_per_ns: f64,
    /// The thread lost its CPU, or the clock changed.
    pub(crate) disturbed: bool,
}

impl Reading {
    /// Time in cycles.
    pub(crate) fn cycles(&self) -> f64 {
        self.ns * self.cycles_per_ns
    }

    /// A value of this reading.
    pub(crate) fn sample(&self, value: f64) -> Sample {
        Sample::new(value, self.disturbed)
    }
}

/// A point in time, as the wall and as the thread's own CPU time have it.
struct Now {
    wall: Instant,
    cpu_ns: f64,
}

impl Now {
    fn new() -> Self {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        Self { cpu_ns: cpu.tv_sec as f64 * 1e9 + cpu.tv_nsec as f64, wall: Instant::now() }
    }
}

/// The time of some work, and whether the thread was without its CPU for a part of it.
pub(crate) fn wall_time(work: impl FnOnce()) -> (f64, bool) {
    let before = Now::new();
    work();
    let ns = before.wall.elapsed().as_nanos() as f64;
    let lost = ns - (Now::new().cpu_ns - before.cpu_ns);
    (ns, lost > ns * LOST_SHARE + LOST_NS)
}

/// CPU time in ns that this thread takes for some work, in user mode and in the kernel.
pub(crate) fn cpu_time_ns(work: impl FnOnce()) -> f64 {
    let before = Now::new();
    work();
    Now::new().cpu_ns - before.cpu_ns
}

/// The core's clock now, in cycles per ns: dependent additions take a cycle each.
pub(crate) fn cycles_per_ns() -> f64 {
    let start = Instant::now();
    let cycles = dependent_adds(CLOCK_ADDS);
    cycles as f64 / start.elapsed().as_nanos().max(1) as f64
}

/// The time of some work on this thread's CPU, between two looks at the clock.
pub(crate) fn timed(work: impl FnOnce()) -> Reading {
    let before = cycles_per_ns();
    let (ns, lost) = wall_time(work);
    let after = cycles_per_ns();
    let changed = (before - after).abs() > CLOCK_CHANGE * before.max(after);
    Reading { ns, cycles_per_ns: (before + after) / 2.0, disturbed: lost || changed }
}

/// Holds this thread on a CPU.
///
/// # Errors
/// When the operating system does not let it.
pub(crate) fn pin(cpu: CpuId) -> Result<(), CalibrateError> {
    let mut only = Affinity::new();
    // CPUs beyond what the set can name are left out when CPUs are chosen.
    only.set(cpu.0 as usize);
    sched_setaffinity(None, &only)
        .map_err(|error| CalibrateError::Pin { cpu: cpu.0, source: error.into() })
}

/// Does work on several CPUs at once, a thread held on each; all begin together. What each returns is
/// in the order of the CPUs.
///
/// # Errors
/// When a thread cannot be held on its CPU.
pub(crate) fn together<T: Send>(
    cpus: &[CpuId],
    work: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>, CalibrateError> {
    let start = Barrier::new(cpus.len());
    let one = |place: usize| {
        let pinned = pin(cpus[place]);
        // Also without its CPU: the others wait here.
        start.wait();
        pinned.map(|()| work(place))
    };
    std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> =
            (0..cpus.len()).map(|place| scope.spawn(move || one(place))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
