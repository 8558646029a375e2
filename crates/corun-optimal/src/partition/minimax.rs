//! The least slowdown of the slowest program.
//!
//! Is there a partition in which nobody is slower than t? Its pressure is at least the least
//! pressure x of all partitions; at x none of its clusters has a program slower than t, since
//! slowdowns rise with the pressure; so its pressure is at least the least that partitions of such
//! clusters make; and so on, until the partition of the least pressure is itself one with nobody
//! slower than t, or there is none. Halving the interval of t, and at last a t just below the best
//! that is known, ends with a proof.

use crate::partition::cluster_set::Set;
use crate::partition::completion::{ClusterValues, NEVER};
use crate::partition::enumeration::Effort;
use crate::partition::pressure::{End, Stopped, like};
use crate::partition::table::{ClusterWays, Table};
use crate::search::StopRule;

/// How much better a partition must be to count.
const BETTER: f64 = 1e-11;

/// The interval of t, relative, below which it is no longer halved.
const NEAR: f64 = 1e-6;

/// What is known of the best partition.
pub(crate) struct Minimax<'a> {
    table: &'a Table,
    stop: &'a StopRule<'a>,
    pub(crate) best: (f64, ClusterWays),
    /// No partition has less.
    pub(crate) bound: f64,
    pub(crate) effort: Effort,
}

fn slowest(table: &Table, partition: &ClusterWays) -> f64 {
    table.judge(partition).slowdowns.into_iter().fold(0.0, f64::max)
}

impl<'a> Minimax<'a> {
    pub(crate) fn new(table: &'a Table, first: ClusterWays, stop: &'a StopRule<'a>) -> Self {
        let best = (slowest(table, &first), first);
        Self { table, stop, best, bound: 0.0, effort: Effort::default() }
    }

    pub(crate) fn consider(&mut self, partition: &ClusterWays) {
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
        let mut reached = Reached { x: least, sets: self.table.sets.clone() };
        loop {
            let best = self.best.0;
            let is_near = best - self.bound <= NEAR * best;
            let most = if is_near { best * (1.0 - BETTER) } else { 0.5 * (self.bound + best) };
            match self.within(most, &reached)? {
                Some(further) => reached = further,
                None if is_near => {
                    self.bound = best;
                    return Ok(());
                }
                None => self.bound = most,
            }
        }
    }

    /// Looks for a partition with nobody slower than `most` from where it must be; says where it
    /// must be then. None when there is no such partition.
    fn within(&mut self, most: f64, from: &Reached) -> Result<Option<Reached>, Stopped> {
        let mut at = from.clone();
        loop {
            self.effort.nodes += 1;
            if self.effort.nodes > self.stop.nodes {
                return Err(Stopped);
            }
            let slow = self.slower_than(most * (1.0 + 1e-14), &at);
            at.sets = slow.valued(&at.sets);
            let (table, stop) = (self.table, self.stop);
            let found = table.extreme(at.x, End::Least, &at.sets, like(&slow), stop)?;
            let Some(found) = found else { return Ok(None) };
            self.consider(&found.partition);
            if self.best.0 <= most {
                return Ok(Some(at));
            }
            if found.x <= at.x {
                // Nothing was refused that was not before, but for rounding.
                return Ok(None);
            }
            at.x = found.x;
        }
    }

    /// The slowest member of each cluster; refused where it is slower than `most`.
    fn slower_than(&self, most: f64, at: &Reached) -> ClusterValues {
        let (table, law) = (self.table, self.table.law);
        ClusterValues::fill(table.cluster_set, &at.sets, |set, values| {
            for lines in table.row(set).members() {
                let each = values.iter_mut().zip(lines.a).zip(lines.c).zip(lines.load);
                for (((value, &a), &c), &load) in each {
                    *value = value.max(a + c * law.y(load, at.x));
                }
            }
            for value in values {
                *value = if *value > most { NEVER } else { *value };
            }
        })
    }
}

/// The least pressure of the partitions that are looked for, and the sets in them.
#[derive(Debug, Clone)]
struct Reached {
    x: f64,
    sets: Vec<Set>,
}
