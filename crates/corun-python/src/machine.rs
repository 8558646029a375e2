//! Machines.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;

use crate::errors::{bad, json, raised};
use crate::input;

/// A machine: packages, nodes, caches, cores and CPUs, and who shares what.
#[pyclass(frozen, module = "corun")]
pub(crate) struct Machine {
    pub(crate) own: Arc<corun_machine::Machine>,
}

impl Machine {
    pub(crate) fn of(own: corun_machine::Machine) -> Self {
        Self { own: Arc::new(own) }
    }
}

#[pymethods]
impl Machine {
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        corun_app::find_machine(name).map(Self::of).map_err(raised)
    }

    #[staticmethod]
    #[pyo3(signature = (text, file="machine.toml"))]
    fn from_toml(text: &str, file: &str) -> PyResult<Self> {
        corun_machine::Machine::from_toml(text, file).map(Self::of).map_err(bad)
    }

    #[staticmethod]
    fn discover(root: PathBuf) -> PyResult<Self> {
        let found = corun_machine::discover(&root).map_err(corun_app::Error::input);
        found.map(Self::of).map_err(raised)
    }

    #[getter]
    fn name(&self) -> &str {
        self.own.name()
    }

    #[getter]
    fn title(&self) -> &str {
        self.own.title()
    }

    #[getter]
    fn cpus(&self) -> Vec<u32> {
        self.own.cpus().iter().map(|cpu| cpu.id.0).collect()
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.own.warnings().to_vec()
    }

    #[getter]
    fn _document(&self) -> PyResult<String> {
        json(&self.own.document())
    }

    #[getter]
    fn llcs(&self) -> Vec<Llc> {
        let llcs = self.own.llcs().iter().enumerate();
        llcs.map(|(index, one)| Llc {
            index,
            cpus: one.cpus.iter().map(|cpu| cpu.0).collect(),
            size_bytes: one.cache.map(|cache| cache.size_bytes),
            ways: one.cache.and_then(|cache| cache.ways),
        })
        .collect()
    }

    #[getter]
    fn nodes(&self) -> Vec<Node> {
        let nodes = self.own.nodes().iter().enumerate();
        nodes
            .map(|(index, one)| Node {
                index,
                os_index: one.os_index,
                cpus: one.cpus.iter().map(|cpu| cpu.0).collect(),
            })
            .collect()
    }

    fn llc_of(&self, cpu: input::Whole) -> PyResult<usize> {
        let place = self.own.cpu_index(input::cpu(&self.own, cpu)?);
        Ok(self.own.cpus()[place.unwrap_or_default()].llc)
    }

    #[pyo3(signature = (*, full=false))]
    fn tree(&self, full: bool) -> String {
        self.own.tree_text(!full)
    }

    fn to_toml(&self) -> String {
        self.own.to_toml()
    }

    fn __repr__(&self) -> String {
        format!("Machine({:?})", self.own.name())
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (String, String))> {
        let make = py.get_type::<Self>().getattr("from_toml")?.unbind();
        Ok((make, (self.own.to_toml(), self.own.name().to_owned())))
    }
}

/// A last-level cache and the CPUs that share it.
#[pyclass(frozen, get_all, module = "corun")]
pub(crate) struct Llc {
    index: usize,
    cpus: Vec<u32>,
    size_bytes: Option<u64>,
    ways: Option<u32>,
}

/// A NUMA node.
#[pyclass(frozen, get_all, module = "corun")]
pub(crate) struct Node {
    index: usize,
    os_index: u32,
    cpus: Vec<u32>,
}

/// The names of the machines that corun ships.
#[pyfunction]
pub(crate) fn presets() -> Vec<&'static str> {
    corun_machine::presets()
}
