//! What a policy sees, as Python objects.

use std::collections::BTreeMap;

use corun_machine::{CpuId, CpuSet};
use corun_policy as policy;
use pyo3::prelude::*;
use pyo3::types::PyFrozenSet;

use crate::machine::Machine;

/// All that a policy sees at one moment.
#[pyclass(frozen, get_all, module = "corun")]
pub(crate) struct View {
    machine: Py<Machine>,
    threads: Vec<Py<Thread>>,
    now_s: f64,
}

impl View {
    pub(crate) fn of(
        py: Python<'_>,
        view: &policy::View<'_>,
        machine: &Py<Machine>,
    ) -> PyResult<Self> {
        let thread = |one: &policy::ThreadView| Py::new(py, Thread { own: one.clone() });
        Ok(Self {
            machine: machine.clone_ref(py),
            threads: view.threads.iter().map(thread).collect::<PyResult<_>>()?,
            now_s: view.now.as_secs_f64(),
        })
    }
}

#[pymethods]
impl View {
    /// A thread by its number; None where there is no such thread (any more).
    fn thread(&self, py: Python<'_>, id: u64) -> Option<Py<Thread>> {
        let found = self.threads.iter().find(|one| one.get().own.id.0 == id);
        found.map(|one| one.clone_ref(py))
    }
}

/// A thread as a policy sees it.
#[pyclass(frozen, module = "corun")]
pub(crate) struct Thread {
    own: policy::ThreadView,
}

fn numbers<'py>(py: Python<'py>, cpus: &CpuSet) -> PyResult<Bound<'py, PyFrozenSet>> {
    PyFrozenSet::new(py, cpus.iter().map(|CpuId(number)| number))
}

#[pymethods]
impl Thread {
    #[getter]
    fn id(&self) -> u64 {
        self.own.id.0
    }

    #[getter]
    fn process(&self) -> u64 {
        self.own.process.0
    }

    #[getter]
    fn program(&self) -> &str {
        &self.own.program
    }

    #[getter]
    fn weight(&self) -> f64 {
        self.own.weight
    }

    #[getter]
    fn important(&self) -> bool {
        self.own.important
    }

    #[getter]
    fn state(&self) -> &'static str {
        match self.own.state {
            policy::ThreadState::Running => "running",
            policy::ThreadState::Runnable => "runnable",
            policy::ThreadState::Sleeping => "sleeping",
        }
    }

    #[getter]
    fn cpu(&self) -> Option<u32> {
        self.own.cpu.map(|cpu| cpu.0)
    }

    #[getter]
    fn may_run_on<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyFrozenSet>> {
        numbers(py, &self.own.may_run_on)
    }

    #[getter]
    fn allowed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyFrozenSet>> {
        numbers(py, &self.own.allowed)
    }

    #[getter]
    fn counters(&self) -> Counters {
        Counters { own: self.own.rates }
    }

    #[getter]
    fn counted(&self) -> Counted {
        Counted { own: self.own.counts }
    }

    #[getter]
    fn spins_now(&self) -> Option<bool> {
        self.own.spins
    }

    #[getter]
    fn spin_share(&self) -> Option<f64> {
        self.own.spins.map(|_| self.own.rates.spin_share.unwrap_or(0.0))
    }

    #[getter]
    fn solo(&self) -> Option<SoloFigures> {
        self.own.solo.map(|own| SoloFigures {
            llc_mpki: own.llc_mpki,
            llc_apki: own.llc_apki,
            instructions_per_s: own.instructions_per_s,
            memory_bytes_per_s: own.memory_bytes_per_s,
            numa_penalty: own.numa_penalty,
            speedup_factor: own.speedup_factor,
        })
    }

    #[getter]
    fn by_ways(&self) -> Option<Vec<WaysPoint>> {
        let curve = self.own.by_ways.as_ref()?;
        let point = |one: &policy::WaysPoint| WaysPoint {
            slowdown: one.slowdown,
            ipc: one.ipc,
            llc_mpki: one.llc_mpki,
            llc_mpkc: one.llc_mpkc,
            bytes_per_s: one.bytes_per_s,
            memory_stalls: one.memory_stalls,
        };
        Some(curve.points().iter().map(point).collect())
    }

    #[getter]
    fn llc_occupancy_bytes(&self) -> Option<f64> {
        self.own.llc_occupancy_bytes
    }

    #[getter]
    fn pages_by_node(&self) -> Vec<f64> {
        self.own.pages_by_node.clone()
    }

    /// How often each thread woke it, by the thread's id.
    #[getter]
    fn woken_by(&self) -> BTreeMap<u64, u64> {
        self.own.woken_by.iter().map(|one| (one.thread.0, one.count)).collect()
    }

    fn __repr__(&self) -> String {
        format!("Thread({}, {:?})", self.own.id.0, self.own.program)
    }
}

