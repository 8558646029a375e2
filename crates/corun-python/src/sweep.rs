//! Sweeps: the plan, the store and the runner. `corun.sweeps` and `corun.dask` put them together.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use corun_input::TomlFile as _;
use corun_sweep::{
    Description, MOST_JOBS, Runner, Store, SweepPlan, TaskRows, run_here, summaries,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{bad, json, raised};
use crate::input;
use crate::interruptible::interruptible;

/// A sweep with all that it needs, and its results' folder.
#[pyclass(module = "corun._corun")]
pub(crate) struct Sweep {
    runner: Arc<Runner>,
    store: Store,
    rows: Vec<corun_sweep::SweepRow>,
}

#[pymethods]
impl Sweep {
    /// A description file, or a description as JSON whose paths are relative to `folder`.
    #[staticmethod]
    #[pyo3(signature = (path, folder, out))]
    fn of_file(path: PathBuf, folder: PathBuf, out: PathBuf) -> PyResult<Self> {
        let description = Description::load(&path).map_err(bad)?;
        Self::of(&description, &folder, &out)
    }

    #[staticmethod]
    fn of_json(text: &str, folder: PathBuf, out: PathBuf) -> PyResult<Self> {
        let description = Description::from_json(text).map_err(bad)?;
        Self::of(&description, &folder, &out)
    }

    /// The plan for [`SweepRunner`], in another process.
    #[getter]
    fn plan<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.runner.plan().to_bytes())
    }

    /// How many tasks there are in all.
    #[getter]
    fn tasks(&self) -> usize {
        self.runner.tasks().len()
    }

    /// What is left out, in words.
    #[getter]
    fn unfit(&self) -> Vec<String> {
        self.runner.plan().unfit().iter().map(|unfit| unfit.why.clone()).collect()
    }

    /// The tasks that are still to be done, by number.
    fn pending(&self) -> Vec<usize> {
        self.store.pending(self.runner.plan(), self.runner.tasks())
    }

    /// Does tasks on the cores of this machine; `tell` hears how many more are done.
    fn run_here(
        &mut self,
        py: Python<'_>,
        pending: Vec<usize>,
        jobs: input::Whole,
        tell: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let jobs = input::whole("jobs", jobs, (0, MOST_JOBS.into()))? as usize;
        let Self { runner, store, .. } = self;
        let tell = |done: usize| {
            if let Some(tell) = &tell {
                // A bar that fails stops no sweep.
                let _ = Python::attach(|py| tell.call1(py, (done,)));
            }
        };
        interruptible(py, |stop| run_here(runner, store, &pending, jobs, stop, tell))?
            .map_err(raised)
    }

    /// Stores what a runner answered; says how many tasks that were.
    fn add(&mut self, answers: &[u8]) -> PyResult<usize> {
        let answers = corun_sweep::answers(answers).map_err(raised)?;
        let count = answers.len();
        self.store.add(answers).map_err(bad)?;
        Ok(count)
    }

    /// Tasks that nobody could do, with the reason.
    fn add_failed(&mut self, tasks: Vec<usize>, why: &str) -> PyResult<()> {
        let answers: Vec<TaskRows> =
            tasks.into_iter().map(|task| self.runner.failed(task, why)).collect();
        self.store.add(answers).map_err(bad)
    }

    /// Writes what is in no file yet.
    fn flush(&mut self) -> PyResult<()> {
        self.store.flush().map_err(bad)
    }

    /// Writes the one file of results; says how many tasks failed.
    fn finish(&mut self) -> PyResult<usize> {
        let (plan, tasks) = (self.runner.plan(), self.runner.tasks());
        self.rows = self.store.finish(plan, tasks).map_err(bad)?;
        Ok(self.rows.iter().filter(|row| row.error.is_some()).count())
    }

    /// The rows of [`Self::finish`] as JSON.
    #[getter]
    fn _rows(&self) -> PyResult<String> {
        json(&self.rows)
    }

    /// A line a machine and policy, as JSON.
    #[getter]
    fn _summary(&self) -> PyResult<String> {
        json(&summaries(&self.rows))
    }
}

impl Sweep {
    fn of(
        description: &Description,
        folder: &std::path::Path,
        out: &std::path::Path,
    ) -> PyResult<Self> {
        let plan = SweepPlan::new(description, folder).map_err(raised)?;
        let runner = Arc::new(Runner::new(plan).map_err(raised)?);
        Ok(Self { runner, store: Store::open(out).map_err(bad)?, rows: Vec::new() })
    }
}

/// Does tasks of a plan, in whatever process.
#[pyclass(frozen, module = "corun._corun")]
pub(crate) struct SweepRunner {
    own: Runner,
    stop: AtomicBool,
}

#[pymethods]
impl SweepRunner {
    #[new]
    fn new(plan: &[u8]) -> PyResult<Self> {
        let plan = SweepPlan::from_bytes(plan).map_err(raised)?;
        Ok(Self { own: Runner::new(plan).map_err(raised)?, stop: AtomicBool::new(false) })
    }

    /// The answers to tasks, for [`Sweep::add`].
    fn answer<'py>(&self, py: Python<'py>, tasks: Vec<usize>) -> PyResult<Bound<'py, PyBytes>> {
        let answers = py.detach(|| self.own.answer(&tasks, &self.stop)).map_err(raised)?;
        Ok(PyBytes::new(py, &corun_sweep::bytes_of(&answers)))
    }

    /// Ends all work.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A number of seconds above 0.
pub(crate) fn slice(seconds: f64) -> PyResult<f64> {
    input::seconds("slice_s", seconds)
}
