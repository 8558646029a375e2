//! The plug-in that watches a program's memory accesses, and what starts it.
//!
//! [`record`] runs a program under QEMU's user mode with this crate's own shared object as
//! plug-in. The plug-in hands every block of code that runs and every line that is touched, as
//! [`event::TraceEvent`]s, to one [`engine::Engine`]: LRU stack distances over all data accesses and
//! instruction fetches, an instruction mix, a branch predictor, strides and dependences. What
//! comes out is a [`corun_profile::Profile`]. Every process of a program writes reports of its own,
//! from which the starter makes the one profile.
//!
//! Everything but `plugin::{entry, ffi, host}` and `control` is safe code that needs no QEMU to be
//! tested.

pub mod block;
mod control;
mod decode;
mod elf;
mod emulator;
pub mod engine;
pub mod event;
pub mod instruction_trace;
mod launch;
mod phases;
mod plugin;
mod program;
mod report;
mod report_folder;
mod settings;
pub mod summary;
pub mod trace_file;

pub use control::PROGRESS_SIZES;
pub use engine::{CacheShape, SetCaches, ShapeError};
pub use launch::{Progress, Recorded, Request, TraceError, check, record, record_and_watch};
pub use settings::Settings;
