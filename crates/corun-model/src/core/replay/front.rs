//! Fetching: when each instruction reaches the queue before dispatch.

use corun_profile::{Marks, MicroOp};

use super::super::sampled::RankedTrace;
use super::super::stack::Cause;
use super::{Kind, Level, MemoryView, Replay, START, cycles, level_below};

/// Sizes of code that taken branches are told apart by.
pub(crate) const TAKEN_STEPS: usize = 8;

/// What a taken branch costs beyond the rest of its cycle, by how long ago its code line was fetched.
///
/// A core foresees a few branches without a pause, and more of them with one: the larger the code that was passed
/// since a branch was last taken, the sooner the core has forgotten where it leads.
///
/// By rising sizes of code: lines missed an instruction by a cache of that size, and cycles. The last size holds
/// for all code beyond it, too.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TakenBranches(pub(crate) [(f32, f32); TAKEN_STEPS]);

impl TakenBranches {
    /// Where only is known that a taken branch ends its cycle.
    pub(crate) const REST_OF_CYCLE: Self = Self([(0.0, 0.0); TAKEN_STEPS]);

    /// The cycles in a line that a cache hits if it misses fewer lines an instruction than `rank`.
    fn cycles(&self, rank: f32) -> f32 {
        let step = self.0.iter().find(|(missed, _)| rank > *missed);
        step.unwrap_or(&self.0[TAKEN_STEPS - 1]).1
    }
}

/// The front end's state.
pub(super) struct Front {
    pub(super) cycle: u32,
    /// Instructions fetched in this cycle.
    slots: u32,
    /// From here on code lines are asked for.
    restart: u32,
    last_line: u32,
    /// When the last code line came that was not in the first level.
    missed_line: u32,
    /// What a taken branch in the line that is fetched costs beyond the rest of its cycle.
    taken_cycles: f32,
    /// What of such costs was no whole cycle yet.
    owed_cycles: f32,
    /// Instructions since a branch was taken, and how often they went on to another line of code.
    run: (u32, u32),
    /// Why it stands where it stands.
    cause: Cause,
}

impl Replay<'_> {
    /// Fetches an entry; `counts` says whether it takes a place of its own.
    pub(super) fn fetch(
        &mut self,
        entry: usize,
        op: &MicroOp,
        trace: &RankedTrace,
        view: &MemoryView,
        front: &mut Front,
        counts: bool,
    ) {
        let core = self.core;
        // The queue between fetching and dispatch is full.
        if let Some(before) = entry.checked_sub(core.fetch_queue) {
            let room = self.dispatched[before];
            if room > front.cycle {
                (front.cycle, front.slots) = (room, 0);
            }
        }
        // A core fetches from one line a cycle.
        front.run.1 += u32::from(front.run.0 > 0 && op.marks.has(Marks::FETCHES));
        if counts {
            if front.slots == core.fetch_width {
                front.next_cycle();
            }
            front.slots += 1;
            front.run.0 += 1;
        }
        if !op.marks.has(Marks::FETCHES) {
            return;
        }
        front.taken_cycles = view.taken.cycles(trace.code_alone[entry]);
        let level = if trace.code_alone[entry] > view.l1_code {
            Level::First
        } else {
            level_below(trace.code[entry], view)
        };
        if level == Level::First {
            front.last_line = front.cycle;
            return;
        }
        // The predictor asks for lines ahead of fetching, and the line behind is asked for with one.
        let ahead = match entry.checked_sub(core.predictor_ahead) {
            Some(at) if at < entry => self.fetched[at],
            Some(_) => front.cycle,
            None => START,
        };
        let mut asked = ahead.max(front.restart);
        if op.marks.has(Marks::NEXT_LINE) {
            asked = asked.min(front.last_line);
        }
        let pace = view.code_line_cycles[usize::from(level > Level::Private)];
        let there =
            (asked + cycles(level, (entry, Kind::Code), core, view)).max(front.missed_line + pace);
        front.missed_line = there;
        front.last_line = front.cycle;
        if there > front.cycle {
            (front.cycle, front.slots) = (there, u32::from(counts));
            front.cause = Cause::Fetches;
        }
    }
}

impl Front {
    pub(super) fn new(view: &MemoryView) -> Self {
        Self {
            cycle: START,
            slots: 0,
            restart: START,
            last_line: START,
            missed_line: 0,
            taken_cycles: view.taken.cycles(f32::MAX),
            owed_cycles: 0.0,
            run: (0, 0),
            cause: Cause::Base,
        }
    }

    fn next_cycle(&mut self) {
        (self.cycle, self.slots) = (self.cycle + 1, 0);
    }

    /// Goes on behind a taken branch: the rest of the cycle is lost, and what the branch costs more.
    pub(super) fn take_branch(&mut self, width: u32, view: &MemoryView) {
        self.next_cycle();
        let (instructions, crossed) = std::mem::take(&mut self.run);
        // What takes more cycles than it has lines takes none for them.
        let crossed = crossed.saturating_sub(instructions.div_ceil(width).saturating_sub(1));
        self.owed_cycles += self.taken_cycles + crossed as f32 * view.line_crossing_cycles;
        if self.owed_cycles >= 1.0 {
            let whole = self.owed_cycles as u32;
            self.cycle += whole;
            self.owed_cycles -= whole as f32;
            self.cause = Cause::Fetches;
        }
    }

    pub(super) fn restart_at(&mut self, cycle: u32, cause: Cause) {
        if cycle > self.cycle {
            (self.cycle, self.slots) = (cycle, 0);
        }
        self.run = (0, 0);
        self.restart = cycle;
        self.last_line = cycle;
        self.cause = cause;
    }

    /// Why an instruction was dispatched no earlier.
    pub(super) fn cause_of(&self, full: bool, fetched: u32, dispatched: u32) -> Cause {
        if full {
            Cause::Stores
        } else if fetched >= dispatched {
            self.cause
        } else {
            Cause::Base
        }
    }
}
