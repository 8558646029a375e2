//! Barriers: the threads of a program that wait for each other, on a CPU or asleep.

use corun_machine::CoreType;
use corun_model::{Outcome, PhaseMix};
use corun_policy::Event;
use corun_profile::Waiting;

use crate::engine::Engine;
use crate::thread::{Done, State};

/// A thread that spins loads a flag of its own, compares it and branches back (García García, thesis UCM
/// 2021, section 4.3.5: such loops use the pipeline well).
pub(crate) const SPIN_MIX: PhaseMix =
    PhaseMix { l1_accesses_pki: 1000.0 / 3.0, branches_pki: 1000.0 / 3.0 };

/// A turn of the loop a cycle at most, as no core takes two branches in one; a narrow core takes longer.
const MOST_SPIN_IPC: f64 = 3.0;

/// The rates of a thread that spins: they are nobody's but the core's.
pub(crate) fn spinning(core: &CoreType, clock_hz: f64) -> Outcome {
    let ipc = core.dispatch_width.min(MOST_SPIN_IPC);
    Outcome { instructions_per_s: ipc * clock_hz, slowdown: 1.0, ipc, ..Outcome::default() }
}

impl Engine<'_> {
    /// Instructions of a thread between two barriers of its program, where it has any.
    pub(crate) fn between_barriers(&self, app: usize) -> Option<f64> {
        Some(self.experiment.apps[app].barrier?.every_instructions as f64)
    }

    /// Has it done all that lies before its next barrier?
    pub(crate) fn is_at_barrier(&self, slot: usize) -> bool {
        let thread = &self.threads[slot];
        let every = self.between_barriers(thread.app);
        every.is_some_and(|every| thread.since_barrier.left_of(every) <= 0.0)
    }

    /// It waits, unless it was the last that the others wait for. Can the barrier open?
    pub(crate) fn arrive_at_barrier(&mut self, slot: usize) -> bool {
        self.threads[slot].at_barrier = true;
        let app = self.threads[slot].app;
        if self.all_at_barrier(app) {
            return true;
        }
        match self.experiment.apps[app].barrier.map(|barrier| barrier.waiting) {
            Some(Waiting::Sleep) => {
                self.take(slot, State::Sleeping);
                self.threads[slot].sleeps += 1;
                self.watched.happened.push(Event::Slept(self.threads[slot].id));
            }
            Some(Waiting::Spin) | None => {
                self.threads[slot].spinning = true;
                self.rate_anew(slot);
            }
        }
        false
    }

    fn all_at_barrier(&self, app: usize) -> bool {
        let threads = &self.threads[self.apps[app].slots.clone()];
        let mut present = threads.iter().filter(|thread| thread.is_present()).peekable();
        present.peek().is_some() && present.all(|thread| thread.at_barrier)
    }

    /// Lets a program's threads go on if all that there are have come.
    pub(crate) fn open_barrier(&mut self, app: usize) {
        let Some(every) = self.between_barriers(app) else { return };
        if !self.all_at_barrier(app) {
            return;
        }
        for slot in self.apps[app].slots.clone() {
            if !self.threads[slot].is_present() {
                continue;
            }
            self.threads[slot].account(self.now);
            let thread = &mut self.threads[slot];
            thread.at_barrier = false;
            // What was executed beyond the barrier, within the last nanosecond.
            let over = -thread.since_barrier.left_of(every);
            thread.since_barrier = Done::default();
            thread.since_barrier.add(over);
            if std::mem::take(&mut thread.spinning) {
                self.rate_anew(slot);
            }
            self.wake(slot, self.threads[slot].sleeps);
        }
    }

    /// What it does on its CPU is another thing from now on.
    fn rate_anew(&mut self, slot: usize) {
        let cpu = self.threads[slot].cpu;
        if let Some((rated, part)) = self.rates.rated[cpu]
            && rated == slot
        {
            self.parts.mark(part);
            self.cpus[cpu].due = crate::timers::NEVER;
            self.rates.stale = true;
        }
    }
}
