//! What only a measurement tells of a machine: the optional parts of the machine file that
//! `corun calibrate` fills in. A figure that is absent is unknown, never zero.

use serde::{Deserialize, Serialize};

use crate::CpuSet;

/// How a measured machine file came about, and how far to trust it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// The program that measured, with its version.
    pub by: String,
    /// When the measurement ended, as RFC 3339 has it.
    pub finished: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// How often each figure was measured, all figures by turns.
    pub rounds: u32,
    /// Measured in a few seconds: fewer rounds and coarser steps.
    #[serde(default, skip_serializing_if = "crate::spec::is_false")]
    pub quick: bool,
    /// Share of the time, 0 to 1, in which something else was seen to use the machine, or of the points that were measured beside a
    /// busy hardware thread alone, whichever is more.
    pub busy_share: f64,
    /// The CPUs that the measurement could run on.
    pub cpus: CpuSet,
    /// Whether the kernel gave huge pages, so that cache latencies hold no TLB misses.
    pub huge_pages: bool,
    /// What could not be told apart, and what was out of the ordinary, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// How far predictions were off when they were held against programs' times on the machine itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictionError {
    /// The program that predicted and measured, with its version.
    pub by: String,
    /// When the measurement ended, as RFC 3339 has it.
    pub finished: String,
    /// Programs that were timed alone.
    pub programs: u32,
    /// The mean of the amounts by which their times were off, as a share of what was measured.
    pub mean_error: f64,
    /// Rank correlation of their cycles an instruction, -1 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank_correlation: Option<f64>,
    /// Slowdowns beside others that were measured clearly.
    pub slowdowns: u32,
    /// The mean of the amounts by which these were off, as a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_slowdown_error: Option<f64>,
    /// First rounds that were run; `None` in files of an older corun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Share of the time that others used the CPUs meanwhile; `None` in files of an older corun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_share: Option<f64>,
}

/// Latencies of instructions on a core, in cycles from operand to result, and how many of a kind it begins
/// a cycle where they do not wait for each other.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutionLatencies {
    /// Integer multiplication, 64 bits.
    pub integer_multiply_cycles: Option<f64>,
    /// Integer division of a 64-bit number, with a quotient of 32 bits.
    pub integer_divide_cycles: Option<f64>,
    /// Floating-point addition, double precision.
    pub fp_add_cycles: Option<f64>,
    /// Floating-point multiplication, double precision.
    pub fp_multiply_cycles: Option<f64>,
    /// Floating-point division, double precision.
    pub fp_divide_cycles: Option<f64>,
    /// Floating-point multiplication and addition in one instruction, double precision.
    pub fp_multiply_add_cycles: Option<f64>,
    /// Addition of vectors of integers.
    pub vector_add_cycles: Option<f64>,
    /// A load that hits the level-1 cache, from address to value.
    pub load_cycles: Option<f64>,
    /// A load of a vector register that hits the level-1 cache, from address to value.
    pub vector_load_cycles: Option<f64>,
    /// A value that goes from a general to a vector register, or back: the mean of both ways.
    pub transfer_cycles: Option<f64>,
    /// A store and a load of the same address behind it, which is another one each time, from the stored to
    /// the loaded value.
    pub store_forward_cycles: Option<f64>,
    /// The same where both address the stack by the same expression, which some cores see before
    /// they compute the address.
    pub stack_forward_cycles: Option<f64>,
    /// A store of a vector register and a load of the same address behind it.
    pub vector_forward_cycles: Option<f64>,
    /// Additions of integers a cycle. A core that does clearly fewer shares itself with another hardware thread that is busy.
    pub additions_per_cycle: Option<f64>,
    /// Floating-point additions a cycle, of scalars or of vectors no wider than 128 bits.
    pub fp_adds_per_cycle: Option<f64>,
    /// Floating-point multiplications a cycle, of the same.
    pub fp_multiplies_per_cycle: Option<f64>,
    /// Additions of vectors of integers a cycle.
    pub vector_adds_per_cycle: Option<f64>,
    /// Shuffles of the elements of vectors a cycle.
    pub vector_shuffles_per_cycle: Option<f64>,
}

/// How fast a core fetches instructions.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetching {
    /// By the KiB of code that a loop goes through, ascending: cycles of a taken branch to the next 32
    /// bytes of it, two to a cache line. It holds up to the size of the level-1 instruction cache.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken_branch_cycles: Vec<(u32, f64)>,
    /// Cycles that a few instructions between two taken branches take more where they stand on two cache lines.
    pub line_crossing_cycles: Option<f64>,
    /// Cycles a cache line of code without branches that lies in the private cache, beyond level 1.
    pub private_line_cycles: Option<f64>,
    /// The same of code that lies in the LLC.
    pub llc_line_cycles: Option<f64>,
}

