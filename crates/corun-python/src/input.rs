//! Checks of numbers that Python gives and the command line checks as it is read.

use corun_app::Error;
use corun_machine::{CpuId, Machine};
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

/// Programs for a question that needs some.
pub(crate) fn programs(apps: &[String]) -> PyResult<()> {
    if apps.is_empty() {
        return Err(raised(Error::input("found no program, expected at least one")));
    }
    Ok(())
}

/// The number of a CPU that the machine has.
pub(crate) fn cpu(machine: &Machine, number: i64) -> PyResult<CpuId> {
    let known = u32::try_from(number).ok().map(CpuId);
    known.filter(|&cpu| machine.cpu_index(cpu).is_some()).ok_or_else(|| {
        let (name, known) = (machine.name(), machine.cpu_set());
        raised(Error::input(format!("{name} has no CPU {number}: expected {known}")))
    })
}

/// Sizes of caches in bytes.
pub(crate) fn sizes<'s>(sizes: impl IntoIterator<Item = &'s f64>) -> PyResult<()> {
    let is_good = |&size: &f64| size.is_finite() && size > 0.0;
    let expected = "a number of bytes above 0";
    sizes.into_iter().try_for_each(|size| within("bytes", size, is_good(size), expected).map(drop))
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
