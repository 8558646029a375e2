//! How near predictions are where the model knows what was seen of the machine during the runs: the clock, and what neighbours
//! outside left of the last cache, in place of both as they were when the machine was calibrated.

use corun_app::{Error, Result, Scenario};
use corun_calibrate::{NeighbourUse, half_left_ms};
use corun_machine::{Machine, ObjectSpec};
use serde::Serialize;

use crate::{Agreement, ClockUse, Measured};

/// The clock during the runs.
#[derive(Debug, Serialize)]
pub struct ClockFindings {
    /// What was seen of it.
    #[serde(flatten)]
    pub seen: ClockUse,
    /// By the machine file, in MHz.
    pub calibrated_mhz: f64,
}

/// What the neighbours did.
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
}

/// How near predictions are for a machine file that says what was seen.
#[derive(Debug, Serialize)]
pub struct SeenAgreements {
    /// Times of programs alone.
    pub alone: Agreement,
    /// Cycles per instruction of programs alone.
    pub cpi: Agreement,
    /// Slowdowns of all members of all groups.
    pub slowdowns: Agreement,
    /// Of the clear ones.
    pub clear_slowdowns: Agreement,
}

impl ClockFindings {
    /// On a CPU (an index) of the machine of the file.
    pub(crate) fn new(seen: ClockUse, calibrated: &Machine, cpu: usize) -> Self {
        Self { seen, calibrated_mhz: clock_mhz(calibrated, cpu) }
    }
}

impl NeighbourFindings {
    pub(crate) fn new(seen: &NeighbourUse, calibrated: &Machine) -> Self {
        let found = calibrated.objects().iter().find(|one| !one.idle_survival.is_empty());
        Self {
            half_left_ms: half_left_ms(&seen.idle_survival),
            calibrated_half_left_ms: found.and_then(|one| half_left_ms(&one.idle_survival)),
            seen: seen.clone(),
        }
    }
}

/// The clock of a CPU, an index, in MHz.
pub(crate) fn clock_mhz(machine: &Machine, cpu: usize) -> f64 {
    machine.core_types()[machine.cpus()[cpu].core_type].clock_mhz
}

/// The programs on the machine as it was seen while they ran alone on a CPU (an index); none where nobody looked.
pub(crate) fn as_seen(
    scenario: &Scenario,
    cpu: usize,
    measured: &Measured,
) -> Result<Option<Scenario>> {
    if measured.clock.is_none() && measured.neighbours.is_none() {
        return Ok(None);
    }
    let mut spec = scenario.machine().spec().clone();
    if let Some(clock) = measured.clock {
        spec.scale_clocks(clock.mhz / clock_mhz(scenario.machine(), cpu));
    }
    if let Some(neighbours) = &measured.neighbours {
        spec.objects.iter_mut().for_each(|object| set(object, &neighbours.idle_survival));
    }
    let machine = Machine::from_spec(spec)
        .map_err(|error| Error::input(format!("with what was seen during the runs: {error}")))?;
    scenario.on(machine).map(Some)
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