/// A level of a core's data TLB.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tlb {
    /// Level, 1 nearest to the core.
    pub level: u32,
    /// Size of the pages that the other figures hold for, in KiB.
    pub page_kib: u64,
    /// How many pages it reaches.
    pub entries: u32,
    /// What a translation that is found here adds to a load, in cycles: 0 at level 1.
    #[serde(default)]
    pub hit_cycles: f64,
}

/// What a core's prefetchers do for a chain of dependent loads over memory.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefetching {
    /// By stride, in cache lines (negative: descending), the share of the memory latency, 0 to 1,
    /// that the prefetchers hide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden_by_stride: Vec<(i32, f64)>,
    /// The same share for ascending lines inside each page of 4 KiB, the pages in random order.
    pub hidden_in_random_pages: Option<f64>,
    /// The share of loads of lines in no order, 0 to 1, after which the next line is in a cache, too.
    pub next_line: Option<f64>,
    /// The most ascending streams, visited by turns, of which at least half of the latency that is
    /// hidden in one stream stays hidden.
    pub streams: Option<u32>,
}

impl Prefetching {
    /// Switched off: every load waits for its own line.
    pub fn off() -> Self {
        Self {
            hidden_by_stride: vec![(1, 0.0)],
            hidden_in_random_pages: Some(0.0),
            next_line: Some(0.0),
            streams: None,
        }
    }
}

/// Rates in MB/s (1e6 bytes a second), each counting the bytes that the program reads or writes.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessRates {
    /// Sequential reads.
    pub read_mb_per_s: Option<f64>,
    /// Sequential writes. Where a write reads its line first, the traffic is twice as high.
    pub write_mb_per_s: Option<f64>,
    /// Sequential writes past the caches.
    pub non_temporal_write_mb_per_s: Option<f64>,
    /// Copying, bytes read plus bytes written.
    pub copy_mb_per_s: Option<f64>,
    /// Sequential reads of which every third line is changed in place, lines read plus lines
    /// written back: no line is read for the sake of a write, so that this is the traffic.
    pub mixed_mb_per_s: Option<f64>,
    /// Independent reads of random lines, whole lines counted.
    pub random_read_mb_per_s: Option<f64>,
}

/// A point of a loaded-latency curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadedLatency {
    /// Traffic of all flows together, in MB/s (1e6 bytes a second).
    pub mb_per_s: f64,
    /// Latency of a dependent load beside that traffic, in ns.
    pub latency_ns: f64,
    /// The low end of the interval of that latency.
    pub low_ns: f64,
    /// The high end.
    pub high_ns: f64,
}

/// Time to get a cache line that another core has just written, in ns, one way.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineTransfer {
    /// Between hardware threads of one core.
    pub same_core_ns: Option<f64>,
    /// Between cores under one LLC.
    pub same_llc_ns: Option<f64>,
    /// Between LLCs of one NUMA node.
    pub other_llc_ns: Option<f64>,
    /// Between NUMA nodes.
    pub other_node_ns: Option<f64>,
}

/// What the kernel takes for what programs ask of it most, in ns.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelCosts {
    /// The first touch of a page of the smallest size, and giving the page back.
    pub page_fault_ns: Option<f64>,
    /// Of that, the share that waits for memory: it takes longer where memory does. Absent: 0.
    pub page_fault_memory_share: Option<f64>,
    /// The first touch of a huge page, and giving it back.
    pub huge_page_fault_ns: Option<f64>,
    /// The first touch of 16 pages of a file in the page cache, which the kernel maps at once, and giving them back.
    pub file_fault_ns: Option<f64>,
    /// A system call that does nothing.
    pub system_call_ns: Option<f64>,
    /// A call on a small file in the page cache: the mean of open, read, fstat and close.
    pub file_call_ns: Option<f64>,
    /// A call that changes what memory is mapped to: the mean of those by which a loader maps a library and unmaps it,
    /// apart from page faults.
    pub mapping_call_ns: Option<f64>,
    /// A call in which a thread sleeps for a short time: CPU time, apart from the time that it sleeps.
    pub sleeping_call_ns: Option<f64>,
    /// Each byte that a read copies out of the page cache.
    pub transfer_ns_per_byte: Option<f64>,
    /// Each byte that is written to a file anew, whatever the disk does with it later.
    pub file_write_ns_per_byte: Option<f64>,
    /// Starting and ending a process, apart from what its page faults and system calls take.
    pub process_ns: Option<f64>,
}

#[cfg(test)]
#[path = "measured_tests.rs"]
mod tests;
