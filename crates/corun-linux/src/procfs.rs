//! Processes and threads, as `/proc` shows them.

mod autogroup;
mod cpu_use;
mod listing;
mod numa_maps;
mod process;
mod stat;
mod thread;

pub use autogroup::Autogroup;
pub use cpu_use::{CpuUse, CpuUseSnapshot};
pub use listing::ProcessList;
pub use numa_maps::{Mapping, bytes_by_node, code_files, mappings};
pub use process::{COMMAND_LINE_BYTES, Process, own_pid, pids, tids};
pub use stat::{Stat, is_real_time, shown_name, weight_of_nice};
pub use thread::{
    CpuWait, LookDepth, SchedulerCounts, TaskFacts, ThreadFiles, ThreadLook, ThreadSample,
    brief_ns, facts, if_there, is_gone, scheduler_counts, waited_for_cpu,
};
