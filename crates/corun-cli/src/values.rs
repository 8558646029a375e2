//! Values with a fixed set of names or a range.

use std::ops::RangeInclusive;

use clap::ValueEnum;

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// Aligned columns for people
    Table,
    /// One JSON document
    Json,
    /// Comma-separated values with a header
    Csv,
}

/// A number within a range.
///
/// # Errors
/// `expected`, for anything else.
pub fn number_within(
    text: &str,
    range: RangeInclusive<f64>,
    expected: &str,
) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| range.contains(value));
    value.ok_or_else(|| expected.to_owned())
}

/// A span of time in seconds: above 0, at most 1e9 (some 30 years).
///
/// # Errors
/// What is expected, for anything else.
pub fn seconds(text: &str) -> Result<f64, String> {
    let range = f64::MIN_POSITIVE..=1e9;
    number_within(text, range, "expected a number of seconds above 0 and at most 1e9")
}

/// A bandwidth in MB/s, within what a machine file may say.
///
/// # Errors
/// What is expected, for anything else.
pub fn bandwidth(text: &str) -> Result<f64, String> {
    let range = corun_machine::BANDWIDTH_MB_PER_S;
    let expected = format!("expected a number of MB/s from {} to {:e}", range.start(), range.end());
    number_within(text, range, &expected)
}

/// A number above 0 and below 1.
///
/// # Errors
/// What is expected, for anything else.
pub fn share(text: &str) -> Result<f64, String> {
    let below_1 = 1.0 - f64::EPSILON / 2.0;
    number_within(text, f64::MIN_POSITIVE..=below_1, "expected a number above 0 and below 1")
}

#[cfg(test)]
mod tests {
    use super::{bandwidth, seconds, share};

    #[test]
    fn only_numbers_that_can_be_pass() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        assert_eq!(bandwidth("35000"), Ok(35000.0));
        for text in ["0", "-1", "NaN", "inf", "1e300", "a", ""] {
            assert!(seconds(text).is_err(), "{text}");
            assert!(bandwidth(text).is_err(), "{text}");
        }
        assert!(bandwidth("1e-300").is_err());
    }

    #[test]
    fn shares_lie_between_none_and_all() {
        assert_eq!(share("0.8"), Ok(0.8));
        for text in ["0", "1", "-0.1", "NaN", ""] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
