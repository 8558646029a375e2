//! The best placement, searched by several processes. `corun.dask` starts and feeds them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use corun_app::Error;
use corun_optimal::distributed::Grain;
use corun_optimal::{Goal, Objective};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{json, raised};
use crate::machine::Machine;
use crate::options::ModelOptions;
use crate::placement;
use crate::profile::Library;
use crate::sweep::slice;

/// Who coordinates a search.
#[pyclass(frozen, module = "corun._corun")]
pub(crate) struct SharedSearch {
    own: Mutex<corun_sweep::SharedSearch>,
}

/// A batch's number and its bytes.
type Work<'py> = (u64, Bound<'py, PyBytes>);

#[pymethods]
impl SharedSearch {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "python/corun gives them names and defaults")]
    fn new(
        py: Python<'_>,
        apps: Vec<String>,
        policy: &str,
        machine: &Machine,
        library: &Library,
        objective: &str,
        workers: usize,
        slice_s: f64,
        options: Option<&ModelOptions>,
    ) -> PyResult<Self> {
        let objective: Objective = placement::objective(objective)?;
        let goal = match policy {
            "optimal" => Goal::Best,
            "worst" => Goal::Worst,
            other => {
                let message = format!("policy `{other}` is no search: it takes one process");
                return Err(raised(Error::input(message).hint("optimal, worst")));
            }
        };
        let grain = Grain { seconds: slice(slice_s)?, ..Grain::default() };
        let machine = corun_machine::Machine::clone(&machine.own);
        let options = ModelOptions::or_default(options);
        let asked = (objective, goal);
        let library = &library.own;
        let own = py.detach(|| {
            corun_sweep::SharedSearch::new(machine, library, &apps, options, asked, workers, grain)
        });
        Ok(Self { own: Mutex::new(own.map_err(raised)?) })
    }

    #[getter]
    fn question<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.search().question())
    }

    /// A name for the question.
    #[getter]
    fn hash(&self) -> String {
        self.search().hash()
    }

    /// The number of a batch and the batch; none when there is nothing to hand out now.
    fn next_batch<'py>(&self, py: Python<'py>) -> PyResult<Option<Work<'py>>> {
        let batch = py.detach(|| self.search().next_batch()).map_err(raised)?;
        Ok(batch.map(|(id, batch)| (id, PyBytes::new(py, &batch))))
    }

    fn finish(&self, py: Python<'_>, report: &[u8]) -> PyResult<()> {
        py.detach(|| self.search().finish(report)).map_err(raised)
    }

    fn lost(&self, id: u64) {
        self.search().lost(id);
    }

    fn tighten(&self, news: &[u8]) -> PyResult<()> {
        self.search().tighten(news).map_err(raised)
    }

    #[getter]
    fn done(&self) -> bool {
        self.search().is_done()
    }

    #[getter]
    fn parts_open(&self) -> usize {
        self.search().parts_open()
    }

    /// The placement's document as JSON, nodes visited, nodes that a bound cut.
    fn answer(&self) -> PyResult<(String, u64, u64)> {
        let (answer, nodes, pruned) = self.search().answer().map_err(raised)?;
        Ok((json(&answer)?, nodes, pruned))
    }
}

impl SharedSearch {
    fn search(&self) -> MutexGuard<'_, corun_sweep::SharedSearch> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker of a search.
#[pyclass(frozen, module = "corun._corun")]
pub(crate) struct Searcher {
    own: corun_sweep::SearchWorker,
    stop: AtomicBool,
}

#[pymethods]
impl Searcher {
    /// `hear` is called with the news of each better placement.
    #[new]
    fn new(question: &[u8], hear: Py<PyAny>) -> PyResult<Self> {
        let hear = move |news: Vec<u8>| {
            // News that are not heard cost time alone: the report has them too.
            let _ = Python::attach(|py| hear.call1(py, (PyBytes::new(py, &news),)));
        };
        let own = corun_sweep::SearchWorker::new(question, hear).map_err(raised)?;
        Ok(Self { own, stop: AtomicBool::new(false) })
    }

    /// The report of a batch.
    fn work<'py>(&self, py: Python<'py>, batch: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let report = py.detach(|| self.own.work(batch, Some(&self.stop))).map_err(raised)?;
        Ok(PyBytes::new(py, &report))
    }

    fn tighten(&self, news: &[u8]) -> PyResult<()> {
        self.own.tighten(news).map_err(raised)
    }

    /// Ends all work.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
