//! From an imported table of solo figures to cycles at a site.
//!
//! A row's cycles per instruction are split by its stall counters: memory = min(stalls_l3_miss +
//! stalls_store_buffer, stalls_total) (errata.md, thesis eq. 5.10), LLC hits = the stalls with an
//! L2 miss but no L3 miss outstanding, core = the rest. On the machine it was measured on the
//! parts are taken together again. On another, memory and LLC-hit time (ns) follow its latencies,
//! and core cycles its core type's relative capacity.

use corun_machine::Machine;
use corun_profile::{Extension, MeasuredOn, Profile, SoloTable, TableFigures};

use crate::bandwidth::mix::Traffic;
use crate::error::ModelError;
use crate::interval::finish;
use crate::options::Compatibility;
use crate::site::Site;
use crate::table::{Knot, PhaseTable, TableParts, subdivide};

/// Segments a table has between two of its rows: linear figures stay as they are, and the
/// integral of the fill time is followed.
const SEGMENTS_A_ROW: usize = 4;

/// PBBCache's least value of an extrapolated figure.
const PBBCACHE_LEAST: f64 = 1e-6;

/// Sizes below the private cache of the measured machine that are tabulated, by halves.
const HALVES: i32 = 8;

/// [`Knot::foreseen_share`] of measured stalls, which do not tell how many misses were on their way at a time.
const WAIT_UNKNOWN: f64 = 1.0;

/// Figures as parts that can be taken to another machine. Cycles are those of the machine they
/// were measured on, per instruction.
#[derive(Debug, Clone, Copy)]
struct Parts {
    /// Cache in all, private and shared, in bytes.
    total_bytes: f64,
    cpi: f64,
    memory_cpi: f64,
    llc_cpi: f64,
    /// With an L3 miss outstanding: memory_cpi without what the store buffer adds.
    l3_miss_cpi: f64,
    /// With an L2 miss outstanding, as a share of cycles.
    l2_miss_stalls: f64,
    /// All stalls.
    stall_cpi: f64,
    /// stalls_l3_miss + stalls_store_buffer as a share of cycles, not cut to the total.
    raw_memory_stalls: f64,
    total_stalls: f64,
    mpki: f64,
    mpkc: f64,
    mb_per_s: f64,
}

/// Is this site of the machine the table was measured on? By the machine's name, of several core types of the fastest
/// one; or by clock, private cache, way size and inclusion (a machine cut down from it).
fn measured_here(on: &MeasuredOn, machine: &Machine, site: &Site) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-3 * a.abs().max(b.abs());
    let fastest = machine.core_types().get(machine.fastest_core_type());
    let is_fastest = fastest.is_none_or(|fastest| site.core.capacity >= fastest.capacity);
    (machine.name() == on.machine && is_fastest)
        || (near(on.clock_mhz, site.core.clock_mhz)
            && near(on.private_cache_bytes as f64, site.private_bytes)
            && near(on.way_bytes as f64, site.way_bytes)
            && on.inclusive_llc != site.inclusion.capacities_add())
}

/// Tabulates an imported program at a site.
pub(crate) fn table(
    profile: &Profile,
    table: &SoloTable,
    machine: &Machine,
    site: &Site,
    compatibility: Compatibility,
) -> Result<PhaseTable, ModelError> {
    let on = table.measured_on();
    let here = measured_here(on, machine, site);
    let last = table.at_ways(f64::from(table.max_ways()), Extension::Hold).figures;
    let measured_mb_per_s = last.bandwidth_mb_per_s;
    if here && measured_mb_per_s * 1e6 >= site.peak_bytes_per_s {
        return Err(ModelError::PeakTooLow {
            program: profile.name.clone(),
            measured_mb_per_s,
            peak_mb_per_s: site.peak_bytes_per_s * 1e-6,
        });
    }
    let compatible = compatibility == Compatibility::Pbbcache;
    let mut all = if compatible { vec![projected(table)] } else { below_one_way(table) };
    all.extend(
        table.rows().iter().map(|row| parts(&row.figures, on.total_bytes(f64::from(row.ways)))),
    );
    let knot = |parts: &Parts| {
        if compatible && here { as_measured(parts, on, site) } else { moved(parts, on, site, here) }
    };
    let mut knots: Vec<Knot> = all.iter().map(knot).collect();
    fit_to_llc(&mut knots, site);
    let private = site.private_bytes.max(site.l1_bytes);
    let apki = table.curve().mpki(private);
    let ways = |ways: u32| site.occupancy_bytes(on.total_bytes(f64::from(ways)));
    Ok(PhaseTable::new(
        TableParts {
            knots: subdivide(&knots, SEGMENTS_A_ROW),
            stacks: Vec::new(),
            // It was measured by what a program holds.
            by_bytes_held: true,
            foreseen: 0.0,
            llc_apki: if here { last.llc_references_pki } else { apki.value },
            apki_extrapolated: !here && apki.extrapolated,
            measured: (ways(1).max(0.0), ways(table.max_ways())),
            footprint_bytes: f64::INFINITY,
            always_grows: compatible,
            fills_sets_alike: false,
            seconds: None,
        },
        site,
    ))
}

