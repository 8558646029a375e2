//! From an imported table of solo figures to cycles at a site.
//!
//! A row's cycles per instruction are split by its stall counters: memory = min(stalls_l3_miss +
//! stalls_store_buffer, stalls_total) (errata to thesis eq. 5.10), LLC hits = the stalls with an
//! L2 miss but no L3 miss outstanding, core = the rest. On the machine it was measured on the
//! parts are taken together again. On another, memory and LLC-hit time (ns) follow its latencies,
//! and core cycles its core type's relative capacity.

use corun_machine::Machine;
use corun_profile::{CurvePoint, MeasuredOn, MissRateCurve, Profile, SoloRow, SoloTable};

use crate::error::ModelError;
use crate::interval::finish;
use crate::options::Compatibility;
use crate::site::Site;
use crate::table::{Knot, PhaseTable, TableParts, subdivide};

/// Length of an imported program, which has one phase: a table does not say.
pub const IMPORTED_INSTRUCTIONS: f64 = 150e9;

/// A program alone draws at most this share of the peak of each domain it passes: Morad's model
/// (thesis, eq. 5.8) has no solution at the whole.
pub const SOLO_PEAK_SHARE: f64 = 0.95;

/// Segments a table has between two of its rows: linear figures stay as they are, and the
/// integral of the fill time is followed.
const SEGMENTS_A_ROW: usize = 4;

/// PBBCache's least value of an extrapolated figure.
const PBBCACHE_LEAST: f64 = 1e-6;

/// Sizes below the private cache of the measured machine that are tabulated, by halves.
const HALVES: i32 = 8;

/// A row as parts that can be taken to another machine. Cycles are those of the machine it was
/// measured on, per instruction.
#[derive(Debug, Clone, Copy)]
struct Parts {
    /// Size at which the program's own curve stands.
    curve_bytes: f64,
    cpi: f64,
    memory_cpi: f64,
    llc_cpi: f64,
    /// All stalls.
    stall_cpi: f64,
    /// stalls_l3_miss + stalls_store_buffer as a share of cycles, not cut to the total.
    raw_memory_stalls: f64,
    total_stalls: f64,
    mpki: f64,
    mpkc: f64,
    mb_per_s: f64,
}

/// Checks a table's figures.
pub(crate) fn check(profile: &Profile, table: &SoloTable) -> Result<(), ModelError> {
    if table.rows.is_empty() {
        return Err(ModelError::Empty { program: profile.name.clone(), what: "row" });
    }
    let wrong = |figure: String, found: f64, expected| ModelError::Profile {
        program: profile.name.clone(),
        figure,
        found,
        expected,
    };
    let on = &table.measured_on;
    let positive = [
        ("clock_mhz", on.clock_mhz),
        ("way_bytes", on.way_bytes as f64),
        ("memory_latency_ns", on.memory_latency_ns),
        ("llc_latency_ns", on.llc_latency_ns),
    ];
    for (figure, value) in positive {
        if !value.is_finite() || value <= 0.0 {
            let figure = format!("{figure} of the machine it was measured on");
            return Err(wrong(figure, value, "a number above 0"));
        }
    }
    let mut ways = 0;
    for row in &table.rows {
        if row.ways <= ways {
            let figure = format!("ways of the row after {ways} ways");
            return Err(wrong(figure, f64::from(row.ways), "a rising number above 0"));
        }
        ways = row.ways;
        if !row.ipc.is_finite() || row.ipc <= 0.0 {
            return Err(wrong(format!("ipc at {ways} ways"), row.ipc, "a number above 0"));
        }
        for (figure, value) in figures(row) {
            if !value.is_finite() || value < 0.0 {
                return Err(wrong(format!("{figure} at {ways} ways"), value, "a number >= 0"));
            }
        }
    }
    Ok(())
}

fn figures(row: &SoloRow) -> [(&'static str, f64); 8] {
    [
        ("llc_references_pki", row.llc_references_pki),
        ("llc_misses_pki", row.llc_misses_pki),
        ("llc_misses_pkc", row.llc_misses_pkc),
        ("bandwidth_mb_per_s", row.bandwidth_mb_per_s),
        ("stalls_l2_miss", row.stalls_l2_miss),
        ("stalls_l3_miss", row.stalls_l3_miss),
        ("stalls_total", row.stalls_total),
        ("stalls_store_buffer", row.stalls_store_buffer),
    ]
}

/// Is this site of the machine the table was measured on? By the machine's name, or by clock,
/// private cache, way size and inclusion (a machine cut down from it).
fn measured_here(on: &MeasuredOn, machine: &Machine, site: &Site) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-3 * a.abs().max(b.abs());
    machine.name() == on.machine
        || (near(on.clock_mhz, site.core.clock_mhz)
            && near(on.private_cache_bytes as f64, site.private_bytes)
            && near(on.way_bytes as f64, site.way_bytes)
            && on.inclusive_llc == site.inclusive)
}

