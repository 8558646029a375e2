//! The least unfairness, and the highest STP among partitions that are fair enough.
//!
//! Regions of pressures and least slowdowns. In a region [x1, x2] x [a1, a2] a cluster may be in a
//! partition of at most unfairness u only if nobody in it is slower than u a2 at x1 and nobody
//! faster than a1 at x2. Of these clusters the partitions of the least and the greatest pressure
//! say how far x1 and x2 can move together; the slowdowns that each program has in them, how far
//! a1 and a2 can.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::partition::additive::{self, Additive, halves, highest, width};
use crate::partition::cluster_set::Set;
use crate::partition::completion::{ClusterValues, NEVER};
use crate::partition::enumeration::{Bounded, Effort, Enumeration, Matters, SlowdownWindow};
use crate::partition::pressure::{End, ROOM, Stopped, like};
use crate::partition::table::{ClusterWays, Table};
use crate::search::StopRule;

/// How much fairer a partition must be to count.
const BETTER: f64 = 1e-11;

/// A region is looked at again while it loses so much of its width.
const SHRINKS: f64 = 0.7;

/// Pressures and least slowdowns.
#[derive(Debug, Clone, PartialEq)]
struct FairRegion {
    x: (f64, f64),
    least: (f64, f64),
    /// No partition in it has a lower unfairness.
    unfairness: f64,
    /// No partition in it has a higher STP.
    stp: f64,
    /// Sets that may be in a partition in it.
    sets: Arc<Vec<Set>>,
}

impl Eq for FairRegion {}

impl PartialOrd for FairRegion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FairRegion {
    /// The greatest has the highest STP, then the least unfairness.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_stp = self.stp.total_cmp(&other.stp);
        let by_unfairness = || other.unfairness.total_cmp(&self.unfairness);
        let by_least = || other.least.0.total_cmp(&self.least.0);
        let by_x = || other.x.0.total_cmp(&self.x.0);
        by_stp.then_with(by_unfairness).then_with(by_least).then_with(by_x)
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FairGoal {
    /// The least unfairness.
    Fairest,
    /// The highest STP at no more than this unfairness.
    Throughput(f64),
}

/// The search over regions.
pub(crate) struct Fair<'a> {
    table: &'a Table,
    stop: &'a StopRule<'a>,
    wanted: FairGoal,
    /// The fairest partition that was met.
    pub(crate) fairest: (f64, ClusterWays),
    /// The search for STP, which knows the best partition that is fair enough.
    pub(crate) stp: Additive<'a>,
    pub(crate) effort: Effort,
}

/// What is left of a region's clusters.
struct Left {
    window: SlowdownWindow,
    /// The balance at both ends.
    ends: [Bounded; 2],
    /// The STP at both ends, where it is asked for.
    stp: Vec<Bounded>,
}

impl<'a> Fair<'a> {
    pub(crate) fn new(
        table: &'a Table,
        wanted: FairGoal,
        first: ClusterWays,
        stop: &'a StopRule<'a>,
    ) -> Self {
        let fairest = (unfairness(&table.judge(&first).slowdowns), first.clone());
        let stp = Additive::new(table, additive::Aim::Stp, stop);
        let mut fair = Self { table, stop, wanted, fairest, stp, effort: Effort::default() };
        fair.consider(&first);
        fair
    }

    pub(crate) fn consider(&mut self, partition: &ClusterWays) {
        let unfairness = unfairness(&self.table.judge(partition).slowdowns);
        if unfairness < self.fairest.0 * (1.0 - BETTER) {
            self.fairest = (unfairness, partition.clone());
        }
        if matches!(self.wanted, FairGoal::Throughput(most) if unfairness <= most) {
            self.stp.consider(partition);
        }
    }

    /// Unfairness that matters.
    fn most(&self) -> f64 {
        match self.wanted {
            FairGoal::Fairest => self.fairest.0 * (1.0 - BETTER),
            FairGoal::Throughput(most) => most,
        }
    }

    fn is_out(&self, region: &FairRegion) -> bool {
        region.unfairness > self.most() || region.stp <= self.stp.threshold()
    }

