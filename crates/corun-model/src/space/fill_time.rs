//! The law of a shared LRU cache.

use crate::space::{DivideSpace, SpaceScratch, equal_time};
use crate::table::PhaseTable;

/// Every sharer of an LRU cache sees the same time from a line's last use to its eviction, the
/// fill time: t = (1 / access rate) x integral from 0 to c of dx / miss ratio(x), the same t for
/// all, sum of c = capacity (errata.md, thesis section 5.3.3; Dan and Towsley, SIGMETRICS 1990).
/// The access rate is that at the final size, which is folded into the tables: t rises with c, so
/// the solution is found in one search without outer rounds.
///
/// A program can have two sizes at one time. It keeps the larger if it reaches that while all fill
/// the empty cache together, each at the speed it has on the way, and if it can be kept. Those that
/// cannot have the smaller, and so on until none is left between its two sizes.
pub(crate) struct FillTime;

impl DivideSpace for FillTime {
    fn divide<'a>(
        &self,
        capacity: f64,
        sharers: &[&'a PhaseTable],
        scratch: &mut SpaceScratch,
        out: &mut Vec<f64>,
    ) {
        let simple = sharers.len() == 1 || sharers.iter().all(|table| table.larger_fill.is_none());
        if simple {
            equal_time::divide(capacity, sharers, |_, table| &table.fill, scratch, out);
            return;
        }
        // Here growths change from one search to the next.
        scratch.from = None;
        let mut fallen = std::mem::take(&mut scratch.fallen);
        let mut reached = std::mem::take(&mut scratch.reached);
        fallen.clear();
        fallen.resize(sharers.len(), false);
        reached.clear();
        let mut settled = false;
        while !settled {
            let growth = |sharer: usize, table: &'a PhaseTable| match &table.larger_fill {
                Some(larger) if !fallen[sharer] => &larger.growth,
                _ => &table.fill,
            };
            equal_time::divide(capacity, sharers, growth, scratch, out);
            settled = true;
            for (sharer, table) in sharers.iter().enumerate() {
                let Some(larger) = table.larger_fill.as_ref().filter(|_| !fallen[sharer]) else {
                    continue;
                };
                // What all reach from the empty cache is found where it matters.
                if reached.is_empty() && larger.is_beyond_passing(out[sharer]) {
                    let refill = |_, table: &'a PhaseTable| &table.refill;
                    equal_time::divide(capacity, sharers, refill, scratch, &mut reached);
                }
                let reached = reached.get(sharer).copied().unwrap_or(0.0);
                if larger.cannot_last(reached, out[sharer]) {
                    fallen[sharer] = true;
                    settled = false;
                }
            }
        }
        (scratch.fallen, scratch.reached) = (fallen, reached);
    }
}
