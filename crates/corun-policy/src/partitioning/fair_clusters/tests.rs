use proptest::prelude::*;

use super::*;
use crate::{WaysPoint, build_partitioner};

/// A program by its slowdown and misses per 1000 instructions with 1, 2, 3 .. ways.
fn curve(points: &[(f64, f64)]) -> WaysCurve {
    let point = |&(slowdown, llc_mpki): &(f64, f64)| WaysPoint {
        slowdown,
        ipc: 1.0 / slowdown,
        llc_mpki,
        llc_apki: llc_mpki,
        ..WaysPoint::default()
    };
    WaysCurve::new(points.iter().map(point).collect()).unwrap()
}

fn decide(
    curves: &[WaysCurve],
    ways: u32,
    least_ways: u32,
    target: f64,
) -> (Partition, FairClusters) {
    let curves: Vec<&WaysCurve> = curves.iter().collect();
    let input = Input { curves: &curves, ways, least_ways, peak_bytes_per_s: None };
    let mut policy = FairClusters { target, ..FairClusters::default() };
    let mut out = Partition::default();
    policy.partition(&input, &mut out).unwrap();
    (out, policy)
}

/// Never any slower, and misses that do not change: a stream.
fn stream(ways: usize) -> WaysCurve {
    curve(&vec![(1.0, 30.0); ways])
}

/// 1.3 with two ways, 1.1 with three, 1.0 with four; two streams want nothing. Strictly it is 1.1 at
/// best (1, 1 and 3 of 5 ways); with the streams in one way it has all it wants.
#[test]
fn streams_share_so_that_others_have_room() {
    let wants = curve(&[(1.6, 20.0), (1.3, 10.0), (1.1, 5.0), (1.0, 1.0), (1.0, 1.0)]);
    let (out, policy) = decide(&[stream(5), wants, stream(5)], 5, 1, 0.0);
    assert_eq!((out.cluster, out.masks), (vec![0, 1, 0], vec![0x1, 0x1e]));
    assert_eq!(policy.best.worst, 1.0);
}

/// With a target of 1.3 two ways would do, and the third is left over: it goes to the slowest.
#[test]
fn a_target_is_kept_with_left_over_ways_to_the_slowest() {
    let wants = curve(&[(1.6, 20.0), (1.3, 10.0), (1.1, 5.0)]);
    let (out, policy) = decide(std::slice::from_ref(&wants), 3, 1, 1.3);
    assert_eq!((out.masks, policy.best.worst), (vec![0x7], 1.1));
    let flat = curve(&[(1.2, 5.0), (1.2, 5.0), (1.2, 5.0)]);
    let (out, policy) = decide(&[flat, wants], 3, 1, 1.3);
    assert_eq!((out.masks, policy.best.worst), (vec![0x1, 0x6], 1.3));
    assert!(policy.slower_than_asked().is_empty());
}

/// Two programs that need two ways each to keep to 1.1, and three ways.
#[test]
fn who_is_slower_than_asked_is_told() {
    let wants = || curve(&[(2.0, 20.0), (1.0, 0.0), (1.0, 0.0)]);
    let (_, policy) = decide(&[stream(3), wants(), wants()], 3, 1, 1.1);
    assert!(!policy.slower_than_asked().is_empty());
    assert!(!policy.slower_than_asked().contains(&0), "{:?}", policy.slower_than_asked());
    let (_, policy) = decide(&[wants()], 3, 1, 0.5);
    assert_eq!(policy.slower_than_asked(), [0]);
}

#[test]
fn few_many_and_flat_programs() {
    assert_eq!(decide(&[], 4, 1, 0.0).0, Partition::default());
    assert_eq!(decide(&[stream(4)], 4, 2, 0.0).0.masks, [0xf]);
    let many: Vec<WaysCurve> = (0..30).map(|_| stream(2)).collect();
    let (out, _) = decide(&many, 2, 2, 0.0);
    assert_eq!((out.cluster, out.masks), (vec![0; 30], vec![0x3]));
    // A curve without any figure counts as one that gains nothing.
    let none = || WaysCurve::new(vec![WaysPoint::default(); 4]).unwrap();
    let (out, _) = decide(&[none(), none()], 4, 1, 0.0);
    assert_eq!(out.masks.iter().map(|mask| mask.count_ones()).sum::<u32>(), 4);
    let endless = WaysPoint { slowdown: f64::INFINITY, ipc: f64::NAN, ..WaysPoint::default() };
    let (out, _) = decide(&[WaysCurve::new(vec![endless; 4]).unwrap(), none()], 4, 1, 1.2);
    assert_eq!(out.cluster.len(), 2);
}