    /// Until it is proven; else a bound: the unfairness that none is below, or the STP that none
    /// is above.
    pub(crate) fn run(&mut self) -> Option<f64> {
        let x = self.table.pressures();
        let spans = self.table.slowdowns(x);
        let floor = spans.iter().fold(f64::INFINITY, |floor, span| span.0.min(floor));
        let ceiling = spans.iter().fold(f64::INFINITY, |ceiling, span| span.1.min(ceiling));
        let sets = Arc::new(self.table.sets.clone());
        let least = (floor, ceiling);
        let whole = FairRegion { x, least, unfairness: 1.0, stp: f64::INFINITY, sets };
        let mut open = BinaryHeap::from([whole]);
        while let Some(region) = open.pop() {
            if self.is_out(&region) {
                continue;
            }
            let bound = match self.wanted {
                FairGoal::Fairest => region.unfairness,
                FairGoal::Throughput(_) => region.stp,
            };
            if self.stop.is_due() || self.effort.nodes >= self.stop.nodes {
                return Some(bound);
            }
            match self.look(region) {
                Err(Stopped) => return Some(bound),
                Ok(left) => open.extend(left),
            }
        }
        None
    }

    fn look(&mut self, mut region: FairRegion) -> Result<Vec<FairRegion>, Stopped> {
        loop {
            self.effort.nodes += 1;
            let window = self.window(&region);
            region.sets = Arc::new(window.fastest.valued(&region.sets));
            if !self.narrow(&window, &mut region) {
                return Ok(Vec::new());
            }
            let before = region.x;
            let Some(left) = self.ends(window, &mut region)? else { return Ok(Vec::new()) };
            if self.is_out(&region) {
                return Ok(Vec::new());
            }
            if width(region.x) < SHRINKS * width(before) {
                continue;
            }
            let is_a_point = width(region.x).max(width(region.least)) < 1e-13;
            let most_sets = if is_a_point { u64::MAX } else { self.stp.walk_budget() };
            if self.walk(&left, most_sets) {
                return Ok(Vec::new());
            }
            if is_a_point {
                return Err(Stopped);
            }
            let halves = if width(region.x) > width(region.least) {
                halves(region.x).map(|x| FairRegion { x, ..region.clone() })
            } else {
                halves(region.least).map(|least| FairRegion { least, ..region.clone() })
            };
            return Ok(halves.to_vec());
        }
    }

    /// The slowdowns in each cluster that may matter in the region; [`NEVER`] in the others.
    fn window(&self, region: &FairRegion) -> SlowdownWindow {
        let (table, law) = (self.table, self.table.law);
        let ceiling = self.most() * region.least.1 * (1.0 + ROOM);
        let floor = region.least.0 * (1.0 - ROOM);
        let slowest = ClusterValues::fill(table.cluster_set, &region.sets, |set, values| {
            for lines in table.row(set).members() {
                let each = values.iter_mut().zip(lines.a).zip(lines.c).zip(lines.load);
                for (((value, &a), &c), &load) in each {
                    *value = value.max(a + c * law.y(load, region.x.0));
                }
            }
            for value in values {
                *value = if *value > ceiling { NEVER } else { *value };
            }
        });
        let fastest = ClusterValues::fill(table.cluster_set, &region.sets, |set, values| {
            let Some(slowest) = slowest.row(set) else { return values.fill(NEVER) };
            values.fill(f64::INFINITY);
            for lines in table.row(set).members() {
                let each = values.iter_mut().zip(lines.a).zip(lines.c).zip(lines.load);
                for (((value, &a), &c), &load) in each {
                    *value = value.min(a + c * law.y(load, region.x.1));
                }
            }
            for (value, &slowest) in values.iter_mut().zip(slowest) {
                let is_apart = slowest > self.most() * *value * (1.0 + ROOM);
                if slowest == NEVER || *value < floor || is_apart {
                    *value = NEVER;
                }
            }
        });
        SlowdownWindow { slowest, fastest, most: self.most() }
    }

