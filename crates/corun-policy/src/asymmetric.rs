//! What policies for machines of several core types share: which CPUs are big and which small, who is
//! on which side, progress counters, and estimated speedup factors.

pub(crate) mod by_thread;
pub(crate) mod policy;
pub(crate) mod progress;
pub(crate) mod sides;
pub(crate) mod speedup;
#[cfg(test)]
pub(crate) mod tests;

mod acfs;
mod camps;
mod equal_progress;
mod hmp;
mod hsp;
mod rr;

pub use camps::phase_hit_rate;
pub use speedup::{SpeedupPoint, fit_speedup};

use corun_machine::{CpuSet, Machine};

use crate::{Nanoseconds, Parameter, ParameterKind, PolicyEntry};

pub(crate) const POLICIES: &[PolicyEntry] =
    &[hmp::ENTRY, hsp::ENTRY, rr::ENTRY, equal_progress::ENTRY, acfs::ENTRY, camps::ENTRY];

/// The thesis's sampling period.
pub(crate) const INTERVAL: Parameter = Parameter {
    name: "interval-ms",
    kind: ParameterKind::Number,
    default: 50.0,
    min: 1.0,
    max: 1e5,
    summary: "milliseconds between two looks at the counters",
};

/// The thesis's rate of migrations, for policies that swap by the clock.
pub(crate) const SWAP_EVERY: Parameter = Parameter {
    name: "swap-every-ms",
    kind: ParameterKind::Number,
    default: 400.0,
    min: 1.0,
    max: 1e6,
    summary: "milliseconds between two swaps",
};

/// Strikes every so often, looked at when decisions are made.
#[derive(Debug)]
pub(crate) struct Clock {
    every: Nanoseconds,
    next: Nanoseconds,
}

impl Clock {
    pub(crate) fn new(every: Nanoseconds) -> Self {
        Self { every, next: every }
    }

    pub(crate) fn strikes(&mut self, now: Nanoseconds) -> bool {
        let due = now >= self.next;
        if due {
            self.next = Nanoseconds(now.0 + self.every.0);
        }
        due
    }
}

/// Where the machine's file does not say how far progress may differ.
const AMP_THRESHOLD_MS: f64 = 100.0;

/// A parameter in milliseconds as a time.
pub(crate) fn milliseconds(value: f64) -> Nanoseconds {
    Nanoseconds::from_secs_f64(value * 1e-3)
}

/// The CPUs of a machine of several core types.
#[derive(Debug, Clone)]
pub(crate) struct Cores {
    /// Those of the type of the highest capacity.
    pub(crate) big: CpuSet,
    /// All others.
    pub(crate) small: CpuSet,
    /// Ratio of the big cores' capacity to the mean of the small ones': a speedup factor for want of
    /// a better one.
    pub(crate) capacity_ratio: f64,
}

/// Which side of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The big cores.
    Big,
    /// The small ones.
    Small,
}

impl Cores {
    /// None where all CPUs are of one capacity.
    pub(crate) fn of(machine: &Machine) -> Option<Self> {
        let capacity = |cpu: &corun_machine::Cpu| machine.core_types()[cpu.core_type].capacity;
        let most = machine.cpus().iter().map(capacity).fold(0.0, f64::max);
        let (mut big, mut small, mut sum) = (CpuSet::new(), CpuSet::new(), 0.0);
        for cpu in machine.cpus() {
            if capacity(cpu) < most {
                small.insert(cpu.id);
                sum += capacity(cpu);
            } else {
                big.insert(cpu.id);
            }
        }
        if big.is_empty() || small.is_empty() {
            return None;
        }
        let capacity_ratio = most * small.len() as f64 / sum;
        Some(Self { big, small, capacity_ratio })
    }

    pub(crate) fn cpus(&self, side: Side) -> &CpuSet {
        match side {
            Side::Big => &self.big,
            Side::Small => &self.small,
        }
    }
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Big => Self::Small,
            Self::Small => Self::Big,
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Big => "big",
            Self::Small => "small",
        }
    }
}

/// Why policies for several core types cannot work here; none where they can.
pub(crate) fn one_core_type(machine: &Machine) -> Option<String> {
    Cores::of(machine).is_none().then(|| {
        "all its cores are of one type, so there are no big cores to share out fairly".to_owned()
    })
}

/// By how much progress may differ, in ms: what was asked for (0: nothing), else the machine's figure.
pub(crate) fn amp_threshold_ms(machine: &Machine, asked: f64) -> f64 {
    if asked > 0.0 {
        return asked;
    }
    machine.calibration().amp_threshold_ms.unwrap_or(AMP_THRESHOLD_MS)
}

/// The parameter to it.
pub(crate) const AMP_THRESHOLD: Parameter = Parameter {
    name: "amp-threshold-ms",
    kind: ParameterKind::Number,
    default: 0.0,
    min: 0.0,
    max: 1e6,
    summary: "progress, in ms alone on a big core, by which threads may differ before they swap; 0: the machine file's",
};

/// How much throughput counts.
pub(crate) const UNFAIRNESS_FACTOR: Parameter = Parameter {
    name: "unfairness-factor",
    kind: ParameterKind::Number,
    default: 1.0,
    min: 1.0,
    max: 1000.0,
    summary: "1: fairness; the higher, the more of the big cores goes to who gains most by them",
};
