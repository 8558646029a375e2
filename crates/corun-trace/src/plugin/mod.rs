//! The plug-in itself, as QEMU loads it.
//!
//! Every guest thread fills a buffer of its own with [`TraceEvent`](crate::event::TraceEvent)s; a full
//! buffer goes to the one engine. Only `ffi`, `host`, `fatal_signal` and `entry` hold unsafe
//! code.

mod entry;
mod exec;
mod fatal_signal;
mod ffi;
mod host;
mod kernel_work_sums;
mod options;
mod session;
mod syscalls;
mod tap;

pub(crate) use options::PluginOptions;
