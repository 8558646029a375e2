//! `compare`: policies side by side.

use corun_app::{ComparisonHooks, ComparisonRequest, ComparisonSetup, PolicySpec, trace_document};
use pyo3::prelude::*;

use crate::errors::{json, raised};
use crate::input;
use crate::interruptible::interruptible;
use crate::machine::Machine;
use crate::mix::Mix;
use crate::options::ModelOptions;
use crate::policy::{PolicyException, policy_specs, with_cause};
use crate::profile::Library;
use crate::run::Run;

/// The longest run of a program.
pub(crate) const MOST_INSTRUCTIONS: u64 = 1_000_000_000_000_000;

/// A comparison and the runs behind it.
#[pyclass(frozen, module = "corun._corun")]
pub(crate) struct Comparison {
    setup: ComparisonSetup,
    compared: corun_app::ComparisonOutcome,
}

#[pymethods]
impl Comparison {
    #[getter]
    fn _document(&self) -> PyResult<String> {
        json(&self.compared.comparison)
    }

    /// The run of a policy (its place in `policies`) with a seed.
    fn run(&self, policy: usize, seed: usize) -> Option<Run> {
        let run = self.compared.runs.get(policy)?.get(seed.checked_sub(1)?)?;
        Some(Run::of(&self.setup, run.clone(), self.setup.policies[policy].name(), seed as u64))
    }

    /// Every figure as a row of its own.
    fn _long(&self, workload: &str) -> PyResult<String> {
        json(&self.compared.comparison.long(workload))
    }

    /// The first runs of these policies (places in `policies`) as a trace viewer's document.
    fn _trace(&self, policies: Vec<usize>) -> PyResult<String> {
        let runs: Vec<_> = policies
            .into_iter()
            .filter_map(|place| {
                let run = self.compared.runs.get(place)?.first()?;
                Some((self.setup.policies[place].name(), run))
            })
            .collect();
        json(&trace_document(self.setup.model.machine(), &runs))
    }

    /// The names of the policies that ran.
    #[getter]
    fn policies(&self) -> Vec<String> {
        self.setup.policies.iter().map(|one| one.name().to_owned()).collect()
    }
}

/// What is asked for, in the parts that several functions share.
pub(crate) fn asked(
    mix: Option<&Mix>,
    machine: Option<&Machine>,
    library: &Library,
    policies: Option<Vec<PolicySpec>>,
    options: Option<&ModelOptions>,
) -> ComparisonRequest {
    ComparisonRequest {
        library: library.unless_shipped(),
        machine: machine.map(|one| corun_machine::Machine::clone(&one.own)),
        mix: mix.map(|mix| (mix.own.clone(), mix.source.clone())),
        policies,
        seeds: None,
        instructions: None,
        options: ModelOptions::or_default(options),
    }
}

/// Policies side by side, with the best and the worst placement.
#[pyfunction]
#[pyo3(signature = (mix, machine, library, policies, seeds, instructions, options, time_limit_s, as_live, objective))]
#[expect(clippy::too_many_arguments, reason = "python/corun gives them names and defaults")]
pub(crate) fn compare(
    py: Python<'_>,
    mix: Option<&Mix>,
    machine: Option<&Machine>,
    library: &Library,
    policies: Option<Vec<Bound<'_, PyAny>>>,
    seeds: Option<input::Whole>,
    instructions: Option<input::Whole>,
    options: Option<&ModelOptions>,
    time_limit_s: f64,
    as_live: Option<&str>,
    objective: &str,
) -> PyResult<Comparison> {
    let objective = crate::placement::objective(objective)?;
    let exception = PolicyException::default();
    let policies = policy_specs(policies, &exception)?;
    let were_asked_for = policies.is_some();
    let observation = as_live.map(corun_app::parse_observation).transpose().map_err(raised)?;
    let time_limit_s = input::seconds("time_limit_s", time_limit_s)?;
    let seeds = input::count("seeds", seeds, (1, 10_000))?.map(|seeds| seeds as u32);
    let instructions = input::count("instructions", instructions, (1, MOST_INSTRUCTIONS))?;
    let asked = ComparisonRequest {
        seeds,
        instructions,
        ..asked(mix, machine, library, policies, options)
    };
    let done = interruptible(py, |stop| {
        let mut setup = ComparisonSetup::new(asked)?;
        setup.judge_by(objective)?;
        if let Some(observation) = observation {
            setup.observe(observation, were_asked_for)?;
        }
        let compared = setup.compare(time_limit_s, ComparisonHooks { stop, step: &|| {} })?;
        Ok(Comparison { setup, compared })
    })?;
    done.map_err(|error| with_cause(py, raised(error), &exception))
}
