//! The model's options.

use corun_app::Error;
use corun_model::Compatibility;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::errors::raised;

/// How slowdowns are computed.
#[pyclass(frozen, module = "corun")]
#[derive(Clone, Copy)]
pub(crate) struct ModelOptions {
    pub(crate) own: corun_model::ModelOptions,
}

impl ModelOptions {
    pub(crate) fn or_default(given: Option<&Self>) -> corun_model::ModelOptions {
        given.map_or_else(Default::default, |one| one.own)
    }
}

#[pymethods]
impl ModelOptions {
    #[new]
    #[pyo3(signature = (*, space=None, bandwidth=None, peak_mb_per_s=None, solo_peak_share=None, compat=None))]
    fn new(
        space: Option<&str>,
        bandwidth: Option<&str>,
        peak_mb_per_s: Option<f64>,
        solo_peak_share: Option<f64>,
        compat: Option<&str>,
    ) -> PyResult<Self> {
        let input = |why: String| raised(Error::input(why));
        let range = corun_machine::BANDWIDTH_MB_PER_S;
        if let Some(peak) = peak_mb_per_s.filter(|peak| !range.contains(peak)) {
            let (least, most) = range.into_inner();
            return Err(input(format!(
                "peak_mb_per_s is {peak}: expected a number of MB/s from {least} to {most:e}"
            )));
        }
        if let Some(share) = solo_peak_share.filter(|share| !(*share > 0.0 && *share < 1.0)) {
            return Err(input(format!(
                "solo_peak_share is {share}: expected a number above 0 and below 1"
            )));
        }
        if let Some(whose) = compat {
            if whose != "pbbcache" {
                return Err(input(format!("compat is `{whose}`: expected pbbcache")));
            }
            if space.is_some() || bandwidth.is_some() || solo_peak_share.is_some() {
                return Err(input(
                    "compat chooses space, bandwidth and solo_peak_share: expected none of them \
                     beside it"
                        .to_owned(),
                ));
            }
            return Ok(Self { own: corun_model::ModelOptions::pbbcache(peak_mb_per_s) });
        }
        let mut own =
            corun_model::ModelOptions { peak_mb_per_s, solo_peak_share, ..Default::default() };
        if let Some(name) = space {
            own.space =
                name.parse().map_err(|error: corun_model::NameError| input(error.to_string()))?;
        }
        if let Some(name) = bandwidth {
            own.bandwidth =
                name.parse().map_err(|error: corun_model::NameError| input(error.to_string()))?;
        }
        Ok(Self { own })
    }

    #[getter]
    fn space(&self) -> String {
        self.own.space.to_string()
    }

    #[getter]
    fn bandwidth(&self) -> String {
        self.own.bandwidth.to_string()
    }

    #[getter]
    fn compat(&self) -> String {
        self.own.compatibility.to_string()
    }

    #[getter]
    fn peak_mb_per_s(&self) -> Option<f64> {
        self.own.peak_mb_per_s
    }

    #[getter]
    fn solo_peak_share(&self) -> Option<f64> {
        self.own.solo_peak_share
    }

    /// What `pickle` makes it anew from.
    fn __getnewargs_ex__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        let named = PyDict::new(py);
        named.set_item("peak_mb_per_s", self.own.peak_mb_per_s)?;
        if self.own.compatibility == Compatibility::Pbbcache {
            named.set_item("compat", self.compat())?;
        } else {
            named.set_item("space", self.space())?;
            named.set_item("bandwidth", self.bandwidth())?;
            named.set_item("solo_peak_share", self.own.solo_peak_share)?;
        }
        Ok((PyTuple::empty(py), named))
    }
}
