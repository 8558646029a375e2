//! What would a real cache have done with these accesses?
//!
//! [`replay`] runs recorded programs against one shared cache, access by access, each at its own
//! pace: the second, independent judgement of what corun-model computes from miss-rate curves. The
//! cache is set-associative ([`SetAssociative`]: LRU, tree-PLRU, SRRIP or random replacement, with
//! way masks) or fully associative ([`FullyAssociative`]: LRU), with private caches in front where
//! wanted and a memory of fixed or queued latency behind.
//!
//! Nothing here knows of models or profiles; of corun-trace it uses the trace file alone.

mod cache;
mod full;
mod geometry;
mod loaded;
mod memory;
mod program;
mod replacement;
mod replay;
mod sets;
mod source;

pub use cache::{AccessOutcome, ReplayedCache};
pub use full::FullyAssociative;
pub use geometry::{CacheConfig, Geometry, GeometryError, Indexing, Replacement};
pub use loaded::{LoadedAccesses, LoadedTrace};
pub use memory::MemoryTiming;
pub use program::ReplayedProgram;
pub use replay::{MOST_PROGRAMS, ReplayError, ReplayFigures, ReplaySetup, Until, replay};
pub use sets::SetAssociative;
pub use source::{AccessSource, TraceFile, TraceInput, TraceSourceError};
