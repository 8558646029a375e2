//! The lines of a recording as they stand in the file.

use std::sync::Arc;

use corun_linux::{Task, TaskFacts};
use corun_machine::{CpuId, CpuSet, MachineSpec};
use corun_policy::{CounterKind, Rates, SoloFigures, ThreadState, WaysCurve, WaysPoint};
use serde::{Deserialize, Serialize};

use super::RecordedFigures;
use crate::SampledThread;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeaderLine {
    /// The version.
    pub(super) corun_live_recording: u32,
    /// The corun that wrote it.
    pub(super) written_by: String,
    pub(super) interval_s: f64,
    pub(super) counters: Vec<CounterKind>,
    /// Are there figures from stored profiles?
    pub(super) profiles: bool,
    pub(super) machine: MachineSpec,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SampleLine {
    pub(super) at_ns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) online: Option<CpuSet>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) programs: Vec<ProgramLine>,
    /// Numbers of threads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) gone: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) threads: Vec<ThreadLine>,
    /// What could not be read, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unread: Vec<String>,
}

/// A program that is watched from this sample on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProgramLine {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) profile: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) important: bool,
}

/// What a thread did since the sample before.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ThreadLine {
    pub(super) tid: u32,
    pub(super) new: Option<NewLine>,
    pub(super) state: ThreadState,
    pub(super) cpu: CpuId,
    pub(super) cpu_ns: u64,
    /// Where another than before.
    pub(super) affinity: Option<CpuSet>,
    pub(super) nice: Option<i32>,
    pub(super) parent: Option<u32>,
    pub(super) name: Option<String>,
    #[serde(flatten)]
    pub(super) rates: Rates,
    pub(super) llc_occupancy_bytes: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) pages_by_node: Vec<f64>,
    /// Where other than before.
    pub(super) solo: Option<SoloFigures>,
    pub(super) by_ways: Option<Vec<WaysPoint>>,
}

/// Who a thread is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewLine {
    pub(super) pid: u32,
    pub(super) start_ticks: u64,
    /// Index among the programs, in the order in which they stand in the file.
    pub(super) program: usize,
}

/// A figure with nine digits: more than any counter is worth, and few enough to come back from
/// text as they were.
pub(super) fn nine_digits(value: f64) -> f64 {
    format!("{value:.8e}").parse().unwrap_or(value)
}

/// A program's curve as a recording keeps it.
pub(super) fn kept_curve(curve: &WaysCurve) -> Option<Arc<WaysCurve>> {
    let points = curve.points().iter().map(|point| point.map(nine_digits));
    WaysCurve::new(points.collect()).map(Arc::new)
}

/// A thread's figures as a recording keeps them, with its curve as that is kept.
pub(super) fn kept(
    sampled: &SampledThread<'_>,
    by_ways: Option<Arc<WaysCurve>>,
) -> RecordedFigures {
    let view = sampled.view;
    RecordedFigures {
        rates: Rates { cpu_share: None, spin_share: None, ..sampled.rates.map(nine_digits) },
        llc_occupancy_bytes: view.llc_occupancy_bytes.map(nine_digits),
        pages_by_node: view.pages_by_node.iter().copied().map(nine_digits).collect(),
        solo: view.solo.map(|solo| solo.map(nine_digits)),
        by_ways,
    }
}

impl ThreadLine {
    /// What is said of a thread now; `before` is what was known of it.
    pub(super) fn new(
        facts: &TaskFacts,
        state: ThreadState,
        program: usize,
        figures: &RecordedFigures,
        before: Option<(&TaskFacts, &RecordedFigures)>,
    ) -> Self {
        let Task { pid, tid, start_ticks } = facts.task;
        let is_new = before.is_none();
        let other =
            |is_same: &dyn Fn(&TaskFacts) -> bool| !before.is_some_and(|(facts, _)| is_same(facts));
        let earlier = before.map(|(_, figures)| figures);
        let solo = figures.solo.filter(|solo| earlier.and_then(|one| one.solo) != Some(*solo));
        let known = earlier.and_then(|one| one.by_ways.as_ref());
        let by_ways = figures.by_ways.as_ref().filter(|curve| known != Some(curve));
        Self {
            tid,
            new: is_new.then_some(NewLine { pid, start_ticks, program }),
            state,
            cpu: facts.cpu,
            cpu_ns: facts.cpu_ns,
            affinity: other(&|one| one.affinity == facts.affinity).then(|| facts.affinity.clone()),
            nice: other(&|one| one.nice == facts.nice).then_some(facts.nice),
            parent: other(&|one| one.parent == facts.parent).then_some(facts.parent),
            name: other(&|one| one.name == facts.name).then(|| facts.name.clone()),
            rates: figures.rates,
            llc_occupancy_bytes: figures.llc_occupancy_bytes,
            pages_by_node: figures.pages_by_node.clone(),
            solo,
            by_ways: by_ways.map(|curve| curve.points().to_vec()),
        }
    }

    /// What the line says of the time since the sample before. The error names a figure that cannot be.
    pub(super) fn figures(&self) -> Result<RecordedFigures, String> {
        let occupancy = ("llc_occupancy_bytes", self.llc_occupancy_bytes);
        let mut figures = self.rates.named().chain([occupancy]);
        if let Some((name, Some(value))) =
            figures.find(|(_, value)| value.is_some_and(|value| value < 0.0))
        {
            return Err(format!("{name}: found {value}, expected 0 or more"));
        }
        if let Some(share) = self.pages_by_node.iter().find(|share| !(0.0..=1.0).contains(*share)) {
            return Err(format!("pages_by_node: found {share}, expected shares from 0 to 1"));
        }
        Ok(RecordedFigures {
            rates: self.rates,
            llc_occupancy_bytes: self.llc_occupancy_bytes,
            pages_by_node: self.pages_by_node.clone(),
            solo: None,
            by_ways: None,
        })
    }
}