fn parts(figures: &TableFigures, total_bytes: f64) -> Parts {
    let cpi = 1.0 / figures.ipc;
    let total = figures.stalls_total;
    let raw = figures.stalls_l3_miss + figures.stalls_store_buffer;
    let memory = raw.min(total);
    let llc = (figures.stalls_l2_miss - figures.stalls_l3_miss).clamp(0.0, total - memory);
    Parts {
        total_bytes,
        cpi,
        memory_cpi: memory * cpi,
        llc_cpi: llc * cpi,
        l3_miss_cpi: figures.stalls_l3_miss.min(total) * cpi,
        l2_miss_stalls: figures.stalls_l2_miss,
        stall_cpi: total * cpi,
        raw_memory_stalls: raw,
        total_stalls: total,
        mpki: figures.llc_misses_pki,
        mpkc: figures.llc_misses_pkc,
        mb_per_s: figures.bandwidth_mb_per_s,
    }
}

/// PBBCache's figures with no way at all: in a straight line through the first two ways. Its
/// slowdowns are in such a line too, so CPI is, and not IPC.
fn projected(table: &SoloTable) -> Parts {
    let on = table.measured_on();
    let at = |ways: f64| table.at_ways(ways, Extension::Linear).figures;
    let cpi = 2.0 / at(1.0).ipc - 1.0 / at(2.0).ipc;
    Parts { cpi: cpi.max(PBBCACHE_LEAST), ..parts(&at(0.0), on.total_bytes(0.0)) }
}

/// The table's own extension below one way ([`Extension::Anchored`]): at the private cache alone,
/// and at halves of that for machines with smaller caches.
fn below_one_way(table: &SoloTable) -> Vec<Parts> {
    let on = table.measured_on();
    let at = |bytes: f64| parts(&table.at_bytes(bytes, Extension::Anchored).figures, bytes);
    let one_way = on.total_bytes(1.0);
    let private = (on.private_cache_bytes as f64).min(one_way);
    let halves = (0..=HALVES).rev().map(|half| private * 0.5_f64.powi(half));
    halves.filter(|&bytes| bytes < one_way).map(at).collect()
}

/// The figures of the measured machine, untouched.
fn as_measured(parts: &Parts, on: &MeasuredOn, site: &Site) -> Knot {
    Knot {
        bytes: site.occupancy_bytes(parts.total_bytes),
        cpi: parts.cpi,
        memory_cpi: parts.memory_cpi,
        waiting_cpi: parts.memory_cpi,
        llc_hit_cpi: parts.llc_cpi,
        memory_stalls: parts.raw_memory_stalls,
        total_stalls: parts.total_stalls,
        l2_miss_stalls: parts.l2_miss_stalls,
        mpki: parts.mpki,
        misses_per_s: parts.mpkc * 1e-3 * on.clock_mhz * 1e6,
        bytes_per_s: parts.mb_per_s * 1e6,
        busy_bytes_per_s: parts.mb_per_s * 1e6,
        foreseen_share: WAIT_UNKNOWN,
        stretched_alone: 1.0,
    }
}

/// The figures at the solo point of a site.
fn moved(parts: &Parts, on: &MeasuredOn, site: &Site, here: bool) -> Knot {
    let core = &site.core;
    let clocks = core.clock_mhz / on.clock_mhz;
    let (memory, llc, cycles) = if here {
        (1.0, 1.0, 1.0)
    } else {
        (
            site.memory_latency_ns / on.memory_latency_ns * clocks,
            site.llc_latency_ns / on.llc_latency_ns * clocks,
            core.clock_mhz / site.reference_clock_mhz / core.capacity,
        )
    };
    let memory_cpi = parts.memory_cpi * memory;
    let llc_cpi = parts.llc_cpi * llc;
    let unstalled = (parts.cpi - parts.stall_cpi) * cycles;
    let other = (parts.stall_cpi - parts.memory_cpi - parts.llc_cpi).max(0.0) * cycles;
    let mut knot = Knot {
        bytes: site.occupancy_bytes(parts.total_bytes),
        cpi: if here { parts.cpi } else { unstalled + other + llc_cpi + memory_cpi },
        memory_cpi,
        waiting_cpi: memory_cpi,
        llc_hit_cpi: llc_cpi,
        mpki: parts.mpki,
        foreseen_share: WAIT_UNKNOWN,
        ..Knot::default()
    };
    let bytes = parts.mb_per_s * 1e6 * parts.cpi / (on.clock_mhz * 1e6);
    finish(&mut knot, site, Traffic { bytes, written_share: None }, unstalled);
    knot.l2_miss_stalls = if here {
        parts.l2_miss_stalls
    } else {
        ((parts.l3_miss_cpi * memory + llc_cpi) / knot.cpi).min(1.0)
    };
    knot
}

/// Brings the knots to the range from 0 to the LLC's size: figures at the ends are read off the
/// knots around them, and beyond the last knot they hold.
fn fit_to_llc(knots: &mut Vec<Knot>, site: &Site) {
    knots.dedup_by(|next, knot| next.bytes <= knot.bytes);
    let at = |knots: &[Knot], bytes: f64| {
        let above = knots.partition_point(|knot| knot.bytes <= bytes);
        match (knots.get(above.wrapping_sub(1)), knots.get(above)) {
            (Some(low), Some(high)) => Knot::between(low, high, bytes),
            (Some(only), None) | (None, Some(only)) => Knot { bytes, ..*only },
            (None, None) => Knot { bytes, ..Knot::default() },
        }
    };
    let none = at(knots, 0.0);
    let whole = at(knots, site.llc_bytes);
    knots.retain(|knot| knot.bytes > 0.0 && knot.bytes < site.llc_bytes * (1.0 - 1e-9));
    knots.insert(0, none);
    knots.push(whole);
}
