//! A program's profile: what belongs to the program, and not to a machine.
//!
//! Two kinds: a [`Recording`] holds the program's own miss-rate curve, as the tracer writes it; a
//! [`SoloTable`] holds figures measured alone on some machine at several LLC sizes.

use serde::{Deserialize, Serialize};

use crate::MissRateCurve;

/// The version of the profile file that this build reads and writes.
pub const PROFILE_FILE_VERSION: u32 = 1;

/// A program's profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The name by which the program is asked for, unique in its library.
    pub name: String,
    /// The figures.
    pub data: ProfileData,
}

/// The two kinds of profile.
#[derive(Debug, Clone, PartialEq)]
pub enum ProfileData {
    /// The program's own curve.
    Recording(Recording),
    /// Solo figures by LLC size, measured on some machine.
    Table(SoloTable),
}

/// What the tracer writes: a program's behaviour by phase, independent of any machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// Where it comes from.
    pub origin: Origin,
    /// The phases in order; at least one.
    #[serde(rename = "phase")]
    pub phases: Vec<Phase>,
}

/// Where a recording comes from. Texts for people, but for the flags.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The command line that was traced.
    pub command: Vec<String>,
    /// What the program is and its version, as its package says.
    #[serde(default)]
    pub program: String,
    /// What it worked on.
    #[serde(default)]
    pub input: String,
    /// When, as YYYY-MM-DD.
    #[serde(default)]
    pub date: String,
    /// What recorded it, with version.
    #[serde(default)]
    pub tracer: String,
    /// The share of cache lines that was followed when recording ended, 0 to 1 (1: exact).
    pub sampling_rate: f64,
    /// Did the program run to its end?
    pub complete: bool,
    /// The program's exit status, where it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// A stretch of a program's execution with one behaviour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its length in instructions.
    pub instructions: u64,
    /// Threads that were seen running in it.
    #[serde(default = "one_thread")]
    pub threads: u32,
    /// Data accesses (loads and stores, L1 accesses) per 1000 instructions.
    pub data_accesses_pki: f64,
    /// Instruction mix, per 1000 instructions.
    pub mix: InstructionMix,
    /// Share of the misses that a stride prefetcher would foresee, 0 to 1.
    pub prefetchable: f64,
    /// Misses that may be outstanding together as the dependences of the program allow (>= 1),
    /// before the core's own limits.
    pub memory_level_parallelism: f64,
    /// Share of the lines brought in that are written, and so written back later, 0 to 1.
    pub dirty_share: f64,
    /// Distinct bytes touched in the phase.
    pub footprint_bytes: u64,
    /// Lines missed per 1000 instructions (data and instruction fetches together) in a fully
    /// associative LRU cache, against its size.
    pub curve: MissRateCurve,
}

fn one_thread() -> u32 {
    1
}

/// Instructions of each kind per 1000 instructions. An instruction that loads and computes counts
/// in both.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstructionMix {
    /// Loads.
    pub loads_pki: f64,
    /// Stores.
    pub stores_pki: f64,
    /// Branches of any kind.
    pub branches_pki: f64,
    /// Floating-point and vector operations.
    pub float_pki: f64,
    /// Branches that a simple predictor gets wrong.
    pub mispredicted_pki: f64,
}

/// Solo figures of a program at several LLC sizes, measured on some machine.
#[derive(Debug, Clone, PartialEq)]
pub struct SoloTable {
    /// What it was measured on.
    pub measured_on: MeasuredOn,
    /// One row a way count, ascending, from 1 to all ways.
    pub rows: Vec<SoloRow>,
}

/// The machine a table was measured on.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredOn {
    /// Its name; the preset of the same name is that machine.
    pub machine: String,
    /// Clock in MHz.
    pub clock_mhz: f64,
    /// The private cache in front of the LLC, in bytes.
    pub private_cache_bytes: u64,
    /// Does the LLC hold what the private cache holds? Else the capacities add.
    pub inclusive_llc: bool,
    /// Bytes of one way of the LLC.
    pub way_bytes: u64,
    /// Bytes of a cache line.
    pub line_bytes: u32,
    /// Memory latency of the idle machine in ns.
    pub memory_latency_ns: f64,
    /// LLC hit latency in ns.
    pub llc_latency_ns: f64,
}

/// Figures at one way count. Rates are per 1000 instructions (pki) or 1000 cycles (pkc); stalls
/// are shares of all cycles, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoloRow {
    /// Ways of the LLC the program had.
    pub ways: u32,
    /// Instructions per cycle.
    pub ipc: f64,
    /// LLC references per 1000 instructions.
    pub llc_references_pki: f64,
    /// LLC misses per 1000 instructions.
    pub llc_misses_pki: f64,
    /// LLC references per 1000 cycles.
    pub llc_references_pkc: f64,
    /// LLC misses per 1000 cycles.
    pub llc_misses_pkc: f64,
    /// Mean LLC occupancy in KiB.
    pub llc_usage_kib: f64,
    /// Memory traffic in MB/s (1e6 bytes a second), by the monitoring hardware.
    pub bandwidth_mb_per_s: f64,
    /// Memory traffic in MB/s computed from the misses.
    pub miss_bandwidth_mb_per_s: f64,
    /// Share of cycles stalled with an L2 miss outstanding.
    pub stalls_l2_miss: f64,
    /// Share of cycles stalled with an L3 miss outstanding.
    pub stalls_l3_miss: f64,
    /// Share of cycles stalled for any reason.
    pub stalls_total: f64,
    /// Share of cycles stalled on a full store buffer.
    pub stalls_store_buffer: f64,
}
