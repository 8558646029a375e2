//! Policies that say on which CPU each thread runs, by how much the threads miss the cache.

pub(crate) mod running_averages;
pub(crate) mod spread;

mod corun;
mod di;
mod dino;
mod dio;
pub(crate) mod dio_2010;
mod dio_power;
mod linux_default;
mod linux_power_saving;
mod linux_sched_cache;
mod random;
mod wake_partners;

use crate::PolicyEntry;

pub use corun::{CurveLearner, LearnedProgram};

/// The interval of DIO in cycles (Blagodurov et al., TOCS 2010, section 4.2).
const BILLION_CYCLES: u64 = 1_000_000_000;

pub(crate) const POLICIES: &[PolicyEntry] = &[
    linux_default::ENTRY,
    random::ENTRY,
    di::ENTRY,
    dio::ENTRY,
    dio_2010::ENTRY,
    dio_power::ENTRY,
    dino::ENTRY,
    corun::ENTRY,
    linux_power_saving::ENTRY,
    linux_sched_cache::ENTRY,
];
