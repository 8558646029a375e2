//! From a recording to cycles: an interval model of a core.
//!
//! Eyerman, Eeckhout, Karkhanis and Smith ("A mechanistic performance model for superscalar
//! out-of-order processors", ACM TOCS 27(2), 2009) split execution into intervals between miss
//! events: between them a balanced core dispatches at its full width, and each event adds a
//! penalty. Here, per instruction:
//!
//! - dispatch: 1 / width;
//! - branches: mispredictions x the core type's penalty (front-end refill and resolution);
//! - hits in the private cache and in the LLC: what of their latency the reorder buffer does not
//!   cover, over the parallelism of the accesses;
//! - memory: the same with the memory latency for misses that no prefetcher foresees. A foreseen
//!   miss costs its share of the core's outstanding misses, latency / outstanding (Little's law):
//!   what a perfect prefetcher cannot hide.
//!
//! A latency is covered for the time the reorder buffer takes to fill, entries / width cycles
//! (Karkhanis and Smith, "A first-order superscalar processor model", ISCA 2004); an in-order
//! core, with no entries, covers nothing. Parallelism is the least of what the program's
//! dependences allow, the core's outstanding misses, and one more than the misses that the reorder
//! buffer holds on average beside the first.

use corun_profile::Phase;

use crate::site::Site;
use crate::table::{Knot, PhaseTable, TableParts};

/// Knots a table has, besides those at the curve's own points.
const KNOTS: usize = 48;

/// Tables never have more knots of the curve's own than so many.
const CURVE_KNOTS: usize = 96;

/// Tabulates a phase at a site.
pub(crate) fn table(phase: &Phase, site: &Site) -> PhaseTable {
    let points = phase.curve.points();
    let first = points[0].bytes as f64;
    let last = points[points.len() - 1].bytes as f64;
    let llc_apki = phase.curve.mpki(site.private_bytes.max(1.0));
    let knots = sizes(phase, site).iter().map(|&bytes| knot(phase, site, bytes)).collect();
    // Beyond the last point of the curve nothing was measured, unless all of the program's data
    // fits below.
    let whole = phase.footprint_bytes as f64 <= last;
    let measured_to = if whole { f64::INFINITY } else { site.occupancy_bytes(last) };
    let parts = TableParts {
        knots,
        llc_apki: llc_apki.value,
        apki_extrapolated: site.private_bytes > 0.0 && llc_apki.extrapolated && !whole,
        measured: (site.occupancy_bytes(first).max(0.0), measured_to),
        footprint_bytes: site.occupancy_bytes(phase.footprint_bytes as f64).max(0.0),
        always_grows: false,
    };
    PhaseTable::new(parts, site)
}

/// Occupancies to tabulate: even steps in the logarithm, and the curve's own points.
fn sizes(phase: &Phase, site: &Site) -> Vec<f64> {
    let whole = site.llc_bytes;
    let smallest = (whole / 4096.0).max(site.line_bytes);
    let ratio = (whole / smallest).powf(1.0 / (KNOTS - 1) as f64);
    let mut sizes: Vec<f64> = (0..KNOTS).map(|i| smallest * ratio.powi(i as i32)).collect();
    let inside: Vec<f64> = phase
        .curve
        .points()
        .iter()
        .map(|point| site.occupancy_bytes(point.bytes as f64))
        .filter(|&bytes| bytes > 0.0 && bytes < whole)
        .collect();
    let every = inside.len().div_ceil(CURVE_KNOTS).max(1);
    sizes.extend(inside.iter().step_by(every));
    let footprint = site.occupancy_bytes(phase.footprint_bytes as f64);
    sizes.extend(Some(footprint).filter(|&bytes| bytes > 0.0 && bytes < whole));
    sizes.extend([0.0, whole]);
    sizes.retain(|&bytes| bytes <= whole);
    sizes.sort_by(f64::total_cmp);
    // Knots nearer than this would only add rounding.
    sizes.dedup_by(|a, b| (*a - *b).abs() <= whole * 1e-7);
    sizes
}

fn knot(phase: &Phase, site: &Site, occupancy: f64) -> Knot {
    let core = &site.core;
    let cycles = |ns: f64| ns * core.clock_mhz * 1e-3;
    let window = f64::from(core.reorder_buffer);
    let covered = window / core.dispatch_width;
    let exposed = |latency: f64| (latency - covered).max(0.0);
    let limit = phase.memory_level_parallelism.min(f64::from(core.outstanding_misses));
    // Stalls per instruction of accesses so many per 1000 instructions.
    let stalls = |pki: f64, latency: f64| {
        let parallelism = limit.min(1.0 + window * pki * 1e-3).max(1.0);
        pki * 1e-3 * exposed(latency) / parallelism
    };
    let at_l1 = phase.curve.mpki(site.l1_bytes.max(1.0)).value;
    let at_private = phase.curve.mpki(site.private_bytes.max(1.0)).value;
    let mpki = phase.curve.mpki(site.curve_bytes(occupancy).max(1.0)).value;
    let has_private = site.private_bytes > site.l1_bytes;
    let to_llc = if site.private_bytes > 0.0 { at_private } else { at_l1.max(mpki) };
    let dispatch = 1.0 / core.dispatch_width;
    let branches = phase.mix.mispredicted_pki * 1e-3 * core.branch_penalty_cycles;
    let private_hits = if has_private { (at_l1 - at_private).max(0.0) } else { 0.0 };
    let llc_hits = (to_llc - mpki).max(0.0);
    let foreseen = mpki * phase.prefetchable;
    let memory_latency = cycles(site.memory_latency_ns);
    let outstanding = f64::from(core.outstanding_misses);
    let memory_cpi =
        stalls(mpki - foreseen, memory_latency) + foreseen * 1e-3 * memory_latency / outstanding;
    let llc_hit_cpi = stalls(llc_hits, cycles(site.llc_latency_ns));
    let mut knot = Knot {
        bytes: occupancy,
        cpi: dispatch
            + branches
            + stalls(private_hits, cycles(site.private_latency_ns))
            + llc_hit_cpi
            + memory_cpi,
        memory_cpi,
        llc_hit_cpi,
        mpki,
        ..Knot::default()
    };
    let bytes = mpki * 1e-3 * site.line_bytes * (1.0 + phase.dirty_share);
    finish(&mut knot, site, bytes, dispatch);
    knot
}

/// The solo point (errata.md, thesis section 5.3.2): a program alone draws at most
/// a share of each peak on its way to local memory; where it would draw more, it
/// waits for memory so much longer. Then the rates that follow from the speed.
pub(crate) fn finish(knot: &mut Knot, site: &Site, bytes_per_instruction: f64, unstalled: f64) {
    let clock = site.clock_hz();
    let least_cpi = bytes_per_instruction * clock / (site.solo_share * site.peak_bytes_per_s);
    if least_cpi > knot.cpi {
        knot.memory_cpi += least_cpi - knot.cpi;
        knot.cpi = least_cpi;
    }
    let speed = clock / knot.cpi;
    knot.memory_stalls = knot.memory_cpi / knot.cpi;
    knot.total_stalls = ((knot.cpi - unstalled) / knot.cpi).max(knot.memory_stalls);
    knot.misses_per_s = knot.mpki * 1e-3 * speed;
    knot.bytes_per_s = bytes_per_instruction * speed;
}
