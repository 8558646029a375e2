//! How slow the slowest program of a cluster is with 1, 2, 3 .. ways, for every cluster that a decision
//! looks at.
//!
//! Sharers divide their ways as lines of a shared LRU cache do: the time from a line's last use to its
//! eviction, the fill time, is the same for all (Dan and Towsley, SIGMETRICS 1990; Che, Tung and Wang,
//! IEEE JSAC 20(7), 2002). With x ways held, m(x) misses per instruction and s instructions a cycle, a
//! program holds c ways at the fill time (1 / s(c)) x integral from 0 to c of dx / m(x). Each program is
//! tabulated once over a grid of fill times. A cluster's row of ways is then the sum of its programs'
//! rows, and its row of slowdowns their maximum, so that to merge two clusters is to add two rows.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::partitioning::Input;
use crate::{WaysCurve, WaysPoint};

/// A cluster that was looked at: its place in [`ClusterCurves`].
pub(super) type ClusterId = u32;

/// Fill times that are tabulated.
const TIMES: usize = 64;
/// Steps in which a program's way is followed.
const STEPS_A_WAY: usize = 4;
/// Misses per 1000 instructions of a program that hardly misses: it counts as missing so often.
const LEAST_MPKI: f64 = 0.01;
/// Cycles that a miss costs at most: an idle memory's latency, and more than most pay, since misses
/// overlap.
const MISS_CYCLES: f64 = 250.0;

/// The clusters and their curves. All lie in the same few vectors, so that a decision allocates nothing
/// once these have grown.
#[derive(Debug, Default)]
pub(super) struct ClusterCurves {
    ways: usize,
    clusters: Vec<Cluster>,
    /// Members of all clusters, one cluster after the other.
    members: Vec<usize>,
    /// By program and number of ways: its slowdown alone, or with more ways where that is higher.
    alone: Vec<f64>,
    merged: FxHashMap<[ClusterId; 2], ClusterId>,
    growths: Vec<Growth>,
}

#[derive(Debug, Clone)]
struct Cluster {
    /// Its part of `members`.
    span: Range<usize>,
    row: Row,
}

/// What is held, and how slow the slowest program is, at each fill time of the grid.
#[derive(Debug, Clone, Copy)]
struct Row {
    ways: [f64; TIMES],
    slowdown: [f64; TIMES],
}

/// A program's fill time and slowdown with 0, 1, 2 .. steps of its ways.
#[derive(Debug, Default)]
struct Growth {
    time: Vec<f64>,
    slowdown: Vec<f64>,
}

impl ClusterCurves {
    /// Forgets all clusters; every program becomes a cluster by itself, with its number.
    pub(super) fn start(&mut self, input: &Input<'_>) {
        self.ways = input.ways as usize;
        self.alone.clear();
        self.members.clear();
        self.clusters.clear();
        self.merged.clear();
        let count = input.curves.len();
        self.growths.resize_with(count.max(self.growths.len()), Growth::default);
        for (growth, curve) in self.growths.iter_mut().zip(input.curves) {
            growth.follow(curve, self.ways);
        }
        let growths = &self.growths[..count];
        // Before the first time nobody holds his part of the smallest partition; after the last, any two
        // fill the cache.
        let part = f64::from(input.least_ways) / count as f64;
        let times = |ways: f64| growths.iter().map(move |growth| growth.time_at(ways));
        let first = times(part).fold(f64::INFINITY, f64::min).max(f64::MIN_POSITIVE);
        let last = times(self.ways as f64 * 0.5).fold(first, f64::max);
        let ratio = (last / first).powf(1.0 / (TIMES - 1) as f64);
        for program in 0..count {
            let row = self.growths[program].row(first, ratio);
            self.members.push(program);
            self.clusters.push(Cluster { span: program..program + 1, row });
            let points = &input.curves[program].points()[..self.ways];
            self.alone.extend(points.iter().map(slowdown_of));
            keep_falling(&mut self.alone[program * self.ways..]);
        }
    }

    /// A cluster's programs.
    pub(super) fn members(&self, cluster: ClusterId) -> &[usize] {
        &self.members[self.clusters[cluster as usize].span.clone()]
    }

