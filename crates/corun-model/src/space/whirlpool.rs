//! The walk of Whirlpool and KPart.

use crate::space::{DivideSpace, SpaceScratch};
use crate::table::PhaseTable;

/// The capacity is handed out a way at a time. Each way is divided in proportion to misses a
/// second (per cycle in the thesis, section 5.3.3, after Mukkara et al., ASPLOS 2016, and KPart,
/// HPCA 2018), read for each sharer one way beyond what it holds so far: so the public simulator
/// PBBCache reads its tables, whose first entry is one way. It is no fixed point. A last part of
/// a way is handed out as such.
pub(crate) struct Whirlpool;

impl DivideSpace for Whirlpool {
    fn divide(
        &self,
        capacity: f64,
        sharers: &[&PhaseTable],
        scratch: &mut SpaceScratch,
        out: &mut Vec<f64>,
    ) {
        out.clear();
        out.resize(sharers.len(), 0.0);
        let Some(way) = sharers.first().map(|table| table.way_bytes) else { return };
        if sharers.len() == 1 {
            out[0] = capacity;
            return;
        }
        let mut left = capacity;
        // Sizes that are whole ways but for rounding take whole steps.
        while left > way * 1e-9 {
            let part = left.min(way);
            let steps = &mut scratch.steps;
            steps.clear();
            steps.extend(
                sharers.iter().zip(&*out).map(|(table, &held)| table.misses_per_s(held + way)),
            );
            let sum: f64 = steps.iter().sum();
            for (held, misses) in out.iter_mut().zip(steps) {
                // Nobody misses: nobody needs more, and equal parts do no harm.
                let share = if sum > 0.0 { *misses / sum } else { 1.0 / sharers.len() as f64 };
                *held += part * share;
            }
            left -= part;
        }
    }
}