    /// Moves the least slowdowns together, and raises the bound; false where nothing is left.
    fn narrow(&self, window: &SlowdownWindow, region: &mut FairRegion) -> bool {
        let cluster_set = self.table.cluster_set;
        // Of each program: the least slowdown of the slowest in its clusters, and the highest of
        // the fastest.
        let mut slowest = vec![f64::INFINITY; cluster_set.programs];
        let mut fastest = vec![0.0_f64; cluster_set.programs];
        for &set in region.sets.iter() {
            let rows = (window.slowest.row(set), window.fastest.row(set));
            let (Some(low), Some(high)) = rows else { continue };
            let each = low.iter().zip(high).filter(|&(_, &high)| high > NEVER);
            let none = (f64::INFINITY, 0.0_f64);
            let ends = each.fold(none, |(a, b), (&low, &high)| (a.min(low), b.max(high)));
            for program in cluster_set.programs_of(set) {
                slowest[program] = slowest[program].min(ends.0);
                fastest[program] = fastest[program].max(ends.1);
            }
        }
        let slowest = slowest.into_iter().fold(0.0, f64::max);
        let fastest = fastest.into_iter().fold(f64::INFINITY, f64::min);
        region.least.0 = region.least.0.max(slowest / window.most * (1.0 - ROOM));
        region.least.1 = region.least.1.min(fastest * (1.0 + ROOM));
        region.unfairness = region.unfairness.max(slowest / region.least.1);
        region.least.0 <= region.least.1
    }

    /// Moves the pressures together; none where nothing is left.
    fn ends(
        &mut self,
        window: SlowdownWindow,
        region: &mut FairRegion,
    ) -> Result<Option<Left>, Stopped> {
        let (table, stop) = (self.table, self.stop);
        let may = like(&window.fastest);
        let sets = Arc::clone(&region.sets);
        let least = table.extreme(region.x.0, End::Least, &sets, &may, stop)?;
        let Some(least) = least else { return Ok(None) };
        self.consider(&least.partition);
        region.x.0 = region.x.0.max(least.x * (1.0 - ROOM));
        let most = table.extreme(region.x.1, End::Greatest, &sets, &may, stop)?;
        let Some(most) = most else { return Ok(None) };
        self.consider(&most.partition);
        region.x.1 = region.x.1.min(most.x * (1.0 + ROOM));
        if region.x.0 > region.x.1 {
            return Ok(None);
        }
        let stp = self.throughput(region, &may)?;
        if !stp.is_empty() {
            region.stp = region.stp.min(highest(&stp));
        }
        let ends = table.balance(region.x, &sets, &may, stop).ok_or(Stopped)?;
        drop(may);
        Ok(Some(Left { window, ends, stp }))
    }

    /// The bounds of STP at the ends of the pressures, where it is asked for.
    fn throughput(
        &mut self,
        region: &FairRegion,
        may: impl Fn(Set, &mut [f64]) + Sync,
    ) -> Result<Vec<Bounded>, Stopped> {
        if self.wanted == FairGoal::Fairest {
            return Ok(Vec::new());
        }
        let best = self.stp.best.as_ref().map_or(&self.fairest.1, |best| &best.partition);
        let lines = self.table.lines(best);
        let price = self.stp.price(&lines, region.x.0, region.x.1, 0.0);
        let tilt = (0.0, 0.0);
        let of = additive::PressureRegion { x: region.x, tilt, bound: region.stp };
        let bounds = self.stp.corners(&of, price, &region.sets, may).ok_or(Stopped)?;
        for bound in &bounds {
            if let Some(partition) = bound.completion.partition(&bound.values) {
                self.consider(&partition);
            }
        }
        Ok(bounds)
    }

    fn walk(&mut self, left: &Left, most_sets: u64) -> bool {
        let (cluster_set, stop) = (self.table.cluster_set, self.stop);
        let most_nodes = stop.nodes.saturating_sub(self.effort.nodes);
        let threshold = self.stp.threshold();
        let matters = Matters { any: &left.stp, all: &left.ends, window: Some(&left.window) };
        let leaf = |partition: &ClusterWays| {
            self.consider(partition);
            self.stp.threshold()
        };
        let limits = (most_sets, most_nodes);
        let (is_done, effort) =
            Enumeration::new(cluster_set, matters, threshold, limits, stop, leaf).run();
        self.effort.nodes += effort.nodes;
        self.effort.pruned += effort.pruned;
        self.effort.sets += effort.sets;
        is_done
    }
}

pub(crate) fn unfairness(slowdowns: &[f64]) -> f64 {
    let most = slowdowns.iter().copied().fold(0.0, f64::max);
    most / slowdowns.iter().copied().fold(f64::INFINITY, f64::min)
}