/// Tabulates an imported program at a site.
pub(crate) fn table(
    profile: &Profile,
    table: &SoloTable,
    machine: &Machine,
    site: &Site,
    compatibility: Compatibility,
) -> Result<PhaseTable, ModelError> {
    let on = &table.measured_on;
    let here = measured_here(on, machine, site);
    let last = table.rows[table.rows.len() - 1];
    let measured = last.bandwidth_mb_per_s;
    if here && measured * 1e6 >= site.peak_bytes_per_s {
        return Err(ModelError::PeakTooLow {
            program: profile.name.clone(),
            measured_mb_per_s: measured,
            peak_mb_per_s: site.peak_bytes_per_s * 1e-6,
        });
    }
    let rows: Vec<Parts> = table.rows.iter().map(|row| parts(row, on)).collect();
    let compatible = compatibility == Compatibility::Pbbcache;
    let all = if compatible { projected(&rows, on) } else { extended(table, &rows) };
    let mut knots: Vec<Knot> = all
        .iter()
        .map(|parts| {
            if compatible && here {
                as_measured(parts, on, site)
            } else {
                moved(parts, on, site, here)
            }
        })
        .collect();
    fit_to_llc(&mut knots, site);
    let apki = if here { (last.llc_references_pki, false) } else { apki(table, &rows, site) };
    let measured = (
        site.occupancy_bytes(rows[0].curve_bytes).max(0.0),
        site.occupancy_bytes(rows[rows.len() - 1].curve_bytes),
    );
    Ok(PhaseTable::new(
        TableParts {
            knots: subdivide(&knots, SEGMENTS_A_ROW),
            llc_apki: apki.0,
            apki_extrapolated: apki.1,
            measured,
            footprint_bytes: f64::INFINITY,
            always_grows: compatible,
        },
        site,
    ))
}

fn curve_bytes(on: &MeasuredOn, ways: u32) -> f64 {
    let llc = f64::from(ways) * on.way_bytes as f64;
    let private = on.private_cache_bytes as f64;
    if on.inclusive_llc { llc.max(private) } else { llc + private }
}

fn parts(row: &SoloRow, on: &MeasuredOn) -> Parts {
    let cpi = 1.0 / row.ipc;
    let total = row.stalls_total.min(1.0);
    let raw = row.stalls_l3_miss + row.stalls_store_buffer;
    let memory = raw.min(total);
    let llc = (row.stalls_l2_miss - row.stalls_l3_miss).clamp(0.0, total - memory);
    Parts {
        curve_bytes: curve_bytes(on, row.ways),
        cpi,
        memory_cpi: memory * cpi,
        llc_cpi: llc * cpi,
        stall_cpi: total * cpi,
        raw_memory_stalls: raw,
        total_stalls: row.stalls_total,
        mpki: row.llc_misses_pki,
        mpkc: row.llc_misses_pkc,
        mb_per_s: row.bandwidth_mb_per_s,
    }
}

/// PBBCache's extension below one way: every figure goes on in a straight line through the first
/// two ways to none, and is at least 1e-6.
fn projected(rows: &[Parts], on: &MeasuredOn) -> Vec<Parts> {
    let first = rows[0];
    let second = rows.get(1).copied().unwrap_or(first);
    let line = |a: f64, b: f64| (2.0 * a - b).max(PBBCACHE_LEAST);
    let none = Parts {
        curve_bytes: curve_bytes(on, 0),
        cpi: line(first.cpi, second.cpi),
        memory_cpi: line(first.memory_cpi, second.memory_cpi),
        llc_cpi: line(first.llc_cpi, second.llc_cpi),
        stall_cpi: line(first.stall_cpi, second.stall_cpi),
        raw_memory_stalls: line(first.raw_memory_stalls, second.raw_memory_stalls),
        total_stalls: line(first.total_stalls, second.total_stalls),
        mpki: line(first.mpki, second.mpki),
        mpkc: line(first.mpkc, second.mpkc),
        mb_per_s: line(first.mb_per_s, second.mb_per_s),
    };
    std::iter::once(none).chain(rows.iter().copied()).collect()
}

