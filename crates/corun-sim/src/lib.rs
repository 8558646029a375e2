//! A machine that is not here: an event-driven simulator.
//!
//! An [`Experiment`] puts programs on a machine; [`run`] simulates it under the kernel's fair
//! scheduler and any policies, to a [`RunResult`]. Time is in integer nanoseconds; between events
//! every thread makes progress at the rate that corun-model gives. What is modelled and what is
//! not stands in `docs/simulator.md`.

// The files that unit tests share with tests/simulator name the crate as those do.
#[cfg(test)]
extern crate self as corun_sim;

mod actions;
mod backend;
mod balance;
mod barrier;
#[cfg(test)]
mod books_tests;
mod cache;
mod caps;
mod dispatch;
mod domains;
mod energy;
mod engine;
mod error;
mod experiment;
mod lifecycle;
mod log;
mod observation;
mod outcome;
mod parts;
mod rates;
mod result;
mod service;
mod slots;
mod tables;
mod thread;
mod timers;

pub use energy::Energy;
pub use engine::{Hooks, Progress, meets_targets, run};
pub use error::{ActionError, SimError};
pub use experiment::{AppSpec, Experiment, SimulationSettings, apps_from_mix, check_end};
pub use log::LogEntry;
pub use observation::Observation;
pub use outcome::run_pinned;
pub use result::{AppResult, Placement, RunResult, ServiceResult, ThreadLife, WakeUp};
