//! `simulate`: one run, and what is known of it.

use std::sync::Arc;

use corun_app::{ComparisonRequest, ComparisonSetup, run_document, trace_document};
use corun_sim::RunResult;
use pyo3::prelude::*;

use crate::comparison::{MOST_INSTRUCTIONS, asked};
use crate::errors::{json, raised};
use crate::input;
use crate::interruptible::interruptible;
use crate::machine::Machine;
use crate::mix::Mix;
use crate::options::ModelOptions;
use crate::policy::{self, PolicyException, with_cause};
use crate::profile::Library;

/// A simulated run.
#[pyclass(frozen, module = "corun._corun")]
pub(crate) struct Run {
    machine: Arc<corun_machine::Machine>,
    result: RunResult,
    /// The policy's name.
    #[pyo3(get)]
    policy: String,
    /// The seed.
    #[pyo3(get)]
    seed: u64,
}

impl Run {
    pub(crate) fn of(setup: &ComparisonSetup, result: RunResult, policy: &str, seed: u64) -> Self {
        let machine = setup.model.machine().clone();
        Self { machine, result, policy: policy.to_owned(), seed }
    }
}

#[pymethods]
impl Run {
    #[getter]
    fn _document(&self) -> PyResult<String> {
        json(&run_document(&self.machine, &self.result))
    }

    #[getter]
    fn _time_line(&self) -> PyResult<String> {
        json(&corun_app::timeline(&self.machine, &self.result))
    }

    #[getter]
    fn _trace(&self) -> PyResult<String> {
        json(&trace_document(&self.machine, &[(&self.policy, &self.result)]))
    }

    #[getter]
    fn machine(&self) -> Machine {
        Machine { own: self.machine.clone() }
    }
}

/// One run of a policy with a seed.
#[pyfunction]
#[pyo3(signature = (policy, mix, machine, library, seed, instructions, options, as_live))]
#[expect(clippy::too_many_arguments, reason = "python/corun gives them names and defaults")]
pub(crate) fn simulate(
    py: Python<'_>,
    policy: &Bound<'_, PyAny>,
    mix: Option<&Mix>,
    machine: Option<&Machine>,
    library: &Library,
    seed: input::Whole,
    instructions: Option<input::Whole>,
    options: Option<&ModelOptions>,
    as_live: Option<&str>,
) -> PyResult<Run> {
    let seed = input::seed(seed)?;
    let exception = PolicyException::default();
    let policies = Some(vec![policy::policy_spec(policy, &exception)?]);
    let instructions = input::count("instructions", instructions, (1, MOST_INSTRUCTIONS))?;
    let observation = as_live.map(corun_app::parse_observation).transpose().map_err(raised)?;
    let asked =
        ComparisonRequest { instructions, ..asked(mix, machine, library, policies, options) };
    let done = interruptible(py, |stop| {
        let mut setup = ComparisonSetup::new(asked)?;
        if let Some(observation) = observation {
            setup.observe(observation, true)?;
        }
        let chosen = &setup.policies[0];
        let result = setup.run(chosen, seed, stop)?;
        Ok(Run::of(&setup, result, chosen.name(), seed))
    })?;
    done.map_err(|error| with_cause(py, raised(error), &exception))
}
