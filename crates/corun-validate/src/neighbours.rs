//! How near predictions are where the model knows what neighbours outside the machine left of the last cache during
//! the runs, in place of what they left of it when the machine was calibrated.

use corun_app::{Error, Result, Scenario};
use corun_calibrate::{NeighbourUse, half_left_ms};
use corun_machine::{Machine, ObjectSpec};
use serde::Serialize;

use crate::Agreement;

/// What the neighbours did, and how near predictions are by it.
#[derive(Debug, Serialize)]
pub struct NeighbourFindings {
    /// What was seen of them.
    #[serde(flatten)]
    pub seen: NeighbourUse,
    /// Milliseconds after which half of the lines that were used again and rest were gone; none where more than half were
    /// left after the longest pause.
    pub half_left_ms: Option<f64>,
    /// The same by the machine file.
    pub calibrated_half_left_ms: Option<f64>,
    /// How near predictions are for a machine file that says what was seen.
    pub agreement: NeighbourAgreements,
}

/// How near predictions are.
#[derive(Debug, Serialize)]
pub struct NeighbourAgreements {
    /// Times of programs alone.
    pub alone: Agreement,
    /// Cycles per instruction of programs alone.
    pub cpi: Agreement,
    /// Slowdowns of all members of all groups.
    pub slowdowns: Agreement,
    /// Of the clear ones.
    pub clear_slowdowns: Agreement,
}

impl NeighbourFindings {
    pub(crate) fn new(
        seen: &NeighbourUse,
        calibrated: &Machine,
        agreement: NeighbourAgreements,
    ) -> Self {
        let found = calibrated.objects().iter().find(|one| !one.idle_survival.is_empty());
        Self {
            half_left_ms: half_left_ms(&seen.idle_survival),
            calibrated_half_left_ms: found.and_then(|one| half_left_ms(&one.idle_survival)),
            seen: seen.clone(),
            agreement,
        }
    }
}

/// The programs on the machine as its neighbours were.
pub(crate) fn as_they_were(scenario: &Scenario, seen: &NeighbourUse) -> Result<Scenario> {
    let mut spec = scenario.machine().spec().clone();
    spec.objects.iter_mut().for_each(|object| set(object, &seen.idle_survival));
    let machine = Machine::from_spec(spec).map_err(|error| {
        Error::input(format!("with what the neighbours were seen to do: {error}"))
    })?;
    scenario.on(machine)
}

/// In place of what a file has of the same caches.
fn set(object: &mut ObjectSpec, idle_survival: &[(f64, f64)]) {
    if !object.idle_survival.is_empty() {
        object.idle_survival = idle_survival.to_vec();
        if idle_survival.is_empty() {
            // What a program got beside neighbours says nothing of a cache that it has to itself.
            object.effective_kib = None;
        }
    }
    object.objects.iter_mut().for_each(|inner| set(inner, idle_survival));
}
