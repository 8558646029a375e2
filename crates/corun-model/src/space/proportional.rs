//! The law of a cache with random replacement.

use crate::space::{DivideSpace, SpaceScratch, equal_time};
use crate::table::PhaseTable;

/// Space in proportion to misses a second (thesis, section 5.3.3: misses per cycle, the same
/// thing at one clock): each line is evicted with the same chance, so what comes in a second over
/// what is held is the same for all. A fixed point: misses are those at the size that results.
pub(crate) struct Proportional;

impl DivideSpace for Proportional {
    fn divide(
        &self,
        capacity: f64,
        sharers: &[&PhaseTable],
        scratch: &mut SpaceScratch,
        out: &mut Vec<f64>,
    ) {
        equal_time::divide(capacity, sharers, |_, table| &table.turnover, scratch, out);
    }
}
