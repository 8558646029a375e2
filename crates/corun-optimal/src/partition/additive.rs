//! The best partition by a sum of values, bandwidth included: boxes of pressures, the one of the
//! highest bound first.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::partition::bandwidth_coupling::{BandwidthCoupling, SlowdownLine};
use crate::partition::cluster_set::{Kind, Set};
use crate::partition::completion::NEVER;
use crate::partition::enumeration::{Bounded, Effort, Enumeration, Matters};
use crate::partition::pressure::{all, excess};
use crate::partition::table::{ClusterWays, PartitionScores, Table};
use crate::partition::value_bounds::{Corner, Weights};
use crate::search::StopRule;

/// Partitions whose values agree to so much of themselves count as equal.
pub(crate) const TIE: f64 = 1e-11;

/// The first region around the start's pressure, relative.
const NEAR: f64 = 0.02;

/// Rounds of a start.
const START_ROUNDS: usize = 8;

/// A sum to be made as high as can be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Aim {
    /// Of 1 / slowdown.
    Stp,
    /// Of - slowdown.
    MeanSlowdown,
    /// Jain's index times programs: (sum s)^2 / sum s^2 is the highest of 2 z sum s - z^2 sum s^2,
    /// additive at a given z (here called the tilt).
    Jain,
    /// Of - bandwidth, with these weights by program.
    Bandwidth(Vec<f64>),
}

impl Aim {
    pub(crate) fn score(&self, judged: &PartitionScores) -> f64 {
        let slowdowns = judged.slowdowns.iter();
        match self {
            Self::Stp => slowdowns.map(|slowdown| 1.0 / slowdown).sum(),
            Self::MeanSlowdown => -slowdowns.sum::<f64>(),
            Self::Jain => {
                let (sum, squares) = sums(&judged.slowdowns);
                sum * sum / squares
            }
            Self::Bandwidth(weights) => {
                -weights.iter().zip(&judged.bandwidths).map(|(weight, b)| weight * b).sum::<f64>()
            }
        }
    }

    /// The weights at a tilt, which bound from above all tilts of an interval with this middle.
    fn weights(&self, tilt: f64, middle: f64, draw: f64) -> Weights {
        let none = Weights { draw, ..Weights::default() };
        match self {
            Self::Stp => Weights { inverse: 1.0, ..none },
            Self::MeanSlowdown => Weights { slowdown: -1.0, ..none },
            // The tangent in the tilt of 2 z s - z^2 s^2, which is concave in it.
            Self::Jain => {
                let square = -(2.0 * tilt * middle - middle * middle);
                Weights { slowdown: 2.0 * tilt, square, ..none }
            }
            Self::Bandwidth(weights) => {
                Weights { bandwidth: weights.iter().map(|weight| -weight).collect(), ..none }
            }
        }
    }
}

fn sums(slowdowns: &[f64]) -> (f64, f64) {
    (slowdowns.iter().sum(), slowdowns.iter().map(|slowdown| slowdown * slowdown).sum())
}

/// Pressures, and what else partitions are sorted by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PressureRegion {
    pub(crate) x: (f64, f64),
    /// Jain's tilt.
    pub(crate) tilt: (f64, f64),
    pub(crate) bound: f64,
}

impl Eq for PressureRegion {}

impl PartialOrd for PressureRegion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PressureRegion {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_bound = self.bound.total_cmp(&other.bound);
        let by_x = || other.x.0.total_cmp(&self.x.0);
        let by_tilt = || other.tilt.0.total_cmp(&self.tilt.0);
        by_bound.then_with(by_x).then_with(by_tilt)
    }
}

pub(crate) fn width((low, high): (f64, f64)) -> f64 {
    if high > low { (high - low) / high.abs().max(low.abs()) } else { 0.0 }
}

pub(crate) fn halves((low, high): (f64, f64)) -> [(f64, f64); 2] {
    let middle = 0.5 * (low + high);
    [(low, middle), (middle, high)]
}

