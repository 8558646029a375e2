//! The least and the greatest pressure that partitions can make.

use crate::partition::bandwidth_coupling::{BandwidthCoupling, SlowdownLine};
use crate::partition::cluster_set::Set;
use crate::partition::completion::{BestCover, ClusterValues, NEVER};
use crate::partition::enumeration::Bounded;
use crate::partition::table::{ClusterWays, Table};
use crate::partition::value_bounds::{Corner, Weights};
use crate::search::StopRule;

/// Relative room for rounding where pressures are compared.
pub(crate) const ROOM: f64 = 1e-12;

/// Which end of the pressures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Least,
    Greatest,
}

/// A partition and the pressure that it makes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PartitionPressure {
    pub(crate) x: f64,
    pub(crate) partition: ClusterWays,
}

impl Table {
    /// The clusters' sides of the balance at a pressure, with the sign that makes the higher sum
    /// the nearer to the end, but for clusters that `may` refuses.
    pub(crate) fn draws(
        &self,
        x: f64,
        end: End,
        sets: &[Set],
        may: impl Fn(Set, &mut [f64]) + Sync,
    ) -> ClusterValues {
        let draw = if end == End::Least { -1.0 } else { 1.0 };
        let weights = Weights { draw, ..Weights::default() };
        weights.values(self, Corner { x, middle: x }, sets, may)
    }

    /// The balance at both ends of these pressures, of these sets but for clusters that `may` refuses: at least 0 of
    /// every partition whose pressure lies between. None when it must stop.
    pub(crate) fn balance(
        &self,
        x: (f64, f64),
        sets: &[Set],
        may: impl Fn(Set, &mut [f64]) + Sync,
        stop: &StopRule<'_>,
    ) -> Option<[Bounded; 2]> {
        let low = self.draws(x.1, End::Least, sets, &may);
        let high = self.draws(x.0, End::Greatest, sets, &may);
        // At pressure 0 of KPart's rule flows may draw less than the peak.
        let is_unloaded = self.law == BandwidthCoupling::Simple && x.0 == 0.0;
        let enough = if is_unloaded { 0.0 } else { self.law.supply(x.0) };
        Some([Bounded::new(low, -self.law.supply(x.1), stop)?, Bounded::new(high, enough, stop)?])
    }

    /// The partition of the least or the greatest pressure, of these sets, but for
    /// clusters that `may` refuses: from
    /// a pressure to that of the partition that has the least (greatest) excess there, until it
    /// does not change. The excess of every partition falls through 0 at its pressure, so that at
    /// the end none is left beyond. `Err`: it must stop; `None`: there is no partition.
    pub(crate) fn extreme(
        &self,
        from: f64,
        end: End,
        sets: &[Set],
        may: impl Fn(Set, &mut [f64]) + Sync,
        stop: &StopRule<'_>,
    ) -> Result<Option<PartitionPressure>, Stopped> {
        let mut at = from;
        let mut last: Option<PartitionPressure> = None;
        loop {
            let values = self.draws(at, end, sets, &may);
            let completion = BestCover::of(&values, stop).ok_or(Stopped)?;
            let Some(partition) = completion.partition(&values) else { return Ok(None) };
            let x = self.judge(&partition).x;
            let further = match (&last, end) {
                (None, _) => true,
                (Some(last), End::Least) => x < last.x * (1.0 - ROOM),
                (Some(last), End::Greatest) => x > last.x * (1.0 + ROOM),
            };
            // Where flows fit the peak, KPart's rule tells partitions apart by what they draw.
            let is_unloaded = self.law == BandwidthCoupling::Simple && x == 0.0;
            if !further {
                let keep =
                    if is_unloaded { Some(PartitionPressure { x, partition }) } else { last };
                return Ok(keep);
            }
            last = Some(PartitionPressure { x, partition });
            if self.law == BandwidthCoupling::Free || (at == x && is_unloaded) {
                return Ok(last);
            }
            at = x;
        }
    }

    /// Pressures between which those of all partitions lie: from the least and the greatest load
    /// of each program in any cluster.
    pub(crate) fn pressures(&self) -> (f64, f64) {
        let cluster_set = self.cluster_set;
        let mut least = vec![f64::INFINITY; cluster_set.programs];
        let mut most = vec![0.0_f64; cluster_set.programs];
        for row in 0..cluster_set.rows() {
            let set = cluster_set.set(row);
            if set == 0 {
                continue;
            }
            for (program, lines) in cluster_set.programs_of(set).zip(self.row(set).members()) {
                for &load in &lines.load[cluster_set.min_ways - 1..] {
                    least[program] = least[program].min(load);
                    most[program] = most[program].max(load);
                }
            }
        }
        let room = (1.0 - ROOM, 1.0 + ROOM);
        (self.law.pressure(&least) * room.0, self.law.pressure(&most) * room.1)
    }

    /// The least and the greatest slowdown of each program in any cluster at these pressures.
    pub(crate) fn slowdowns(&self, (low, high): (f64, f64)) -> Vec<(f64, f64)> {
        let cluster_set = self.cluster_set;
        let mut spans = vec![(f64::INFINITY, 0.0_f64); cluster_set.programs];
        for row in 0..cluster_set.rows() {
            let set = cluster_set.set(row);
            if set == 0 {
                continue;
            }
            for (program, lines) in cluster_set.programs_of(set).zip(self.row(set).members()) {
                let span = &mut spans[program];
                for k in cluster_set.min_ways - 1..cluster_set.ways {
                    let of = |x| lines.a[k] + lines.c[k] * self.law.y(lines.load[k], x);
                    span.0 = span.0.min(of(low));
                    span.1 = span.1.max(of(high));
                }
            }
        }
        spans
    }
}

/// A search ended before it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;

/// The balance: above 0 where these programs' pressure is higher than x.
pub(crate) fn excess(law: BandwidthCoupling, lines: &[SlowdownLine], x: f64) -> f64 {
    let draw = |line: &SlowdownLine| law.draw(line.load, x, law.y(line.load, x));
    lines.iter().map(draw).sum::<f64>() - law.supply(x)
}

/// Nothing is refused.
pub(crate) fn all(_: Set, _: &mut [f64]) {}

/// Refuses what another value refuses.
pub(crate) fn like(others: &ClusterValues) -> impl Fn(Set, &mut [f64]) + Sync + '_ {
    move |set, values| match others.row(set) {
        None => values.fill(NEVER),
        Some(others) => {
            for (value, &other) in values.iter_mut().zip(others) {
                if other == NEVER {
                    *value = NEVER;
                }
            }
        }
    }
}