/// The program's miss-rate curve as far as the table has it: misses at each row's size, and LLC
/// references as the misses of the private cache alone.
fn curve(table: &SoloTable, rows: &[Parts]) -> Option<MissRateCurve> {
    let private = table.measured_on.private_cache_bytes;
    let anchor = CurvePoint { bytes: private, mpki: anchor(table) };
    let inside = anchor.bytes > 0 && (anchor.bytes as f64) < rows[0].curve_bytes;
    let points = Some(anchor)
        .filter(|_| inside)
        .into_iter()
        .chain(rows.iter().map(|row| CurvePoint { bytes: row.curve_bytes as u64, mpki: row.mpki }));
    MissRateCurve::new(points.collect()).ok()
}

/// The miss rate without any LLC: the references of the first row, at least its misses.
fn anchor(table: &SoloTable) -> f64 {
    let first = &table.rows[0];
    first.llc_references_pki.max(first.llc_misses_pki)
}

/// corun's extension below one way: the miss rate runs to the anchor at the private cache's size
/// and on by the curve's power law; each further miss costs what a miss cost between the rows, by
/// least squares of CPI on misses, at most the memory latency.
fn extended(table: &SoloTable, rows: &[Parts]) -> Vec<Parts> {
    let on = &table.measured_on;
    let first = rows[0];
    let Some(curve) = curve(table, rows) else { return rows.to_vec() };
    let latency = on.memory_latency_ns * on.clock_mhz * 1e-3;
    let cost = cycles_a_miss(rows).clamp(0.0, latency);
    let line = f64::from(on.line_bytes);
    let at = |bytes: f64| {
        let mpki = curve.mpki(bytes).value;
        let more = (mpki - first.mpki) * 1e-3;
        let cpi = first.cpi + cost * more;
        let bytes_per_instruction = first.mb_per_s * 1e6 * first.cpi / (on.clock_mhz * 1e6);
        let per_s = (bytes_per_instruction + line * more).max(0.0) * on.clock_mhz * 1e6 / cpi;
        Parts {
            curve_bytes: bytes,
            cpi,
            memory_cpi: first.memory_cpi + cost * more,
            stall_cpi: first.stall_cpi + cost * more,
            mpki,
            mpkc: mpki / cpi,
            mb_per_s: per_s * 1e-6,
            ..first
        }
    };
    let private = on.private_cache_bytes as f64;
    let top = private.min(first.curve_bytes);
    let mut all: Vec<Parts> = (1..=HALVES).rev().map(|half| at(top * 0.5_f64.powi(half))).collect();
    if private > 0.0 && private < first.curve_bytes {
        all.push(at(private));
    }
    all.extend_from_slice(rows);
    all
}

/// Cycles that a miss costs: the slope of CPI over misses per instruction.
fn cycles_a_miss(rows: &[Parts]) -> f64 {
    let n = rows.len() as f64;
    let mean = |of: fn(&Parts) -> f64| rows.iter().map(of).sum::<f64>() / n;
    let (mpki, cpi) = (mean(|row| row.mpki), mean(|row| row.cpi));
    let (mut both, mut square) = (0.0, 0.0);
    for row in rows {
        both += (row.mpki - mpki) * (row.cpi - cpi);
        square += (row.mpki - mpki).powi(2);
    }
    // Misses that hardly vary tell nothing of their cost; those there are do.
    if square > 1e-6 {
        both / square * 1e3
    } else if mpki > 1e-3 {
        mean(|row| row.memory_cpi) / mpki * 1e3
    } else {
        f64::INFINITY
    }
}

/// The figures of the measured machine, untouched.
fn as_measured(parts: &Parts, on: &MeasuredOn, site: &Site) -> Knot {
    Knot {
        bytes: site.occupancy_bytes(parts.curve_bytes),
        cpi: parts.cpi,
        memory_cpi: parts.memory_cpi,
        memory_stalls: parts.raw_memory_stalls,
        total_stalls: parts.total_stalls,
        mpki: parts.mpki,
        misses_per_s: parts.mpkc * 1e-3 * on.clock_mhz * 1e6,
        bytes_per_s: parts.mb_per_s * 1e6,
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
        bytes: site.occupancy_bytes(parts.curve_bytes),
        cpi: if here { parts.cpi } else { unstalled + other + llc_cpi + memory_cpi },
        memory_cpi,
        mpki: parts.mpki,
        ..Knot::default()
    };
    let bytes = parts.mb_per_s * 1e6 * parts.cpi / (on.clock_mhz * 1e6);
    finish(&mut knot, site, bytes, unstalled);
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

/// LLC accesses per 1000 instructions behind another private cache, and whether they had to be
/// extrapolated.
fn apki(table: &SoloTable, rows: &[Parts], site: &Site) -> (f64, bool) {
    let Some(curve) = curve(table, rows) else { return (anchor(table), true) };
    let reading = curve.mpki(site.private_bytes.max(site.l1_bytes).max(1.0));
    (reading.value, reading.extrapolated)
}
