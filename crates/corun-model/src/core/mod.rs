//! From a recording's micro-traces to cycles.

mod filling;
mod parameters;
mod replay;
mod replays;
mod sampled;
mod stack;
mod units;

pub(crate) use filling::{fill_instructions, shared_bytes};
pub(crate) use parameters::{CoreParameters, has_stream_prefetcher};
pub(crate) use replay::{MemoryView, MemoryWalk, TAKEN_STEPS, TakenBranches};
pub(crate) use replays::Replays;
pub(crate) use sampled::{SampledPhase, unpack};
pub use stack::{CAUSES, Cause, CpiStack};
pub(crate) use units::Link;
