//! What each answer looks like: its text for the terminal, its CSV, and its HTML page.
//!
//! Each module shows one answer of corun-app, corun-calibrate, corun-validate or the profile library with the tables, plots
//! and page frame of corun-report. The same answer gives the same bytes.

#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod basis;
pub mod calibration;
pub mod comparison;
pub mod partition;
pub mod placement;
pub mod profile;
pub mod validation;