/// What was counted for a thread in the last interval, as rates.
#[pyclass(frozen, module = "corun")]
pub(crate) struct Counters {
    own: policy::Rates,
}

/// What was counted for a thread since it came.
#[pyclass(frozen, module = "corun")]
pub(crate) struct Counted {
    own: policy::Counts,
}

macro_rules! plain {
    (scoped, $rate:expr) => {
        $rate.map(|rate| rate.per_s)
    };
    ($rule:ident, $rate:expr) => {
        $rate
    };
}

/// An attribute for each row of the table of counters, beside those that are no rows.
macro_rules! attributes {
    (
        counters { $($kind:ident $name:literal $words:literal
            $count:ident, $rate:ident, $attribute:ident, $rule:ident, $meaning:literal;)* }
        gauges { $($gauge:tt)* }
    ) => {
        #[pymethods]
        impl Counters {
            #[getter]
            fn cpu_share(&self) -> Option<f64> {
                self.own.cpu_share
            }

            #[getter]
            fn llc_misses_with_prefetch(&self) -> Option<bool> {
                self.own.llc_misses.map(|one| one.scope == policy::Scope::DemandAndPrefetch)
            }

            #[getter]
            fn llc_mpki(&self) -> Option<f64> {
                self.own.llc_mpki()
            }

            #[getter]
            fn llc_apki(&self) -> Option<f64> {
                self.own.llc_apki()
            }

            #[getter]
            fn llc_mpkc(&self) -> Option<f64> {
                self.own.llc_mpkc()
            }

            #[getter]
            fn ipc(&self) -> Option<f64> {
                self.own.ipc()
            }

            $(
                #[getter]
                fn $attribute(&self) -> Option<f64> {
                    plain!($rule, self.own.$rate)
                }
            )*
        }

        #[pymethods]
        impl Counted {
            #[getter]
            fn cpu_s(&self) -> Option<f64> {
                self.own.cpu_s()
            }

            $(
                #[getter]
                fn $count(&self) -> Option<f64> {
                    self.own.$count.map(|count| count.total)
                }
            )*
        }
    };
}

corun_policy::counter_table!(attributes);

/// Figures of a program alone on this machine.
#[pyclass(frozen, get_all, module = "corun")]
pub(crate) struct SoloFigures {
    llc_mpki: f64,
    llc_apki: f64,
    instructions_per_s: f64,
    memory_bytes_per_s: f64,
    numa_penalty: Option<f64>,
    speedup_factor: Option<f64>,
}

/// Figures of a program alone with some ways of an LLC.
#[pyclass(frozen, get_all, module = "corun")]
pub(crate) struct WaysPoint {
    slowdown: f64,
    ipc: f64,
    llc_mpki: f64,
    llc_mpkc: f64,
    bytes_per_s: f64,
    memory_stalls: f64,
}

/// Something that happened to a thread.
#[pyclass(frozen, get_all, module = "corun")]
pub(crate) struct Event {
    kind: &'static str,
    thread: Option<u64>,
    on: Vec<u64>,
    off: Vec<u64>,
}

impl Event {
    pub(crate) fn of(event: &policy::Event) -> Self {
        let about = |kind, thread: &policy::ThreadId| Self {
            kind,
            thread: Some(thread.0),
            on: Vec::new(),
            off: Vec::new(),
        };
        match event {
            policy::Event::Arrived(thread) => about("arrived", thread),
            policy::Event::Exited(thread) => about("exited", thread),
            policy::Event::Slept(thread) => about("slept", thread),
            policy::Event::Woke(thread) => about("woke", thread),
            policy::Event::Switched { on, off } => {
                let ids = |threads: &[policy::ThreadId]| threads.iter().map(|one| one.0).collect();
                Self { kind: "switched", thread: None, on: ids(on), off: ids(off) }
            }
        }
    }
}
