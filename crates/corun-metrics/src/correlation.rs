//! How two figures of the same things go together: correlations, and the line through them.

use crate::{finite, student_t_95};

/// Spearman's rank correlation, -1 to 1: the correlation of the ranks, equals sharing the mean of
/// theirs (Spearman, American Journal of Psychology 15(1), 1904). `None` when the slices differ in
/// length, hold fewer than two figures or one that is not finite, or when one of them has one value
/// only.
pub fn rank_correlation(first: &[f64], second: &[f64]) -> Option<f64> {
    let finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
    if first.len() != second.len() || first.len() < 2 || !finite(first) || !finite(second) {
        return None;
    }
    correlation(&ranks(first), &ranks(second))
}

/// Pearson's correlation, -1 to 1. `None` where [`rank_correlation`] is.
pub fn correlation(first: &[f64], second: &[f64]) -> Option<f64> {
    let sums = Sums::of(first, second)?;
    let spread = (sums.xx * sums.yy).sqrt();
    finite(sums.xy / spread).filter(|_| spread > 0.0)
}

/// A straight line by least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FittedLine {
    /// Its value at 0.
    pub intercept: f64,
    /// What it rises a unit.
    pub slope: f64,
    /// The share of the variance that it explains, 0 to 1.
    pub r_squared: f64,
}

/// The line of `y` over `x` by least squares. `None` when the slices differ in length, hold fewer
/// than two figures or one that is not finite, or when one of them has one value only.
pub fn line(x: &[f64], y: &[f64]) -> Option<FittedLine> {
    let sums = Sums::of(x, y)?;
    if sums.xx <= 0.0 || sums.yy <= 0.0 {
        return None;
    }
    let slope = sums.xy / sums.xx;
    let intercept = sums.mean_y - slope * sums.mean_x;
    Some(FittedLine { intercept, slope, r_squared: sums.xy * sums.xy / (sums.xx * sums.yy) })
}

/// What the line of `y` over `x` by least squares says at one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LineAt {
    /// Its value there.
    pub value: f64,
    /// Half the width of the interval that holds the true line's value there with a chance of 95 %, where what `y` is off
    /// it is normal.
    pub half_width_95: f64,
}

/// The line of `y` over `x` by least squares at `at`, which may lie outside `x`, with the interval of a fitted mean (Draper and
/// Smith, Applied Regression Analysis, 1998). `None` as of [`line()`], and for fewer than three
/// points, of which nobody knows how far they are off a line.
pub fn line_at(x: &[f64], y: &[f64], at: f64) -> Option<LineAt> {
    let sums = Sums::of(x, y)?;
    if sums.xx <= 0.0 || x.len() < 3 {
        return None;
    }
    let slope = sums.xy / sums.xx;
    let degrees = x.len() - 2;
    let residual = (sums.yy - slope * sums.xy).max(0.0) / degrees as f64;
    let away = at - sums.mean_x;
    let error = (residual * (1.0 / x.len() as f64 + away * away / sums.xx)).sqrt();
    Some(LineAt {
        value: finite(sums.mean_y + slope * away)?,
        half_width_95: finite(student_t_95(degrees) * error)?,
    })
}

/// Means, and sums of squares and of products around them.
struct Sums {
    mean_x: f64,
    mean_y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Sums {
    fn of(x: &[f64], y: &[f64]) -> Option<Self> {
        if x.len() != y.len() || x.len() < 2 {
            return None;
        }
        let count = x.len() as f64;
        let mean = |values: &[f64]| finite(values.iter().sum::<f64>() / count);
        let (mean_x, mean_y) = (mean(x)?, mean(y)?);
        let sum = |of: &dyn Fn(f64, f64) -> f64| {
            x.iter().zip(y).map(|(x, y)| of(x - mean_x, y - mean_y)).sum::<f64>()
        };
        let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
        Some(Self { mean_x, mean_y, xx, xy, yy })
    }
}

/// Ranks from 1; equals share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for equals in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = before as f64 + (equals.len() as f64 + 1.0) / 2.0;
        equals.iter().for_each(|&at| ranks[at] = rank);
        before += equals.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_counts_and_distance_does_not() {
        assert_eq!(rank_correlation(&[1.0, 2.0, 3.0], &[10.0, 11.0, 900.0]), Some(1.0));
        assert_eq!(rank_correlation(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-1.0));
        // Ranks 1 2 3 4 and 2 1 3 4: 1 - 6 x 2 / (4 x 15).
        let found = rank_correlation(&[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 3.0, 4.0]).unwrap();
        assert!((found - 0.8).abs() < 1e-12);
        // Ranks 1 2.5 2.5 and 1 2 3: 1.5 / sqrt(1.5 x 2).
        let found = rank_correlation(&[1.0, 5.0, 5.0], &[1.0, 2.0, 3.0]).unwrap();
        assert!((found - 1.5 / 3f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn a_line_is_found_again_and_what_lies_beside_it_is_not_explained() {
        let found = line(&[2.0, 10.0, 30.0], &[1.08, 1.2, 1.5]).unwrap();
        assert!((found.intercept - 1.05).abs() < 1e-12 && (found.slope - 0.015).abs() < 1e-12);
        assert!(found.r_squared > 1.0 - 1e-12);
        // (0, 1), (0, -1), (2, 3), (2, 1): xx 4, xy 4, yy 8.
        let found = line(&[0.0, 0.0, 2.0, 2.0], &[1.0, -1.0, 3.0, 1.0]).unwrap();
        assert_eq!(found, FittedLine { intercept: 0.0, slope: 1.0, r_squared: 0.5 });
        assert_eq!(line(&[2.0, 2.0], &[0.0, 0.1]), None);
        let pearson = correlation(&[0.0, 0.0, 2.0, 2.0], &[1.0, -1.0, 3.0, 1.0]).unwrap();
        assert!((pearson - 0.5f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn what_has_no_order_has_no_correlation() {
        assert_eq!(rank_correlation(&[1.0], &[1.0]), None);
        assert_eq!(rank_correlation(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(rank_correlation(&[1.0, f64::NAN], &[1.0, 2.0]), None);
        assert_eq!(rank_correlation(&[1.0, 2.0], &[1.0]), None);
    }
}
