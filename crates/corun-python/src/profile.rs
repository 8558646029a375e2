//! Profiles and libraries of them.

use std::path::PathBuf;

use corun_app::solo_table;
use corun_model::Model;
use corun_profile::{MeasuredOn, export_csv};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList, PyTuple};

use crate::errors::{bad, raised};
use crate::input;
use crate::machine::Machine;

/// A program as corun knows it: its miss-rate curve and what it does beside missing.
#[pyclass(frozen, module = "corun")]
pub(crate) struct Profile {
    pub(crate) own: corun_profile::Profile,
}

#[pymethods]
impl Profile {
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Self> {
        corun_profile::Profile::load(&path).map(|own| Self { own }).map_err(bad)
    }

    #[staticmethod]
    #[pyo3(signature = (text, file="profile.toml"))]
    fn from_toml(text: &str, file: &str) -> PyResult<Self> {
        corun_profile::Profile::from_toml(text, file).map(|own| Self { own }).map_err(bad)
    }

    fn to_toml(&self) -> String {
        self.own.to_toml()
    }

    fn save(&self, path: PathBuf) -> PyResult<()> {
        self.own.save(&path).map_err(|error| raised(corun_app::Error::failed(error)))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.own.name
    }

    #[getter]
    fn instructions(&self) -> u64 {
        self.own.instructions()
    }

    #[getter]
    fn footprint_bytes(&self) -> Option<u64> {
        self.own.footprint_bytes()
    }

    /// The cache sizes in bytes at which the profile has figures.
    #[getter]
    fn sizes_bytes(&self) -> Vec<u64> {
        self.own.measured_sizes()
    }

    /// Misses per 1000 instructions alone with caches of these sizes in bytes, whatever numpy makes an array of.
    fn mpki<'py>(
        &self,
        py: Python<'py>,
        bytes: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let numpy = py.import("numpy")?;
        let floats = numpy.call_method1("asarray", (bytes, "float64"))?;
        let floats: PyReadonlyArray1<'py, f64> =
            numpy.call_method1("atleast_1d", (floats,))?.extract()?;
        let bytes = floats.as_array();
        input::sizes(bytes)?;
        Ok(PyArray1::from_iter(py, bytes.iter().map(|&one| self.own.solo_mpki(one).value)))
    }

    fn __repr__(&self) -> String {
        format!("Profile({:?})", self.own.name)
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (String, String))> {
        let make = py.get_type::<Self>().getattr("from_toml")?.unbind();
        Ok((make, (self.own.to_toml(), self.own.name.clone())))
    }
}

fn model(machine: &Machine) -> PyResult<Model> {
    Model::new(machine.own.clone(), Default::default()).map_err(bad)
}

/// A library of profiles: the shipped one, or what stands at a path.
#[pyclass(frozen, module = "corun")]
pub(crate) struct Library {
    pub(crate) own: corun_profile::Library,
    is_shipped: bool,
}

impl Library {
    /// None for the shipped one, which `corun compare` has a mix of its own for.
    pub(crate) fn unless_shipped(&self) -> Option<corun_profile::Library> {
        (!self.is_shipped).then(|| self.own.clone())
    }
}

#[pymethods]
impl Library {
    #[new]
    #[pyo3(signature = (path=None))]
    fn new(path: Option<PathBuf>) -> PyResult<Self> {
        let own = corun_app::open_library(path.as_deref()).map_err(raised)?;
        Ok(Self { own, is_shipped: path.is_none() })
    }

    /// A library of these profiles, and those of the shipped library where `shipped`.
    #[staticmethod]
    #[pyo3(signature = (profiles, *, shipped=false))]
    fn of(profiles: Vec<PyRef<'_, Profile>>, shipped: bool) -> PyResult<Self> {
        let mut own = if shipped {
            corun_app::open_library(None).map_err(raised)?
        } else {
            corun_profile::Library::default()
        };
        for profile in profiles {
            if own.find(&profile.own.name) == Some(&profile.own) {
                continue;
            }
            let name = format!("profile {}", profile.own.name);
            own.insert(profile.own.clone(), name).map_err(bad)?;
        }
        Ok(Self { own, is_shipped: false })
    }

    /// The programs of a CSV of solo figures by ways, measured on a machine.
    #[staticmethod]
    #[pyo3(signature = (path, machine=None))]
    fn read_csv(path: PathBuf, machine: Option<&Machine>) -> PyResult<Self> {
        let measured_on = match machine {
            None => MeasuredOn::xeon_gold_6138(),
            Some(machine) => model(machine)?.measured_on(0),
        };
        let own = corun_profile::Library::load_measured_on(&path, &measured_on).map_err(bad)?;
        Ok(Self { own, is_shipped: false })
    }

    /// The same kind of table, as text: measured figures of the machine as they stand, all else by
    /// the model.
    fn _to_csv(&self, names: Vec<String>, machine: &Machine) -> PyResult<String> {
        let model = model(machine)?;
        let table = |name: &String| {
            let profile = self.own.get(name).map_err(bad)?;
            solo_table(&model, profile).map(|(table, _)| table).map_err(raised)
        };
        let tables: Vec<corun_profile::Profile> =
            names.iter().map(table).collect::<PyResult<_>>()?;
        Ok(export_csv(&tables))
    }

    fn names(&self) -> Vec<String> {
        self.own.names().map(str::to_owned).collect()
    }

    fn __len__(&self) -> usize {
        self.own.len()
    }

    /// Without it Python would ask for the programs 0, 1, ...
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.names())?.try_iter()
    }

    fn __contains__(&self, name: &str) -> bool {
        self.own.find(name).is_some()
    }

    fn __getitem__(&self, name: &str) -> PyResult<Profile> {
        self.own.get(name).map(|own| Profile { own: own.clone() }).map_err(bad)
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let own = py.get_type::<Self>();
        if self.is_shipped {
            return Ok((own.into_any(), PyTuple::empty(py)));
        }
        let profiles = self.own.iter().map(|one| Py::new(py, Profile { own: one.clone() }));
        let profiles = PyList::new(py, profiles.collect::<PyResult<Vec<_>>>()?)?;
        Ok((own.getattr("of")?, PyTuple::new(py, [profiles])?))
    }
}
