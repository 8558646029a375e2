//! The walk of Whirlpool and KPart.

use crate::space::{DivideSpace, SpaceScratch};
use crate::table::PhaseTable;

/// The capacity is handed out a way at a time. Each way is divided in proportion to misses a
/// second (per cycle in the thesis, section 5.3.3, after Mukkara et al., ASPLOS 2016, and KPart,
/// HPCA 2018), read for each sharer one way beyond what it holds so far: so the public simulator
/// PBBCache reads its tables, whose first entry is one way. It is no fixed point. A last part of
/// a way is handed out as such.
pub(crate) struct Whirlpool {
    /// By misses per instruction instead, as KPart has it (thesis, section 5.3.3).
    pub(crate) per_instruction: bool,
}

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
        if let [alone] = sharers {
            out[0] = alone.fill.limit().min(capacity);
            return;
        }
        let mut left = capacity;
        // Sizes that are whole ways but for rounding take whole steps.
        while left > way * 1e-9 {
            let part = left.min(way);
            let steps = &mut scratch.steps;
            steps.clear();
            steps.extend(sharers.iter().zip(&*out).map(|(table, &held)| {
                // Whoever holds all that it uses takes no more.
                if held >= table.fill.limit() {
                    0.0
                } else if self.per_instruction {
                    table.at(held + way).mpki
                } else {
                    table.misses_per_s(held + way)
                }
            }));
            let sum: f64 = steps.iter().sum();
            if sum <= 0.0 {
                break;
            }
            for ((held, misses), table) in out.iter_mut().zip(steps).zip(sharers) {
                *held = (*held + part * (*misses / sum)).min(table.fill.limit());
            }
            left = capacity - out.iter().sum::<f64>();
        }
    }
}
