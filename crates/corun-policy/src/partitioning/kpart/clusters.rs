//! The clusters of KPart, their curves and distances. Everything is kept from level to level; a merge
//! computes only what the new cluster changes.

use crate::WaysPoint;
use crate::partitioning::Input;
use crate::partitioning::lookahead::Grant;
use crate::partitioning::whirlpool::{self, Ways};

/// What sharers of a partition divide it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Drive {
    /// Misses per instruction.
    #[default]
    Mpki,
    /// Misses per cycle.
    Mpkc,
}

/// Figures that are 0 or less in the line below one way count as this (as in PBBCache).
const LEAST: f64 = 1e-6;

#[derive(Debug, Default)]
struct Cluster {
    members: Vec<usize>,
    /// Misses per 1000 instructions with 1, 2, 3 .. ways.
    mpki: Vec<f64>,
    /// The best grant from each number of ways: by (ways from - 1) * ways + most.
    grants: Vec<Grant>,
    /// Is every grant, with however many ways to choose from, one of a single way that gains?
    is_convex: bool,
}

/// Ways with which every pair's distance begins. Most pairs are found too far apart with few, so that
/// the rest of their sum is never needed.
const FIRST_WAYS: usize = 2;

/// How far the distance of two clusters is known.
#[derive(Debug, Clone, Default)]
struct Pair {
    /// Places in `clusters`; the first one's programs come first.
    clusters: [usize; 2],
    /// Ways up to which the sum goes.
    ways: usize,
    /// The sum so far: the distance is no less.
    distance: f64,
    /// Ways of each when divided.
    parts: [usize; 2],
    /// The programs of both, and the ways that each holds when shared.
    programs: Vec<usize>,
    held: Vec<f64>,
}

/// All clusters, nearest first, and the programs' figures in them.
#[derive(Debug, Default)]
pub(super) struct Clusters {
    all: usize,
    clusters: Vec<Cluster>,
    /// Places in `clusters` of those that are left, the latest merged first.
    order: Vec<usize>,
    /// By pair of places, the lower one first.
    pairs: Vec<Pair>,
    mpki: Vec<f64>,
    drive: Vec<f64>,
    ipc: Vec<f64>,
    bytes_per_s: Vec<f64>,
    /// By program and ways of its cluster: its speed there over that with an equal share.
    speed: Vec<f64>,
    equal_ipc: Vec<f64>,
    /// By program and ways of its cluster: its traffic there.
    traffic: Vec<f64>,
    combined: Vec<f64>,
    /// The programs of two clusters together.
    programs: Vec<usize>,
    held: Vec<f64>,
    pulls: Vec<f64>,
}

impl Clusters {
    /// Every program by itself.
    pub(super) fn start(&mut self, input: &Input<'_>, drive: Drive) {
        let all = input.ways as usize;
        let count = input.curves.len();
        self.all = all;
        for figures in [&mut self.mpki, &mut self.drive, &mut self.ipc, &mut self.bytes_per_s] {
            figures.clear();
        }
        let take = |into: &mut Vec<f64>, of: fn(&WaysPoint) -> f64| {
            into.extend(input.curves.iter().flat_map(|curve| &curve.points()[..all]).map(of));
        };
        take(&mut self.mpki, |point| point.llc_mpki);
        take(&mut self.ipc, |point| point.ipc);
        take(&mut self.bytes_per_s, |point| point.bytes_per_s);
        take(
            &mut self.drive,
            match drive {
                Drive::Mpki => |point| point.llc_mpki,
                Drive::Mpkc => |point| point.llc_mpkc,
            },
        );
        // Halves to even, as the public simulator rounds.
        let equal = (all as f64 / count as f64).round_ties_even().max(1.0) as u32;
        self.equal_ipc.clear();
        self.equal_ipc.extend(input.curves.iter().map(|curve| curve.at(equal).ipc));
        self.speed.clear();
        for (ipc, equal) in self.ipc.chunks(all).zip(&self.equal_ipc) {
            self.speed.extend(ipc.iter().map(|ipc| ipc / equal));
        }
        self.traffic.clone_from(&self.bytes_per_s);
        // A merged cluster takes the place of the one of its two that comes first.
        self.clusters.resize_with(count.max(self.clusters.len()), Cluster::default);
        self.order.clear();
        self.order.extend(0..count);
        for program in 0..count {
            let cluster = &mut self.clusters[program];
            cluster.members.clear();
            cluster.members.push(program);
            cluster.mpki.clear();
            cluster.mpki.extend_from_slice(&self.mpki[program * all..][..all]);
            cluster.tabulate();
        }
        self.pairs.resize_with(self.pairs.len().max(count * count), Pair::default);
        for first in 0..count {
            for second in first + 1..count {
                self.measure(first, second);
            }
        }
    }

