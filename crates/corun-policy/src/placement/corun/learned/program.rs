//! A program as counters told of it, in plain figures.

use corun_machine::{Cache, Machine};
use corun_model::{LoadedProgram, Model, ModelError};
use corun_profile::{MeasuredOn, Profile, ProfileData, SoloRow, SoloTable, TableFigures};

use super::super::curve::PrivateCache;

/// Sizes of the LLC at which misses are told: so many equal parts of it, from one to all.
const SIZES: u32 = 16;
/// Memory latency where the machine does not say, in ns.
pub(super) const USUAL_LATENCY_NS: f64 = 90.0;
/// LLC latency where the machine does not say, in ns.
const USUAL_LLC_LATENCY_NS: f64 = 15.0;
/// Share of the lowest peak on its way that a program alone is taken to draw at most.
const MOST_OF_PEAK: f64 = 0.9;
/// Misses may exceed references by so much, as a share, where both were rounded.
const ROUNDING: f64 = 0.01;

/// What was learnt of a program from counters while it ran: all that the model takes of a program, and how sure that is.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnedProgram {
    /// LLC references for 1000 instructions.
    pub llc_apki: f64,
    /// Cycles for an instruction without stalls on memory, on the machine's fastest core type.
    pub core_cpi: f64,
    /// Cycles of that core type that a miss stalls a core where nobody else uses the memory.
    pub stall_cycles_per_miss: f64,
    /// Bytes of memory traffic for a miss.
    pub bytes_per_miss: f64,
    /// LLC misses for 1000 instructions with 1/16 of the LLC, 2/16 and so on to all of it.
    pub llc_mpki: Vec<f64>,
    /// How sure the misses are, 0 to 1: the share that their squares have in the squares of misses and of their errors
    /// together. An estimate times this has the least squared error of all its multiples.
    pub confidence: f64,
}

impl LearnedProgram {
    /// Can a program have these figures? For figures that somebody else wrote.
    pub fn is_possible(&self) -> bool {
        let within = |value: f64, least: f64, most: f64| (least..=most).contains(&value);
        within(self.llc_apki, 0.0, 1e4)
            && within(self.core_cpi, 1e-3, 1e3)
            && within(self.stall_cycles_per_miss, 0.0, 1e5)
            && within(self.bytes_per_miss, 1.0, 1e5)
            && within(self.confidence, 0.0, 1.0)
            && self.llc_mpki.len() == SIZES as usize
            && self
                .llc_mpki
                .iter()
                .all(|&mpki| within(mpki, 0.0, self.llc_apki * (1.0 + ROUNDING) + ROUNDING))
    }

    /// The same program with this share (0 to 1) of its references and misses: between one that never leaves its private
    /// cache and itself.
    #[must_use]
    pub fn towards_quiet(&self, share: f64) -> Self {
        Self {
            llc_apki: self.llc_apki * share,
            llc_mpki: self.llc_mpki.iter().map(|mpki| mpki * share).collect(),
            ..self.clone()
        }
    }

    /// The program as a model takes it. `seen_on` is the machine on which it was counted, which need not be the model's.
    /// None where the model cannot take it.
    pub fn load(&self, name: &str, seen_on: &Machine, model: &Model) -> Option<LoadedProgram> {
        let on = measured_on(seen_on)?;
        let attempt = |most_mb_per_s: f64| {
            let row = |(at, &mpki): (usize, &f64)| SoloRow {
                ways: at as u32 + 1,
                figures: self.row(&on, at, mpki, most_mb_per_s),
            };
            let rows = self.llc_mpki.iter().enumerate().map(row).collect();
            let table = SoloTable::new(on.clone(), rows).ok()?;
            let profile = Profile { name: name.to_owned(), data: ProfileData::Table(table) };
            Some(model.load(&profile))
        };
        match attempt(f64::INFINITY)? {
            Ok(program) => Some(program),
            Err(ModelError::PeakTooLow { peak_mb_per_s, .. }) => {
                attempt(MOST_OF_PEAK * peak_mb_per_s)?.ok()
            }
            Err(_) => None,
        }
    }

    fn row(&self, on: &MeasuredOn, at: usize, mpki: f64, most_mb_per_s: f64) -> TableFigures {
        let mpki = mpki.min(self.llc_apki);
        let stalls = mpki * 1e-3 * self.stall_cycles_per_miss;
        let cpi = self.core_cpi + stalls;
        let per_cycle = 1.0 / cpi;
        let mb_per_s = mpki * 1e-3 * self.bytes_per_miss * per_cycle * on.clock_mhz;
        let share = stalls / cpi;
        TableFigures {
            ipc: per_cycle,
            llc_references_pki: self.llc_apki,
            llc_misses_pki: mpki,
            llc_references_pkc: self.llc_apki * per_cycle,
            llc_misses_pkc: mpki * per_cycle,
            llc_usage_kib: ((at as u64 + 1) * on.way_bytes) as f64 / 1024.0,
            bandwidth_mb_per_s: mb_per_s.min(most_mb_per_s),
            miss_bandwidth_mb_per_s: mb_per_s.min(most_mb_per_s),
            stalls_l2_miss: share,
            stalls_l3_miss: share,
            stalls_total: share,
            stalls_store_buffer: 0.0,
        }
    }
}

/// The sizes in bytes at which misses are told; none where the machine does not say how large its LLC is.
pub(super) fn sizes(machine: &Machine) -> Option<Vec<f64>> {
    let part = measured_on(machine)?.way_bytes;
    Some((1..=SIZES).map(|count| (u64::from(count) * part) as f64).collect())
}

/// The largest LLC; none where the machine does not say how large its LLCs are.
fn largest_llc(machine: &Machine) -> Option<Cache> {
    let llcs = machine.llcs().iter().filter_map(|llc| llc.cache);
    llcs.max_by_key(|cache| cache.size_bytes)
}

/// The cache in front of the machine's largest LLC.
pub(super) fn private_cache(machine: &Machine) -> PrivateCache {
    PrivateCache {
        bytes: machine.private_cache(0).map_or(0.0, |cache| cache.size_bytes as f64),
        is_in_llc: largest_llc(machine).is_none_or(|cache| !cache.inclusion.capacities_add()),
    }
}

/// The machine's largest LLC, in so many parts.
fn measured_on(machine: &Machine) -> Option<MeasuredOn> {
    let cache = largest_llc(machine)?;
    let inclusive = !cache.inclusion.capacities_add();
    let private = machine.private_cache(0).map_or(1, |cache| cache.size_bytes);
    Some(MeasuredOn {
        machine: machine.name().to_owned(),
        clock_mhz: machine.core_types().get(machine.fastest_core_type())?.clock_mhz,
        // LLC references are counted behind the private cache, whatever its size.
        private_cache_bytes: if inclusive { 64 } else { private },
        inclusive_llc: inclusive,
        way_bytes: cache.size_bytes / u64::from(SIZES),
        line_bytes: cache.line_bytes.unwrap_or(64),
        memory_latency_ns: machine.memory_latency_ns(0, 0).unwrap_or(USUAL_LATENCY_NS),
        llc_latency_ns: cache.latency_ns.unwrap_or(USUAL_LLC_LATENCY_NS),
    })
}
