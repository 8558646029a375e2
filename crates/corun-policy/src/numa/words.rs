//! Reasons in words.

use corun_machine::Machine;

use super::mapping::{Moved, Process};
use super::processors::Processors;
use crate::ThreadView;

/// "lbm: 32.1 MPKI, penalty 1.31 (profile)".
fn figures(thread: &ThreadView, process: &Process, from_profile: bool) -> String {
    let source = if from_profile { "profile" } else { "from its MPKI" };
    let Process { mpki, penalty, .. } = process;
    format!("{}: {mpki:.1} MPKI, penalty {penalty:.2} ({source})", thread.program)
}

/// Why algorithm 2 has it there.
pub(super) fn local(
    thread: &ThreadView,
    process: &Process,
    from_profile: bool,
    processors: &Processors,
    processor: usize,
) -> String {
    let figures = figures(thread, process, from_profile);
    let at = &processors.list[processor];
    let (node, llc) = (at.node, at.llc);
    match process.home {
        None => format!("{figures}, home not known, to the emptiest: node {node}, LLC {llc}"),
        Some(home) if home == node => format!("{figures}, at home on node {node}, LLC {llc}"),
        Some(home) => {
            format!("{figures}, home node {home} has no core for it, to node {node}, LLC {llc}")
        }
    }
}

/// Why algorithm 3 moved it there.
pub(super) fn moved(
    thread: &ThreadView,
    process: &Process,
    from_profile: bool,
    processors: &Processors,
    step: &Moved,
) -> String {
    let figures = figures(thread, process, from_profile);
    let (from, to) = (&processors.list[step.from], &processors.list[step.to]);
    let ((from_before, to_before), (from_after, to_after)) = (step.before, step.after);
    let way = if from.node == to.node {
        format!("moved from LLC {} to LLC {} of node {}", from.llc, to.llc, to.node)
    } else if process.is_remote_on(to.node) {
        format!("moved off node {} to node {}, away from its memory", from.node, to.node)
    } else {
        format!("moved from node {} to node {}", from.node, to.node)
    };
    format!(
        "{figures}, {way}: pressures {from_before:.1} and {to_before:.1} MPKI become \
         {from_after:.1} and {to_after:.1}"
    )
}

/// Why its pages move.
pub(super) fn memory_follows(
    thread: &ThreadView,
    machine: &Machine,
    node: usize,
    epochs: u64,
) -> String {
    let number = machine.nodes().get(node).map_or(0, |node| node.os_index);
    format!(
        "{}: away from its memory for {epochs} epochs, which follows to node {number}",
        thread.program
    )
}
