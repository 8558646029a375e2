//! Means, and how much repeated measurements differ.

use crate::{finite, positive};

/// The arithmetic mean, in the unit of the values.
///
/// `None` for an empty slice or a value that is not finite.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let count = values.len() as f64;
    // Divided before they are added: a sum of large values may leave the range of f64.
    finite(values.iter().map(|value| value / count).sum())
}

/// The geometric mean, in the unit of the values: what completion times of repeated runs are
/// summed up by (García García, thesis UCM 2021, section 5.6).
///
/// `None` for an empty slice or a value that is not finite and above 0.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logarithms: Vec<f64> = positive(values)?.iter().map(|value| value.ln()).collect();
    finite(mean(&logarithms)?.exp())
}

/// Standard deviation of a sample (divided by n - 1), in the unit of the values.
fn deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    finite((squares / (values.len() - 1) as f64).sqrt())
}

/// Spread of a program's completion times over seeds: standard deviation of the sample (n - 1)
/// over the mean (what Blagodurov et al., TOCS 2010, Fig. 12 calls deviation). No unit.
///
/// `None` for fewer than two values, or a value that is not finite and above 0.
pub fn spread(values: &[f64]) -> Option<f64> {
    finite(deviation(positive(values)?)? / mean(values)?)
}

/// The longest completion time over the shortest, at least 1. No unit.
///
/// `None` for an empty slice or a value that is not finite and above 0.
pub fn worst_over_best(values: &[f64]) -> Option<f64> {
    let best = positive(values)?.iter().copied().fold(f64::INFINITY, f64::min);
    finite(values.iter().copied().fold(0.0, f64::max) / best)
}

/// Standard error of the mean of a sample: its standard deviation (n - 1) over the square root of
/// its size, in the unit of the values.
///
/// `None` for fewer than two values or a value that is not finite.
pub fn standard_error(values: &[f64]) -> Option<f64> {
    Some(deviation(values)? / (values.len() as f64).sqrt())
}
