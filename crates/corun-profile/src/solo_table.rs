//! Solo figures of a program by LLC size, measured on some machine, and reading them at any size.

use corun_input::{Fault, PathStep};
use serde::{Deserialize, Serialize};

use crate::figures::{Expected, check_count};
use crate::{CurvePoint, MissRateCurve};

/// Solo figures of a program at several LLC sizes, measured on some machine.
///
/// One row a way count, from 1 to all ways. Before the first row stands an anchor: with no way at
/// all, every reference that passes the private cache misses, so the first row's LLC references
/// per 1000 instructions are the miss rate at the private cache's size (docs/errata.md, section 3).
#[derive(Debug, Clone, PartialEq)]
pub struct SoloTable {
    measured_on: MeasuredOn,
    rows: Vec<SoloRow>,
}

/// The machine a table was measured on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

/// Figures at one way count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoloRow {
    /// Ways of the LLC the program had.
    pub ways: u32,
    /// What was measured.
    pub figures: TableFigures,
}

/// Defines the figures of a table from their names, in the order in which tables hold them.
macro_rules! figures {
    ($($(#[$meaning:meta])+ $name:ident,)+) => {
        /// Figures of a program alone. Rates are per 1000 instructions (pki) or 1000 cycles (pkc); stalls
        /// are shares of all cycles, 0 to 1.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct TableFigures {
            $($(#[$meaning])+ pub $name: f64,)+
        }

        /// The names of the figures in a profile file, in the order in which tables hold them.
        pub(crate) const FIGURE_NAMES: [&str; FIGURES] = [$(stringify!($name)),+];

        /// How many figures there are.
        pub(crate) const FIGURES: usize = [$(stringify!($name)),+].len();

        impl TableFigures {
            /// The figures in the order of [`FIGURE_NAMES`].
            pub(crate) fn to_array(self) -> [f64; FIGURES] {
                [$(self.$name),+]
            }

            /// The figures out of the order of [`FIGURE_NAMES`].
            pub(crate) fn from_array([$($name),+]: [f64; FIGURES]) -> Self {
                Self { $($name),+ }
            }
        }
    };
}

figures! {
    /// Instructions per cycle.
    ipc,
    /// LLC references per 1000 instructions.
    llc_references_pki,
    /// LLC misses per 1000 instructions.
    llc_misses_pki,
    /// LLC references per 1000 cycles.
    llc_references_pkc,
    /// LLC misses per 1000 cycles.
    llc_misses_pkc,
    /// Mean LLC occupancy in KiB.
    llc_usage_kib,
    /// Memory traffic in MB/s (1e6 bytes a second), by the monitoring hardware.
    bandwidth_mb_per_s,
    /// Memory traffic in MB/s computed from the misses.
    miss_bandwidth_mb_per_s,
    /// Share of cycles stalled with an L2 miss outstanding.
    stalls_l2_miss,
    /// Share of cycles stalled with an L3 miss outstanding.
    stalls_l3_miss,
    /// Share of cycles stalled for any reason.
    stalls_total,
    /// Share of cycles stalled on a full store buffer.
    stalls_store_buffer,
}

/// How figures are read below one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extension {
    /// Misses by the curve of [`SoloTable::curve`]: straight from the first row to the anchor,
    /// below the anchor by the curve's own law. What a miss adds costs what misses cost in the
    /// first row: see [`SoloTable::at_bytes`].
    #[default]
    Anchored,
    /// Every figure along the straight line through the rows of 1 and 2 ways, read at no less
    /// than zero ways. A figure that the line takes to 0 or below at zero ways is 1e-6 there. The
    /// public simulator PBBCache does this (`build_scaled_properties` in its simulator core).
    Linear,
    /// The first row's figures.
    Hold,
}

/// Figures read off a table at any size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoloReading {
    /// Where it was read, in ways of the table's machine; not above the table's last row.
    pub ways: f64,
    /// The figures.
    pub figures: TableFigures,
    /// Was it read below one way or above all ways?
    pub extrapolated: bool,
}

impl MeasuredOn {
    /// The Xeon Gold 6138 of the thesis, Table 3.2, with the LLC of docs/errata.md: 27.5 MiB in 11
    /// ways, not inclusive, behind a private L2 of 1 MiB; 2.0 GHz.
    ///
    /// Latencies are those that De Gelas and Cutress measured with LMbench on a Skylake-SP Xeon
    /// Platinum 8176 ("Sizing up servers: Intel's Skylake-SP Xeon versus AMD's EPYC 7000",
    /// AnandTech, July 2017, "Memory subsystem: latency"): LLC at 16-32 MB 25-27 ns, memory 89-91
    /// ns. The same mesh, memory and generation; no published figure of the 6138 is known to us.
    pub fn xeon_gold_6138() -> Self {
        Self {
            machine: "xeon-gold-6138".to_owned(),
            clock_mhz: 2000.0,
            private_cache_bytes: 1 << 20,
            inclusive_llc: false,
            way_bytes: (5 << 20) / 2,
            line_bytes: 64,
            memory_latency_ns: 90.0,
            llc_latency_ns: 26.0,
        }
    }

    /// Cache behind the L1 that a program with so many ways has in all, in bytes.
    pub fn total_bytes(&self, ways: f64) -> f64 {
        let (private, shared) = (self.private_cache_bytes as f64, ways * self.way_bytes as f64);
        if self.inclusive_llc { shared.max(private) } else { private + shared }
    }

    /// Ways at which a program has so much cache in all; negative below the private cache of a
    /// machine whose capacities add.
    pub(crate) fn ways_at(&self, total_bytes: f64) -> f64 {
        let private = if self.inclusive_llc { 0.0 } else { self.private_cache_bytes as f64 };
        (total_bytes - private) / self.way_bytes as f64
    }

    /// # Errors
    /// The first figure that cannot be.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.machine.is_empty() {
            return Err(Fault::here("found no name, expected one").under(PathStep::Key("machine")));
        }
        Expected::Positive.check("clock_mhz", self.clock_mhz)?;
        check_count("private_cache_bytes", self.private_cache_bytes)?;
        check_count("way_bytes", self.way_bytes)?;
        check_count("line_bytes", u64::from(self.line_bytes))?;
        Expected::Positive.check("memory_latency_ns", self.memory_latency_ns)?;
        Expected::Positive.check("llc_latency_ns", self.llc_latency_ns)?;
        if self.inclusive_llc && self.way_bytes <= self.private_cache_bytes {
            let why = format!(
                "found {}, expected more than the private cache's {}, which an inclusive LLC holds",
                self.way_bytes, self.private_cache_bytes
            );
            return Err(Fault::here(why).under(PathStep::Key("way_bytes")));
        }
        let most = self.way_bytes.checked_mul(u64::from(MAX_WAYS));
        if most.and_then(|llc| llc.checked_add(self.private_cache_bytes)).is_none() {
            return Err(
                Fault::here("found a size beyond 64 bits").under(PathStep::Key("way_bytes"))
            );
        }
        Ok(())
    }
}

