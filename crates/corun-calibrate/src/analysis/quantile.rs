//! Quantiles of samples.

/// The quantile of samples at `share` (0 the least, 1 the most), by linear interpolation between
/// order statistics (Hyndman and Fan, The American Statistician 50(4), 1996, definition 7). None
/// without samples; samples that are no numbers are left out.
pub(crate) fn quantile(samples: &[f64], share: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|one| one.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let at = share.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    Some(sorted[below] + (at - below as f64) * (sorted[above] - sorted[below]))
}

/// The median; see [`quantile`].
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    quantile(samples, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_order_statistics() {
        let samples = [4.0, 1.0, f64::NAN, 3.0, 2.0];
        assert_eq!(quantile(&samples, 0.0), Some(1.0));
        assert_eq!(quantile(&samples, 1.0), Some(4.0));
        assert_eq!(median(&samples), Some(2.5));
        assert_eq!(quantile(&samples, 0.25), Some(1.75));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[f64::NAN]), None);
    }
}
