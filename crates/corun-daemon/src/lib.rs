//! Schedules what already runs here, as a service.
//!
//! A [`Config`] names the programs and the policy. [`run`] schedules by it until a signal comes, writes what it does into a
//! log and metrics, shows it to viewers at a socket, and undoes everything where it stalls or ends. docs/operating.md tells how
//! it is used.

#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod config;
mod listener;
mod log;
mod metrics;
mod no_plan;
mod service;
mod signals;
mod viewers;
mod watchdog;

pub use config::{Config, DEFAULT_PATH, EXAMPLE};
pub use no_plan::NoPlan;
pub use service::{check, host_as, onlooker, run};