    /// Those that are left, in their order.
    pub(super) fn order(&self) -> &[usize] {
        &self.order
    }

    /// The programs of the cluster at a place of the order.
    pub(super) fn members(&self, place: usize) -> &[usize] {
        &self.clusters[self.order[place]].members
    }

    /// A program's speed in its cluster of so many ways over that with an equal share of the LLC.
    pub(super) fn speed(&self, program: usize, ways: u32) -> f64 {
        self.speed[program * self.all + ways as usize - 1]
    }

    /// A program's traffic in its cluster of so many ways.
    pub(super) fn bytes_per_s(&self, program: usize, ways: u32) -> f64 {
        self.traffic[program * self.all + ways as usize - 1]
    }

    /// By program: its cluster's place in the order.
    pub(super) fn numbers_into(&self, numbers: &mut Vec<usize>) {
        numbers.clear();
        numbers.resize(self.equal_ipc.len(), 0);
        for (place, &cluster) in self.order.iter().enumerate() {
            for &program in &self.clusters[cluster].members {
                numbers[program] = place;
            }
        }
    }

    /// Merges the two nearest, the first in the order of equal ones; the new one comes first.
    pub(super) fn merge_nearest(&mut self) {
        let nearest = self.nearest();
        let (one, other) = (self.order[nearest[0]], self.order[nearest[1]]);
        self.order.remove(nearest[1]);
        self.order.remove(nearest[0]);
        self.combine(one, other);
        let Self { clusters, combined, .. } = self;
        let moved = std::mem::take(&mut clusters[other].members);
        let cluster = &mut clusters[one];
        cluster.members.extend_from_slice(&moved);
        clusters[other].members = moved;
        let cluster = &mut clusters[one];
        cluster.mpki.clone_from(combined);
        cluster.tabulate();
        for place in 0..self.order.len() {
            self.measure(one, self.order[place]);
        }
        self.order.insert(0, one);
    }

    /// Places in the order of the two nearest. A distance is found out as far as it takes to know
    /// that it is not the least.
    fn nearest(&mut self) -> [usize; 2] {
        let count = self.order.len();
        let mut nearest = [0, 1];
        if count == 2 {
            return nearest;
        }
        let mut least = f64::INFINITY;
        for one in 0..count {
            for other in one + 1..count {
                let known = self.pairs[self.pair(self.order[one], self.order[other])].distance;
                if known < least {
                    (nearest, least) = ([one, other], known);
                }
            }
        }
        let first = self.pair(self.order[nearest[0]], self.order[nearest[1]]);
        least = self.find_out(first, f64::INFINITY);
        for one in 0..count {
            for other in one + 1..count {
                let pair = self.pair(self.order[one], self.order[other]);
                let distance = self.find_out(pair, least);
                if distance < least || distance == least && [one, other] < nearest {
                    (nearest, least) = ([one, other], distance);
                }
            }
        }
        nearest
    }

    /// Where the pair of two clusters stands in `pairs`.
    fn pair(&self, one: usize, other: usize) -> usize {
        one.min(other) * self.equal_ipc.len() + one.max(other)
    }