impl PressureRegion {
    fn split(self) -> [Self; 2] {
        if width(self.x) >= width(self.tilt) {
            halves(self.x).map(|x| Self { x, ..self })
        } else {
            halves(self.tilt).map(|tilt| Self { tilt, ..self })
        }
    }

    fn is_a_point(&self) -> bool {
        width(self.x).max(width(self.tilt)) < 1e-11
    }
}

/// A partition with its score.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scored {
    pub(crate) score: f64,
    pub(crate) partition: ClusterWays,
}

pub(crate) struct Additive<'a> {
    pub(crate) table: &'a Table,
    pub(crate) aim: Aim,
    pub(crate) stop: &'a StopRule<'a>,
    pub(crate) best: Option<Scored>,
    pub(crate) effort: Effort,
}

impl<'a> Additive<'a> {
    pub(crate) fn new(table: &'a Table, aim: Aim, stop: &'a StopRule<'a>) -> Self {
        Self { table, aim, stop, best: None, effort: Effort::default() }
    }

    /// What a partition must exceed to matter.
    pub(crate) fn threshold(&self) -> f64 {
        self.best.as_ref().map_or(NEVER, |best| best.score + TIE * best.score.abs().max(1.0))
    }

    /// Takes a partition if it is better; what it does, and the lines of its programs.
    pub(crate) fn consider(
        &mut self,
        partition: &ClusterWays,
    ) -> (PartitionScores, Vec<SlowdownLine>) {
        let lines = self.table.lines(partition);
        let judged = self.table.judge_lines(&lines);
        let score = self.aim.score(&judged);
        if score > self.threshold() {
            self.best = Some(Scored { score, partition: partition.clone() });
        }
        (judged, lines)
    }

    /// Partitions that are the best for the pressure and the price of traffic of the one before.
    /// False when it must stop.
    pub(crate) fn start(&mut self, first: &ClusterWays) -> bool {
        let (mut judged, mut lines) = self.consider(first);
        let mut from = first.clone();
        for round in 0..START_ROUNDS {
            let (sum, squares) = sums(&judged.slowdowns);
            let tilt = sum / squares;
            // The first price would be that of a partition chosen without looking.
            let draw = if round == 0 { 0.0 } else { self.price(&lines, judged.x, judged.x, tilt) };
            let corner = Corner { x: judged.x, middle: judged.x };
            let weights = self.aim.weights(tilt, tilt, draw);
            let values = weights.values(self.table, corner, &self.table.sets, all);
            let Some(bounded) = Bounded::new(values, 0.0, self.stop) else { return false };
            let Some(next) = bounded.completion.partition(&bounded.values) else { return true };
            if next == from && round > 0 {
                return true;
            }
            (judged, lines) = self.consider(&next);
            from = next;
        }
        true
    }

    /// What a unit of traffic costs: the weight of the balance at which these programs' value is
    /// the same at both pressures.
    pub(crate) fn price(&self, lines: &[SlowdownLine], low: f64, high: f64, tilt: f64) -> f64 {
        let law = self.table.law;
        if law == BandwidthCoupling::Free {
            return 0.0;
        }
        let weights = self.aim.weights(tilt, tilt, 0.0);
        let (gain, balance) = if high - low > 1e-6 * high {
            let value = |x| weights.value(law, lines, x);
            (value(high) - value(low), excess(law, lines, high) - excess(law, lines, low))
        } else {
            let slope = |line: &SlowdownLine| law.draw_slope(line.load, low, law.y(line.load, low));
            let supply = law.supply(low + 1.0) - law.supply(low);
            (weights.value_slope(law, lines, low), lines.iter().map(slope).sum::<f64>() - supply)
        };
        self.allowed(if balance == 0.0 { 0.0 } else { -gain / balance })
    }

    /// Where flows fit the peak, KPart's rule has a balance below 0 at pressure 0: a price above 0
    /// would not bound their value.
    fn allowed(&self, price: f64) -> f64 {
        if !price.is_finite() {
            0.0
        } else if self.table.law == BandwidthCoupling::Simple {
            price.min(0.0)
        } else {
            price
        }
    }

