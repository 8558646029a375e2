use proptest::prelude::*;

use super::*;
use crate::partitioning::{Input, Partition};
use crate::{WaysPoint, build_partitioner};

fn curve(points: &[(f64, f64)]) -> WaysCurve {
    let point = |&(slowdown, llc_mpkc)| WaysPoint { slowdown, llc_mpkc, ..WaysPoint::default() };
    WaysCurve::new(points.iter().map(point).collect()).unwrap()
}

/// Needs four ways, and nothing less helps it much.
fn cliff() -> WaysCurve {
    curve(&[(3.0, 9.0), (2.9, 9.0), (2.8, 9.0), (1.0, 1.0)])
}

/// Suffers a little in its first way.
fn mild() -> WaysCurve {
    curve(&[(1.10, 1.0), (1.05, 0.5), (1.0, 0.1), (1.0, 0.1)])
}

/// Of four ways lookahead gives the cliff two and each mild program one. The pair of mild ones in one way, half a
/// way each by their equal misses, is read in the line through 1.10 and 1.05: 1.125 each, a rise of 0.05. With the
/// way that this frees the cliff falls from 2.9 to 2.8: it takes the way. Of six ways it has four already, and a fifth
/// is worth nothing.
#[test]
fn two_others_share_where_the_way_they_free_is_worth_more() {
    let (cliff, mild) = (cliff(), mild());
    let curves = [&cliff, &mild, &mild];
    let programs = Programs::new(&curves, 4, 1);
    assert_eq!(programs.alone().ways, [2, 1, 1]);
    let [first, second] = programs.shared(1, 2, 1);
    assert!((first - 1.125).abs() < 1e-12 && (second - 1.125).abs() < 1e-12);
    let change = programs.best_change(&programs.alone(), 0);
    assert_eq!(change, Some(Change::Take(1, 2)));
    // Unfairness falls from 2.9 / 1.1 to 2.8 / 1.125.
    assert_eq!(pair_clusters(&curves, 4, 1), (vec![0, 1, 1], vec![3, 1]));
    assert_eq!(pair_clusters(&curves, 6, 1), (vec![0, 1, 2], vec![4, 1, 1]));
}

/// Two programs with a cliff at four ways, and five ways: apart, one of them gets four and the other one. Together
/// they would hold 2.5 each, and none is past its cliff.
#[test]
fn sharing_that_raises_the_sum_is_not_done() {
    let (one, other) = (cliff(), cliff());
    assert_eq!(pair_clusters(&[&one, &other], 5, 1), (vec![0, 1], vec![4, 1]));
}

#[test]
fn a_program_alone_has_all_ways() {
    let one = cliff();
    assert_eq!(pair_clusters(&[&one], 7, 1), (vec![0], vec![7]));
}

/// The whole algorithm: a streaming program is confined to one of five ways, and the rest is as above.
#[test]
fn streaming_programs_are_confined_as_by_lfoc() {
    let (cliff, mild) = (cliff(), mild());
    let padded = |curve: &WaysCurve| {
        let mut points = curve.points().to_vec();
        points.push(*points.last().unwrap());
        WaysCurve::new(points).unwrap()
    };
    let (cliff, mild) = (padded(&cliff), padded(&mild));
    let stream = curve(&[(1.0, 30.0); 5]);
    let curves = [&stream, &cliff, &mild, &mild];
    let input = Input { curves: &curves, ways: 5, least_ways: 1, peak_bytes_per_s: None };
    let decided = |name: &str| {
        let mut out = Partition::default();
        let mut policy = build_partitioner(name, &BuildOptions::default()).unwrap();
        policy.partition(&input, &mut out).unwrap();
        (out.cluster.clone(), (0..4).map(|one| out.ways(one)).collect::<Vec<u32>>())
    };
    assert_eq!(decided("lfoc"), (vec![0, 1, 2, 3], vec![1, 2, 1, 1]));
    assert_eq!(decided("lfoc-plus"), (vec![0, 1, 2, 2], vec![1, 3, 1, 1]));
}

proptest! {
    /// All ways are given out, nobody has fewer than the least, and nobody is less fair off than apart.
    #[test]
    fn pairs_are_never_less_fair_than_no_pairs(
        points in prop::collection::vec(prop::collection::vec((1.0f64..3.0, 0.1f64..20.0), 8), 1..5),
        least in 1u32..3,
    ) {
        let curves: Vec<WaysCurve> = points
            .iter()
            .map(|points| {
                let mut falling = points.clone();
                falling.sort_by(|one, other| other.0.total_cmp(&one.0));
                curve(&falling)
            })
            .collect();
        let curves: Vec<&WaysCurve> = curves.iter().collect();
        let (cluster, ways) = pair_clusters(&curves, 8, least);
        prop_assert_eq!(ways.iter().sum::<u32>(), 8);
        prop_assert!(ways.iter().all(|&ways| ways >= least));
        prop_assert!((0..ways.len()).all(|one| (1..=2).contains(&cluster.iter().filter(|&&c| c == one).count())));
        let programs = Programs::new(&curves, 8, least);
        let partner = |one: usize| (0..cluster.len()).find(|&other| other != one && cluster[other] == cluster[one]);
        let found = Pairing {
            partner: (0..cluster.len()).map(partner).collect(),
            ways: cluster.iter().map(|&one| ways[one]).collect(),
        };
        prop_assert!(programs.unfairness(&found) <= programs.unfairness(&programs.alone()));
    }
}
