//! The model on many mixes at once: arrays in, arrays out.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use corun_app::{Error, MixBatch, Scenario};
use corun_model::Scratch;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::raised;
use crate::input;
use crate::interruptible::interruptible;
use crate::machine::Machine;
use crate::options::ModelOptions;
use crate::profile::Library;

/// Programs loaded on a machine's model.
#[pyclass(frozen, module = "corun._corun")]
pub(crate) struct Model {
    scenario: Scenario,
}

/// The mixes of a call: which program and CPU index each slot has.
struct Mixes {
    slots: usize,
    programs: Vec<Option<usize>>,
    cpus: Vec<usize>,
}

impl Mixes {
    fn batch<'a>(&'a self, scenario: &'a Scenario) -> MixBatch<'a> {
        let (mixes, cpus) = (&self.programs, &self.cpus);
        MixBatch { programs: &scenario.programs, slots: self.slots, mixes, cpus }
    }

    fn count(&self) -> usize {
        self.programs.len() / self.slots
    }
}

#[pymethods]
impl Model {
    #[new]
    fn new(
        apps: Vec<String>,
        machine: &Machine,
        library: &Library,
        options: Option<&ModelOptions>,
    ) -> PyResult<Self> {
        input::programs(&apps)?;
        let own = corun_machine::Machine::clone(&machine.own);
        let options = ModelOptions::or_default(options);
        let scenario = Scenario::new(own, &library.own, &apps, options).map_err(raised)?;
        Ok(Self { scenario })
    }

    #[getter]
    fn names(&self) -> Vec<String> {
        self.scenario.names.clone()
    }

    /// Figures by name, each of the shape of `mixes`.
    fn solve<'py>(
        &self,
        py: Python<'py>,
        mixes: PyReadonlyArray2<'py, i64>,
        cpus: PyReadonlyArray2<'py, i64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let shape = [mixes.shape()[0], mixes.shape()[1]];
        let mixes = self.read(&mixes, &cpus)?;
        let solved = interruptible(py, |stop| {
            mixes.batch(&self.scenario).solve(&self.scenario.model, stop)
        })?;
        let solved = solved.map_err(raised)?;
        let figures = PyDict::new(py);
        for (name, values) in [
            ("slowdown", solved.slowdown),
            ("ipc", solved.ipc),
            ("llc_mpki", solved.llc_mpki),
            ("bandwidth_mb_per_s", solved.bandwidth_mb_per_s),
            ("llc_occupancy_bytes", solved.llc_occupancy_bytes),
        ] {
            let array: Bound<'py, PyArray2<f64>> = PyArray1::from_vec(py, values).reshape(shape)?;
            figures.set_item(name, array)?;
        }
        Ok(figures)
    }

    /// Seconds that the same mixes take in Rust: on all cores as `solve` does it, and one after the
    /// other on one. For measuring what the way through Python costs.
    fn rust_seconds(
        &self,
        py: Python<'_>,
        mixes: PyReadonlyArray2<'_, i64>,
        cpus: PyReadonlyArray2<'_, i64>,
    ) -> PyResult<(f64, f64)> {
        let mixes = self.read(&mixes, &cpus)?;
        let batch = mixes.batch(&self.scenario);
        let model = &self.scenario.model;
        py.detach(|| {
            let began = Instant::now();
            batch.solve(model, &AtomicBool::new(false)).map_err(raised)?;
            let together = began.elapsed().as_secs_f64();
            let began = Instant::now();
            let (mut scratch, mut outcomes) = (Scratch::default(), Vec::new());
            for mix in 0..mixes.count() {
                batch.solve_one(model, mix, &mut scratch, &mut outcomes);
                std::hint::black_box(&outcomes);
            }
            Ok((together, began.elapsed().as_secs_f64()))
        })
    }
}

impl Model {
    /// Checks what was given: places of programs (-1: none), and CPUs' numbers by slot, either for
    /// all mixes or for each.
    fn read(
        &self,
        mixes: &PyReadonlyArray2<'_, i64>,
        cpus: &PyReadonlyArray2<'_, i64>,
    ) -> PyResult<Mixes> {
        let wrong = |why: String| raised(Error::input(why));
        let (shape, places) = (mixes.shape(), cpus.shape());
        let slots = shape[1];
        if slots == 0 || places[1] != slots || (places[0] != 1 && places[0] != shape[0]) {
            return Err(wrong(format!(
                "mixes are {}x{slots} and cpus {}x{}: expected at least one slot, and CPUs for \
                 one mix or for each",
                shape[0], places[0], places[1]
            )));
        }
        let known = self.scenario.programs.len();
        let program = |&one: &i64| match usize::try_from(one) {
            Err(_) if one == -1 => Ok(None),
            Ok(place) if place < known => Ok(Some(place)),
            _ => Err(wrong(format!(
                "mixes name program {one}: expected 0 to {}, or -1 for none",
                known - 1
            ))),
        };
        let machine = self.scenario.machine();
        let cpu = |&one: &i64| {
            Ok(machine.cpu_index(input::cpu(machine, one.into())?).unwrap_or_default())
        };
        let programs: Vec<Option<usize>> =
            mixes.as_array().iter().map(program).collect::<PyResult<_>>()?;
        let cpus: Vec<usize> = cpus.as_array().iter().map(cpu).collect::<PyResult<_>>()?;
        let mut seen = vec![usize::MAX; machine.cpus().len()];
        for (row, slots_of) in cpus.chunks(slots).enumerate() {
            for &cpu in slots_of {
                if std::mem::replace(&mut seen[cpu], row) == row {
                    let number = machine.cpus()[cpu].id;
                    return Err(wrong(format!("CPU {number} stands twice in a row of cpus")));
                }
            }
        }
        Ok(Mixes { slots, programs, cpus })
    }
}
