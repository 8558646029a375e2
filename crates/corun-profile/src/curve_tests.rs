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
