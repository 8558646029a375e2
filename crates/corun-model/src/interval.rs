//! From a recording to cycles: an interval model of a core.
//!
//! Eyerman, Eeckhout, Karkhanis and Smith ("A mechanistic performance model for superscalar
//! out-of-order processors", ACM TOCS 27(2), 2009) split execution into intervals between miss
//! events: between them a balanced core dispatches at its full width, and each event adds a
//! penalty. Here, per instruction:
//!
//! - dispatch: 1 / width;
//! - branches: mispredictions x the core type's penalty (front-end refill and resolution);
//! - accesses that miss the L1 and that no prefetcher foresees, in epochs: those of an epoch stand
//!   together (Chou, Fahs and Abraham, ISCA 2004). An epoch costs what the reorder buffer does not
//!   cover of its longest latency, so one with a memory miss hides the cache hits in it: with
//!   E(x) epochs of x accesses, E(memory) cost the memory latency, E(memory and LLC hits) -
//!   E(memory) that of the LLC, and so on inwards. More cache therefore never costs cycles;
//! - foreseen accesses to the LLC and memory: latency / outstanding misses (Little's law), which a
//!   perfect prefetcher cannot hide; never more than an unforeseen one by itself.
//!
//! A latency is covered for the time the reorder buffer takes to fill, entries / width cycles
//! (Karkhanis and Smith, "A first-order superscalar processor model", ISCA 2004); an in-order
//! core, with no entries, covers nothing. Accesses an epoch are the least of what the program's
//! dependences allow, the core's outstanding misses, and one more than the accesses that the
//! reorder buffer holds on average beside the first.

use corun_profile::Phase;

use crate::bandwidth::mix::Traffic;
use crate::core::{Cause, CpiStack};
use crate::site::Site;
use crate::table::{Knot, PhaseTable, TableParts};

/// Knots a table has, besides those at the curve's own points.
const KNOTS: usize = 48;

/// Tables never have more knots of the curve's own than so many.
const CURVE_KNOTS: usize = 96;

/// Tabulates a phase at a site.
pub(crate) fn table(phase: &Phase, site: &Site) -> PhaseTable {
    let (knots, stacks) = sizes(phase, site).iter().map(|&bytes| knot(phase, site, bytes)).unzip();
    PhaseTable::new(parts(phase, site, knots, stacks), site)
}

/// What a table of these knots is made of.
pub(crate) fn parts(
    phase: &Phase,
    site: &Site,
    knots: Vec<Knot>,
    stacks: Vec<CpiStack>,
) -> TableParts {
    let points = phase.curve.points();
    let first = points[0].bytes as f64;
    let last = points[points.len() - 1].bytes as f64;
    let private_bytes = site.private_bytes.max(1.0);
    let llc_apki = phase.curve.mpki(private_bytes);
    // Beyond the last point of the curve nothing was measured, unless all of the program's data
    // fits below.
    let whole = phase.footprint_bytes as f64 <= last;
    let measured_to = if whole { f64::INFINITY } else { site.occupancy_bytes(last) };
    TableParts {
        knots,
        stacks,
        by_bytes_held: false,
        foreseen: site.foreseen(phase),
        llc_apki: llc_apki.value + phase.cleared_mpki(private_bytes),
        apki_extrapolated: site.private_bytes > 0.0 && llc_apki.extrapolated && !whole,
        measured: (site.occupancy_bytes(first).max(0.0), measured_to),
        footprint_bytes: site.occupancy_bytes(phase.footprint_bytes as f64).max(0.0),
        always_grows: false,
        seconds: None,
        fills_sets_alike: true,
    }
}

/// Occupancies to tabulate: even steps in the logarithm, and the curve's own points.
pub(crate) fn sizes(phase: &Phase, site: &Site) -> Vec<f64> {
    let whole = site.llc_bytes;
    let most = site.most_bytes();
    let smallest = (whole / 4096.0).max(site.line_bytes);
    let ratio = (whole / smallest).powf(1.0 / (KNOTS - 1) as f64);
    let mut sizes: Vec<f64> = (0..KNOTS).map(|i| smallest * ratio.powi(i as i32)).collect();
    if most > whole {
        let beyond = (KNOTS..).map(|i| smallest * ratio.powi(i as i32));
        sizes.extend(beyond.take_while(|&bytes| bytes < most));
        sizes.push(most);
    }
    let mut inside: Vec<f64> = phase
        .curve
        .points()
        .iter()
        .flat_map(|point| site.steps(point.bytes as f64))
        .filter(|&bytes| bytes > 0.0 && bytes < most)
        .collect();
    // Where a point has two steps, every second would be of written lines.
    inside.sort_by(f64::total_cmp);
    let every = inside.len().div_ceil(CURVE_KNOTS).max(1);
    sizes.extend(inside.iter().step_by(every));
    let footprint = site.steps(phase.footprint_bytes as f64);
    sizes.extend(footprint.filter(|&bytes| bytes > 0.0 && bytes < most));
    sizes.extend([0.0, whole]);
    sizes.retain(|&bytes| bytes <= most);
    sizes.sort_by(f64::total_cmp);
    // Knots nearer than this would only add rounding.
    sizes.dedup_by(|a, b| (*a - *b).abs() <= whole * 1e-7);
    sizes
}

