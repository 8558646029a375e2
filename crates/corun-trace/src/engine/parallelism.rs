//! Memory-level parallelism from the dependence of misses on one another, in micro-traces.
//!
//! A window of [`WINDOW`] instructions opens at a load that misses the private cache. Inside it every
//! value carries the number of misses that it waited for one after the other, through registers and
//! through memory. A load that misses adds one to the chain that its address hangs on; a load of a line
//! that is still on its way waits for the miss that brings it. The window's misses, divided by its
//! longest chain, could be outstanding together: the epochs of Chou, Fahs and Abraham (ISCA 2004,
//! "Microarchitecture optimizations for exploiting memory-level parallelism"). A window ends early at
//! a mispredicted branch that waits for a miss, since what lies behind it is not known until then, and
//! at what waits for all before it. Stores do not wait and are left out.

use corun_profile::{Marks, MicroOp, Operation};

use super::PRIVATE_CACHE_BYTES;
use crate::event::LINE_BYTES;

/// Instructions of a window: about what today's big cores hold in flight.
const WINDOW: usize = 256;

/// Misses that may stand together, of traces with their weights; at least 1.
pub fn parallelism<'a>(traces: impl Iterator<Item = (&'a [MicroOp], f64)>) -> f64 {
    let (mut misses, mut chained) = (0.0, 0.0);
    for (trace, weight) in traces {
        let (of_trace, chains) = windows(trace);
        misses += weight * of_trace as f64;
        chained += weight * chains as f64;
    }
    if chained > 0.0 { misses / chained } else { 1.0 }
}

/// Misses in windows and the sum of the windows' longest chains.
fn windows(trace: &[MicroOp]) -> (u64, u64) {
    let (mut misses, mut chained) = (0, 0);
    let mut at = 0;
    while at < trace.len() {
        if !misses_private_cache(&trace[at]) {
            at += 1;
            continue;
        }
        let (of_window, longest, end) = window(trace, at);
        misses += of_window;
        chained += longest;
        at = end;
    }
    (misses, chained)
}

/// Misses of the window that begins here, its longest chain, and where it ends.
fn window(trace: &[MicroOp], begin: usize) -> (u64, u64, usize) {
    let end = (begin + WINDOW).min(trace.len());
    let mut chains: Vec<u64> = Vec::with_capacity(WINDOW);
    let (mut misses, mut longest) = (0, 0);
    for (entry, op) in trace.iter().enumerate().take(end).skip(begin) {
        let of = |back: u16| {
            let producer = entry.checked_sub(usize::from(back)).filter(|_| back > 0);
            let inside = producer.and_then(|producer| producer.checked_sub(begin));
            inside.and_then(|at| chains.get(at)).copied().unwrap_or(0)
        };
        let address = op.address_inputs.map(of).into_iter().max().unwrap_or(0);
        let mut chain = address.max(op.inputs.map(of).into_iter().max().unwrap_or(0));
        if op.marks.has(Marks::LOAD) {
            chain = chain.max(of(op.forwarded_from)).max(of(op.line_before));
            if misses_private_cache(op) {
                misses += 1;
                chain = chain.max(address + 1);
                longest = longest.max(address + 1);
            }
        }
        chains.push(chain);
        let wrong = op.marks.has(Marks::MISPREDICTED_LARGE) && chain > 0;
        let waits = matches!(
            op.operation,
            Operation::Atomic | Operation::Serialise | Operation::SystemCall
        );
        if wrong || waits {
            return (misses, longest, entry + 1);
        }
    }
    (misses, longest, end)
}

fn misses_private_cache(op: &MicroOp) -> bool {
    let lines = (PRIVATE_CACHE_BYTES / LINE_BYTES) as f64;
    let deep = op.marks.has(Marks::REUSE_AT_LEAST) || op.reuse.distance() >= lines;
    op.marks.has(Marks::LOAD) && deep
}

#[cfg(test)]
mod tests {
    use corun_profile::{MicroTrace, Reuse};

    use super::*;

    fn miss(address: u16) -> MicroOp {
        let marks = Marks::LOAD;
        MicroOp { marks, address_inputs: [address, 0], reuse: Reuse::NEVER, ..MicroOp::default() }
    }

    fn of(round: &[MicroOp], rounds: usize) -> f64 {
        let trace: MicroTrace = round.iter().copied().cycle().take(round.len() * rounds).collect();
        parallelism([(&trace[..], 1.0)].into_iter())
    }

    fn add() -> MicroOp {
        MicroOp { operation: Operation::Integer, ..MicroOp::default() }
    }

    #[test]
    fn a_pointer_chase_is_serial() {
        assert_eq!(of(&[miss(2), add()], 500), 1.0);
    }

    #[test]
    fn loads_by_a_counter_are_parallel() {
        // 128 misses in a window of 256, each on its own.
        assert_eq!(of(&[miss(0), add()], 512), 128.0);
    }

    #[test]
    fn two_chains_side_by_side_overlap() {
        assert_eq!(of(&[miss(2), miss(2)], 512), 2.0);
    }

    /// add 8(%rbx),%rax; nop; mov (%rbx),%rbx: the field's line is on its way when the pointer is
    /// loaded from it.
    #[test]
    fn a_field_and_then_the_pointer_is_a_chase() {
        let field = miss(1);
        let pointer = MicroOp {
            marks: Marks::LOAD,
            address_inputs: [3, 0],
            line_before: 2,
            ..MicroOp::default()
        };
        assert_eq!(of(&[field, add(), pointer], 500), 1.0);
    }

    /// A binary search: the branch on the value that was loaded is mispredicted half of the time, so
    /// that the next load is not known.
    #[test]
    fn a_mispredicted_branch_that_waits_ends_a_window() {
        let mut branch = add();
        branch.inputs[0] = 1;
        branch.marks = Marks::BRANCH;
        let mut wrong = branch;
        wrong.marks = Marks::BRANCH.with(Marks::MISPREDICTED_LARGE);
        // Two loads a window, independent of each other.
        assert_eq!(of(&[miss(0), branch, miss(0), wrong], 200), 2.0);
        assert_eq!(of(&[miss(0), branch, miss(0), branch], 128), 128.0);
    }

    #[test]
    fn a_chain_through_memory_counts() {
        // A missing load is stored, and loaded again as the next one's address.
        let store = MicroOp { marks: Marks::STORE, inputs: [1, 0, 0], ..MicroOp::default() };
        let load =
            MicroOp { marks: Marks::LOAD, forwarded_from: 1, line_before: 1, ..MicroOp::default() };
        assert_eq!(of(&[miss(1), store, load], 500), 1.0);
    }
}
