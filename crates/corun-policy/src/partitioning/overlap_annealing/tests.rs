use proptest::prelude::*;

use super::*;
use crate::{WaysPoint, build_partitioner};

fn curve(points: &[(f64, f64)]) -> WaysCurve {
    let point = |&(slowdown, llc_mpkc)| WaysPoint { slowdown, llc_mpkc, ..WaysPoint::default() };
    WaysCurve::new(points.iter().map(point).collect()).unwrap()
}

fn input<'a>(curves: &'a [&'a WaysCurve], ways: u32, least_ways: u32) -> Input<'a> {
    Input { curves, ways, least_ways, peak_bytes_per_s: None }
}

fn run(first: u32, ways: u32) -> Run {
    Run { first, ways }
}

/// Three ways. A misses 30 whatever it has, B 10. A has ways 0 and 1, B 1 and 2: A's pull on a way is 15, B's 5, so
/// that A holds way 0 and three quarters of way 1, B a quarter of way 1 and way 2.
#[test]
fn a_common_way_is_divided_by_misses() {
    let (a, b) = (
        curve(&[(3.0, 30.0), (2.0, 30.0), (1.0, 30.0)]),
        curve(&[(3.0, 10.0), (2.0, 10.0), (1.0, 10.0)]),
    );
    let mut estimate = Estimate::default();
    estimate.prepare(&input(&[&a, &b], 3, 1));
    let found = estimate.slowdowns(&[run(0, 2), run(1, 2)]).to_vec();
    // 1.75 ways: a quarter of the way from 2.0 back to 3.0; 1.25 ways the other way round.
    assert!((found[0] - 2.25).abs() < 1e-4 && (found[1] - 2.75).abs() < 1e-4, "{found:?}");
    // Apart, each is read at its own ways.
    assert_eq!(estimate.slowdowns(&[run(0, 2), run(2, 1)]), [2.0, 3.0]);
}

/// A streaming program that pulls everything, and one that needs all that there is: the streaming one is kept to
/// one way, which the other may use as well or not.
#[test]
fn a_streaming_program_is_kept_to_few_ways() {
    let stream = curve(&[(1.0, 40.0); 6]);
    let needy = curve(&[(3.0, 20.0), (2.4, 15.0), (1.9, 10.0), (1.5, 6.0), (1.2, 3.0), (1.0, 1.0)]);
    let mut policy = build_partitioner("overlap-annealing", &BuildOptions::default()).unwrap();
    let mut out = Partition::default();
    policy.partition(&input(&[&stream, &needy], 6, 1), &mut out).unwrap();
    assert_eq!(out.ways(0), 1, "{out:?}");
    assert!(out.ways(1) >= 5, "{out:?}");
}

#[test]
fn nobody_and_one_program_are_no_trouble() {
    let mut policy = build_partitioner("overlap-annealing", &BuildOptions::default()).unwrap();
    let mut out = Partition::default();
    policy.partition(&input(&[], 4, 1), &mut out).unwrap();
    assert!(out.cluster.is_empty() && out.masks.is_empty());
    let one = curve(&[(2.0, 9.0), (1.0, 1.0)]);
    policy.partition(&input(&[&one], 2, 1), &mut out).unwrap();
    assert_eq!(out.ways(0), 2);
}

/// All runs of so many ways.
fn all_runs(ways: u32, least: u32) -> Vec<Run> {
    (0..ways).flat_map(|first| (least..=ways - first).map(move |ways| run(first, ways))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Against all pairs of masks of two programs on five ways.
    #[test]
    fn it_comes_near_the_best_masks(
        points in prop::collection::vec(prop::collection::vec((1.0f64..3.0, 0.1f64..30.0), 5), 2),
        least in 1u32..3,
        seed in 0u64..1000,
    ) {
        let curves: Vec<WaysCurve> = points
            .iter()
            .map(|points| {
                let mut slowdowns: Vec<f64> = points.iter().map(|one| one.0).collect();
                let mut misses: Vec<f64> = points.iter().map(|one| one.1).collect();
                slowdowns.sort_by(|one, other| other.total_cmp(one));
                misses.sort_by(|one, other| other.total_cmp(one));
                curve(&slowdowns.into_iter().zip(misses).collect::<Vec<_>>())
            })
            .collect();
        let curves: Vec<&WaysCurve> = curves.iter().collect();
        let input = input(&curves, 5, least);
        let options = BuildOptions { seed, ..BuildOptions::default() };
        let mut search = OverlapAnnealing::new(&options);
        search.estimate.prepare(&input);
        let found = search.search(&input);
        prop_assert!(found.iter().all(|run| run.fits(&input)));
        let cost = search.cost(&found);
        let runs = all_runs(5, least);
        let mut best = f64::INFINITY;
        for &one in &runs {
            for &other in &runs {
                best = best.min(search.cost(&[one, other]));
            }
        }
        prop_assert!(cost <= best * 1.005, "{} {}", cost, best);
    }
}