    /// The combined miss curve of two clusters into `combined`: with each number of ways their
    /// programs' misses together, at what each holds; and the programs' speed and traffic there.
    fn combine(&mut self, one: usize, other: usize) {
        let all = self.all;
        let Self { clusters, mpki, drive, ipc, bytes_per_s, programs, .. } = self;
        let Self { held, pulls, combined, .. } = self;
        programs.clear();
        programs.extend_from_slice(&clusters[one].members);
        programs.extend_from_slice(&clusters[other].members);
        held.clear();
        held.resize(programs.len(), 0.0);
        combined.clear();
        for ways in 0..all {
            whirlpool::step(held, pulls, programs.iter().map(|&program| row(drive, program, all)));
            let mut sum = 0.0;
            for (&program, &held) in programs.iter().zip(held.iter()) {
                let held = Ways::new(held);
                sum += held.of(row(mpki, program, all), 0.0);
                let ipc = held.of(row(ipc, program, all), LEAST);
                self.speed[program * all + ways] = ipc / self.equal_ipc[program];
                let traffic = held.of(row(bytes_per_s, program, all), LEAST);
                self.traffic[program * all + ways] = traffic;
            }
            combined.push(sum);
        }
    }

    /// Begins the distance of two clusters: the sum over ways of what their programs miss more when
    /// all share than when lookahead divides the ways between the two. With one way nothing is
    /// divided.
    fn measure(&mut self, one: usize, other: usize) {
        let index = self.pair(one, other);
        let pair = &mut self.pairs[index];
        (pair.clusters, pair.ways, pair.distance, pair.parts) = ([one, other], 0, 0.0, [1, 1]);
        pair.programs.clear();
        pair.programs.extend_from_slice(&self.clusters[one].members);
        pair.programs.extend_from_slice(&self.clusters[other].members);
        pair.held.clear();
        pair.held.resize(pair.programs.len(), 0.0);
        self.go_on(index, FIRST_WAYS.min(self.all));
    }

    /// The distance of a pair, or a part of it that is more than `enough`.
    fn find_out(&mut self, index: usize, enough: f64) -> f64 {
        while self.pairs[index].ways < self.all && self.pairs[index].distance <= enough {
            self.go_on(index, self.pairs[index].ways + 1);
        }
        self.pairs[index].distance
    }

    /// Every distance there is, whole.
    #[cfg(test)]
    pub(super) fn find_out_all(&mut self) {
        for one in 0..self.order.len() {
            for other in one + 1..self.order.len() {
                self.find_out(self.pair(self.order[one], self.order[other]), f64::INFINITY);
            }
        }
    }

    /// Goes on with a pair's distance up to so many ways.
    fn go_on(&mut self, index: usize, until: usize) {
        let Self { all, clusters, pairs, mpki, drive, pulls, .. } = self;
        let all = *all;
        let Pair { clusters: places, ways, distance, parts, programs, held } = &mut pairs[index];
        let pair = [&clusters[places[0]], &clusters[places[1]]];
        let convex = pair[0].is_convex && pair[1].is_convex;
        while *ways < until {
            *ways += 1;
            whirlpool::step(held, pulls, programs.iter().map(|&program| row(drive, program, all)));
            if *ways == 1 {
                continue;
            }
            let mut shared = 0.0;
            for (&program, &held) in programs.iter().zip(&*held) {
                shared += Ways::new(held).of(row(mpki, program, all), 0.0);
            }
            // Where every grant is a single way, one way more is one grant more.
            *parts = if convex { divide_from(*parts, pair, *ways) } else { divide(pair, *ways) };
            let divided = pair[0].mpki[parts[0] - 1] + pair[1].mpki[parts[1] - 1];
            *distance += (shared - divided).abs();
        }
    }
}

/// A program's figures.
#[inline]
fn row(figures: &[f64], program: usize, all: usize) -> &[f64] {
    &figures[program * all..][..all]
}

