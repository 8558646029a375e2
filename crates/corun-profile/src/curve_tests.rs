use proptest::prelude::*;

use super::*;

fn curve(points: &[(u64, f64)]) -> MissRateCurve {
    MissRateCurve::new(points.iter().map(|&(bytes, mpki)| CurvePoint { bytes, mpki }).collect())
        .unwrap()
}

#[test]
fn linear_between_points_and_flat_above() {
    let curve = curve(&[(1000, 10.0), (3000, 4.0)]);
    assert_eq!(curve.mpki(2000.0), Reading { value: 7.0, extrapolated: false });
    assert_eq!(curve.mpki(3000.0), Reading { value: 4.0, extrapolated: false });
    assert_eq!(curve.mpki(9000.0), Reading { value: 4.0, extrapolated: true });
}

#[test]
fn below_the_first_point_a_power_law_of_at_most_one() {
    // 8 to 4 over a doubling is a = 1: half the size doubles the misses.
    let steep = curve(&[(1000, 8.0), (2000, 4.0)]);
    assert!((steep.mpki(500.0).value - 16.0).abs() < 1e-9);
    assert!(steep.mpki(500.0).extrapolated);
    let rising = curve(&[(1000, 4.0), (2000, 5.0)]);
    assert!((rising.mpki(500.0).value - 4.0).abs() < 1e-9);
}

#[test]
fn a_sum_has_the_sizes_of_both() {
    let sum = curve(&[(1000, 10.0), (3000, 4.0)]).plus(&curve(&[(2000, 1.0), (4000, 0.5)]));
    // Below its first point the second goes on as a power law: at half the size twice as much.
    assert_eq!(sum, curve(&[(1000, 12.0), (2000, 8.0), (3000, 4.75), (4000, 4.5)]));
}

#[test]
fn what_fits_a_footprint_hits_there_though_its_step_was_seen_a_little_beyond() {
    // The recorded kernel-triad: a loop through 48.2 MiB, whose step lies between two sizes.
    let points = [(1 << 20, 114.0), (50_331_648, 111.0), (50_855_936, 5.5), (1 << 33, 5.5)];
    let triad = curve(&points).with_footprint(50_553_600);
    assert_eq!(triad.mpki(50_553_600.0).value, 5.5);
    assert_eq!(triad.mpki(50_331_648.0).value, 111.0);
    assert_eq!(triad.points()[3], CurvePoint { bytes: 1 << 33, mpki: 5.5 });
    // Of a loop through one array, which begins within the last page of the first point's rate.
    let walk = [(1024, 71.4), (1_572_864, 71.4), (1_589_248, 8.2), (1 << 33, 8.2)];
    let walk = curve(&walk).with_footprint(1_568_128);
    for (bytes, mpki) in [(64, 71.4), (1 << 20, 71.4), (1_568_128, 8.2), (1 << 21, 8.2)] {
        assert_eq!(walk.mpki(bytes as f64).value, mpki, "{bytes}");
    }
    // Reuses far beyond what a phase touches itself go to lines of phases before it.
    let far = curve(&[(500, 5.0), (1000, 4.0), (2000, 3.0), (4000, 2.0)]);
    let read = far.with_footprint(2000).mpki(2000.0).value;
    assert!((read - far.mpki(2000.0 * (1.0 + BEYOND_FOOTPRINT)).value).abs() < 1e-12);
    for footprint in [0, 1000, 4000, 5000] {
        assert_eq!(far.with_footprint(footprint), far);
    }
}

#[test]
fn bad_points_are_refused() {
    let point = |bytes, mpki| CurvePoint { bytes, mpki };
    assert_eq!(MissRateCurve::new(vec![]), Err(CurveError::Empty));
    assert_eq!(MissRateCurve::new(vec![point(0, 1.0)]), Err(CurveError::ZeroSize { index: 0 }));
    assert!(MissRateCurve::new(vec![point(2, 1.0), point(2, 1.0)]).is_err());
    assert!(MissRateCurve::new(vec![point(2, -1.0)]).is_err());
    assert!(MissRateCurve::new(vec![point(2, f64::NAN)]).is_err());
}

#[test]
fn a_size_that_is_no_number_is_the_smallest() {
    let curve = curve(&[(1000, 8.0), (2000, 4.0)]);
    assert_eq!(curve.mpki(f64::NAN), curve.mpki(0.0));
    assert_eq!(curve.mpki(0.0), curve.mpki(64.0));
}

proptest! {
    #[test]
    fn a_footprint_lowers_no_rate_but_near_it(
        sizes in proptest::collection::btree_set(1u64..1 << 40, 1..20),
        mut rates in proptest::collection::vec(0.0..200.0f64, 20),
        footprint in 0u64..1 << 41,
        reads in proptest::collection::vec(0.0..2e12f64, 20),
    ) {
        rates.sort_by(|a, b| b.total_cmp(a));
        let points = sizes.into_iter().zip(rates);
        let points = points.map(|(bytes, mpki)| CurvePoint { bytes, mpki }).collect();
        let recorded = MissRateCurve::new(points).unwrap();
        let curve = recorded.with_footprint(footprint);
        prop_assert!(MissRateCurve::new(curve.points().to_vec()).is_ok());
        let below = recorded.points().iter().rev().find(|point| point.bytes < footprint);
        let below = below.map_or(0.0, |point| point.bytes as f64);
        let beyond = footprint as f64 * (1.0 + BEYOND_FOOTPRINT);
        let above = recorded.points().iter().find(|point| point.bytes as f64 > beyond);
        let above = above.unwrap_or(&recorded.points()[recorded.points().len() - 1]);
        for bytes in reads {
            let [was, is] = [&recorded, &curve].map(|curve| curve.mpki(bytes).value);
            prop_assert!(is <= was * (1.0 + 1e-9) + 1e-9);
            if bytes <= below || bytes >= above.bytes as f64 {
                prop_assert!((is - was).abs() <= 1e-9 * was);
            }
        }
    }

    #[test]
    fn monotone_where_the_points_are(
        sizes in proptest::collection::btree_set(1u64..1 << 40, 1..20),
        mut rates in proptest::collection::vec(0.0..200.0f64, 20),
        mut reads in proptest::collection::vec(0.0..2e12f64, 2..20),
    ) {
        rates.sort_by(|a, b| b.total_cmp(a));
        let points = sizes.into_iter().zip(rates);
        let curve = curve(&points.collect::<Vec<_>>());
        reads.sort_by(f64::total_cmp);
        for pair in reads.windows(2) {
            let (small, large) = (curve.mpki(pair[0]).value, curve.mpki(pair[1]).value);
            prop_assert!(large <= small * (1.0 + 1e-12), "{pair:?}: {small} {large}");
        }
        for point in curve.points() {
            let there = curve.mpki(point.bytes as f64);
            prop_assert_eq!(there, Reading { value: point.mpki, extrapolated: false });
        }
    }
}
