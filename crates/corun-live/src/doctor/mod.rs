//! What a machine can measure and control, and which policies can run on it.
//!
//! [`probe`] gathers [`Facts`] and judges nothing; [`findings`] and [`verdicts`] judge them and touch
//! nothing, so that they are tested without a kernel. Neither ever fails: what cannot be read is
//! unknown.

mod facts;
mod findings;
mod probe;
mod verdicts;
mod words;

pub use facts::{
    BandwidthControlFacts, CacheControlFacts, Cgroups, CoreCounters, CoreKind, CountOutcome,
    EnergyZone, Facts, Folder, MemoryFacts, MonitoringFacts, Perf, Resctrl, SchedExt, Shape,
    ThreadsAtOnce, Tracer, Tried,
};
pub use findings::{Area, Finding, State, findings};
pub use probe::{Beside, probe};
pub use verdicts::{Missing, PolicyVerdict, Runs, verdict, verdicts};

#[cfg(test)]
mod tests;
