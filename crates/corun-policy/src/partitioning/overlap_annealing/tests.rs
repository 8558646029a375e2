use std::collections::BTreeMap;

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

/// Curves that fall, from points in any order.
fn falling(points: &[Vec<(f64, f64)>]) -> Vec<WaysCurve> {
    let one = |points: &Vec<(f64, f64)>| {
        let mut slowdowns: Vec<f64> = points.iter().map(|one| one.0).collect();
        let mut misses: Vec<f64> = points.iter().map(|one| one.1).collect();
        slowdowns.sort_by(|one, other| other.total_cmp(one));
        misses.sort_by(|one, other| other.total_cmp(one));
        curve(&slowdowns.into_iter().zip(misses).collect::<Vec<_>>())
    };
    points.iter().map(one).collect()
}

fn searched(input: &Input<'_>, seed: u64) -> (OverlapAnnealing, Vec<Run>) {
    let mut search = OverlapAnnealing::new(&BuildOptions { seed, ..BuildOptions::default() });
    search.estimate.prepare(input);
    let found = search.search(input);
    (search, found)
}

/// The least cost of all plans.
fn best_cost(search: &mut OverlapAnnealing, input: &Input<'_>) -> f64 {
    let best = search.best_of_all(&all_runs(input), input.curves.len());
    search.cost(&best)
}

/// The annealing alone missed this pair's best masks by 1.6 %.
#[test]
fn a_pair_on_five_ways_gets_the_best_masks() {
    let of = |slowdowns: [f64; 5], misses: [f64; 5]| {
        curve(&slowdowns.into_iter().zip(misses).collect::<Vec<_>>())
    };
    let a = of([2.595, 2.213, 1.931, 1.643, 1.431], [24.78, 19.84, 17.19, 7.104, 3.051]);
    let b = of([2.883, 2.468, 2.392, 1.876, 1.069], [25.54, 24.65, 22.8, 18.41, 4.188]);
    let curves = [&a, &b];
    let input = input(&curves, 5, 1);
    let (mut search, found) = searched(&input, 942);
    let (cost, best) = (search.cost(&found), best_cost(&mut search, &input));
    assert_eq!(cost, best);
    // By brute force over what `best_of_all` looks at.
    let runs = all_runs(&input);
    assert_eq!(runs.len(), 15);
    for &one in &runs {
        assert!(runs.iter().all(|&other| search.cost(&[one, other]) >= best));
    }
}

/// Three programs on six ways have more plans than the annealing tries. These draws are always the same.
#[test]
fn three_programs_come_near_the_best_masks() {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    for seed in 0..24 {
        let mut point = |_| (random.random_range(1.0..3.0), random.random_range(0.1..30.0));
        let points: Vec<Vec<(f64, f64)>> =
            (0..3).map(|_| (0..6).map(&mut point).collect()).collect();
        let curves = falling(&points);
        let curves: Vec<&WaysCurve> = curves.iter().collect();
        let input = input(&curves, 6, 1);
        let (mut search, found) = searched(&input, seed);
        let (cost, best) = (search.cost(&found), best_cost(&mut search, &input));
        assert!(cost <= best * 1.03, "{seed}: {cost} {best}");
    }
}

fn draws(programs: usize, ways: usize) -> impl Strategy<Value = Vec<Vec<(f64, f64)>>> {
    let curve = prop::collection::vec((1.0f64..3.0, 0.1f64..30.0), ways);
    prop::collection::vec(curve, programs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// With no more plans than steps, no pair of masks is better.
    #[test]
    fn where_all_plans_are_tried_none_is_better(points in draws(2, 5), least in 1u32..3, seed in 0u64..1000) {
        let curves = falling(&points);
        let curves: Vec<&WaysCurve> = curves.iter().collect();
        let input = input(&curves, 5, least);
        let (mut search, found) = searched(&input, seed);
        prop_assert!(found.iter().all(|run| run.fits(&input)));
        let cost = search.cost(&found);
        let runs = all_runs(&input);
        for &one in &runs {
            for &other in &runs {
                prop_assert!(search.cost(&[one, other]) >= cost);
            }
        }
    }

    /// Else no other mask of one program is better, and no exchange of two masks.
    #[test]
    fn no_change_of_one_mask_is_better(points in draws(5, 7), classes in 2u32..6, seed in 0u64..1000) {
        let curves = falling(&points);
        let curves: Vec<&WaysCurve> = curves.iter().collect();
        let input = input(&curves, 7, 1);
        let parameters = BTreeMap::from([("classes".to_owned(), f64::from(classes))]);
        let mut search = OverlapAnnealing::new(&BuildOptions { seed, parameters });
        search.estimate.prepare(&input);
        let found = search.search(&input);
        prop_assert!(distinct(&found) <= classes as usize);
        let cost = search.cost(&found);
        let runs = all_runs(&input);
        for one in 0..found.len() {
            for &run in &runs {
                let mut changed = found.clone();
                changed[one] = run;
                let may = distinct(&changed) <= classes as usize;
                prop_assert!(!may || search.cost(&changed) >= cost * (1.0 - 1e-6));
            }
            for other in 0..one {
                let mut changed = found.clone();
                changed.swap(one, other);
                prop_assert!(search.cost(&changed) >= cost * (1.0 - 1e-6));
            }
        }
    }
}