/// The most ways a table may have: far beyond any LLC built.
const MAX_WAYS: u32 = 1024;

impl TableFigures {
    /// What the figure at a place in the order must be: a program runs, so its IPC is above 0.
    pub(crate) fn expected(place: usize) -> Expected {
        match FIGURE_NAMES[place] {
            "ipc" => Expected::Ipc,
            name if name.starts_with("stalls_") => Expected::Share,
            name if name.ends_with("_pki") || name.ends_with("_pkc") => Expected::PerThousand,
            _ => Expected::Rate,
        }
    }

    /// # Errors
    /// The first figure that cannot be.
    fn check(&self) -> Result<(), Fault> {
        for (place, value) in self.to_array().into_iter().enumerate() {
            Self::expected(place).check(FIGURE_NAMES[place], value)?;
        }
        self.check_misses().map_err(|why| Fault::here(why).under(PathStep::Key("llc_misses_pki")))
    }

    /// What misses the LLC was asked of it. Counters are sampled one after the other, so that misses may come out somewhat
    /// above references.
    ///
    /// # Errors
    /// In words, where they are far above.
    pub(crate) fn check_misses(&self) -> Result<(), String> {
        let (misses, references) = (self.llc_misses_pki, self.llc_references_pki);
        if misses <= 2.0 * references + 1.0 {
            return Ok(());
        }
        Err(format!("found {misses} misses of {references} references, expected no more misses"))
    }

