//! What threads do: one trait, several sources.

mod by_count;
mod counts;
mod descriptors;
mod homes;
mod modelled;
mod perf;
mod permission;
mod profiles;
mod recorded;
mod resctrl;
mod sampling;

use corun_machine::CpuId;
use corun_policy::{
    CounterKind, Nanoseconds, Rates, SoloFigures, ThreadId, ThreadState, WaysCurve,
};
use std::sync::Arc;

pub use by_count::{ByCountError, SampleByCount, SamplingByCount};
pub use descriptors::raise_descriptor_limit;
pub use homes::MemoryByNode;
pub use modelled::Modelled;
pub use perf::PerfSource;
pub use permission::counter_advice;
pub use profiles::{StoredProfiles, profile_of};
pub use recorded::RecordingSource;
pub use resctrl::ResctrlMonitor;
pub use sampling::{Increase, Sampling};

use crate::Task;

/// A thread that a source is asked about.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The host's name of it.
    pub id: ThreadId,
    /// The thread.
    pub task: Task,
    /// Its program: the name of its profile where it has one.
    pub program: Arc<str>,
    /// Where it runs, or ran last.
    pub cpu: CpuId,
    /// What it is doing.
    pub state: ThreadState,
    /// Share of the time since the last reading that it was on a CPU, 0 to 1; none at first.
    pub cpu_share: Option<f64>,
}

/// What a source knows of a thread since the last reading. Absent is unknown, never zero.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reading {
    /// Rates over the wall-clock time since the last reading.
    pub counters: Rates,
    /// Bytes of the LLC that hold its lines.
    pub llc_occupancy_bytes: Option<f64>,
    /// Its program alone on this machine, from a stored profile.
    pub solo: Option<SoloFigures>,
    /// Its program alone by ways of the LLC it is on, from a stored profile.
    pub by_ways: Option<Arc<WaysCurve>>,
    /// Share of its process's memory on each NUMA node, in the order of the machine's nodes; empty:
    /// unknown.
    pub pages_by_node: Vec<f64>,
}

/// Counts what threads do. A source opens what it needs for a thread when it first sees it in
/// `read`, and closes it when the thread is no longer there.
pub trait Source: Send {
    /// What it is called in messages: "perf", "resctrl", "profiles", "model",
    /// "recording".
    fn name(&self) -> &'static str;

    /// Rates that it gives.
    fn counters(&self) -> Vec<CounterKind>;

    /// Does it give figures from stored profiles ([`Reading::solo`], [`Reading::by_ways`])?
    fn knows_profiles(&self) -> bool {
        false
    }

    /// One reading for each of `threads`, in their order (ascending by id); adds to what earlier
    /// sources wrote in `readings`. A thread that ended meanwhile keeps what is there.
    ///
    /// # Errors
    ///
    /// When nothing at all can be read any more; what one thread lacks is absent in its reading.
    fn read(
        &mut self,
        now: Nanoseconds,
        threads: &[Observed],
        readings: &mut [Reading],
    ) -> Result<(), SourceError>;
}

/// Why a source cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{source_name}: {what}{}{}", advice_of(.advice), reason_of(.reason))]
pub struct SourceError {
    /// The source.
    pub source_name: &'static str,
    /// What failed.
    pub what: String,
    /// What would make it work.
    pub advice: Option<String>,
    /// The kernel's answer.
    #[source]
    pub reason: Option<std::io::Error>,
}

fn advice_of(advice: &Option<String>) -> String {
    advice.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default()
}

fn reason_of(reason: &Option<std::io::Error>) -> String {
    reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
}
