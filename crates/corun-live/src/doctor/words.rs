//! What things are called for people.

use corun_policy::ActionKind;

/// A kind of action.
pub(super) fn action(kind: ActionKind) -> &'static str {
    match kind {
        ActionKind::Place => "placing threads",
        ActionKind::Partition => "partitioning the LLC",
        ActionKind::CapBandwidth => "capping bandwidth",
        ActionKind::MovePages => "moving pages",
        ActionKind::IdleCpu => "idling CPUs",
        ActionKind::SetWeight => "changing priorities",
        ActionKind::OrderSlots => "ordering time slots",
    }
}

/// `1 CPU`, `2 CPUs`.
pub(super) fn counted(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}
