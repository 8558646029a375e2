//! All phases of a program as one, for where time does not pass: what it does on average.
//!
//! With c bytes each phase holds as much of them as it fills alone. Figures per instruction are
//! the mean over the phases by their instructions: so are cycles, so that alone the whole takes the
//! time of the phases one after the other. Shares of cycles and figures a second are the mean by
//! the phases' cycles at that size. Of the curve this is the miss-rate curve of the whole
//! execution; a law of space sees a program that does a bit of every phase all the time.

use crate::core::CpiStack;
use crate::site::Site;
use crate::table::{Knot, PhaseTable, TableParts};

/// The table of the phases together, each with its instructions, at one site.
pub(crate) fn table(phases: &[(f64, &PhaseTable)], site: &Site) -> PhaseTable {
    let all: f64 = phases.iter().map(|(instructions, _)| instructions).sum();
    let mean = |figure: fn(&PhaseTable) -> f64| {
        phases.iter().map(|(instructions, table)| instructions / all * figure(table)).sum()
    };
    // Between these the phases' figures are linear, and so is their mean.
    let mut sizes: Vec<f64> = phases.iter().flat_map(|(_, table)| table.sizes()).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let limit = |table: &PhaseTable| table.fill.limit();
    let from = phases.iter().map(|(_, table)| table.measured.0);
    // A phase that never holds more than was measured is never read beyond.
    let beyond = phases.iter().filter(|(_, table)| limit(table) > table.measured.1);
    let to = beyond.map(|(_, table)| table.measured.1);
    let stacks: Option<Vec<CpiStack>> =
        sizes.iter().map(|&bytes| stack(phases, all, bytes)).collect();
    let beside_outside = phases.iter().all(|(_, table)| table.beside_outside);
    let seconds = |&bytes: &f64| seconds(phases, bytes);
    let parts = TableParts {
        seconds: beside_outside.then(|| sizes.iter().map(seconds).collect()),
        knots: sizes.iter().map(|&bytes| knot(phases, all, bytes)).collect(),
        stacks: stacks.unwrap_or_default(),
        by_bytes_held: true,
        foreseen: 0.0,
        llc_apki: mean(|table| table.llc_apki),
        apki_extrapolated: phases.iter().any(|(_, table)| table.apki_extrapolated),
        measured: (from.fold(0.0, f64::max), to.fold(f64::INFINITY, f64::min)),
        footprint_bytes: phases.iter().map(|(_, table)| limit(table)).fold(0.0, f64::max),
        always_grows: false,
        fills_sets_alike: phases.iter().all(|(_, table)| table.fills_sets_alike),
    };
    PhaseTable::new(parts, site)
}

/// The time for which lines stay where the phases take so much space: what comes in a second is the mean over the
/// phases' time.
fn seconds(phases: &[(f64, &PhaseTable)], bytes: f64) -> f64 {
    let (mut time, mut lives) = (0.0, 0.0);
    for &(instructions, table) in phases {
        let cycles = instructions * table.at(table.solo_bytes(bytes)).cpi;
        time += cycles;
        lives += cycles / table.fill.seconds_at(bytes);
    }
    if bytes > 0.0 { time / lives } else { 0.0 }
}

fn stack(phases: &[(f64, &PhaseTable)], all: f64, bytes: f64) -> Option<CpiStack> {
    let mut whole = CpiStack::default();
    for &(instructions, table) in phases {
        whole.add_times(&table.stack(table.solo_bytes(bytes))?, instructions / all);
    }
    Some(whole)
}

fn knot(phases: &[(f64, &PhaseTable)], all: f64, bytes: f64) -> Knot {
    let each = phases
        .iter()
        .map(|&(instructions, table)| (instructions / all, table.at(table.solo_bytes(bytes))));
    Knot::mean(bytes, each)
}