/// A phase's figures when it holds so many bytes of the LLC.
fn knot(phase: &Phase, site: &Site, occupancy: f64) -> (Knot, CpiStack) {
    let core = &site.core;
    let cycles = |ns: f64| ns * core.clock_mhz * 1e-3;
    let window = f64::from(core.reorder_buffer);
    let covered = window / core.dispatch_width;
    let exposed = |latency: f64| (latency - covered).max(0.0);
    let outstanding = site.outstanding_misses();
    let limit = phase.memory_level_parallelism.min(outstanding);
    // Epochs per instruction of accesses so many per 1000 instructions. Grows with them.
    let epochs = |pki: f64| pki * 1e-3 / limit.min(1.0 + window * pki * 1e-3).max(1.0);
    let foreseen = |latency: f64| (latency / outstanding).min(exposed(latency));
    let (private, llc, memory) = (
        cycles(site.private_latency_ns),
        cycles(site.llc_latency_ns),
        cycles(site.memory_latency_ns),
    );
    let misses = Misses::of(phase, site, occupancy);
    let share = site.foreseen(phase);
    let memory_epochs = epochs(misses.llc * (1.0 - share));
    let llc_epochs = epochs(misses.private * (1.0 - share));
    let private_epochs = epochs(misses.l1 - misses.private * share);
    let llc_hits = (misses.private - misses.llc) * share * 1e-3 * foreseen(llc);
    let mut stack = CpiStack::default();
    stack.add(Cause::Base, 1.0 / core.dispatch_width);
    stack.add(Cause::Branches, phase.mix.mispredicted_pki * 1e-3 * core.branch_penalty_cycles);
    stack.add(Cause::Private, (private_epochs - llc_epochs).max(0.0) * exposed(private));
    let mut knot = Knot {
        bytes: occupancy,
        llc_hit_cpi: (llc_epochs - memory_epochs).max(0.0) * exposed(llc) + llc_hits,
        memory_cpi: memory_epochs * exposed(memory) + misses.llc * share * 1e-3 * foreseen(memory),
        mpki: misses.llc,
        foreseen_share: share,
        ..Knot::default()
    };
    knot.waiting_cpi = knot.memory_cpi;
    stack.add(Cause::Llc, knot.llc_hit_cpi);
    stack.add(Cause::Memory, knot.memory_cpi);
    knot.cpi = stack.total();
    let bytes = misses.llc * 1e-3 * site.line_bytes * (1.0 + phase.dirty_share);
    let written_share = Some(phase.dirty_share / (1.0 + phase.dirty_share));
    let before = knot.cpi;
    let traffic = Traffic { bytes, written_share };
    finish(&mut knot, site, traffic, stack.of(Cause::Base));
    stack.add(Cause::Memory, knot.cpi - before);
    (knot, stack)
}

/// Misses per 1000 instructions of each level, which fall from one to the next.
struct Misses {
    l1: f64,
    private: f64,
    llc: f64,
}

impl Misses {
    fn of(phase: &Phase, site: &Site, occupancy: f64) -> Self {
        let at = |bytes: f64| phase.curve.mpki(bytes.max(1.0)).value;
        let llc = site.llc_mpki(phase, occupancy);
        let l1 = at(site.l1_bytes);
        let private = if site.private_bytes > 0.0 { at(site.private_bytes) } else { l1 }.max(llc);
        let has_private = site.private_bytes > site.l1_bytes;
        Self { l1: if has_private { l1.max(private) } else { private }, private, llc }
    }
}

/// The solo point (errata.md, thesis section 5.3.2): a program alone draws at most
/// a share of each peak on its way to local memory, and no more than one core was measured
/// to draw; where it would draw more, it waits for memory so much longer. Then the rates that
/// follow from the speed.
pub(crate) fn finish(knot: &mut Knot, site: &Site, traffic: Traffic, unstalled: f64) {
    let clock = site.clock_hz();
    let busy = site.busy_bytes(traffic);
    let of_core = traffic.cost(site.core_rates.as_ref()).unwrap_or(0.0) * clock;
    let least_cpi = (busy * clock / (site.solo_share * site.peak_bytes_per_s)).max(of_core);
    knot.stretched_alone = 1.0;
    if least_cpi > knot.cpi {
        let more = least_cpi - knot.cpi;
        // So much longer its accesses wait for one another. Where all misses are hidden behind others, nobody can tell.
        if knot.waiting_cpi > 0.0 {
            knot.stretched_alone += more / knot.waiting_cpi;
        }
        knot.waiting_cpi += more;
        knot.memory_cpi += more;
        knot.cpi = least_cpi;
    }
    let speed = clock / knot.cpi;
    knot.memory_stalls = knot.memory_cpi / knot.cpi;
    knot.total_stalls = ((knot.cpi - unstalled) / knot.cpi).max(knot.memory_stalls);
    knot.l2_miss_stalls = ((knot.memory_cpi + knot.llc_hit_cpi) / knot.cpi).min(1.0);
    knot.misses_per_s = knot.mpki * 1e-3 * speed;
    knot.bytes_per_s = traffic.bytes * speed;
    knot.busy_bytes_per_s = busy * speed;
}