    /// The cluster of all programs of two clusters.
    pub(super) fn merged(&mut self, one: ClusterId, other: ClusterId) -> ClusterId {
        let pair = [one.min(other), one.max(other)];
        if let Some(&known) = self.merged.get(&pair) {
            return known;
        }
        let first = self.members.len();
        for cluster in pair {
            self.members.extend_from_within(self.clusters[cluster as usize].span.clone());
        }
        let [one, other] = pair.map(|cluster| &self.clusters[cluster as usize].row);
        let row = Row::of_both(one, other);
        let id = self.clusters.len() as ClusterId;
        self.clusters.push(Cluster { span: first..self.members.len(), row });
        self.merged.insert(pair, id);
        id
    }

    /// The highest slowdown of a cluster's programs with so many ways.
    pub(super) fn worst(&self, cluster: ClusterId, ways: u32) -> f64 {
        let (cluster, place) = (cluster as usize, ways as usize - 1);
        if let Some(alone) = self.alone.chunks_exact(self.ways).nth(cluster) {
            return alone[place];
        }
        let row = &self.clusters[cluster].row;
        row.slowdown_at(row.moment(f64::from(ways)))
    }

    /// Each program of a cluster of so many ways, and its slowdown, appended to `out`.
    pub(super) fn slowdowns(&self, cluster: ClusterId, ways: u32, out: &mut Vec<(usize, f64)>) {
        if let [program] = *self.members(cluster) {
            out.push((program, self.worst(cluster, ways)));
            return;
        }
        let moment = self.clusters[cluster as usize].row.moment(f64::from(ways));
        let programs = self.members(cluster).iter();
        out.extend(programs.map(|&one| (one, self.clusters[one].row.slowdown_at(moment))));
    }

    /// The fewest ways, whole or not, with which none of a cluster's programs is slower than `target`; none
    /// where all ways are not enough.
    pub(super) fn fewest(&self, cluster: ClusterId, target: f64) -> Option<f64> {
        let all = self.ways as f64;
        if let Some(alone) = self.alone.chunks_exact(self.ways).nth(cluster as usize) {
            let slower = alone.partition_point(|&one| one > target);
            // Below one way as its row says.
            return match slower {
                0 => Some(self.clusters[cluster as usize].row.fewest(target).clamp(0.0, 1.0)),
                _ if slower == self.ways => None,
                _ => Some(slower as f64 + falls_to(alone[slower - 1], alone[slower], target)),
            };
        }
        let fewest = self.clusters[cluster as usize].row.fewest(target);
        (fewest <= all).then_some(fewest)
    }
}

impl Row {
    fn of_both(one: &Self, other: &Self) -> Self {
        let mut row = *one;
        for (ways, more) in row.ways.iter_mut().zip(&other.ways) {
            *ways += more;
        }
        for (slowdown, other) in row.slowdown.iter_mut().zip(&other.slowdown) {
            *slowdown = if *other > *slowdown { *other } else { *slowdown };
        }
        row
    }

    /// The fewest ways with which nobody is slower than `target`; infinite where there are none.
    fn fewest(&self, target: f64) -> f64 {
        match self.slowdown.partition_point(|&one| one > target) {
            0 => self.ways[0],
            TIMES => f64::INFINITY,
            first => {
                let [before, then] = [first - 1, first];
                let part = falls_to(self.slowdown[before], self.slowdown[then], target);
                self.ways[before] + part * (self.ways[then] - self.ways[before])
            }
        }
    }

    /// The place on the grid, whole or not, at which so many ways are held.
    fn moment(&self, ways: f64) -> f64 {
        match self.ways.partition_point(|&one| one < ways) {
            0 => 0.0,
            TIMES => (TIMES - 1) as f64,
            after => {
                let (low, high) = (self.ways[after - 1], self.ways[after]);
                (after - 1) as f64 + (ways - low) / (high - low)
            }
        }
    }

    fn slowdown_at(&self, moment: f64) -> f64 {
        let low = moment as usize;
        let high = (low + 1).min(TIMES - 1);
        self.slowdown[low] + (moment - low as f64) * (self.slowdown[high] - self.slowdown[low])
    }
}

impl Growth {
    /// Follows a program from no way up to so many.
    fn follow(&mut self, curve: &WaysCurve, ways: usize) {
        self.time.clear();
        self.slowdown.clear();
        let (mpki, slowdown) = without_ways(curve);
        let mut below = (mpki.max(LEAST_MPKI), slowdown);
        let width = 1.0 / STEPS_A_WAY as f64;
        let cpi_at_once = cpi_at_once(curve);
        let (mut filled, mut last) = (0.0, 0.0_f64);
        self.time.push(0.0);
        self.slowdown.push(slowdown);
        for point in &curve.points()[..ways] {
            let above = (point.llc_mpki.max(LEAST_MPKI), slowdown_of(point));
            for step in 1..=STEPS_A_WAY {
                let part = step as f64 * width;
                let mpki = |part: f64| below.0 + part * (above.0 - below.0);
                filled += 0.5 * width * (1.0 / mpki(part - width) + 1.0 / mpki(part));
                let slowdown = below.1 + part * (above.1 - below.1);
                // A program that is faster with more ways could hold fewer of them again at a later
                // time: it keeps what it holds. Cycles per instruction go with slowdown.
                last = last.max(filled * slowdown * cpi_at_once);
                self.time.push(last);
                self.slowdown.push(slowdown);
            }
            below = above;
        }
    }

