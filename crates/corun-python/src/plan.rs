//! Plans of Python policies.

use corun_machine::{CpuId, CpuSet};
use corun_policy::{Action, CachePart, Nanoseconds, Plan, ThreadId, View};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PySet;

/// The plan that a policy answered with; None is no plan.
///
/// # Errors
/// Something that is no plan, or a step about a thread that is not in the view.
pub(crate) fn plan(answer: &Bound<'_, PyAny>, view: &View<'_>) -> PyResult<Plan> {
    let mut plan = Plan::none();
    if answer.is_none() {
        return Ok(plan);
    }
    let Ok(steps) = answer.getattr("steps") else {
        let message = format!("it answered {answer:?}: expected a corun.Plan or None");
        return Err(PyTypeError::new_err(message));
    };
    for step in steps.try_iter()? {
        let (action, reason): (Bound<'_, PyAny>, String) = step?.extract()?;
        plan.push(self::action(&action, view)?, reason);
    }
    Ok(plan)
}

fn action(action: &Bound<'_, PyAny>, view: &View<'_>) -> PyResult<Action> {
    let field = |name: &str| action.getattr(name);
    let one = |name: &str| thread(field(name)?.extract()?, view);
    let threads = || threads(&field("threads")?, view);
    let span = |name: &str| seconds(name, field(name)?.extract()?);
    let cpu = || Ok::<CpuId, PyErr>(CpuId(field("cpu")?.extract()?));
    Ok(match action.get_type().name()?.to_str()? {
        "Allow" => {
            let cpus: Vec<u32> =
                field("cpus")?.try_iter()?.map(|cpu| cpu?.extract()).collect::<PyResult<_>>()?;
            let cpus: CpuSet = cpus.into_iter().map(CpuId).collect();
            Action::Allow { thread: one("thread")?, cpus }
        }
        "Swap" => Action::Swap { first: one("first")?, second: one("second")? },
        "PartitionLlc" => {
            let mut parts = Vec::new();
            for part in field("parts")?.try_iter()? {
                let (mask, users): (u64, Bound<'_, PyAny>) = part?.extract()?;
                parts.push(CachePart { mask, threads: self::threads(&users, view)? });
            }
            Action::Partition { llc: field("llc")?.extract()?, parts }
        }
        "CapBandwidth" => {
            Action::CapBandwidth { threads: threads()?, mb_per_s: field("mb_per_s")?.extract()? }
        }
        "MovePages" => {
            Action::MovePages { thread: one("thread")?, node: field("node")?.extract()? }
        }
        "IdleCpu" => Action::IdleCpu { cpu: cpu()?, duration: span("duration_s")? },
        "SetWeight" => {
            let until: Option<f64> = field("until_s")?.extract()?;
            Action::SetWeight {
                thread: one("thread")?,
                weight: field("weight")?.extract()?,
                until: until.map(|until| seconds("until_s", until)).transpose()?,
            }
        }
        "OrderSlots" => {
            Action::OrderSlots { cpu: cpu()?, threads: threads()?, slot: span("slot_s")? }
        }
        other => {
            let message = format!("its plan has a {other}: expected an action such as corun.Allow");
            return Err(PyTypeError::new_err(message));
        }
    })
}

/// An action as Python has it: what [`plan`] reads.
///
/// # Errors
/// What Python raised.
pub(crate) fn shown<'py>(py: Python<'py>, action: &Action) -> PyResult<Bound<'py, PyAny>> {
    let actions = py.import("corun.policies")?;
    let ids = |threads: &[ThreadId]| threads.iter().map(|one| one.0).collect::<Vec<u64>>();
    match action {
        Action::Allow { thread, cpus } => {
            let cpus = PySet::new(py, cpus.iter().map(|cpu| cpu.0))?;
            actions.call_method1("Allow", (thread.0, cpus))
        }
        Action::Swap { first, second } => actions.call_method1("Swap", (first.0, second.0)),
        Action::Partition { llc, parts } => {
            let parts: Vec<_> = parts.iter().map(|part| (part.mask, ids(&part.threads))).collect();
            actions.call_method1("PartitionLlc", (*llc, parts))
        }
        Action::CapBandwidth { threads, mb_per_s } => {
            actions.call_method1("CapBandwidth", (ids(threads), *mb_per_s))
        }
        Action::MovePages { thread, node } => actions.call_method1("MovePages", (thread.0, *node)),
        Action::IdleCpu { cpu, duration } => {
            actions.call_method1("IdleCpu", (cpu.0, duration.as_secs_f64()))
        }
        Action::SetWeight { thread, weight, until } => {
            let until = until.map(Nanoseconds::as_secs_f64);
            actions.call_method1("SetWeight", (thread.0, *weight, until))
        }
        Action::OrderSlots { cpu, threads, slot } => {
            actions.call_method1("OrderSlots", (cpu.0, ids(threads), slot.as_secs_f64()))
        }
    }
}

fn threads(given: &Bound<'_, PyAny>, view: &View<'_>) -> PyResult<Vec<ThreadId>> {
    given.try_iter()?.map(|one| thread(one?.extract()?, view)).collect()
}

fn thread(id: u64, view: &View<'_>) -> PyResult<ThreadId> {
    if view.thread(ThreadId(id)).is_some() {
        return Ok(ThreadId(id));
    }
    let known: Vec<String> = view.threads.iter().map(|one| one.id.0.to_string()).collect();
    let message = format!(
        "its plan is about thread {id}, which is not in the view: expected one of {}",
        known.join(", ")
    );
    Err(PyValueError::new_err(message))
}

pub(crate) fn seconds(name: &str, value: f64) -> PyResult<Nanoseconds> {
    if (0.0..=1e9).contains(&value) {
        return Ok(Nanoseconds::from_secs_f64(value));
    }
    let message = format!("{name} is {value}: expected seconds from 0 to 1e9");
    Err(PyValueError::new_err(message))
}