impl Cluster {
    /// The best grants from every number of ways.
    fn tabulate(&mut self) {
        let all = self.mpki.len();
        self.grants.clear();
        self.grants.resize(all * all, Grant::default());
        self.is_convex = true;
        for (from, grants) in self.grants.chunks_exact_mut(all).enumerate() {
            let now = self.mpki[from];
            let mut best = Grant::default();
            let further = &self.mpki[from + 1..];
            let (within, beyond) = grants[1..].split_at_mut(further.len());
            for ((more, grant), mpki) in (1..).zip(within).zip(further) {
                let gain_per_way = (now - mpki) / f64::from(more);
                if gain_per_way > best.gain_per_way {
                    best = Grant { gain_per_way, ways: more };
                }
                *grant = best;
            }
            beyond.fill(best);
            self.is_convex &= from + 1 == all || best.ways == 1;
        }
    }

    fn best(&self, from: usize, most: usize) -> Grant {
        self.grants[(from - 1) * self.mpki.len() + most]
    }
}

/// Lookahead between two clusters: [`crate::partitioning::lookahead::lookahead`] on their tables.
fn divide(pair: [&Cluster; 2], ways: usize) -> [usize; 2] {
    divide_from([1, 1], pair, ways)
}

/// The same from what the clusters have already.
fn divide_from(mut parts: [usize; 2], pair: [&Cluster; 2], ways: usize) -> [usize; 2] {
    loop {
        let left = ways - parts[0] - parts[1];
        if left == 0 {
            return parts;
        }
        let (first, second) = (pair[0].best(parts[0], left), pair[1].best(parts[1], left));
        let winner = usize::from(second.gain_per_way > first.gain_per_way);
        let grant = [first, second][winner];
        if grant.ways == 0 {
            return [parts[0] + left.div_ceil(2), parts[1] + left / 2];
        }
        parts[winner] += grant.ways as usize;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::partitioning::lookahead::lookahead;

    fn cluster(mpki: &[f64]) -> Cluster {
        let mut cluster = Cluster { mpki: mpki.to_vec(), ..Cluster::default() };
        cluster.tabulate();
        cluster
    }

    proptest! {
        #[test]
        fn convex_ones_are_divided_grant_by_grant(
            falls in prop::collection::vec(prop::collection::vec(1u8..40, 11), 2),
        ) {
            let pair = falls.into_iter().map(|mut falls| {
                falls.sort_unstable_by(|one, other| other.cmp(one));
                let mut mpki = vec![500.0];
                for fall in falls {
                    mpki.push(mpki[mpki.len() - 1] - f64::from(fall));
                }
                cluster(&mpki)
            });
            let pair: Vec<Cluster> = pair.collect();
            prop_assert!(pair[0].is_convex && pair[1].is_convex);
            let pair = [&pair[0], &pair[1]];
            let mut parts = [1, 1];
            for ways in 2..=12 {
                parts = divide_from(parts, pair, ways);
                prop_assert_eq!(parts, divide(pair, ways));
            }
        }

        #[test]
        fn two_are_divided_as_lookahead_does(
            curves in prop::collection::vec(prop::collection::vec(0u8..6, 12), 2),
            ways in 2usize..=12,
        ) {
            let mpki = |curve: &Vec<u8>| curve.iter().map(|&one| f64::from(one)).collect();
            let curves: Vec<Vec<f64>> = curves.iter().map(mpki).collect();
            let mut expected = vec![0; 2];
            lookahead(ways as u32, 1, &mut expected, &mut Vec::new(), |place, from, most| {
                Grant::best(|ways| curves[place][ways as usize - 1], from, most)
            });
            let pair = [cluster(&curves[0]), cluster(&curves[1])];
            let found = divide([&pair[0], &pair[1]], ways).map(|ways| ways as u32);
            prop_assert_eq!(found.to_vec(), expected);
        }
    }
}
