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

/// The quantile at `share` (0 the least, 1 the most), by linear interpolation between order statistics
/// (Hyndman and Fan, The American Statistician 50(4), 1996, definition 7), in the unit of the values.
/// Values that are not finite are left out; `None` where none is left,
/// or where their differences leave the range of numbers.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|one| one.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let at = share.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    finite(sorted[below] + (at - below as f64) * (sorted[above] - sorted[below]))
}

/// The median; see [`quantile`].
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
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

/// The two-sided 95 % quantile of Student's t distribution with so many degrees of freedom (1 or more), from
/// the usual tables; between their rows that of fewer degrees, which is wider.
pub fn student_t_95(degrees: usize) -> f64 {
    const ROWS: [(usize, f64); 14] = [
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (5, 2.571),
        (6, 2.447),
        (7, 2.365),
        (9, 2.262),
        (11, 2.201),
        (14, 2.145),
        (19, 2.093),
        (29, 2.045),
        (59, 2.001),
        (99, 1.984),
    ];
    let below = ROWS.iter().rev().find(|(row, _)| *row <= degrees);
    below.map_or(ROWS[0].1, |row| row.1)
}