    /// The bounds at the corners of a region, of these sets but for clusters that `may` refuses;
    /// none when it must stop.
    pub(crate) fn corners(
        &self,
        region: &PressureRegion,
        price: f64,
        sets: &[Set],
        may: impl Fn(Set, &mut [f64]) + Sync,
    ) -> Option<Vec<Bounded>> {
        let middle = 0.5 * (region.x.0 + region.x.1);
        let tilt_middle = 0.5 * (region.tilt.0 + region.tilt.1);
        let ends = |(low, high): (f64, f64)| if high > low { vec![low, high] } else { vec![low] };
        let mut corners = Vec::new();
        for tilt in ends(region.tilt) {
            for x in ends(region.x) {
                let weights = self.aim.weights(tilt, tilt_middle, price);
                let corner = Corner { x, middle };
                let values = weights.values(self.table, corner, sets, &may);
                let offset = price * self.table.law.supply(x);
                corners.push(Bounded::new(values, offset, self.stop)?);
            }
        }
        Some(corners)
    }

    /// The tilts at which Jain's index of any partition is taken: sum s / sum s^2.
    fn tilts(&self, x: (f64, f64)) -> (f64, f64) {
        if self.aim != Aim::Jain {
            return (0.0, 0.0);
        }
        let spans = self.table.slowdowns(x);
        let least = spans.iter().fold(f64::INFINITY, |least, span| span.0.min(least));
        let most = spans.iter().fold(0.0, |most, span| span.1.max(most));
        (1.0 / most, 1.0 / least)
    }

    /// Regions that hold all partitions.
    pub(crate) fn regions(&self) -> Vec<PressureRegion> {
        let x = self.table.pressures();
        let whole = PressureRegion { x, tilt: self.tilts(x), bound: f64::INFINITY };
        let pressure = self.best.as_ref().map(|best| self.table.judge(&best.partition).x);
        let Some(middle) = pressure.filter(|&middle| middle > x.0 && middle < x.1) else {
            return vec![whole];
        };
        let mut cuts = vec![x.0];
        let near = NEAR * middle;
        cuts.extend([middle - near, middle + near].into_iter().filter(|&at| at > x.0 && at < x.1));
        cuts.push(x.1);
        cuts.windows(2).map(|pair| PressureRegion { x: (pair[0], pair[1]), ..whole }).collect()
    }

    /// Proves the best partition of these regions, which hold all partitions that matter. The
    /// highest bound that is left where it must stop first.
    pub(crate) fn run(&mut self, regions: Vec<PressureRegion>) -> Option<f64> {
        let mut open = BinaryHeap::from(regions);
        while let Some(region) = open.pop() {
            if region.bound <= self.threshold() {
                return None;
            }
            if self.stop.is_due() || self.effort.nodes >= self.stop.nodes {
                return Some(region.bound);
            }
            match self.look(&region) {
                None => return Some(region.bound),
                Some(left) => open.extend(left),
            }
        }
        None
    }

    /// Rules a region out, visits what matters in it, or splits it. None when it must stop.
    fn look(&mut self, region: &PressureRegion) -> Option<Vec<PressureRegion>> {
        self.effort.nodes += 1;
        let tilt = 0.5 * (region.tilt.0 + region.tilt.1);
        let reference = self.best.as_ref().map(|best| self.table.lines(&best.partition));
        let mut price =
            reference.map_or(0.0, |lines| self.price(&lines, region.x.0, region.x.1, tilt));
        let mut corners = self.corners(region, price, &self.table.sets, all)?;
        let mut is_considered = false;
        for _ in 0..2 {
            let ends = self.ends(&corners, region);
            is_considered = true;
            if highest(&corners) <= self.threshold() {
                return Some(Vec::new());
            }
            let Some([low, high]) = ends else { break };
            let next = self.fairer_price(price, &low, &high, region, tilt);
            if (next - price).abs() <= 1e-9 * price.abs() {
                break;
            }
            let other = self.corners(region, next, &self.table.sets, all)?;
            if highest(&other) >= highest(&corners) {
                break;
            }
            (price, corners, is_considered) = (next, other, false);
        }
        if !is_considered {
            self.ends(&corners, region);
        }
        let bound = highest(&corners).min(region.bound);
        if bound <= self.threshold() {
            return Some(Vec::new());
        }
        let most_sets = if region.is_a_point() { u64::MAX } else { self.walk_budget() };
        if self.walk(region, &corners, most_sets)? {
            return Some(Vec::new());
        }
        if region.is_a_point() {
            return None;
        }
        Some(region.split().map(|half| PressureRegion { bound, ..half }).to_vec())
    }

