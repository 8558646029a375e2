//! Monotone curves through noisy points.

/// The ascending sequence with the least sum of absolute distances to `values`: adjacent violators
/// are pooled to their median (Robertson and Wright, Annals of Statistics 8(3), 1980). A single
/// outlier does not pull its neighbours along, as it would by a mean.
pub(crate) fn ascending(values: &[f64]) -> Vec<f64> {
    // Blocks of pooled values, each sorted.
    let mut blocks: Vec<Vec<f64>> = Vec::new();
    for &value in values {
        let mut block = vec![value];
        while let Some(left) = blocks.pop_if(|left| lower_median(left) > lower_median(&block)) {
            block.extend(left);
            block.sort_unstable_by(f64::total_cmp);
        }
        blocks.push(block);
    }
    blocks.iter().flat_map(|block| std::iter::repeat_n(lower_median(block), block.len())).collect()
}

/// The median of sorted values; of an even number the lower one, so that it is one of them.
fn lower_median(sorted: &[f64]) -> f64 {
    sorted[(sorted.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn violators_are_pooled_to_their_median() {
        assert_eq!(ascending(&[1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]);
        // An outlier among equals leaves no trace.
        assert_eq!(ascending(&[4.0, 9.0, 4.0, 4.0, 5.0]), [4.0, 4.0, 4.0, 4.0, 5.0]);
        assert_eq!(ascending(&[5.0, 1.0, 3.0]), [1.0, 1.0, 3.0]);
        assert!(ascending(&[]).is_empty());
    }

    /// The least sum of distances of any ascending sequence out of these levels.
    fn least_distance(values: &[f64], levels: &[f64], at_least: f64) -> f64 {
        let Some((first, rest)) = values.split_first() else { return 0.0 };
        levels
            .iter()
            .filter(|level| **level >= at_least)
            .map(|&level| (first - level).abs() + least_distance(rest, levels, level))
            .fold(f64::INFINITY, f64::min)
    }

    proptest! {
        #[test]
        fn no_ascending_sequence_is_nearer(values in prop::collection::vec(0u8..9, 0..6)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let fitted = ascending(&values);
            prop_assert_eq!(fitted.len(), values.len());
            prop_assert!(fitted.windows(2).all(|pair| pair[0] <= pair[1]));
            let distance: f64 = fitted.iter().zip(&values).map(|(a, b)| (a - b).abs()).sum();
            // A best one takes its levels from the values.
            let least = least_distance(&values, &values, f64::NEG_INFINITY);
            prop_assert!((distance - least).abs() < 1e-9, "{distance} {least}");
        }
    }
}
