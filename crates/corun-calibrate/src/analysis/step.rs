//! Where a curve steps up.

use super::isotonic::ascending;
use corun_metrics::median;

/// The share of the points at each end that tell the level before and after the step.
const ENDS: f64 = 0.15;
/// A step is at least this much higher, relative to the level before.
const LEAST_RISE: f64 = 0.3;

/// The place at which a curve has risen half of the way from its first to its last level, by linear
/// interpolation. `points` are places, ascending, with values. None where the curve hardly rises.
pub(crate) fn step(points: &[(f64, f64)]) -> Option<f64> {
    let points: Vec<(f64, f64)> =
        points.iter().copied().filter(|(_, value)| value.is_finite()).collect();
    let values = ascending(&points.iter().map(|point| point.1).collect::<Vec<_>>());
    let count = ((values.len() as f64 * ENDS) as usize).max(2);
    if values.len() < 2 * count {
        return None;
    }
    let before = median(&values[..count])?;
    let after = median(&values[values.len() - count..])?;
    if after < before * (1.0 + LEAST_RISE) {
        return None;
    }
    let half = (before + after) / 2.0;
    let beyond = values.iter().position(|value| *value > half)?;
    let ((x0, _), (x1, _)) = (points[beyond.checked_sub(1)?], points[beyond]);
    let (y0, y1) = (values[beyond - 1], values[beyond]);
    Some(x0 + (half - y0) / (y1 - y0) * (x1 - x0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn half_of_the_way_up_is_the_step() {
        let values = [10.0, 10.0, 11.0, 10.0, 10.0, 12.0, 18.0, 20.0, 20.0, 20.0];
        let points: Vec<(f64, f64)> =
            values.iter().enumerate().map(|(place, value)| (place as f64 * 16.0, *value)).collect();
        // 15 lies half between 12 at 80 and 18 at 96.
        assert_eq!(step(&points), Some(88.0));
    }

    #[test]
    fn a_curve_that_hardly_rises_has_no_step() {
        let flat: Vec<(f64, f64)> =
            (0..20).map(|place| (f64::from(place), 10.0 + f64::from(place) * 0.1)).collect();
        assert_eq!(step(&flat), None);
        assert_eq!(step(&[]), None);
        assert_eq!(step(&[(1.0, 1.0), (2.0, 9.0)]), None);
        assert_eq!(step(&[(1.0, f64::NAN); 20]), None);
    }

    proptest! {
        #[test]
        fn a_noisy_step_is_found_to_a_point(
            place in 8usize..32,
            noise in prop::collection::vec(0.95..1.05f64, 40),
        ) {
            let level = |point: usize| if point < place { 100.0 } else { 190.0 };
            let points: Vec<(f64, f64)> = noise
                .iter()
                .enumerate()
                .map(|(point, noise)| (point as f64, level(point) * noise))
                .collect();
            let found = step(&points).unwrap();
            prop_assert!((found - (place as f64 - 0.5)).abs() <= 0.5, "{found} {place}");
        }
    }
}
