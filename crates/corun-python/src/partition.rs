//! `partition`: who has which ways of an LLC.

use corun_app::{Error, PartitionRequest, PartitionScenario};
use corun_optimal::partition::PartitionObjective;
use pyo3::prelude::*;

use crate::errors::{json, raised};
use crate::input;
use crate::interruptible::interruptible;
use crate::machine::Machine;
use crate::options::ModelOptions;
use crate::profile::Library;

/// What is asked for, as `python/corun` gathers it.
pub(crate) struct Wanted {
    apps: Vec<String>,
    policy: Option<String>,
    masks: Vec<input::Whole>,
    allow_overlap: bool,
    all: bool,
    cluster: bool,
    objective: String,
    ways: Option<input::Whole>,
    min_ways: Option<input::Whole>,
    set: Vec<(String, ParameterValue)>,
    seed: input::Whole,
    time_limit_s: Option<f64>,
}

// Derived, it would name itself in errors.
impl<'py> FromPyObject<'_, 'py> for Wanted {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let given = &*given;
        Ok(Self {
            apps: input::field(given, "apps")?,
            policy: input::field(given, "policy")?,
            masks: input::field(given, "masks")?,
            allow_overlap: input::field(given, "allow_overlap")?,
            all: input::field(given, "all")?,
            cluster: input::field(given, "cluster")?,
            objective: input::field(given, "objective")?,
            ways: input::field(given, "ways")?,
            min_ways: input::field(given, "min_ways")?,
            set: input::field(given, "set")?,
            seed: input::field(given, "seed")?,
            time_limit_s: input::field(given, "time_limit_s")?,
        })
    }
}

/// A number, or the name of a choice.
#[derive(FromPyObject)]
enum ParameterValue {
    Number(f64),
    Name(String),
}

impl ParameterValue {
    /// Its number as the value of the parameter of this name.
    fn of(self, name: &str) -> PyResult<f64> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Name(text) => corun_policy::parse_parameter(name, &text)
                .map_err(|why| raised(Error::input(format!("parameters: {name}: {why}")))),
        }
    }
}

/// A partition and its figures; the document as JSON.
#[pyfunction]
pub(crate) fn partition(
    py: Python<'_>,
    wanted: Wanted,
    machine: &Machine,
    library: &Library,
    options: Option<&ModelOptions>,
) -> PyResult<String> {
    let named = |one: &PartitionObjective| one.name() == wanted.objective;
    let objective = PartitionObjective::ALL.into_iter().find(named).ok_or_else(|| {
        let names = PartitionObjective::ALL.into_iter().map(PartitionObjective::name);
        raised(Error::unknown("objective", &wanted.objective, names))
    })?;
    let limit = |value| input::seconds("time_limit_s", value);
    let time_limit_s = wanted.time_limit_s.map(limit).transpose()?;
    let ways = input::count("ways", wanted.ways, (1, 64))?.map(|ways| ways as u32);
    let least = input::count("min_ways", wanted.min_ways, (1, 64))?.map(|ways| ways as u32);
    let mask = |&mask: &input::Whole| input::whole("masks", mask, (0, u64::MAX));
    let masks = wanted.masks.iter().map(mask).collect::<PyResult<_>>()?;
    let number = |(name, value): (String, ParameterValue)| {
        let value = value.of(&name)?;
        Ok((name, value))
    };
    let set = wanted.set.into_iter().map(number).collect::<PyResult<_>>()?;
    let asked = PartitionRequest {
        masks,
        policy: wanted.policy,
        allow_overlap: wanted.allow_overlap,
        cluster: wanted.cluster,
        all: wanted.all,
        objective,
        time_limit_s,
        target_slowdown: None,
        pareto: false,
        set,
        seed: input::seed(wanted.seed)?,
    };
    asked.check().map_err(raised)?;
    let own = corun_machine::Machine::clone(&machine.own);
    let options = ModelOptions::or_default(options);
    let answer = interruptible(py, |stop| {
        let library = || Ok(library.own.clone());
        let ground = PartitionScenario::new(own, library, &wanted.apps, options, ways, least)?;
        asked.answer(&ground, stop)
    })?;
    json(&answer.map_err(raised)?)
}
