//! The lines of a recording as they stand in the file.

use std::sync::Arc;

use corun_machine::{CpuId, CpuSet, MachineSpec};
use corun_policy::{
    CounterKind, Rates, Scope, ScopedRate, SoloFigures, ThreadState, WaysCurve, WaysPoint,
};
use serde::{Deserialize, Serialize};

use crate::{Reading, Task, TaskFacts};

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeaderLine {
    /// The version.
    pub(super) corun_live_recording: u32,
    /// The corun that wrote it.
    pub(super) written_by: String,
    pub(super) interval_s: f64,
    pub(super) counters: Vec<CounterName>,
    /// Are there figures from stored profiles?
    pub(super) profiles: bool,
    pub(super) machine: MachineSpec,
}

/// A counter's name in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CounterName {
    Instructions,
    Cycles,
    LlcReferences,
    LlcMisses,
    L1Accesses,
    Branches,
    MemoryBytes,
    MemoryStalls,
    MemoryRetries,
    LlcOccupancy,
}

/// A look.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LookLine {
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

/// A program that is watched from this look on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProgramLine {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) profile: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) important: bool,
}

/// What a thread did since the look before.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ThreadLine {
    pub(super) tid: u32,
    /// Of one that is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) new: Option<NewLine>,
    pub(super) state: StateName,
    pub(super) cpu: CpuId,
    pub(super) cpu_ns: u64,
    /// Where another than before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) affinity: Option<CpuSet>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) nice: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(flatten)]
    pub(super) figures: FiguresLine,
    /// Where other than before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) solo: Option<SoloLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) by_ways: Option<Vec<WaysLine>>,
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

/// What a thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum StateName {
    Running,
    Runnable,
    Sleeping,
}

/// Rates over the time since the look before; absent is unknown.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct FiguresLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instructions_per_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cycles_per_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    llc_references: Option<ScopedLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    llc_misses: Option<ScopedLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    l1_accesses_per_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    branches_per_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory_bytes_per_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory_stall_share: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory_retries_per_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    llc_occupancy_bytes: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pages_by_node: Vec<f64>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopedLine {
    per_s: f64,
    /// Are prefetches among them?
    prefetches: bool,
}

/// A program alone on this machine, by its stored profile.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SoloLine {
    llc_mpki: f64,
    llc_apki: f64,
    instructions_per_s: f64,
    memory_bytes_per_s: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    numa_penalty: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    speedup_factor: Option<f64>,
}

/// A program alone with 1, 2, 3 .. ways of its LLC.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WaysLine {
    slowdown: f64,
    ipc: f64,
    llc_mpki: f64,
    llc_mpkc: f64,
    bytes_per_s: f64,
    l2_miss_stalls: f64,
    memory_stalls: f64,
    total_stalls: f64,
}

/// A figure with nine digits: more than any counter is worth, and few enough to come back from
/// text as they were.
pub(super) fn nine_digits(value: f64) -> f64 {
    format!("{value:.8e}").parse().unwrap_or(value)
}

/// A program's curve as a recording keeps it.
pub(super) fn kept_curve(curve: &WaysCurve) -> Option<Arc<WaysCurve>> {
    let points = curve.points().iter().map(|point| WaysLine::from(point).point());
    WaysCurve::new(points.collect()).map(Arc::new)
}

/// A reading as a recording keeps it, with its curve as that is kept.
pub(super) fn kept(reading: &Reading, by_ways: Option<Arc<WaysCurve>>) -> Reading {
    let short = |value: Option<f64>| value.map(nine_digits);
    let scoped = |rate: Option<ScopedRate>| {
        rate.map(|rate| ScopedRate { per_s: nine_digits(rate.per_s), ..rate })
    };
    let of = &reading.counters;
    Reading {
        counters: Rates {
            // The host computes it from the time on CPUs.
            cpu_share: None,
            spin_share: None,
            instructions_per_s: short(of.instructions_per_s),
            cycles_per_s: short(of.cycles_per_s),
            llc_references: scoped(of.llc_references),
            llc_misses: scoped(of.llc_misses),
            l1_accesses_per_s: short(of.l1_accesses_per_s),
            branches_per_s: short(of.branches_per_s),
            memory_bytes_per_s: short(of.memory_bytes_per_s),
            memory_stall_share: short(of.memory_stall_share),
            memory_retries_per_s: short(of.memory_retries_per_s),
        },
        llc_occupancy_bytes: short(reading.llc_occupancy_bytes),
        solo: reading.solo.map(|solo| SoloLine::from(&solo).figures()),
        by_ways,
        pages_by_node: reading.pages_by_node.iter().copied().map(nine_digits).collect(),
    }
}

