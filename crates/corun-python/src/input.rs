//! Checks of numbers that Python gives and the command line checks as it is read.

use corun_app::Error;
use pyo3::PyResult;

use crate::errors::raised;

/// A span of time in seconds.
pub(crate) fn seconds(name: &str, value: f64) -> PyResult<f64> {
    within(name, value, value > 0.0 && value <= 1e9, "a number of seconds above 0 and at most 1e9")
}

/// A slowdown.
pub(crate) fn slowdown(name: &str, value: f64) -> PyResult<f64> {
    within(name, value, (1.0..=1e6).contains(&value), "a slowdown from 1 to 1e6")
}

/// A count.
pub(crate) fn count<T: PartialOrd + Copy + std::fmt::Display>(
    name: &str,
    value: Option<T>,
    (least, most): (T, T),
) -> PyResult<Option<T>> {
    let Some(value) = value else { return Ok(None) };
    let expected = format!("a whole number from {least} to {most}");
    within(name, value, (least..=most).contains(&value), &expected).map(Some)
}

fn within<T: std::fmt::Display>(
    name: &str,
    value: T,
    is_good: bool,
    expected: &str,
) -> PyResult<T> {
    if is_good {
        return Ok(value);
    }
    Err(raised(Error::input(format!("{name} is {value}: expected {expected}"))))
}
