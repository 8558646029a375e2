//! What a core asks for behind a branch that it mispredicted, before it knows.
//!
//! Until the branch is resolved the core goes on in the wrong direction. Mostly both directions soon meet
//! again, and what stands behind that place is loaded by the wrong path too, unless it hangs on what either
//! direction does before: its lines are on their way when the right path gets there. A recording says where they meet
//! ([`Reconvergence`]) and what hangs on the other direction. Rotenberg, Jacobson and Smith ("A study of control independence in superscalar
//! processors", HPCA 1999) found most mispredicted branches to have such a place within a reorder buffer's
//! reach.

use corun_profile::{Marks, MicroOp, Operation, Reconvergence};

use super::{Kind, Level, MemoryView, RankedTrace, Replay, cycles, level_below};

/// A value that is not there before the branch is resolved.
const NEVER: u32 = u32::MAX;

/// Reads an entry a register that the other direction of a branch, or of one behind it, writes?
fn hangs_on(entry: usize, op: &MicroOp, branch: usize) -> bool {
    op.hangs_on > 0 && entry - usize::from(op.hangs_on) >= branch
}

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
        if self.core.in_order() || resolved < dispatched + view.llc_cycles {
            return;
        }
        let Some((mut met, mut before)) = self.meets(&trace.ops[branch]) else { return };
        met += branch;
        for (entry, op) in trace.ops.iter().enumerate().skip(branch + 1) {
            if before >= self.core.reorder_buffer {
                break;
            }
            let at = (dispatched + 1 + before as u32 / self.core.width)
                .max(self.reorder.free_after(before));
            if at >= resolved {
                break;
            }
            if entry < met {
                // The other direction lacks it.
                self.ahead[entry] = NEVER;
                continue;
            }
            if matches!(op.operation, Operation::Serialise | Operation::SystemCall) {
                break;
            }
            let value = if hangs_on(entry, op, branch) {
                NEVER
            } else {
                self.value_ahead(entry, (branch, resolved), at, trace, view)
            };
            self.ahead[entry] = if value < resolved { value } else { NEVER };
            before += usize::from(self.core.counts(op));
            if op.marks.any(view.mispredicted) {
                let Some((entries, instructions)) = self.meets(op) else { break };
                met = entry + entries;
                before += instructions;
            }
        }
    }

    /// How many entries behind a mispredicted branch the first one stands that both directions have, and the instructions
    /// that the wrong one has before it; none where they do not meet. Where the recording does not know, all that follows
    /// counts as both directions', behind a share of the branches.
    fn meets(&mut self, branch: &MicroOp) -> Option<(usize, usize)> {
        match branch.reconvergence {
            _ if self.core.meets_again == 0.0 => None,
            Reconvergence::Unknown => {
                (self.meeting.next() < self.core.meets_again).then_some((1, 0))
            }
            Reconvergence::Never => None,
            Reconvergence::After { entries, other_instructions } => {
                Some((usize::from(entries), usize::from(other_instructions)))
            }
        }
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
        let there = start + cycles(level, (entry, Kind::Data), self.core, view);
        if far {
            places.take(there);
        }
        self.asked[entry] = there;
        there.max(hit)
    }
}