impl From<&Reading> for FiguresLine {
    fn from(reading: &Reading) -> Self {
        let of = &reading.counters;
        let scoped = |rate: ScopedRate| ScopedLine {
            per_s: rate.per_s,
            prefetches: rate.scope == Scope::DemandAndPrefetch,
        };
        Self {
            instructions_per_s: of.instructions_per_s,
            cycles_per_s: of.cycles_per_s,
            llc_references: of.llc_references.map(scoped),
            llc_misses: of.llc_misses.map(scoped),
            l1_accesses_per_s: of.l1_accesses_per_s,
            branches_per_s: of.branches_per_s,
            memory_bytes_per_s: of.memory_bytes_per_s,
            memory_stall_share: of.memory_stall_share,
            memory_retries_per_s: of.memory_retries_per_s,
            llc_occupancy_bytes: reading.llc_occupancy_bytes,
            pages_by_node: reading.pages_by_node.clone(),
        }
    }
}

impl FiguresLine {
    /// The reading, without what comes from stored profiles. The error names a figure that cannot
    /// be.
    pub(super) fn reading(&self) -> Result<Reading, String> {
        let scoped = |line: ScopedLine| ScopedRate {
            per_s: line.per_s,
            scope: if line.prefetches { Scope::DemandAndPrefetch } else { Scope::Demand },
        };
        let figures = [
            ("instructions_per_s", self.instructions_per_s),
            ("cycles_per_s", self.cycles_per_s),
            ("llc_references", self.llc_references.map(|rate| rate.per_s)),
            ("llc_misses", self.llc_misses.map(|rate| rate.per_s)),
            ("l1_accesses_per_s", self.l1_accesses_per_s),
            ("branches_per_s", self.branches_per_s),
            ("memory_bytes_per_s", self.memory_bytes_per_s),
            ("memory_stall_share", self.memory_stall_share),
            ("memory_retries_per_s", self.memory_retries_per_s),
            ("llc_occupancy_bytes", self.llc_occupancy_bytes),
        ];
        if let Some((name, Some(value))) =
            figures.into_iter().find(|(_, value)| value.is_some_and(|value| value < 0.0))
        {
            return Err(format!("{name}: found {value}, expected 0 or more"));
        }
        if let Some(share) = self.pages_by_node.iter().find(|share| !(0.0..=1.0).contains(*share)) {
            return Err(format!("pages_by_node: found {share}, expected shares from 0 to 1"));
        }
        let counters = Rates {
            cpu_share: None,
            spin_share: None,
            instructions_per_s: self.instructions_per_s,
            cycles_per_s: self.cycles_per_s,
            llc_references: self.llc_references.map(scoped),
            llc_misses: self.llc_misses.map(scoped),
            l1_accesses_per_s: self.l1_accesses_per_s,
            branches_per_s: self.branches_per_s,
            memory_bytes_per_s: self.memory_bytes_per_s,
            memory_stall_share: self.memory_stall_share,
            memory_retries_per_s: self.memory_retries_per_s,
        };
        let llc_occupancy_bytes = self.llc_occupancy_bytes;
        let pages_by_node = self.pages_by_node.clone();
        Ok(Reading { counters, llc_occupancy_bytes, solo: None, by_ways: None, pages_by_node })
    }
}

impl From<&SoloFigures> for SoloLine {
    fn from(solo: &SoloFigures) -> Self {
        Self {
            llc_mpki: nine_digits(solo.llc_mpki),
            llc_apki: nine_digits(solo.llc_apki),
            instructions_per_s: nine_digits(solo.instructions_per_s),
            memory_bytes_per_s: nine_digits(solo.memory_bytes_per_s),
            numa_penalty: solo.numa_penalty.map(nine_digits),
            speedup_factor: solo.speedup_factor.map(nine_digits),
        }
    }
}

impl SoloLine {
    pub(super) fn figures(&self) -> SoloFigures {
        SoloFigures {
            llc_mpki: self.llc_mpki,
            llc_apki: self.llc_apki,
            instructions_per_s: self.instructions_per_s,
            memory_bytes_per_s: self.memory_bytes_per_s,
            numa_penalty: self.numa_penalty,
            speedup_factor: self.speedup_factor,
        }
    }
}