    /// The best partitions at the lowest and at the highest pressure, which are considered.
    fn ends(&mut self, corners: &[Bounded], region: &PressureRegion) -> Option<[ClusterWays; 2]> {
        let each = if region.x.1 > region.x.0 { 2 } else { 1 };
        let mut ends = [None, None];
        for (index, corner) in corners.iter().enumerate() {
            let Some(partition) = corner.completion.partition(&corner.values) else { continue };
            self.consider(&partition);
            ends[index % each] = Some(partition);
        }
        match ends {
            [Some(low), Some(high)] => Some([low, high]),
            _ => None,
        }
    }

    /// A price at which the bounds at both ends come closer, if these partitions stay the best.
    fn fairer_price(
        &self,
        price: f64,
        low: &ClusterWays,
        high: &ClusterWays,
        region: &PressureRegion,
        tilt: f64,
    ) -> f64 {
        let law = self.table.law;
        let weights = self.aim.weights(tilt, tilt, 0.0);
        let at = |partition: &ClusterWays, x: f64| {
            let lines = self.table.lines(partition);
            (weights.value(law, &lines, x), excess(law, &lines, x))
        };
        let ((value_low, excess_low), (value_high, excess_high)) =
            (at(low, region.x.0), at(high, region.x.1));
        let next = if excess_low > 0.0 && excess_high < 0.0 {
            (value_high - value_low) / (excess_low - excess_high)
        } else if excess_low < 0.0 && excess_high < 0.0 {
            // All have their pressure below the region: dearer the other way.
            price + price.abs()
        } else if excess_low > 0.0 && excess_high > 0.0 {
            price - price.abs()
        } else {
            price
        };
        self.allowed(next)
    }

    pub(crate) fn walk_budget(&self) -> u64 {
        let cluster_set = self.table.cluster_set;
        match cluster_set.kind {
            Kind::Strict => 20_000,
            Kind::Cluster => (3_u64.pow(cluster_set.programs as u32 - 1) / 2).max(2_000),
        }
    }

    /// Whether it visited all that matters in the region; none when it must stop.
    fn walk(
        &mut self,
        region: &PressureRegion,
        corners: &[Bounded],
        most_sets: u64,
    ) -> Option<bool> {
        // Two partitions that are good at prices below and above their own keep the bound up however narrow the
        // region: it must end with those whose pressure lies in it.
        let balance = match self.table.law {
            BandwidthCoupling::Free => Vec::new(),
            _ => self.table.balance(region.x, &self.table.sets, all, self.stop)?.to_vec(),
        };
        let cluster_set = self.table.cluster_set;
        let threshold = self.threshold();
        let most_nodes = self.stop.nodes.saturating_sub(self.effort.nodes);
        let stop = self.stop;
        let leaf = |partition: &ClusterWays| {
            self.consider(partition);
            self.threshold()
        };
        let matters = Matters { any: corners, all: &balance, window: None };
        let limits = (most_sets, most_nodes);
        let walk = Enumeration::new(cluster_set, matters, threshold, limits, stop, leaf);
        let (is_done, effort) = walk.run();
        self.effort.nodes += effort.nodes;
        self.effort.pruned += effort.pruned;
        self.effort.sets += effort.sets;
        Some(is_done)
    }
}

pub(crate) fn highest(corners: &[Bounded]) -> f64 {
    corners.iter().map(Bounded::best).fold(NEVER, f64::max)
}
