//! Visits, one by one, the partitions that bounds do not rule out.

use crate::partition::cluster_set::{ClusterSet, Set};
use crate::partition::completion::{BestCover, ClusterValues, NEVER};
use crate::partition::pressure::ROOM;
use crate::partition::table::ClusterWays;
use crate::search::StopRule;

/// Bounds at most: four corners of a region and the two ends of its pressures.
const BOUNDS: usize = 6;

/// Sets looked at between two looks at the clock.
const CLOCK_SETS: u64 = 1 << 14;

/// A bound of a partition's value: the sum of its clusters' values, less an offset.
#[derive(Debug, Clone)]
pub(crate) struct Bounded {
    pub(crate) values: ClusterValues,
    pub(crate) completion: BestCover,
    pub(crate) offset: f64,
}

impl Bounded {
    /// None when it must stop before it is done.
    pub(crate) fn new(values: ClusterValues, offset: f64, stop: &StopRule<'_>) -> Option<Self> {
        let completion = BestCover::of(&values, stop)?;
        Some(Self { values, completion, offset })
    }

    /// The highest bound of all partitions.
    pub(crate) fn best(&self) -> f64 {
        self.completion.best() - self.offset
    }
}

/// How much an enumeration may look at and has looked at.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Effort {
    /// States visited.
    pub(crate) nodes: u64,
    /// Clusters that a bound cut.
    pub(crate) pruned: u64,
    /// Sets looked at.
    pub(crate) sets: u64,
}

/// The slowdowns in a cluster while the pressure is in a region, and how far apart those of a
/// partition may be.
#[derive(Debug, Clone)]
pub(crate) struct SlowdownWindow {
    /// The least that the slowest member can have.
    pub(crate) slowest: ClusterValues,
    /// The most that the fastest member can have.
    pub(crate) fastest: ClusterValues,
    /// The highest unfairness that matters.
    pub(crate) most: f64,
}

/// Which partitions matter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matters<'w> {
    /// One of these must exceed the threshold; none: no matter.
    pub(crate) any: &'w [Bounded],
    /// All of these must be at least 0.
    pub(crate) all: &'w [Bounded],
    pub(crate) window: Option<&'w SlowdownWindow>,
}

pub(crate) struct Enumeration<'w, L> {
    cluster_set: ClusterSet,
    matters: Matters<'w>,
    threshold: f64,
    most_sets: u64,
    effort: Effort,
    stop: &'w StopRule<'w>,
    most_nodes: u64,
    clusters: Vec<(Set, u32)>,
    /// Sees every partition that is left, and says the threshold from then on.
    leaf: L,
}

impl<'w, L: FnMut(&ClusterWays) -> f64> Enumeration<'w, L> {
    pub(crate) fn new(
        cluster_set: ClusterSet,
        matters: Matters<'w>,
        threshold: f64,
        (most_sets, most_nodes): (u64, u64),
        stop: &'w StopRule<'w>,
        leaf: L,
    ) -> Self {
        let (effort, clusters) = (Effort::default(), Vec::new());
        Self {
            cluster_set,
            matters,
            threshold,
            most_sets,
            effort,
            stop,
            most_nodes,
            clusters,
            leaf,
        }
    }

    /// Visits all; false when it gave up.
    pub(crate) fn run(mut self) -> (bool, Effort) {
        let mut sums = [0.0; BOUNDS];
        let bounds = self.matters.any.iter().chain(self.matters.all);
        for (sum, bound) in sums.iter_mut().zip(bounds) {
            *sum = -bound.offset;
        }
        let start = Partial { sums, slowest: 0.0, fastest: f64::INFINITY };
        let is_done = self.descend(self.cluster_set.full(), self.cluster_set.ways, &start);
        (is_done, self.effort)
    }

    fn is_over(&self) -> bool {
        self.effort.sets > self.most_sets
            || self.effort.nodes > self.most_nodes
            || (self.effort.sets.is_multiple_of(CLOCK_SETS) && self.stop.is_due())
    }

    fn descend(&mut self, left: Set, ways: usize, partial: &Partial) -> bool {
        self.effort.nodes += 1;
        for (set, rest) in self.cluster_set.next(left) {
            self.effort.sets += 1;
            if self.is_over() {
                return false;
            }
            if !self.may(set) {
                continue;
            }
            for k in 1..=ways {
                let Some(next) = self.with(partial, set, rest, (k, ways)) else { continue };
                self.clusters.push((set, k as u32));
                let goes_on = rest != 0 && self.descend(rest, ways - k, &next);
                if rest == 0 {
                    let partition = ClusterWays { clusters: std::mem::take(&mut self.clusters) };
                    self.threshold = (self.leaf)(&partition);
                    self.clusters = partition.clusters;
                }
                self.clusters.pop();
                if rest != 0 && !goes_on {
                    return false;
                }
            }
        }
        true
    }

    /// Has the set a value in every bound?
    #[inline]
    fn may(&self, set: Set) -> bool {
        let mut bounds = self.matters.any.iter().chain(self.matters.all);
        bounds.all(|bound| bound.values.row(set).is_some())
    }

    /// The partial partition with one more cluster; none where nothing that matters can follow.
    #[inline]
    fn with(
        &mut self,
        partial: &Partial,
        set: Set,
        rest: Set,
        (k, ways): (usize, usize),
    ) -> Option<Partial> {
        let Matters { any, all, window } = self.matters;
        let mut next = *partial;
        let mut highest = if any.is_empty() { f64::INFINITY } else { NEVER };
        for (sum, one) in next.sums.iter_mut().zip(any) {
            *sum += one.values.at(set, k);
            highest = highest.max(*sum + one.completion.row(rest)[ways - k]);
        }
        let mut is_cut = highest <= self.threshold;
        for (sum, one) in next.sums[any.len()..].iter_mut().zip(all) {
            *sum += one.values.at(set, k);
            let most = *sum + one.completion.row(rest)[ways - k];
            is_cut |= most < -ROOM * (1.0 + one.offset.abs());
        }
        if is_cut {
            self.effort.pruned += u64::from(highest > NEVER);
            return None;
        }
        if let Some(window) = window {
            next.slowest = next.slowest.max(window.slowest.at(set, k));
            next.fastest = next.fastest.min(window.fastest.at(set, k));
            if next.slowest > window.most * next.fastest * (1.0 + ROOM) {
                self.effort.pruned += 1;
                return None;
            }
        }
        Some(next)
    }
}

/// What a partial partition has come to.
#[derive(Debug, Clone, Copy)]
struct Partial {
    /// Values of its clusters, less the offset, by bound.
    sums: [f64; BOUNDS],
    slowest: f64,
    fastest: f64,
}
