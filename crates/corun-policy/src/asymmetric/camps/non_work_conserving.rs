//! The non-work-conserving mode (thesis, section 4.3.4): big cores are held idle so that a thread whose
//! speed alone is not known can be seen without contention.

use corun_machine::{CpuId, CpuSet};

use super::monitor::{Monitor, WINDOW};
use crate::asymmetric::Side;
use crate::asymmetric::sides::Sides;
use crate::{Action, Nanoseconds, ThreadId, ThreadView};

/// A hit rate below which a thread's phases count as unknown.
const HIT_RATE: f64 = 0.8;
/// Intervals from a thread's start in which it may not ask for the mode.
const WARM_UP: u32 = 10;
/// Samples at least before the mode is left: 4 of 5 is not above 80 %.
const LEAST_SAMPLES: u32 = 6;
/// Windows after which the mode is left even so: a thread whose phases never come back stays unknown.
const MOST_WINDOWS: u32 = 4;
/// How long a core is held idle, in intervals.
const IDLE_INTERVALS: u64 = 2;

/// The mode while it lasts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watch {
    pub(super) thread: ThreadId,
    /// The thread's intervals when it began.
    since: u32,
    /// Rounds of the policy since then.
    rounds: u32,
}

impl Watch {
    /// Should this thread be watched? `ahead_ms`: its progress above the mean of all.
    pub(super) fn asks(monitor: &Monitor, ahead_ms: f64, threshold_ms: f64) -> bool {
        monitor.intervals > WARM_UP.max(WINDOW)
            && monitor.intervals.is_multiple_of(WINDOW)
            && monitor.hit_rate(WINDOW) < HIT_RATE
            && !monitor.inserted(WINDOW)
            && ahead_ms <= threshold_ms
    }

    pub(super) fn new(thread: ThreadId, monitor: &Monitor) -> Self {
        Self { thread, since: monitor.intervals, rounds: 0 }
    }

    /// Is it over? Once the phases are known, or after long in vain.
    pub(super) fn is_over(&mut self, monitor: &Monitor) -> bool {
        self.rounds += 1;
        let seen = monitor.intervals.saturating_sub(self.since);
        let known = seen >= LEAST_SAMPLES
            && monitor.inserted(seen.min(WINDOW))
            && monitor.hit_rate(seen.min(WINDOW)) > HIT_RATE;
        known || self.rounds > MOST_WINDOWS * WINDOW
    }
}

/// Brings the watched thread (by index) to a big core, in place of the one there that draws most.
pub(super) fn bring(sides: &mut Sides<'_>, watched: usize, monitors: &[Monitor]) {
    if sides.side(watched) != Some(Side::Small) {
        return;
    }
    let draws = |one: usize| monitors[one].btr;
    let partner = sides.highest(Side::Big, draws);
    let may_move = sides.movable(Side::Small).any(|one| one == watched);
    if let Some(partner) = partner.filter(|_| may_move) {
        let why = format!(
            "{}: its speed alone is not known; {} ({:.0} MB/s) makes room on a big core",
            sides.threads[watched].program,
            sides.threads[partner].program,
            draws(partner) * 1e-6
        );
        sides.swap(partner, watched, why);
    }
}

/// Keeps threads marked important, asleep or awake, on the small cores while the mode lasts: those are
/// never held idle, so that no wake-up waits for one that is.
pub(super) fn shelter(sides: &mut Sides<'_>, watched: ThreadId) {
    let threads = sides.threads;
    for (place, thread) in threads.iter().enumerate() {
        if !thread.important || thread.id == watched || !sides.is_free(place) {
            continue;
        }
        if sides.side(place) == Some(Side::Small) {
            sides.keep(place);
        } else {
            let why =
                format!("{}: to the small cores, as big ones may be held idle", thread.program);
            sides.put(place, Side::Small, why);
        }
    }
}

/// What the cores of a cluster draw, for deciding which to hold idle.
pub(super) struct Cluster<'a> {
    pub(super) threads: &'a [ThreadView],
    pub(super) monitors: &'a [Monitor],
    /// Indices of threads on its big cores.
    pub(super) members: Vec<usize>,
    /// Bytes a second below which it is calm.
    pub(super) high: f64,
}

impl Cluster<'_> {
    /// CPUs to hold idle, those that draw most first, until the others are calm; never the watched
    /// thread's, nor that of a thread marked important that its user keeps on big cores.
    pub(super) fn to_idle(&self, watched: usize) -> Vec<(CpuId, f64)> {
        let mut cpus: Vec<(CpuId, f64, bool)> = Vec::new();
        for &member in &self.members {
            let thread = &self.threads[member];
            let Some(cpu) = thread.cpu else { continue };
            let kept = member == watched || thread.important;
            let btr = self.monitors[member].expected_btr();
            match cpus.iter_mut().find(|one| one.0 == cpu) {
                Some(one) => (one.1, one.2) = (one.1 + btr, one.2 || kept),
                None => cpus.push((cpu, btr, kept)),
            }
        }
        let mut drawn: f64 = cpus.iter().map(|one| one.1).sum();
        cpus.retain(|one| !one.2);
        cpus.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut idle = Vec::new();
        for (cpu, btr, _) in cpus {
            if drawn < self.high {
                break;
            }
            drawn -= btr;
            idle.push((cpu, btr));
        }
        idle
    }

    /// Holds CPUs idle with the threads that wait on them, and the watched thread on its own.
    pub(super) fn calm(&self, sides: &mut Sides<'_>, watched: usize, interval: Nanoseconds) {
        let idle = self.to_idle(watched);
        if idle.is_empty() {
            return;
        }
        let program = &self.threads[watched].program;
        for &(cpu, btr) in &idle {
            let duration = Nanoseconds(IDLE_INTERVALS * interval.0);
            let why = format!(
                "big core {cpu} idle, its {:.0} MB/s away, to see {program} without contention",
                btr * 1e-6
            );
            sides.plan.push(Action::IdleCpu { cpu, duration }, why);
        }
        for &member in &self.members {
            let Some(cpu) = self.threads[member].cpu else { continue };
            let waits = idle.iter().any(|one| one.0 == cpu);
            if (waits || member == watched) && sides.is_free(member) {
                let what = if waits { "waits on" } else { "is watched on" };
                let why = || format!("{}: {what} big core {cpu}", self.threads[member].program);
                sides.hold(member, Side::Big, CpuSet::from_iter([cpu]), why);
            }
        }
    }
}