    /// The time at which it holds so many ways.
    fn time_at(&self, ways: f64) -> f64 {
        let step = ways * STEPS_A_WAY as f64;
        let low = (step as usize).min(self.time.len() - 1);
        let high = (low + 1).min(self.time.len() - 1);
        self.time[low] + (step - low as f64).clamp(0.0, 1.0) * (self.time[high] - self.time[low])
    }

    /// Its row over times from a first one on, each so many times the last.
    fn row(&self, first: f64, ratio: f64) -> Row {
        let mut row = Row { ways: [0.0; TIMES], slowdown: [0.0; TIMES] };
        let mut time = first;
        let mut after = 1;
        let end = self.time.len();
        for place in 0..TIMES {
            while after < end && self.time[after] <= time {
                after += 1;
            }
            let (held, slowdown) = if after == end {
                ((end - 1) as f64, self.slowdown[end - 1])
            } else {
                let (low, high) = (self.time[after - 1], self.time[after]);
                let part = (time - low) / (high - low);
                let (before, then) = (self.slowdown[after - 1], self.slowdown[after]);
                ((after - 1) as f64 + part, before + part * (then - before))
            };
            row.ways[place] = held / STEPS_A_WAY as f64;
            row.slowdown[place] = slowdown;
            time *= ratio;
        }
        keep_falling(&mut row.slowdown);
        row
    }
}

/// Raises slowdowns by rising ways so that none is lower than a later one: who gets more ways is then never
/// thought to be slower.
fn keep_falling(slowdowns: &mut [f64]) {
    let mut highest = 0.0_f64;
    for slowdown in slowdowns.iter_mut().rev() {
        highest = highest.max(*slowdown);
        *slowdown = highest;
    }
}

/// Where on the way from one slowdown to a lower one a target lies, 0 to 1.
fn falls_to(from: f64, to: f64, target: f64) -> f64 {
    (from - target) / (from - to)
}

/// A slowdown that a table leaves out, or that is none, counts as none.
fn slowdown_of(point: &WaysPoint) -> f64 {
    let usable = point.slowdown.is_finite() && point.slowdown > 0.0;
    if usable { point.slowdown } else { 1.0 }
}

/// Cycles per instruction of a program that is not slowed down.
fn cpi_at_once(curve: &WaysCurve) -> f64 {
    let first = curve.at(1);
    let usable = first.ipc.is_finite() && first.ipc > 0.0;
    if usable { 1.0 / (first.ipc * slowdown_of(first)) } else { 1.0 }
}

/// Misses per 1000 instructions and slowdown with no way at all: every reference to the LLC misses, and
/// costs what a miss costs with one way instead of what a hit costs there. Where references are not
/// known, in the line through one and two ways.
fn without_ways(curve: &WaysCurve) -> (f64, f64) {
    let first = curve.at(1);
    let WaysPoint { llc_mpki, llc_apki, l2_miss_stalls, memory_stalls, .. } = *first;
    let slowdown = slowdown_of(first);
    if llc_apki <= 0.0 {
        let second = curve.at(2);
        let in_line = |first: f64, second: f64| first + (first - second).max(0.0);
        return (in_line(llc_mpki, second.llc_mpki), in_line(slowdown, slowdown_of(second)));
    }
    let more = llc_apki - llc_mpki;
    if more <= 0.0 {
        return (llc_mpki, slowdown);
    }
    // Shares of the cycles with one way, for each miss or hit in 1000 instructions.
    let per_hit = (l2_miss_stalls - memory_stalls).max(0.0) / more;
    let most = MISS_CYCLES * first.ipc * 1e-3;
    let per_miss = (memory_stalls / llc_mpki.max(f64::MIN_POSITIVE)).min(most).max(per_hit);
    (llc_apki, slowdown * (1.0 + more * (per_miss - per_hit)))
}

#[cfg(test)]
mod tests;
