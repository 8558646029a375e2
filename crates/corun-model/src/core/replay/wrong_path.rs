//! What a core asks for behind a branch that it mispredicted, before it knows.
//!
//! Until the branch is resolved the core goes on in the wrong direction. Mostly both directions soon meet
//! again, and what stands behind that place is loaded by the wrong path too: its lines are on their way when
//! the right path gets there. Rotenberg, Jacobson and Smith ("A study of control independence in superscalar
//! processors", HPCA 1999) found most mispredicted branches to have such a place within a reorder buffer's
//! reach.

use corun_profile::{Marks, Operation};

use super::{Level, MemoryView, RankedTrace, Replay, cycles, level_below};

/// A value that is not there before the branch is resolved.
const NEVER: u32 = u32::MAX;

impl Replay<'_> {
    /// Goes on behind a mispredicted branch, dispatched in one cycle and resolved in another, as if it had
    /// been predicted, so far as the reorder buffer has room and where both directions meet again: loads
    /// that begin before it is resolved ask for their lines.
    pub(super) fn run_on(
        &mut self,
        branch: usize,
        (dispatched, resolved): (u32, u32),
        trace: &RankedTrace,
        view: &MemoryView,
    ) {
        // Not worth it where the branch waits for no line from beyond the private caches.
        if self.core.in_order() || resolved < dispatched + view.llc_cycles || !self.meets_again() {
            return;
        }
        let mut before = 0;
        for (entry, op) in trace.ops.iter().enumerate().skip(branch + 1) {
            if before == self.core.reorder_buffer {
                break;
            }
            let at = (dispatched + 1 + before as u32 / self.core.width)
                .max(self.reorder.free_after(before));
            let stops = matches!(op.operation, Operation::Serialise | Operation::SystemCall);
            if at >= resolved || stops {
                break;
            }
            before += usize::from(self.core.counts(op));
            let value = self.value_ahead(entry, (branch, resolved), at, trace, view);
            self.ahead[entry] = if value < resolved { value } else { NEVER };
            if op.marks.any(view.mispredicted) && !self.meets_again() {
                break;
            }
        }
    }

    fn meets_again(&mut self) -> bool {
        self.meeting.next() < self.core.meets_again
    }

    /// When an entry's value would be there.
    fn value_ahead(
        &mut self,
        entry: usize,
        (branch, resolved): (usize, u32),
        dispatched: u32,
        trace: &RankedTrace,
        view: &MemoryView,
    ) -> u32 {
        let op = &trace.ops[entry];
        let latest = |replay: &Self, backs: &[u16]| {
            backs.iter().filter(|back| **back != 0).fold(dispatched + 1, |latest, &back| {
                let from = entry - usize::from(back);
                latest.max(if from > branch { replay.ahead[from] } else { replay.done[from] })
            })
        };
        let mut ready = latest(self, &op.inputs);
        if op.marks.has(Marks::LOAD) {
            let address = latest(self, &op.address_inputs);
            if address >= resolved {
                return NEVER;
            }
            ready = ready.max(self.line_ahead(entry, address, trace, view));
        }
        ready.saturating_add(self.core.latency[op.operation as usize])
    }

    /// Asks for a load's line, if it is not there or on its way.
    fn line_ahead(
        &mut self,
        entry: usize,
        begun: u32,
        trace: &RankedTrace,
        view: &MemoryView,
    ) -> u32 {
        let op = &trace.ops[entry];
        let hit = begun + self.core.load;
        if self.asked[entry] > 0 {
            return hit.max(self.asked[entry]);
        }
        let before = match op.line_before {
            0 => 0,
            back => {
                self.filled[entry - usize::from(back)].max(self.asked[entry - usize::from(back)])
            }
        };
        let rank = trace.data[entry];
        let level = if rank > view.l1_data { Level::First } else { level_below(rank, view) };
        let foreseen = op.marks.has(Marks::FORESEEN) && self.core.prefetch_lines > 0;
        if level == Level::First || foreseen || before > begun {
            return hit.max(before);
        }
        let places = &mut self.misses[usize::from(level == Level::Memory)];
        let far = level >= Level::Llc;
        let start = if far { begun.max(places.free()) } else { begun };
        let there = start + cycles(level, self.core, view);
        if far {
            places.take(there);
        }
        self.asked[entry] = there;
        there.max(hit)
    }
}
