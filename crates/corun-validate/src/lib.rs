//! How near are predictions to what this machine does? Runs programs natively, alone and in groups,
//! and sets the times beside what was predicted.
//!
//! [`measure`] runs the programs by turns, round after round: each alone, then each group at once on
//! CPUs of its own, with every member started again until all have run once beside all the others. Groups whose
//! slowdown could become clear get further rounds.
//! [`estimate`] makes a figure with its interval of the rounds, and [`agreement`] says how far
//! predictions are off. No hardware counter is needed: the instructions are those of the recording,
//! the time is the CPU time that the kernel charges. During each run the core is asked again and again
//! whether it is free: a busy hardware thread beside it, of another virtual machine for instance,
//! makes a program take up to twice as long, and no other sign of it can be seen. Where it hardly ever is, runs beside
//! more and less of that tell how long one on a core of its own takes. Before and after each run
//! of a group a cache line goes from CPU to CPU: a host may have moved two processors of a virtual machine to different
//! caches. After each run alone the clock is looked at, and where neighbours outside use the last cache, lines that rest
//! there are looked for before it: both change from second to second. A [`Validation`] has all figures beside the predicted ones.

#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod agreement;
mod cache_use;
mod earlier;
mod estimate;
mod further;
mod keep;
mod measure;
mod native;
mod once;
mod pace;
mod plan;
mod seen;
mod validation;
mod watch;

pub use agreement::{Agreement, Pair, agreement};
pub use cache_use::CacheUse;
pub use earlier::EarlierRun;
pub use estimate::{Estimate, estimate};
pub use keep::{KeepError, Kept, Weaker, keep};
pub use measure::{ClockUse, CoreUse, LeftOut, Measured, MeasuredGroup, MeasuredSolo, measure};
pub use once::RunError;
pub use plan::{ProgramGroup, RoundPlan, random_groups};
pub use seen::{ClockFindings, NeighbourFindings, SeenAgreements};
pub use validation::{
    Agreements, Alone, LeftOutProgram, MemberOf, Together, Validation, Without, leave_out_others,
};

use std::path::PathBuf;
use std::time::Duration;

/// A program as it is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedProgram {
    /// Its name.
    pub name: String,
    /// Program and arguments; `<` and a file at the end: its standard input.
    pub command: Vec<String>,
    /// Exit codes that mean that it did what it should, besides 0.
    pub good_codes: Vec<i32>,
}

/// A last cache that others outside the machine use, too.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LastCache {
    /// Size of the largest cache before it, in bytes.
    pub private_bytes: f64,
    /// Its size in bytes.
    pub bytes: f64,
}

/// Where and how long programs run.
#[derive(Debug, Clone, PartialEq)]
pub struct Conditions {
    /// The working folder.
    pub folder: PathBuf,
    /// CPUs (the kernel's numbers) of the members of a group, in order; alone a program runs on the
    /// first.
    pub cpus: Vec<u32>,
    /// The core of each of these CPUs, an index: members on one core are not asked how much of it others leave.
    pub cores: Vec<usize>,
    /// Nanoseconds of a transfer of a cache line between CPUs that share the last-level cache, where that is known of the
    /// machine.
    pub same_llc_ns: Option<f64>,
    /// Additions a cycle of the first CPU's core while no other thread uses it, where they are known of the machine.
    pub additions_per_cycle: Option<f64>,
    /// The caches of the first CPU, where others outside the machine use the last one.
    pub shared_cache: Option<LastCache>,
    /// A run that takes longer is ended, beside others one that takes four times as long. A program whose first run reaches it is left out;
    /// of one that has ended once, that run does not count.
    pub limit: Duration,
}
