//! The plug-in that watches a program's memory accesses, and what starts it.
//!
//! [`record`] runs a program under QEMU's user mode with this crate's own shared object as
//! plug-in. The plug-in hands every block of code that runs and every line that is touched, as
//! [`event::Event`]s, to one [`engine::Engine`]: LRU stack distances over all data accesses and
//! instruction fetches, an instruction mix, a branch predictor, strides and dependences. What
//! comes out is a [`corun_profile::Profile`] with one phase for the whole run.
//!
//! Everything but `plugin::entry` and `plugin::ffi` is safe code that needs no QEMU to be tested.

pub mod block;
pub mod decode;
pub mod engine;
pub mod event;
mod launch;
pub mod phases;
pub mod plugin;
pub mod report;
mod settings;
pub mod summary;

pub use launch::{Recorded, Request, TraceError, record};
pub use settings::Settings;
