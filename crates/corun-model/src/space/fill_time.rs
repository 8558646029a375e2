//! The law of a shared LRU cache.

use crate::space::{DivideSpace, SpaceScratch, equal_time};
use crate::table::PhaseTable;

/// Every sharer of an LRU cache sees the same time from a line's last use to its eviction, the
/// fill time: t = (1 / access rate) x integral from 0 to c of dx / miss ratio(x), the same t for
/// all, sum of c = capacity (errata.md, thesis section 5.3.3; Dan and Towsley, SIGMETRICS 1990).
/// The access rate is that at the final size, which is folded into the tables: t rises with c, so
/// the solution is found in one search without outer rounds.
pub(crate) struct FillTime;

impl DivideSpace for FillTime {
    fn divide(
        &self,
        capacity: f64,
        sharers: &[&PhaseTable],
        scratch: &mut SpaceScratch,
        out: &mut Vec<f64>,
    ) {
        equal_time::divide(capacity, sharers, |table| &table.fill, scratch, out);
    }
}
