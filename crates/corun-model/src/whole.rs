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
    let parts = TableParts {
        knots: sizes.iter().map(|&bytes| knot(phases, all, bytes)).collect(),
        stacks: stacks.unwrap_or_default(),
        by_bytes_held: true,
        llc_apki: mean(|table| table.llc_apki),
        apki_extrapolated: phases.iter().any(|(_, table)| table.apki_extrapolated),
        measured: (from.fold(0.0, f64::max), to.fold(f64::INFINITY, f64::min)),
        footprint_bytes: phases.iter().map(|(_, table)| limit(table)).fold(0.0, f64::max),
        always_grows: false,
    };
    PhaseTable::new(parts, site)
}

fn stack(phases: &[(f64, &PhaseTable)], all: f64, bytes: f64) -> Option<CpiStack> {
    let mut whole = CpiStack::default();
    for &(instructions, table) in phases {
        whole.add_times(&table.stack(table.solo_bytes(bytes))?, instructions / all);
    }
    Some(whole)
}

fn knot(phases: &[(f64, &PhaseTable)], all: f64, bytes: f64) -> Knot {
    let mut whole = Knot { bytes, ..Knot::default() };
    for &(instructions, table) in phases {
        let own = table.at(table.solo_bytes(bytes));
        let share = instructions / all;
        let cycles = share * own.cpi;
        whole.cpi += cycles;
        whole.memory_cpi += share * own.memory_cpi;
        whole.llc_hit_cpi += share * own.llc_hit_cpi;
        whole.mpki += share * own.mpki;
        whole.memory_stalls += cycles * own.memory_stalls;
        whole.total_stalls += cycles * own.total_stalls;
        whole.l2_miss_stalls += cycles * own.l2_miss_stalls;
        whole.misses_per_s += cycles * own.misses_per_s;
        whole.bytes_per_s += cycles * own.bytes_per_s;
    }
    for by_time in [
        &mut whole.memory_stalls,
        &mut whole.total_stalls,
        &mut whole.l2_miss_stalls,
        &mut whole.misses_per_s,
        &mut whole.bytes_per_s,
    ] {
        *by_time /= whole.cpi;
    }
    whole
}