impl From<&WaysPoint> for WaysLine {
    fn from(point: &WaysPoint) -> Self {
        Self {
            slowdown: nine_digits(point.slowdown),
            ipc: nine_digits(point.ipc),
            llc_mpki: nine_digits(point.llc_mpki),
            llc_mpkc: nine_digits(point.llc_mpkc),
            bytes_per_s: nine_digits(point.bytes_per_s),
            l2_miss_stalls: nine_digits(point.l2_miss_stalls),
            memory_stalls: nine_digits(point.memory_stalls),
            total_stalls: nine_digits(point.total_stalls),
        }
    }
}

impl WaysLine {
    pub(super) fn point(&self) -> WaysPoint {
        WaysPoint {
            slowdown: self.slowdown,
            ipc: self.ipc,
            llc_mpki: self.llc_mpki,
            llc_mpkc: self.llc_mpkc,
            bytes_per_s: self.bytes_per_s,
            l2_miss_stalls: self.l2_miss_stalls,
            memory_stalls: self.memory_stalls,
            total_stalls: self.total_stalls,
        }
    }
}

impl ThreadLine {
    /// What is said of a thread now; `before` is what was known of it.
    pub(super) fn new(
        facts: &TaskFacts,
        program: usize,
        reading: &Reading,
        before: Option<(&TaskFacts, &Reading)>,
    ) -> Self {
        let Task { pid, tid, start_ticks } = facts.task;
        let is_new = before.is_none();
        let other =
            |is_same: &dyn Fn(&TaskFacts) -> bool| !before.is_some_and(|(facts, _)| is_same(facts));
        let earlier = before.map(|(_, reading)| reading);
        let solo = reading.solo.filter(|solo| earlier.and_then(|one| one.solo) != Some(*solo));
        let known = earlier.and_then(|one| one.by_ways.as_ref());
        let by_ways = reading.by_ways.as_ref().filter(|curve| known != Some(curve));
        Self {
            tid,
            new: is_new.then_some(NewLine { pid, start_ticks, program }),
            state: facts.state.into(),
            cpu: facts.cpu,
            cpu_ns: facts.cpu_ns,
            affinity: other(&|one| one.affinity == facts.affinity).then(|| facts.affinity.clone()),
            nice: other(&|one| one.nice == facts.nice).then_some(facts.nice),
            parent: other(&|one| one.parent == facts.parent).then_some(facts.parent),
            name: other(&|one| one.name == facts.name).then(|| facts.name.clone()),
            figures: reading.into(),
            solo: solo.as_ref().map(SoloLine::from),
            by_ways: by_ways.map(|curve| curve.points().iter().map(WaysLine::from).collect()),
        }
    }
}

impl From<ThreadState> for StateName {
    fn from(state: ThreadState) -> Self {
        match state {
            ThreadState::Running => Self::Running,
            ThreadState::Runnable => Self::Runnable,
            ThreadState::Sleeping => Self::Sleeping,
        }
    }
}

impl From<StateName> for ThreadState {
    fn from(name: StateName) -> Self {
        match name {
            StateName::Running => Self::Running,
            StateName::Runnable => Self::Runnable,
            StateName::Sleeping => Self::Sleeping,
        }
    }
}

impl From<CounterKind> for CounterName {
    fn from(kind: CounterKind) -> Self {
        match kind {
            CounterKind::Instructions => Self::Instructions,
            CounterKind::Cycles => Self::Cycles,
            CounterKind::LlcReferences => Self::LlcReferences,
            CounterKind::LlcMisses => Self::LlcMisses,
            CounterKind::L1Accesses => Self::L1Accesses,
            CounterKind::Branches => Self::Branches,
            CounterKind::MemoryBytes => Self::MemoryBytes,
            CounterKind::MemoryStalls => Self::MemoryStalls,
            CounterKind::MemoryRetries => Self::MemoryRetries,
            CounterKind::LlcOccupancy => Self::LlcOccupancy,
        }
    }
}

impl From<CounterName> for CounterKind {
    fn from(name: CounterName) -> Self {
        match name {
            CounterName::Instructions => Self::Instructions,
            CounterName::Cycles => Self::Cycles,
            CounterName::LlcReferences => Self::LlcReferences,
            CounterName::LlcMisses => Self::LlcMisses,
            CounterName::L1Accesses => Self::L1Accesses,
            CounterName::Branches => Self::Branches,
            CounterName::MemoryBytes => Self::MemoryBytes,
            CounterName::MemoryStalls => Self::MemoryStalls,
            CounterName::MemoryRetries => Self::MemoryRetries,
            CounterName::LlcOccupancy => Self::LlcOccupancy,
        }
    }
}
