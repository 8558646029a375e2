//! `place` and `predict`: one placement.

use corun_app::{Error, PlacementDocument, PlacementMethod, Scenario, SearchProof, placement_cpus};
use corun_optimal::Objective;
use pyo3::prelude::*;

use crate::errors::{json, raised};
use crate::input;
use crate::interruptible::interruptible;
use crate::machine::Machine;
use crate::options::ModelOptions;
use crate::policy::{self, PolicyException, with_cause};
use crate::profile::Library;

pub(crate) fn objective(name: &str) -> PyResult<Objective> {
    let known = Objective::NAMED.into_iter().find(|(known, _)| *known == name);
    known.map(|(_, objective)| objective).ok_or_else(|| {
        let names = Objective::NAMED.into_iter().map(|(name, _)| name);
        raised(Error::unknown("objective", name, names))
    })
}

/// Where a policy or a search has the programs; the document as JSON.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "python/corun gives them names and defaults")]
pub(crate) fn place(
    py: Python<'_>,
    apps: Vec<String>,
    policy: &Bound<'_, PyAny>,
    machine: &Machine,
    library: &Library,
    objective: &str,
    target_slowdown: Option<f64>,
    seed: input::Whole,
    time_limit_s: Option<f64>,
    options: Option<&ModelOptions>,
) -> PyResult<String> {
    input::programs(&apps)?;
    let seed = input::seed(seed)?;
    let objective = self::objective(objective)?;
    let limit = |value| input::seconds("time_limit_s", value);
    let time_limit_s = time_limit_s.map(limit).transpose()?;
    let target = |value| input::slowdown("target_slowdown", value);
    let target_slowdown = target_slowdown.map(target).transpose()?;
    let exception = PolicyException::default();
    let placer = match policy.extract::<String>() {
        Ok(name) => PlacementMethod::named(&name, seed, time_limit_s).map_err(raised)?,
        Err(_) => PlacementMethod::Policy(policy::policy_spec(policy, &exception)?, seed),
    };
    let scenario = Scenario::new(
        corun_machine::Machine::clone(&machine.own),
        &library.own,
        &apps,
        ModelOptions::or_default(options),
    )
    .map_err(raised)?;
    let placed =
        interruptible(py, |stop| placer.place(&scenario, target_slowdown, objective, stop))?;
    json(&placed.map_err(|error| with_cause(py, raised(error), &exception))?)
}

/// The slowdowns of a given placement; the document as JSON.
#[pyfunction]
pub(crate) fn predict(
    apps: Vec<String>,
    cpus: Vec<input::Whole>,
    machine: &Machine,
    library: &Library,
    options: Option<&ModelOptions>,
) -> PyResult<String> {
    input::programs(&apps)?;
    let own = corun_machine::Machine::clone(&machine.own);
    let number = |&cpu: &input::Whole| Ok(input::cpu(&own, cpu)?.0);
    let cpus = cpus.iter().map(number).collect::<PyResult<Vec<u32>>>()?;
    let places = placement_cpus(&own, apps.len(), &cpus).map_err(raised)?;
    let options = ModelOptions::or_default(options);
    let scenario = Scenario::new(own, &library.own, &apps, options).map_err(raised)?;
    let objective = Objective::MeanSlowdown;
    json(&PlacementDocument::new(&scenario, &places, None, objective, SearchProof::default()))
}
