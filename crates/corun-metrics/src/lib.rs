//! How good was that? STP, ANTT, unfairness and their kin.
//!
//! Pure functions over plain numbers. None of them returns a NaN or an infinity: where a figure is
//! not defined (an empty slice, a time of zero, a figure that is not finite) the answer is `None`.
//! A slowdown is completion time in the co-run over completion time solo; it is above 0, and below
//! 1 only for a program that gains from its neighbours.

mod correlation;
mod throughput;
mod variation;

pub use correlation::{FittedLine, LineAt, correlation, line, line_at, rank_correlation};
pub use throughput::*;
pub use variation::{
    geometric_mean, mean, median, quantile, spread, standard_error, student_t_95, worst_over_best,
};

/// The slice, if it holds at least one figure and all are finite and above 0.
fn positive(values: &[f64]) -> Option<&[f64]> {
    let all = values.iter().all(|value| value.is_finite() && *value > 0.0);
    (all && !values.is_empty()).then_some(values)
}

/// The figure, if it is finite.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests;
