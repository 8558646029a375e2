//! A thread: its progress, its counts, its place in the scheduler.

use corun_model::{Outcome, PhaseMix};
use corun_policy::{ProcessId, ThreadId, Totals};
use corun_runtime::totals_of;
use fixedbitset::FixedBitSet;
use rand_pcg::Pcg64Mcg;

use crate::barrier::SPIN_MIX;
use crate::service::Request;
use crate::timers::NEVER;

/// CPUs by index.
pub(crate) type Mask = FixedBitSet;

/// What a thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Not arrived, ended or killed.
    Absent,
    /// On a CPU.
    Running,
    /// In the run queue of its CPU.
    Runnable,
    /// Runnable, its CPU forbidden by a plan that is being carried out.
    Displaced,
    /// Waiting for something else than a CPU.
    Sleeping,
}

/// Instructions done of a stretch, exact to less than one however many steps they are added in: the
/// whole part is a whole number below 2^53, the rest stays below 1.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Done {
    whole: f64,
    part: f64,
}

impl Done {
    pub(crate) fn add(&mut self, instructions: f64) {
        self.part += instructions;
        let whole = self.part.floor();
        self.whole += whole;
        self.part -= whole;
    }

    pub(crate) fn left_of(self, length: f64) -> f64 {
        (length - self.whole) - self.part
    }

    pub(crate) fn value(self) -> f64 {
        self.whole + self.part
    }
}

/// A thread of a program. Its slot is used again by the program's next run, its id is not.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    pub(crate) app: usize,
    pub(crate) index: u32,
    /// Index of the program among the experiment's distinct ones.
    pub(crate) program: usize,
    pub(crate) id: ThreadId,
    pub(crate) process: ProcessId,
    pub(crate) state: State,
    /// The CPU whose run queue it is in, or was in last.
    pub(crate) cpu: usize,
    /// The CPU it ran on last; none before its first run.
    pub(crate) ran_on: Option<usize>,
    pub(crate) user: Mask,
    pub(crate) allowed: Mask,
    pub(crate) weight: f64,
    pub(crate) base_weight: f64,
    pub(crate) weight_changes: u64,
    pub(crate) page_moves: u64,
    /// Where its pages are on the way to.
    pub(crate) pages_to: Option<usize>,
    pub(crate) vruntime: f64,
    /// Since when it waits in a queue.
    pub(crate) waiting_since: u64,
    pub(crate) home: Option<usize>,
    /// Place in its program's sequence, and the phase that is.
    pub(crate) stretch: usize,
    pub(crate) phase: usize,
    /// What the phase's instructions are, where its profile says.
    pub(crate) mix: Option<PhaseMix>,
    pub(crate) done: Done,
    /// Done since its program's last barrier, or since it took its request.
    pub(crate) since_barrier: Done,
    /// What a thread of a service is answering.
    pub(crate) request: Option<Request>,
    /// Has it come to the next one, and waits for others?
    pub(crate) at_barrier: bool,
    /// Does it wait on a CPU?
    pub(crate) spinning: bool,
    /// Its rates now; all 0 when it is not running.
    pub(crate) outcome: Outcome,
    /// Cycles a second now.
    pub(crate) clock: f64,
    /// Up to when its progress is counted.
    pub(crate) since: u64,
    pub(crate) totals: Totals,
    /// Of the totals' instructions, what was spun away.
    pub(crate) spun_instructions: f64,
    /// CPU time in ns until it waits; [`NEVER`] for one that does not.
    pub(crate) burst_left: u64,
    pub(crate) sleeps: u64,
    /// When it woke, until it comes onto a CPU.
    pub(crate) woken_at: Option<u64>,
    pub(crate) waits: Pcg64Mcg,
    /// Not run yet: its first lines are in its profile's misses, so it starts with its share.
    pub(crate) fresh: bool,
    pub(crate) extrapolated: bool,
}

impl Thread {
    pub(crate) fn is_present(&self) -> bool {
        self.state != State::Absent
    }

    pub(crate) fn is_runnable(&self) -> bool {
        matches!(self.state, State::Running | State::Runnable | State::Displaced)
    }

    /// Counts progress at the present rates up to `now`.
    pub(crate) fn account(&mut self, now: u64) {
        let ns = now - self.since;
        self.since = now;
        if self.state != State::Running || ns == 0 {
            self.totals.add(&self.rest(ns));
            return;
        }
        let more = self.progress(ns);
        if self.spinning {
            self.spun_instructions += more.instructions;
        } else {
            self.done.add(more.instructions);
            self.since_barrier.add(more.instructions);
        }
        self.vruntime += ns as f64 / self.weight;
        if self.burst_left != NEVER {
            self.burst_left = self.burst_left.saturating_sub(ns);
        }
        self.totals.add(&more);
    }

    /// What it does in so many nanoseconds at its present rates.
    fn progress(&self, ns: u64) -> Totals {
        let mix = if self.spinning { Some(SPIN_MIX) } else { self.mix };
        let spin_ns = if self.spinning { ns } else { 0 };
        Totals { spin_ns, ..totals_of(&self.outcome, mix, self.clock, ns) }
    }

    /// What so many nanoseconds are to a thread that is on no CPU.
    fn rest(&self, ns: u64) -> Totals {
        let ns = ns as f64;
        match self.state {
            State::Runnable | State::Displaced => {
                Totals { run_queue_wait_ns: ns, ..Totals::default() }
            }
            State::Sleeping => Totals { idle_ns: ns, ..Totals::default() },
            State::Absent | State::Running => Totals::default(),
        }
    }

    /// What was counted since its start up to `now`, for those who only look.
    pub(crate) fn counted(&self, now: u64) -> Totals {
        let mut totals = self.totals;
        let ns = now.saturating_sub(self.since);
        totals.add(&if self.state == State::Running { self.progress(ns) } else { self.rest(ns) });
        totals
    }

    /// When it would end a stretch of this length, come to its program's barrier, answer its request or wait, at its
    /// present rates. `until` are the instructions from the last barrier to the next, or of its request.
    pub(crate) fn due(&self, now: u64, stretch_length: f64, until: Option<f64>) -> u64 {
        let to_stop = until.map(|until| self.since_barrier.left_of(until));
        let left = self.done.left_of(stretch_length).min(to_stop.unwrap_or(f64::INFINITY));
        let left = left.max(0.0);
        let end = if self.outcome.instructions_per_s > 0.0 && !self.spinning {
            let ns = (left / self.outcome.instructions_per_s * 1e9).ceil();
            // Beyond any limit of an experiment; keeps the sum below from overflowing.
            if ns < 1e18 { now + ns as u64 } else { NEVER }
        } else {
            NEVER
        };
        end.min(now.saturating_add(self.burst_left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_does_not_drift() {
        let mut done = Done::default();
        let steps = 3_000_000;
        for _ in 0..steps {
            done.add(50_000.1);
        }
        // 3e6 steps of 50000.1 are 150_000_300_000 instructions.
        assert!((done.left_of(150_000_300_000.0)).abs() < 0.01, "{done:?}");
    }

    #[test]
    fn what_was_done_too_much_is_negative() {
        let mut done = Done::default();
        done.add(102.5);
        assert_eq!(done.left_of(100.0), -2.5);
    }
}
