//! Policies written in Python.

use std::sync::{Arc, Mutex, PoisonError};

use corun_app::{Error, PolicySpec};
use corun_policy::{
    Action, ActionKind, CounterKind, Event, Interval, Nanoseconds, Needs, Plan, Policy, View,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::raised;
use crate::machine::Machine;
use crate::{plan, view};

/// What a policy raised, for whoever reports it.
pub(crate) type PolicyException = Arc<Mutex<Option<PyErr>>>;

/// The policies that were asked for: names, objects and classes.
///
/// # Errors
/// A name that is not known, two policies of one name, or an object that is no policy.
pub(crate) fn policy_specs(
    given: Option<Vec<Bound<'_, PyAny>>>,
    exception: &PolicyException,
) -> PyResult<Option<Vec<PolicySpec>>> {
    let Some(given) = given else { return Ok(None) };
    let mut chosen: Vec<PolicySpec> = Vec::new();
    for one in &given {
        let one = policy_spec(one, exception)?;
        if chosen.iter().any(|known| known.name() == one.name()) {
            let message = format!("two policies are called `{}`: expected one each", one.name());
            return Err(raised(Error::input(message)));
        }
        chosen.push(one);
    }
    if chosen.is_empty() {
        return Err(raised(Error::input("policies is empty: expected at least one, or None")));
    }
    Ok(Some(chosen))
}

/// One policy: a name, an object or a class.
///
/// # Errors
/// As [`policy_specs`].
pub(crate) fn policy_spec(
    given: &Bound<'_, PyAny>,
    exception: &PolicyException,
) -> PyResult<PolicySpec> {
    if given.is_instance_of::<PyString>() {
        return PolicySpec::parse(given.extract::<String>()?.trim()).map_err(raised);
    }
    let helpers = given.py().import("corun.policies")?;
    let name: String = helpers.call_method1("_name_of", (given,))?.extract()?;
    let (given, exception) = (given.clone().unbind(), exception.clone());
    let named = name.clone();
    Ok(PolicySpec::custom(name, move |seed| {
        Python::attach(|py| {
            let made = PyPolicy::new(py, &named, &given, seed, exception.clone());
            Ok(vec![Box::new(made.map_err(Error::failed)?) as Box<dyn Policy>])
        })
    }))
}

/// What a run of Python policies ended with: the policy's own exception is its cause.
pub(crate) fn with_cause(py: Python<'_>, error: PyErr, exception: &PolicyException) -> PyErr {
    if let Some(cause) = exception.lock().unwrap_or_else(PoisonError::into_inner).take() {
        error.set_cause(py, Some(cause));
    }
    error
}

/// A Python object that decides.
struct PyPolicy {
    name: String,
    own: Py<PyAny>,
    /// `corun.policies._ask`, which holds it to its time.
    ask: Py<PyAny>,
    /// The machine as Python has it, once it was seen.
    machine: Option<Py<Machine>>,
    needs: Needs,
    /// Does it look at events?
    listens: bool,
    /// Does it want to know what is not in force?
    hears_refusals: bool,
    /// Decisions so far.
    intervals: u64,
    /// How long until it wants to decide again.
    next: Option<Nanoseconds>,
    failure: Option<String>,
    exception: PolicyException,
}

impl PyPolicy {
    fn new(
        py: Python<'_>,
        name: &str,
        given: &Py<PyAny>,
        seed: u64,
        exception: PolicyException,
    ) -> PyResult<Self> {
        let helpers = py.import("corun.policies")?;
        let own = helpers.call_method1("_fresh", (given, seed))?;
        let needs = helpers.call_method1("_needs_of", (&own,))?;
        let has = |method: &str| helpers.call_method1("_has_own", (&own, method))?.extract();
        let (listens, hears_refusals) = (has("on_event")?, has("not_in_force")?);
        Ok(Self {
            name: name.to_owned(),
            needs: self::needs(&needs)?,
            own: own.unbind(),
            ask: helpers.getattr("_ask")?.unbind(),
            machine: None,
            listens,
            hears_refusals,
            intervals: 0,
            next: None,
            failure: None,
            exception,
        })
    }

    /// The policy's answer to a question about a view; what it raises is kept.
    fn plan(&mut self, method: &str, event: Option<&Event>, view: &View<'_>) -> Plan {
        let answer = Python::attach(|py| {
            let machine = match &self.machine {
                Some(machine) => machine.clone_ref(py),
                None => Py::new(py, Machine::of(view.machine.clone()))?,
            };
            let shown = view::View::of(py, view, &machine)?;
            self.machine = Some(machine);
            let answer = match event {
                Some(event) => {
                    self.ask.call1(py, (&self.own, method, view::Event::of(event), shown))
                }
                None => self.ask.call1(py, (&self.own, method, shown)),
            }?;
            plan::plan(answer.bind(py), view)
        });
        answer.unwrap_or_else(|error| {
            self.fail(method, error);
            Plan::none()
        })
    }

    fn ask_for_the_next(&self) -> PyResult<Option<Nanoseconds>> {
        Python::attach(|py| {
            let next = self.ask.call1(py, (&self.own, "next_interval_s"))?;
            let next: Option<f64> = next.extract(py)?;
            next.map(|next| plan::seconds("next_interval_s", next)).transpose()
        })
    }

    fn fail(&mut self, method: &str, error: PyErr) {
        let text = Python::attach(|py| {
            let trace = error.traceback(py).and_then(|trace| trace.format().ok());
            format!("{}{error}", trace.unwrap_or_default())
        });
        self.failure = Some(format!("{method}, interval {}:\n{text}", self.intervals));
        // The first is what is told.
        self.exception.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

impl Policy for PyPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> Needs {
        self.needs.clone()
    }

    fn unfit_for(&self, machine: &corun_machine::Machine) -> Option<String> {
        let asked = Python::attach(|py| {
            let machine = Machine::of(machine.clone());
            self.ask.call1(py, (&self.own, "unfit_for", machine))?.extract(py)
        });
        asked.unwrap_or_else(|error: PyErr| Some(error.to_string()))
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        if !self.listens || self.failure.is_some() {
            return None;
        }
        Some(self.plan("on_event", Some(event), view))
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        if self.failure.is_some() {
            return Plan::none();
        }
        self.intervals += 1;
        let plan = self.plan("decide", None, view);
        match self.ask_for_the_next() {
            Ok(next) => self.next = next,
            Err(error) => self.fail("next_interval_s", error),
        }
        plan
    }

    fn not_in_force(&mut self, action: &Action) {
        if !self.hears_refusals || self.failure.is_some() {
            return;
        }
        let told = Python::attach(|py| {
            let action = plan::shown(py, action)?;
            self.ask.call1(py, (&self.own, "not_in_force", action)).map(drop)
        });
        if let Err(error) = told {
            self.fail("not_in_force", error);
        }
    }

    fn next_interval(&self) -> Option<Nanoseconds> {
        self.next
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}

fn needs(given: &Bound<'_, PyAny>) -> PyResult<Needs> {
    let interval: Option<f64> = given.getattr("interval_s")?.extract()?;
    let interval = match interval {
        None => Interval::Never,
        Some(length) if length > 0.0 => Interval::Time(plan::seconds("interval_s", length)?),
        Some(length) => {
            let message = format!("interval_s is {length}: expected seconds above 0, or None");
            return Err(PyValueError::new_err(message));
        }
    };
    let names = |field: &str| given.getattr(field)?.extract::<Vec<String>>();
    let counters = names("counters")?
        .iter()
        .map(|name| find("counter", name, CounterKind::ALL, CounterKind::name))
        .collect::<PyResult<_>>()?;
    let controls = names("controls")?
        .iter()
        .map(|name| find("control", name, &ActionKind::ALL, ActionKind::name))
        .collect::<PyResult<_>>()?;
    Ok(Needs {
        interval,
        counters,
        controls,
        solo_figures: given.getattr("solo_figures")?.extract()?,
        by_ways: given.getattr("by_ways")?.extract()?,
    })
}

fn find<T: Copy>(
    what: &str,
    name: &str,
    known: &[T],
    name_of: fn(T) -> &'static str,
) -> PyResult<T> {
    let found = known.iter().copied().find(|&one| name_of(one) == name);
    let names = known.iter().map(|&one| name_of(one));
    found.ok_or_else(|| raised(Error::unknown(what, name, names)))
}

/// Checks a policy without a run.
#[pyfunction]
pub(crate) fn check_policy(given: &Bound<'_, PyAny>) -> PyResult<()> {
    let chosen = policy_spec(given, &PolicyException::default())?;
    chosen.build(1).map(drop).map_err(raised)
}
