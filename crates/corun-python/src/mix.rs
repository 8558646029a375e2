//! Mixes.

use std::path::PathBuf;

use corun_app::Error;
use corun_input::{TomlSource, json_in_words};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyString, PyTuple};

use crate::errors::{bad, json, raised};
use crate::input;
use crate::profile::Profile;

/// Which programs run together, and how.
#[pyclass(frozen, module = "corun")]
pub(crate) struct Mix {
    pub(crate) own: corun_profile::Mix,
    /// Where it was read from; programs of a file have the length that their profiles say.
    pub(crate) source: Option<TomlSource>,
}

#[pymethods]
impl Mix {
    #[new]
    #[pyo3(signature = (apps, *, machine=None, seeds=None, method="restart-3"))]
    fn new(
        apps: &Bound<'_, PyAny>,
        machine: Option<&str>,
        seeds: Option<input::Whole>,
        method: &str,
    ) -> PyResult<Self> {
        let py = apps.py();
        if apps.is_instance_of::<PyString>() {
            let message = format!("apps is the text {apps:?}: expected a list of programs");
            return Err(PyTypeError::new_err(message));
        }
        let mix = PyDict::new(py);
        let entries = PyList::empty(py);
        for app in apps.try_iter()? {
            entries.append(entry(&app?)?)?;
        }
        mix.set_item("app", entries)?;
        mix.set_item("method", method)?;
        if let Some(machine) = machine {
            mix.set_item("machine", machine)?;
        }
        if let Some(seeds) = input::count("seeds", seeds, (1, 10_000))? {
            mix.set_item("seeds", seeds)?;
        }
        let text = py.import("corun.documents")?.call_method1("json_of", (mix, "mix"))?;
        Self::_from_json(text.extract()?)
    }

    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Self> {
        let (own, source) = corun_profile::Mix::load_with_source(&path).map_err(bad)?;
        Ok(Self { own, source: Some(source) })
    }

    #[staticmethod]
    #[pyo3(signature = (text, file="mix.toml"))]
    fn from_toml(text: String, file: &str) -> PyResult<Self> {
        let own = corun_profile::Mix::from_toml(&text, file).map_err(bad)?;
        Ok(Self { own, source: Some(TomlSource::new(file.to_owned(), text)) })
    }

    #[staticmethod]
    fn _from_json(text: &str) -> PyResult<Self> {
        let wrong = |why: String| raised(Error::input(format!("mix: {why}")));
        let own: corun_profile::Mix =
            serde_json::from_str(text).map_err(|error| wrong(json_in_words(&error)))?;
        own.check().map_err(|fault| wrong(fault.to_string()))?;
        Ok(Self { own, source: None })
    }

    fn to_toml(&self) -> String {
        self.own.to_toml()
    }

    #[getter]
    fn names(&self) -> Vec<String> {
        self.own.apps.iter().map(|app| app.shown_name().to_owned()).collect()
    }

    #[getter]
    fn threads(&self) -> u64 {
        self.own.threads()
    }

    #[getter]
    fn machine(&self) -> Option<&str> {
        self.own.machine.as_deref()
    }

    #[getter]
    fn seeds(&self) -> Option<u32> {
        self.own.seeds
    }

    fn __repr__(&self) -> String {
        format!("Mix({:?})", self.names())
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (make, from) = match &self.source {
            Some(source) => ("from_toml", vec![source.text().to_owned(), source.file().to_owned()]),
            None => ("_from_json", vec![json(&self.own)?]),
        };
        Ok((py.get_type::<Self>().getattr(make)?, PyTuple::new(py, from)?))
    }
}

/// A program as a mapping: of a profile or its name, or one that is a mapping.
fn entry<'py>(app: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let entry = PyDict::new(app.py());
    if let Ok(profile) = app.cast::<Profile>() {
        entry.set_item("profile", &profile.get().own.name)?;
    } else if app.is_instance_of::<PyString>() {
        entry.set_item("profile", app)?;
    } else {
        entry.update(app.cast::<PyMapping>()?)?;
    }
    Ok(entry)
}