    fn between(self, other: Self, part: f64) -> Self {
        let (from, to) = (self.to_array(), other.to_array());
        Self::from_array(std::array::from_fn(|place| (1.0 - part) * from[place] + part * to[place]))
    }
}

impl SoloTable {
    /// Checks the figures and makes a table of them.
    ///
    /// # Errors
    /// A machine that cannot be, no row, rows that are not those of 1, 2, 3 .. ways in order, an
    /// IPC of 0, negative or not finite figures, stalls outside 0 to 1.
    pub fn new(measured_on: MeasuredOn, rows: Vec<SoloRow>) -> Result<Self, Fault> {
        measured_on.check().map_err(|fault| fault.under(PathStep::Key("measured_on")))?;
        if rows.is_empty() || rows.len() > MAX_WAYS as usize {
            let why = format!("found {} rows, expected 1 to {MAX_WAYS}", rows.len());
            return Err(Fault::here(why).under(PathStep::Key("rows")));
        }
        for (index, row) in rows.iter().enumerate() {
            let at_row =
                |fault: Fault| fault.under(PathStep::Index(index)).under(PathStep::Key("rows"));
            if row.ways as usize != index + 1 {
                let why = format!("found the row of {} ways, expected {}", row.ways, index + 1);
                return Err(at_row(Fault::here(why)));
            }
            row.figures.check().map_err(at_row)?;
        }
        Ok(Self { measured_on, rows })
    }

    /// What it was measured on.
    pub fn measured_on(&self) -> &MeasuredOn {
        &self.measured_on
    }

    /// One row a way count, ascending, from 1 to all ways.
    pub fn rows(&self) -> &[SoloRow] {
        &self.rows
    }

    /// All ways of the LLC.
    pub fn max_ways(&self) -> u32 {
        self.rows.len() as u32
    }

    /// The miss-rate curve over the total capacity: the anchor at the private cache, then a point
    /// a row (docs/errata.md, section 3: sizes are 1 + 2.5 w MiB for the public table).
    pub fn curve(&self) -> MissRateCurve {
        let anchor = CurvePoint {
            bytes: self.measured_on.private_cache_bytes,
            mpki: self.first().llc_references_pki,
        };
        let inside = if self.measured_on.inclusive_llc { 0 } else { anchor.bytes };
        let points = self.rows.iter().map(|row| CurvePoint {
            bytes: inside + u64::from(row.ways) * self.measured_on.way_bytes,
            mpki: row.figures.llc_misses_pki,
        });
        MissRateCurve::from_checked(std::iter::once(anchor).chain(points).collect())
    }

    /// The figures with a number of ways, whole or not: straight between rows, the last row above
    /// all ways, and below one way as [`Self::at_bytes`] says. A negative number counts as 0.
    pub fn at_ways(&self, ways: f64, extension: Extension) -> SoloReading {
        let ways = ways.max(0.0);
        if ways < 1.0 {
            let total_bytes = self.measured_on.total_bytes(ways);
            return self.below_one_way(ways, total_bytes, extension);
        }
        let last = self.rows.len() - 1;
        if ways >= (last + 1) as f64 {
            let extrapolated = ways > (last + 1) as f64;
            let figures = self.rows[last].figures;
            return SoloReading { ways: (last + 1) as f64, figures, extrapolated };
        }
        let low = ways.floor();
        let index = low as usize - 1;
        let figures = self.rows[index].figures.between(self.rows[index + 1].figures, ways - low);
        SoloReading { ways, figures, extrapolated: false }
    }

