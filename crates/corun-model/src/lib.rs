//! How much do these programs hurt each other on that machine?
//!
//! A [`Model`] stands on a machine. It loads profiles into tables, then answers in two stages.
//! Stage A, [`Model::share`]: the members of a cache group divide its space; what each holds
//! follows from the members of its own group alone. Stage B, [`Model::couple`]: bandwidth,
//! latency and hardware threads couple everything that runs, with the demands of stage A fixed.
//! [`Model::solve`] does both for a whole machine.
//!
//! The model knows nothing of time or policies. Each formula names its source where it stands.

mod bandwidth;
mod by_ways;
mod contention;
mod core;
mod domains;
mod error;
mod growth;
mod imported;
mod interval;
mod kept_replays;
mod known_replays;
mod masks;
mod model;
mod numa;
mod options;
mod outcome;
mod outside;
mod paces;
mod page_sets;
mod pipeline;
mod pressure;
mod program;
mod replayed;
pub mod schemes;
mod scratch;
mod sharing;
mod single_use;
mod site;
mod space;
mod stretch;
mod table;
mod turns;
mod whole;

pub use by_ways::WaysFigures;
pub use contention::{ContentionLaw, contention_level, stream_profile};
pub use core::{CAUSES, Cause, CpiStack};
pub use error::ModelError;
pub use kept_replays::keep_replays_in;
pub use model::Model;
pub use options::{
    BandwidthModel, Compatibility, DEFAULT_SOLO_PEAK_SHARE, MAX_SOLO_PEAK_SHARE, ModelOptions,
    NameError, SpaceLaw,
};
pub use outcome::{Demand, Outcome, Pace};
pub use pressure::{LeastFigures, Pressure};
pub use program::{
    CacheGroup, Flow, LoadedPhase, LoadedProgram, LoadedStretch, Member, PhaseMix, Running,
};
pub use scratch::Scratch;
pub use single_use::LineLives;
pub use site::{DEFAULT_MEMORY_LATENCY_NS, DEFAULT_SMT_THROUGHPUT};
pub use stretch::{PassedDomain, Stretched};
pub use turns::{MOST_MOMENTS, moments, slowdowns_in_turns};
