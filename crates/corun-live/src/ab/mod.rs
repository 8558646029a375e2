//! What is a policy worth on this machine? A switchback experiment: the policy is on and off by turns,
//! and what the programs get done with it is compared with what they get done without.
//!
//! [`Design`] draws the blocks, [`SwitchbackExperiment`] says what is known, [`conduct`] runs one on a
//! [`Subject`]. Design and experiment have no clock and touch nothing.

mod commands;
mod conduct;
mod design;
mod experiment;
mod metric;
mod sched_cache;
mod sequence;
mod shell;

pub use commands::{Commands, Switch};
pub use conduct::{
    Conclusion, Ended, NeededTime, PairProgress, StoppingLimits, Subject, SubjectError, Waited,
    conduct,
};
pub use design::{Design, DesignSettings, SwitchbackBlock};
pub use experiment::{
    Advice, Better, Done, Effect, ExperimentSettings, Harm, HarmKind, NeededPairs,
    SwitchbackExperiment,
};
pub use metric::{Metric, MetricKind, MetricSource};
pub use sched_cache::SchedCache;
pub use sequence::least_pairs;

#[cfg(test)]
mod simulated_tests;