    /// The figures with so much cache in all, private and shared, in bytes.
    ///
    /// Below one way the reading is marked as extrapolated. With [`Extension::Anchored`] the
    /// miss rate m is the curve's, and the time per instruction follows the first row's stalls, in
    /// the manner of the additive model (docs/errata.md, section 3):
    /// CPI = CPI1 (1 + (m - m1) cm - (h1 - h) ch), with m1, h1 the first row's misses and hits,
    /// ch = (s2 - s3) / h1 what a hit cost there and cm = s3 / m1 what a miss cost, in shares of
    /// its cycles (s2, s3: stalls with an L2, an L3 miss outstanding). cm is at most the idle
    /// memory latency, since few misses leave few stalls to divide, and at least ch: a hit that
    /// becomes a miss costs no less. Bandwidths scale with the misses per second, occupancy with
    /// the ways.
    pub fn at_bytes(&self, total_bytes: f64, extension: Extension) -> SoloReading {
        let ways = self.measured_on.ways_at(total_bytes);
        if ways < 1.0 {
            return self.below_one_way(ways.max(0.0), total_bytes, extension);
        }
        self.at_ways(ways, extension)
    }

    fn first(&self) -> &TableFigures {
        &self.rows[0].figures
    }

    fn below_one_way(&self, ways: f64, total_bytes: f64, extension: Extension) -> SoloReading {
        let first = *self.first();
        let figures = match extension {
            Extension::Hold => first,
            Extension::Linear => {
                let second = self.rows.get(1).map_or(first, |row| row.figures).to_array();
                let at_one = first.to_array();
                let at_zero = TableFigures::from_array(std::array::from_fn(|place| {
                    let value = at_one[place] + (at_one[place] - second[place]);
                    if value > 0.0 { value } else { 1e-6 }
                }));
                at_zero.between(first, ways)
            }
            Extension::Anchored => {
                let misses_pki = self.curve().mpki(total_bytes).value;
                anchored(&first, &self.measured_on, misses_pki, ways)
            }
        };
        SoloReading { ways, figures, extrapolated: true }
    }
}

/// The figures at a miss rate beyond that of the first row: see [`SoloTable::at_bytes`].
fn anchored(
    first: &TableFigures,
    machine: &MeasuredOn,
    misses_pki: f64,
    ways: f64,
) -> TableFigures {
    let references_pki = first.llc_references_pki.max(misses_pki);
    let hits_before = (first.llc_references_pki - first.llc_misses_pki).max(0.0);
    // Counters are sampled, so that the difference can fall below 0.
    let hit_stalls = (first.stalls_l2_miss - first.stalls_l3_miss).max(0.0);
    let per_hit = if hits_before > 0.0 { hit_stalls / hits_before } else { 0.0 };
    // Costs are in cycles of the first row's 1000 instructions, 1000 / ipc of them being 1.
    let memory_cycles = machine.memory_latency_ns * machine.clock_mhz / 1000.0;
    let per_miss_most = memory_cycles * first.ipc / 1000.0;
    let per_miss = first.stalls_l3_miss / first.llc_misses_pki.max(f64::MIN_POSITIVE);
    let per_miss = per_miss.min(per_miss_most).max(per_hit);
    let stalls_l3 =
        (first.stalls_l3_miss + (misses_pki - first.llc_misses_pki) * per_miss).max(0.0);
    let stalls_hit = (references_pki - misses_pki) * per_hit;
    let added = stalls_l3 - first.stalls_l3_miss + stalls_hit - hits_before * per_hit;
    // Below 0 only where a table's anchor lies below its first row, and its program did nothing
    // but wait.
    let cycles = (1.0 + added).max(1e-6);
    let ipc = first.ipc / cycles;
    let share = |stalls: f64| (stalls / cycles).clamp(0.0, 1.0);
    let more_misses =
        if first.llc_misses_pki > 0.0 { misses_pki / first.llc_misses_pki } else { 1.0 };
    let traffic = more_misses / cycles;
    TableFigures {
        ipc,
        llc_references_pki: references_pki,
        llc_misses_pki: misses_pki,
        llc_references_pkc: references_pki * ipc,
        llc_misses_pkc: misses_pki * ipc,
        llc_usage_kib: first.llc_usage_kib * ways,
        bandwidth_mb_per_s: first.bandwidth_mb_per_s * traffic,
        miss_bandwidth_mb_per_s: first.miss_bandwidth_mb_per_s * traffic,
        stalls_l2_miss: share(stalls_l3 + stalls_hit),
        stalls_l3_miss: share(stalls_l3),
        stalls_total: share(first.stalls_total + added),
        stalls_store_buffer: share(first.stalls_store_buffer),
    }
}

#[cfg(test)]
#[path = "solo_table_tests.rs"]
mod tests;