#[test]
fn the_target_is_a_parameter() {
    let mut options = BuildOptions::default();
    options.parameters.insert("target-slowdown".to_owned(), 1.5);
    assert!(build_partitioner("fair-clusters", &options).is_ok());
    options.parameters.insert("target-slowdown".to_owned(), -1.0);
    assert!(build_partitioner("fair-clusters", &options).is_err());
}

/// The lowest of the highest slowdowns of all clusterings, by the same prediction.
fn least_worst(curves: &mut ClusterCurves, programs: u32, ways: u32, least: u32) -> f64 {
    fn ways_for(curves: &ClusterCurves, clusters: &[u32], ways: u32, least: u32) -> f64 {
        let Some((&first, rest)) = clusters.split_first() else { return 0.0 };
        if rest.is_empty() {
            return curves.worst(first, ways);
        }
        let most = ways.saturating_sub(rest.len() as u32 * least);
        let with = |own| curves.worst(first, own).max(ways_for(curves, rest, ways - own, least));
        (least..=most).map(with).fold(f64::INFINITY, f64::min)
    }
    fn join(
        curves: &mut ClusterCurves,
        next: u32,
        of: (u32, u32, u32),
        clusters: &mut Vec<u32>,
    ) -> f64 {
        let (programs, ways, least) = of;
        if next == programs {
            let fit = clusters.len() as u32 * least <= ways;
            return if fit { ways_for(curves, clusters, ways, least) } else { f64::INFINITY };
        }
        clusters.push(next);
        let mut best = join(curves, next + 1, of, clusters);
        clusters.pop();
        for place in 0..clusters.len() {
            let before = clusters[place];
            clusters[place] = curves.merged(before, next);
            best = best.min(join(curves, next + 1, of, clusters));
            clusters[place] = before;
        }
        best
    }
    join(curves, 0, (programs, ways, least), &mut Vec::new())
}

proptest! {
    /// Against every clustering: never better than the best, never worse than the whole cache for all;
    /// all ways are given, and nobody has less than the minimum.
    #[test]
    fn beside_every_clustering(
        falls in prop::collection::vec(prop::collection::vec((0u8..60, 0u8..60), 6), 1..6),
        least in 1u32..3,
        target in prop::option::of(1.0..2.0_f64),
    ) {
        let curves: Vec<WaysCurve> = falls.iter().map(|falls| {
            let mut point = (1.0, 0.2);
            let mut points: Vec<(f64, f64)> = falls.iter().map(|&(slower, more)| {
                let now = point;
                point = (point.0 + f64::from(slower) * 0.01, point.1 + f64::from(more) * 0.1);
                now
            }).collect();
            points.reverse();
            curve(&points)
        }).collect();
        let (out, mut policy) = decide(&curves, 6, least, target.unwrap_or(0.0));
        prop_assert_eq!(out.masks.iter().map(|mask| mask.count_ones()).sum::<u32>(), 6);
        prop_assert_eq!(out.masks.iter().fold(0, |all, mask| all | mask), 0x3f);
        prop_assert!(out.masks.iter().all(|mask| mask.count_ones() >= least));
        let programs = curves.len() as u32;
        let best = least_worst(&mut policy.curves, programs, 6, least);
        let all = (1..programs).fold(0, |all, one| policy.curves.merged(all, one));
        prop_assert!(policy.best.worst >= best - 1e-12, "{} {best}", policy.best.worst);
        match target {
            None => prop_assert!(policy.best.worst <= policy.curves.worst(all, 6)),
            Some(target) => {
                // Between two moments of the grid a cluster's row may lie above all of its programs'.
                let mut each = Vec::new();
                for (&cluster, &ways) in policy.best.clusters.iter().zip(&policy.best.ways) {
                    policy.curves.slowdowns(cluster, ways, &mut each);
                }
                prop_assert!(each.iter().all(|one| one.1 <= policy.best.worst + 1e-12));
                let mut slower: Vec<usize> =
                    each.iter().filter(|one| one.1 > target).map(|one| one.0).collect();
                slower.sort_unstable();
                prop_assert_eq!(policy.slower_than_asked(), &slower);
                // What is given up is one that nobody could keep, or that merging pairs did not find.
                prop_assert!(policy.best.worst <= policy.curves.worst(all, 6).max(target));
            }
        }
    }
}
