//! What a partition is judged by.

use corun_metrics as metrics;

/// What a partition is judged by. ANTT is the mean slowdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartitionObjective {
    /// System throughput, the sum of 1 / slowdown; the best is the highest.
    Stp,
    /// Max slowdown / min slowdown; the best is the least, and among partitions within 1e-6 of it
    /// that of the highest STP.
    Unfairness,
    /// Mean slowdown (ANTT); the best is the least.
    MeanSlowdown,
    /// The slowdown of the program that suffers most; the best is the least.
    MaxSlowdown,
    /// Jain's index of the slowdowns; the best is the highest.
    Jain,
    /// Memory traffic of all programs together, in bytes a second; the best is the least.
    Bandwidth,
}

impl PartitionObjective {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Stp,
        Self::Unfairness,
        Self::MeanSlowdown,
        Self::MaxSlowdown,
        Self::Jain,
        Self::Bandwidth,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stp => "stp",
            Self::Unfairness => "unfairness",
            Self::MeanSlowdown => "antt",
            Self::MaxSlowdown => "max-slowdown",
            Self::Jain => "jain",
            Self::Bandwidth => "bandwidth",
        }
    }

    /// Is the best value the highest one?
    pub fn highest_is_best(self) -> bool {
        matches!(self, Self::Stp | Self::Jain)
    }

    /// The value of these slowdowns, at this traffic of all programs together in bytes a second;
    /// `None` unless there is one and all figures are finite, the slowdowns above 0.
    pub fn value(self, slowdowns: &[f64], bytes_per_s: f64) -> Option<f64> {
        match self {
            Self::Stp => metrics::stp(slowdowns),
            Self::Unfairness => metrics::unfairness(slowdowns),
            Self::MeanSlowdown => metrics::mean_slowdown(slowdowns),
            Self::MaxSlowdown => metrics::worst_slowdown(slowdowns),
            Self::Jain => metrics::jain_of_slowdowns(slowdowns),
            Self::Bandwidth => Some(bytes_per_s).filter(|bytes| bytes.is_finite()),
        }
    }
}
