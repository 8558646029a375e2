//! What things are called for people.

use corun_policy::{ActionKind, CounterKind};

/// A counter.
pub(super) fn counter(kind: CounterKind) -> &'static str {
    match kind {
        CounterKind::Instructions => "instructions",
        CounterKind::Cycles => "cycles",
        CounterKind::LlcReferences => "LLC references",
        CounterKind::LlcMisses => "LLC misses",
        CounterKind::L1Accesses => "L1 accesses",
        CounterKind::Branches => "branches",
        CounterKind::MemoryBytes => "memory traffic",
        CounterKind::MemoryStalls => "memory stalls",
        CounterKind::MemoryRetries => "memory retries",
        CounterKind::LlcOccupancy => "LLC occupancy",
    }
}

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
