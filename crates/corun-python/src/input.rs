//! Checks of numbers that Python gives and the command line checks as it is read.

use corun_app::Error;
use corun_machine::{CpuId, Machine};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;

use crate::errors::raised;

/// A whole number as Python has them: of any size. What is beyond 128 bits is as good as the last that is not.
#[derive(Clone, Copy)]
pub(crate) struct Whole(i128);

impl<'py> FromPyObject<'_, 'py> for Whole {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match given.extract::<i128>() {
            Ok(number) => Ok(Self(number)),
            Err(error) if error.is_instance_of::<PyOverflowError>(given.py()) => {
                Ok(Self(if given.lt(0)? { i128::MIN } else { i128::MAX }))
            }
            Err(error) => Err(error),
        }
    }
}

impl From<i64> for Whole {
    fn from(number: i64) -> Self {
        Self(number.into())
    }
}

/// An attribute of an object that `python/corun` made; what has another type is named.
pub(crate) fn field<'py, T>(of: &Bound<'py, PyAny>, name: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    let value = of.getattr(name)?;
    let found = value.extract::<T>();
    found.map_err(|error| {
        let error: PyErr = error.into();
        let error = std::iter::successors(Some(error), |error| error.cause(of.py())).last();
        let why = error.map(|error| error.value(of.py()).to_string()).unwrap_or_default();
        PyTypeError::new_err(format!("{name} is {value:?}: {why}"))
    })
}

/// A span of time in seconds.
pub(crate) fn seconds(name: &str, value: f64) -> PyResult<f64> {
    within(name, value, value > 0.0 && value <= 1e9, "a number of seconds above 0 and at most 1e9")
}

/// A slowdown.
pub(crate) fn slowdown(name: &str, value: f64) -> PyResult<f64> {
    within(name, value, (1.0..=1e6).contains(&value), "a slowdown from 1 to 1e6")
}

/// A whole number within a range.
pub(crate) fn whole(name: &str, Whole(value): Whole, (least, most): (u64, u64)) -> PyResult<u64> {
    let found = u64::try_from(value).ok().filter(|value| (least..=most).contains(value));
    let expected = format!("a whole number from {least} to {most}");
    within(name, value, found.is_some(), &expected)?;
    Ok(found.unwrap_or_default())
}

/// A whole number within a range, where there is one.
pub(crate) fn count(name: &str, value: Option<Whole>, range: (u64, u64)) -> PyResult<Option<u64>> {
    value.map(|value| whole(name, value, range)).transpose()
}

/// A seed.
pub(crate) fn seed(value: Whole) -> PyResult<u64> {
    whole("seed", value, (0, u64::MAX))
}

/// Programs for a question that needs some.
pub(crate) fn programs(apps: &[String]) -> PyResult<()> {
    if apps.is_empty() {
        return Err(raised(Error::input("found no program, expected at least one")));
    }
    Ok(())
}

/// The number of a CPU that the machine has.
pub(crate) fn cpu(machine: &Machine, Whole(number): Whole) -> PyResult<CpuId> {
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
