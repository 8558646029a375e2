//! Who sits where now, or in a recording, what they do, and what a policy would do about it. It only looks.
//!
//! [`Top`] shows this machine in a terminal, [`Replay`] a recording with a slider in time. One look is a [`Frame`], which
//! can also be written as tables, CSV or JSON. [`Observer`] and [`Looks`] make the JSON of each look for viewers elsewhere.

#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod columns;
mod document;
mod draw;
mod frame;
mod groups;
mod live;
mod replay;
#[cfg(test)]
mod sample;
mod slider;
mod state;
mod terminal;
mod tree;

pub use document::{DaemonEntry, NoPlanEntry};
pub use frame::{Figures, Frame, together};
pub use live::{COUNTERS, Looks, Observer, Top};
pub use replay::{Replay, ReplaySettings};
