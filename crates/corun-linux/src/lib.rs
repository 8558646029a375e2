//! Reads the kernel, and changes nothing: one parser for each kernel file.
//!
//! Where the kernel's file systems are is always given ([`Roots`]), so that a captured tree of another machine
//! reads like this one. Nothing here knows of policies; what is read means the same to whoever asks.
//!
//! [`procfs`] has processes and threads, [`perf`] the events and counters of `perf_event_open`, [`resctrl`] the
//! control and monitoring of caches and bandwidth, [`cgroup`] the groups of processes, [`workload`] what people call
//! them, [`cpu_quota`] their quotas, [`cpu_weight`] their weights, [`memory_limit`] their limits of memory, [`pressure`] what
//! was short, [`meminfo`] what memory is left, [`sysfs`] what is on line. No general reader of `/proc` is used: of `stat`'s
//! fifty fields a tick needs twelve of hundreds of threads, a captured tree has not all files, and a line cut short must not
//! bring a daemon down.

pub mod cgroup;
#[cfg(test)]
mod cgroup_tree;
pub mod cpu_quota;
pub mod cpu_weight;
mod cpuinfo;
mod descriptors;
mod escape;
pub mod files;
mod freezer;
pub mod meminfo;
pub mod memory_limit;
mod noise;
pub mod perf;
pub mod pressure;
pub mod procfs;
mod reach;
pub mod resctrl;
mod roots;
mod syscalls;
pub mod sysfs;
mod task;
pub mod workload;

pub use cpuinfo::CpuInfo;
pub use descriptors::{
    DescriptorReserve, is_exhausted, passed_listener, raise_descriptor_limit,
    with_descriptor_limit_at_start,
};
pub use escape::{escape_controls, escape_controls_in_lines, quoted_controls};
pub use freezer::{Freezer, FrozenGroup};
pub use noise::{Noise, NoiseMeter};
pub use procfs::{TaskFacts, facts, if_there, is_gone};
pub use reach::Reach;
pub use roots::Roots;
pub use syscalls::{affinity, node_of_pages, process_cpu_ns};
pub use task::Task;
