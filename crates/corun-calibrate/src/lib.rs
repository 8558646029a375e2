//! What can this machine really do? Measures clock, caches, memory and cores of the machine that it
//! runs on, without root and without hardware counters.
//!
//! [`calibrate`] runs a set of experiments by turns, round after round. Each experiment runs
//! hand-written machine code (`kernel`), takes times, and derives figures from them by pure functions
//! (`analysis`). What comes out is a [`Machine`](corun_machine::Machine) with value, spread and source
//! of each figure, and the curves behind them.

#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod analysis;
mod bench;
mod calibrate;
mod chains;
mod cpus;
mod error;
mod estimate;
mod experiment;
mod figure;
mod kernel;
mod machine_file;
mod nearness;
mod neighbours;
mod notes;
mod pages;
mod plan;
mod process;
mod region;
mod replacement;
mod rounds;
mod setup;
mod surroundings;
mod throughput;
mod turns;

pub use calibrate::{CalibrateOptions, Calibrated, MeasuredFigure, calibrate};
pub use error::CalibrateError;
pub use estimate::FigureRange;
pub use nearness::{Nearness, farthest_transfer_ns};
pub use neighbours::{NeighbourLooks, NeighbourUse, half_left_ms};
pub use process::wait_for;
pub use replacement::{BUSY_SHARE, KeptFile, may_begin, may_replace};
pub use rounds::{Curve, CurveKind, MeasuredPoint};
pub use throughput::{CoreLook, FreeCore, glance_at_core, look_at_core};
