//! Do two figures put things in the same order?

/// Spearman's rank correlation, -1 to 1: the correlation of the ranks, equals sharing the mean of
/// theirs (Spearman, American Journal of Psychology 15(1), 1904). `None` when the slices differ in
/// length, hold fewer than two figures or one that is not finite, or when one of them has one value
/// only.
pub fn rank_correlation(first: &[f64], second: &[f64]) -> Option<f64> {
    let finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
    if first.len() != second.len() || first.len() < 2 || !finite(first) || !finite(second) {
        return None;
    }
    let (first, second) = (ranks(first), ranks(second));
    let middle = (first.len() as f64 + 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - middle) * (b - middle)).sum()
    };
    let spread = (product(&first, &first) * product(&second, &second)).sqrt();
    (spread > 0.0).then(|| product(&first, &second) / spread)
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
    fn what_has_no_order_has_no_correlation() {
        assert_eq!(rank_correlation(&[1.0], &[1.0]), None);
        assert_eq!(rank_correlation(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(rank_correlation(&[1.0, f64::NAN], &[1.0, 2.0]), None);
        assert_eq!(rank_correlation(&[1.0, 2.0], &[1.0]), None);
    }
}
