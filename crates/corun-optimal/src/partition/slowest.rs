//! The least slowdown of the slowest program.
//!
//! Is there a partition in which nobody is slower than t? Its pressure is at least the least
//! pressure x of all partitions; at x none of its clusters has a program slower than t, since
//! slowdowns rise with the pressure; so its pressure is at least the least that partitions of such
//! clusters make; and so on, until the partition of the least pressure is itself one with nobody
//! slower than t, or there is none. Halving the interval of t, and at last a t just below the best
//! that is known, ends with a proof.

use crate::partition::pressure::{End, Stopped, slower_than};
use crate::partition::table::{Partition, Table};
use crate::partition::walk::Effort;
use crate::search::Stop;

/// How much better a partition must be to count.
const BETTER: f64 = 1e-11;

/// The interval of t, relative, below which it is no longer halved.
const NEAR: f64 = 1e-6;

/// What is known of the best partition.
pub(crate) struct Slowest<'a> {
    table: &'a Table,
    stop: &'a Stop<'a>,
    pub(crate) best: (f64, Partition),
    /// No partition has less.
    pub(crate) bound: f64,
    pub(crate) effort: Effort,
}

fn slowest(table: &Table, partition: &Partition) -> f64 {
    table.judge(partition).slowdowns.into_iter().fold(0.0, f64::max)
}

impl<'a> Slowest<'a> {
    pub(crate) fn new(table: &'a Table, first: Partition, stop: &'a Stop<'a>) -> Self {
        let best = (slowest(table, &first), first);
        Self { table, stop, best, bound: 0.0, effort: Effort::default() }
    }

    pub(crate) fn consider(&mut self, partition: &Partition) {
        let slowest = slowest(self.table, partition);
        if slowest < self.best.0 * (1.0 - BETTER) {
            self.best = (slowest, partition.clone());
        }
    }

    /// Until it is proven.
    pub(crate) fn run(&mut self) -> Result<(), Stopped> {
        let (least, greatest) = self.table.pressures();
        let spans = self.table.slowdowns((least, greatest));
        self.bound = spans.iter().fold(0.0, |bound, span| span.0.max(bound));
        let mut x = least;
        loop {
            let best = self.best.0;
            let is_near = best - self.bound <= NEAR * best;
            let most = if is_near { best * (1.0 - BETTER) } else { 0.5 * (self.bound + best) };
            match self.within(most, x)? {
                Some(reached) => x = reached,
                None if is_near => {
                    self.bound = best;
                    return Ok(());
                }
                None => self.bound = most,
            }
        }
    }

    /// Looks for a partition with nobody slower than `most`, whose pressure is `x` at least; says
    /// the pressure that it must have. None when there is no such partition.
    fn within(&mut self, most: f64, x: f64) -> Result<Option<f64>, Stopped> {
        let mut at = x;
        loop {
            self.effort.nodes += 1;
            if self.effort.nodes > self.stop.nodes {
                return Err(Stopped);
            }
            let may = slower_than(self.table, most * (1.0 + 1e-14), at);
            let Some(found) = self.table.extreme(at, End::Least, may, self.stop)? else {
                return Ok(None);
            };
            self.consider(&found.partition);
            if self.best.0 <= most {
                return Ok(Some(at));
            }
            if found.x <= at {
                // Nothing was refused that was not before, but for rounding.
                return Ok(None);
            }
            at = found.x;
        }
    }
}
