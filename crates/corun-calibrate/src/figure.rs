//! What can be measured: one list of figures, with the path in a machine file, the unit and how each
//! is measured.

use corun_machine::{Cache, CacheType, Machine};

use crate::kernel::{Access, ExecutionChain, Throughput};
use crate::nearness::SharedCache;

/// Something that was measured. Indices are those of the machine that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Figure {
    /// Of a core type.
    Core(usize, CoreFigure),
    /// Of the caches of a level that a core type's cores see, for data.
    Cache(usize, u32, CacheFigure),
    /// Latency from a node's CPUs to a node's memory, in ns.
    MemoryLatency(usize, usize),
    /// Rate of all CPUs of a node out of their own memory.
    NodeRate(usize, Rate),
    /// Rate of all CPUs of a node out of other nodes' memory.
    LinkRate(usize),
    /// Rate of all CPUs of an LLC out of memory, where a node has several.
    LlcRate(usize),
    /// A point of the curve of latency beside the traffic of other cores, on the first node.
    Loaded(usize, CurvePart),
    /// Speed of a CPU's arithmetic beside another CPU's, as a share of its speed alone; the CPUs
    /// count as cores. Machine files have no place for it.
    SpeedBeside(u32, u32),
    /// Time of a cache line on its way.
    LineTransfer(Distance),
    /// Time of the kernel.
    Kernel(KernelFigure),
}

/// Of a core type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CoreFigure {
    ClockMhz,
    ClockAloneMhz,
    ClockBurstMhz,
    SmtYield,
    DispatchWidth,
    /// Independent ones, on a core that no other thread uses.
    AdditionsPerCycle,
    ReorderBuffer,
    BranchPenaltyCycles,
    LargePredictorShare,
    OutstandingMisses,
    OutstandingLlcHits,
    LoadCycles,
    Execution(ExecutionChain),
    Throughput(Throughput),
    /// Of a taken branch in so many KiB of code.
    TakenBranchCycles(u32),
    /// Of a run of instructions on two cache lines, beyond those of one on a line.
    LineCrossingCycles,
    /// Of a cache line of code.
    CodeLineCycles(CodeSource),
    TlbEntries(u32),
    TlbHitCycles(u32),
    PageWalkCycles,
    MemoryPageWalkCycles,
    /// Pages of the memory over which those were measured.
    MemoryPageWalkPages,
    HiddenByStride(i32),
    HiddenInRandomPages,
    /// Of the line after one that was loaded.
    NextLine,
    Streams,
    MemoryRate(Rate),
    /// A point of the curve of latency beside the core's own traffic.
    OwnLoaded(usize, CurvePart),
}

/// Where code lies that is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CodeSource {
    Private,
    Llc,
}

/// Of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CacheFigure {
    LatencyCycles,
    LatencyNs,
    EffectiveKib,
    /// Share of the lines that are found in it right after they were pushed out of the caches before.
    LeftAtOnce,
    /// Share of those that are left after so many ms without a use.
    IdleSurvival(u32),
    /// The life of a line that was used once, as a share of that of others.
    SingleUseLife,
    /// The same of a line that was used once, and not by a stream.
    RandomUseLife,
    Rate(Rate),
}

/// A kind of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rate {
    Read,
    Write,
    NonTemporalWrite,
    Copy,
    Mixed,
    RandomRead,
}

/// The two coordinates of a point of a loaded-latency curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CurvePart {
    MbPerS,
    LatencyNs,
}

/// How far a cache line travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Distance {
    SameCore,
    SameLlc,
    OtherLlc,
    OtherNode,
}

/// What the kernel is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KernelFigure {
    PageFault,
    HugePageFault,
    FileFault,
    SystemCall,
    FileCall,
    MappingCall,
    SleepingCall,
    TransferPerByte,
    FileWritePerByte,
    Process,
}

impl From<Access> for Rate {
    fn from(access: Access) -> Self {
        match access {
            Access::Read => Self::Read,
            Access::Write => Self::Write,
            Access::NonTemporalWrite => Self::NonTemporalWrite,
            Access::Copy => Self::Copy,
            Access::Mixed => Self::Mixed,
        }
    }
}

impl Figure {
    /// The cache whose sharing the figure is about: it means nothing where CPUs did not share that.
    pub(crate) fn shared_cache(&self) -> Option<SharedCache> {
        match self {
            Self::Cache(_, _, CacheFigure::SingleUseLife)
            | Self::LineTransfer(Distance::SameLlc) => Some(SharedCache::Last),
            Self::Core(_, CoreFigure::SmtYield) | Self::LineTransfer(Distance::SameCore) => {
                Some(SharedCache::OfCore)
            }
            _ => None,
        }
    }

    /// The path of the figure in a machine file, or of the part of a figure that it is.
    pub(crate) fn path(&self, machine: &Machine) -> String {
        let types = machine.core_types();
        let node = |node: &usize| machine.nodes()[*node].os_index;
        match self {
            Self::Core(core_type, what) => {
                format!("core_type.{}.{}", types[*core_type].name, what.field())
            }
            Self::Cache(_, level, what) => {
                let name = data_cache_name(machine, *level);
                let field = match what {
                    // Machine files have it in ns.
                    CacheFigure::LatencyCycles => "latency_cycles".to_owned(),
                    CacheFigure::LatencyNs => "latency_ns".to_owned(),
                    CacheFigure::EffectiveKib => "effective_kib".to_owned(),
                    CacheFigure::LeftAtOnce => "left_at_once".to_owned(),
                    CacheFigure::IdleSurvival(ms) => format!("idle_survival.{ms}"),
                    CacheFigure::SingleUseLife => "single_use_life".to_owned(),
                    CacheFigure::RandomUseLife => "random_use_life".to_owned(),
                    CacheFigure::Rate(rate) => format!("rates.{}", rate.field()),
                };
                format!("cache.{name}.{field}")
            }
            Self::MemoryLatency(from, to) => format!("memory_latency_ns.{from}.{to}"),
            Self::NodeRate(at, rate) => {
                format!("bandwidth.{}.rates.{}", node_domain(node(at)), rate.field())
            }
            Self::LinkRate(at) => format!("bandwidth.{}.peak_mb_per_s", link_domain(node(at))),
            Self::LlcRate(at) => format!("bandwidth.{}.peak_mb_per_s", llc_domain(*at)),
            Self::Loaded(point, part) => {
                let domain = node_domain(machine.nodes()[0].os_index);
                format!("bandwidth.{domain}.loaded_latency.{point}.{}", part.field())
            }
            Self::SpeedBeside(one, other) => format!("speed_beside.{one}.{other}"),
            Self::LineTransfer(distance) => format!("line_transfer.{}", distance.field()),
            Self::Kernel(what) => format!("kernel.{}", what.field()),
        }
    }

    /// Whether it is a coordinate of a point of a curve, which has its own interval.
    pub(crate) fn is_of_curve(&self) -> bool {
        matches!(self, Self::Loaded(..) | Self::Core(_, CoreFigure::OwnLoaded(..)))
    }

    /// The unit; empty for counts and shares.
    pub(crate) fn unit(&self) -> &'static str {
        match self {
            Self::Core(_, what) => what.unit(),
            Self::Cache(_, _, CacheFigure::LatencyCycles) => "cycles",
            Self::Cache(_, _, CacheFigure::LatencyNs) => "ns",
            Self::Cache(_, _, CacheFigure::EffectiveKib) => "KiB",
            Self::Cache(
                _,
                _,
                CacheFigure::LeftAtOnce
                | CacheFigure::IdleSurvival(_)
                | CacheFigure::SingleUseLife
                | CacheFigure::RandomUseLife,
            ) => "",
            Self::Cache(_, _, CacheFigure::Rate(_)) => "MB/s",
            Self::NodeRate(..) | Self::LinkRate(_) | Self::LlcRate(_) => "MB/s",
            Self::Loaded(_, part) => part.unit(),
            Self::SpeedBeside(..) => "",
            Self::MemoryLatency(..) | Self::LineTransfer(_) | Self::Kernel(_) => "ns",
        }
    }

    /// How it is measured: a key of a machine file's sources that covers it, and the text.
    pub(crate) fn source(&self) -> (&'static str, &'static str) {
        match self {
            Self::Core(_, what) => what.source(),
            Self::Cache(_, _, CacheFigure::LatencyCycles | CacheFigure::LatencyNs) => (
                "cache.latency_ns",
                "pointer chase in random order: plateau of the latency ladder, in cycles, at the \
                 clock of a core alone",
            ),
            Self::Cache(_, _, CacheFigure::EffectiveKib) => (
                "cache.effective_kib",
                "pointer chase in random order: the largest size x share of hits on the latency \
                 ladder",
            ),
            Self::Cache(_, _, CacheFigure::LeftAtOnce | CacheFigure::IdleSurvival(_)) => (
                "cache.idle_survival",
                "single loads of lines that were used from there again and again, after pauses spent \
                 in registers, relative to no pause",
            ),
            Self::Cache(_, _, CacheFigure::SingleUseLife) => (
                "cache.single_use_life",
                "single loads of lines at random, alone and beside a stream of reads, of another core where there is one: what the \
                 model needs for the share of them that misses",
            ),
            Self::Cache(_, _, CacheFigure::RandomUseLife) => (
                "cache.random_use_life",
                "single loads of lines that came from memory and were used once, after pauses spent in registers: the pause \
                 that leaves half, over that of lines that were used again",
            ),
            Self::Cache(_, _, CacheFigure::Rate(_)) => {
                ("cache.rates", "one core over half of what the level holds")
            }
            Self::MemoryLatency(..) => (
                "memory_latency_ns",
                "pointer chase in random order, window by window of 2 MiB, far beyond the LLC",
            ),
            Self::NodeRate(..) => ("bandwidth.rates", "all CPUs of the node at once"),
            Self::LinkRate(_) => (
                "bandwidth.peak_mb_per_s",
                "all CPUs of a node or LLC at once: mixed reads and writes",
            ),
            Self::LlcRate(_) => (
                "bandwidth.peak_mb_per_s",
                "all CPUs of a node or LLC at once: mixed reads and writes",
            ),
            Self::Loaded(..) => (
                "bandwidth.loaded_latency",
                "pointer chase on one core beside mixed reads and writes of all others, at several \
                 rates",
            ),
            Self::SpeedBeside(..) => {
                ("speed_beside", "independent instructions on both CPUs, relative to one alone")
            }
            Self::LineTransfer(_) => {
                ("line_transfer", "two threads that answer each other through one cache line")
            }
            Self::Kernel(KernelFigure::SystemCall) => ("kernel.system_call_ns", "getppid"),
            Self::Kernel(KernelFigure::FileCall) => (
                "kernel.file_call_ns",
                "open, read of 512 bytes, fstat and close of a file in the page cache, for each call",
            ),
            Self::Kernel(KernelFigure::MappingCall) => (
                "kernel.mapping_call_ns",
                "the calls by which a loader maps a library and unmaps it, none of whose pages is touched, for each call",
            ),
            Self::Kernel(KernelFigure::SleepingCall) => {
                ("kernel.sleeping_call_ns", "CPU time of sleeping for 100 us")
            }
            Self::Kernel(KernelFigure::FileFault) => (
                "kernel.file_fault_ns",
                "first touch of a page in each 64 KiB of a library in the page cache, and unmapping it",
            ),
            Self::Kernel(KernelFigure::TransferPerByte) => (
                "kernel.transfer_ns_per_byte",
                "reads of 64 KiB through a file in the page cache, against reads of one byte",
            ),
            Self::Kernel(KernelFigure::FileWritePerByte) => (
                "kernel.file_write_ns_per_byte",
                "CPU time of writes of 64 KiB to a new file in the folder for temporary files, and of removing it",
            ),
            Self::Kernel(KernelFigure::Process) => (
                "kernel.process_ns",
                "CPU time of a program without libraries that ends at once, from its start to its end",
            ),
            Self::Kernel(_) => {
                ("kernel", "first touch of fresh anonymous memory, and unmapping it")
            }
        }
    }
}

/// The name of a machine's data caches of a level, as paths have it.
fn data_cache_name(machine: &Machine, level: u32) -> String {
    let data = |cache: &Cache| cache.level == level && cache.holds == CacheType::Data;
    let split = machine.objects().iter().filter_map(|object| object.cache.as_ref()).any(data);
    if split { format!("L{level}d") } else { format!("L{level}") }
}

/// The name of the bandwidth domain of a node's memory; `os_index` is the kernel's number.
pub(crate) fn node_domain(os_index: u32) -> String {
    format!("memory{os_index}")
}

/// The name of the domain between a node's CPUs and other nodes.
pub(crate) fn link_domain(os_index: u32) -> String {
    format!("link{os_index}")
}

/// The name of the domain between an LLC's CPUs and memory.
pub(crate) fn llc_domain(llc: usize) -> String {
    format!("llc{llc}")
}

impl CoreFigure {
    fn field(self) -> String {
        let name = match self {
            Self::ClockMhz => "clock_mhz",
            Self::ClockAloneMhz => "clock_alone_mhz",
            Self::ClockBurstMhz => "clock_burst_mhz",
            Self::SmtYield => "smt_yield",
            Self::DispatchWidth => "dispatch_width",
            Self::AdditionsPerCycle => "execution.additions_per_cycle",
            Self::ReorderBuffer => "reorder_buffer",
            Self::BranchPenaltyCycles => "branch_penalty_cycles",
            Self::LargePredictorShare => "large_predictor_share",
            Self::OutstandingMisses => "outstanding_misses",
            Self::OutstandingLlcHits => "outstanding_llc_hits",
            Self::LoadCycles => "execution.load_cycles",
            Self::Execution(chain) => return format!("execution.{}", execution_field(chain)),
            Self::Throughput(operation) => {
                return throughput_key(operation).trim_start_matches("core_type.").to_owned();
            }
            Self::TakenBranchCycles(kib) => {
                return format!("fetching.taken_branch_cycles.{kib}");
            }
            Self::LineCrossingCycles => "fetching.line_crossing_cycles",
            Self::CodeLineCycles(CodeSource::Private) => "fetching.private_line_cycles",
            Self::CodeLineCycles(CodeSource::Llc) => "fetching.llc_line_cycles",
            Self::TlbEntries(level) => return format!("tlb.L{level}.entries"),
            Self::TlbHitCycles(level) => return format!("tlb.L{level}.hit_cycles"),
            Self::PageWalkCycles => "page_walk_cycles",
            Self::MemoryPageWalkCycles => "memory_page_walk_cycles",
            Self::MemoryPageWalkPages => "memory_page_walk_pages",
            Self::HiddenByStride(stride) => {
                return format!("prefetching.hidden_by_stride.{stride}");
            }
            Self::HiddenInRandomPages => "prefetching.hidden_in_random_pages",
            Self::NextLine => "prefetching.next_line",
            Self::Streams => "prefetching.streams",
            Self::MemoryRate(rate) => return format!("memory_rates.{}", rate.field()),
            Self::OwnLoaded(point, part) => {
                return format!("own_loaded_latency.{point}.{}", part.field());
            }
        };
        name.to_owned()
    }

    fn unit(self) -> &'static str {
        match self {
            Self::ClockMhz | Self::ClockAloneMhz | Self::ClockBurstMhz => "MHz",
            Self::BranchPenaltyCycles
            | Self::LoadCycles
            | Self::Execution(_)
            | Self::TakenBranchCycles(_)
            | Self::LineCrossingCycles
            | Self::CodeLineCycles(_)
            | Self::TlbHitCycles(_)
            | Self::PageWalkCycles
            | Self::MemoryPageWalkCycles => "cycles",
            Self::DispatchWidth => "instructions/cycle",
            Self::Throughput(_) | Self::AdditionsPerCycle => "operations/cycle",
            Self::MemoryRate(_) => "MB/s",
            Self::OwnLoaded(_, part) => part.unit(),
            Self::SmtYield
            | Self::LargePredictorShare
            | Self::ReorderBuffer
            | Self::OutstandingMisses
            | Self::OutstandingLlcHits
            | Self::TlbEntries(_)
            | Self::MemoryPageWalkPages
            | Self::HiddenByStride(_)
            | Self::HiddenInRandomPages
            | Self::NextLine
            | Self::Streams => "",
        }
    }

    fn source(self) -> (&'static str, &'static str) {
        match self {
            Self::ClockMhz => {
                ("core_type.clock_mhz", "chain of dependent additions, all CPUs busy")
            }
            Self::ClockAloneMhz => {
                ("core_type.clock_alone_mhz", "chain of dependent additions, one core busy")
            }
            Self::ClockBurstMhz => (
                "core_type.clock_burst_mhz",
                "chain of dependent additions in the first 0.1 ms after a pause",
            ),
            Self::SmtYield => (
                "core_type.smt_yield",
                "independent instructions and random loads on both threads, relative to one; their \
                 mean",
            ),
            Self::DispatchWidth => (
                "core_type.dispatch_width",
                "independent additions, loads and vector additions: the best of three mixes",
            ),
            Self::AdditionsPerCycle => (
                "core_type.execution.additions_per_cycle",
                "independent additions against a chain of dependent ones, before and after each sample: the most of all",
            ),
            Self::ReorderBuffer => (
                "core_type.reorder_buffer",
                "two misses with instructions in between: how many make the second one wait (Wong, \
                 2013)",
            ),
            Self::BranchPenaltyCycles => (
                "core_type.branch_penalty_cycles",
                "branches on random bits against branches never taken, less the cycle of the branch",
            ),
            Self::LargePredictorShare => (
                "core_type.large_predictor_share",
                "64 branches whose outcomes come again after 1024 to 16,384, against 128 and against outcomes that never come \
                 again, and what recordings' predictors make of them",
            ),
            Self::OutstandingMisses => (
                "core_type.outstanding_misses",
                "independent pointer chases over memory: highest rate x latency of one",
            ),
            Self::OutstandingLlcHits => (
                "core_type.outstanding_llc_hits",
                "independent pointer chases over the LLC: highest rate x latency of one",
            ),
            Self::LoadCycles => {
                ("core_type.execution.load_cycles", "pointer chase in the level-1 cache")
            }
            Self::Execution(_) => ("core_type.execution", "chain of dependent operations"),
            Self::Throughput(operation) => {
                (throughput_key(operation), "operations on 16 registers of 128 bits in turn")
            }
            Self::TakenBranchCycles(_) => (
                "core_type.fetching.taken_branch_cycles",
                "a loop of taken branches, each to the next 32 bytes of code",
            ),
            Self::LineCrossingCycles => (
                "core_type.fetching.line_crossing_cycles",
                "short runs up to taken branches, those on two lines of code against those on one",
            ),
            Self::CodeLineCycles(_) => (
                "core_type.fetching",
                "a loop through code that does nothing, larger than the caches before",
            ),
            Self::TlbEntries(_) | Self::TlbHitCycles(_) => (
                "core_type.tlb",
                "pointer chase with a line a page, against as many lines side by side",
            ),
            Self::PageWalkCycles => (
                "core_type.page_walk_cycles",
                "pointer chase with a line a page, against as many lines side by side",
            ),
            Self::MemoryPageWalkCycles => (
                "core_type.memory_page_walk_cycles",
                "pointer chase over memory in small pages, in no order against window by window of 2 MiB",
            ),
            Self::MemoryPageWalkPages => {
                ("core_type.memory_page_walk_pages", "the memory of memory_page_walk_cycles")
            }
            Self::HiddenByStride(_)
            | Self::HiddenInRandomPages
            | Self::NextLine
            | Self::Streams => (
                "core_type.prefetching",
                "dependent loads over memory at strides, against random order; single loads of a line and then of another near it",
            ),
            Self::MemoryRate(_) => ("core_type.memory_rates", "one core over memory"),
            Self::OwnLoaded(..) => (
                "core_type.own_loaded_latency",
                "pointer chase beside independent sequential loads of the same core",
            ),
        }
    }
}

/// The field of a machine file's execution latencies.
fn execution_field(chain: ExecutionChain) -> &'static str {
    match chain {
        ExecutionChain::IntegerMultiply => "integer_multiply_cycles",
        ExecutionChain::IntegerDivide => "integer_divide_cycles",
        ExecutionChain::FpAdd => "fp_add_cycles",
        ExecutionChain::FpMultiply => "fp_multiply_cycles",
        ExecutionChain::FpMultiplyAdd => "fp_multiply_add_cycles",
        ExecutionChain::FpDivide => "fp_divide_cycles",
        ExecutionChain::VectorAdd => "vector_add_cycles",
        ExecutionChain::Transfer => "transfer_cycles",
        ExecutionChain::VectorLoad => "vector_load_cycles",
        ExecutionChain::VectorForward => "vector_forward_cycles",
        ExecutionChain::StoreForward => "store_forward_cycles",
        ExecutionChain::StackForward => "stack_forward_cycles",
    }
}

/// Where a machine file has how many operations begin a cycle.
fn throughput_key(operation: Throughput) -> &'static str {
    match operation {
        Throughput::FpAdd => "core_type.execution.fp_adds_per_cycle",
        Throughput::FpMultiply => "core_type.execution.fp_multiplies_per_cycle",
        Throughput::VectorAdd => "core_type.execution.vector_adds_per_cycle",
        Throughput::VectorShuffle => "core_type.execution.vector_shuffles_per_cycle",
    }
}

impl Rate {
    fn field(self) -> &'static str {
        match self {
            Self::Read => "read_mb_per_s",
            Self::Write => "write_mb_per_s",
            Self::NonTemporalWrite => "non_temporal_write_mb_per_s",
            Self::Copy => "copy_mb_per_s",
            Self::Mixed => "mixed_mb_per_s",
            Self::RandomRead => "random_read_mb_per_s",
        }
    }
}

impl CurvePart {
    fn field(self) -> &'static str {
        match self {
            Self::MbPerS => "mb_per_s",
            Self::LatencyNs => "latency_ns",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::MbPerS => "MB/s",
            Self::LatencyNs => "ns",
        }
    }
}

impl Distance {
    fn field(self) -> &'static str {
        match self {
            Self::SameCore => "same_core_ns",
            Self::SameLlc => "same_llc_ns",
            Self::OtherLlc => "other_llc_ns",
            Self::OtherNode => "other_node_ns",
        }
    }
}

impl KernelFigure {
    fn field(self) -> &'static str {
        match self {
            Self::PageFault => "page_fault_ns",
            Self::HugePageFault => "huge_page_fault_ns",
            Self::FileFault => "file_fault_ns",
            Self::SystemCall => "system_call_ns",
            Self::FileCall => "file_call_ns",
            Self::MappingCall => "mapping_call_ns",
            Self::SleepingCall => "sleeping_call_ns",
            Self::TransferPerByte => "transfer_ns_per_byte",
            Self::FileWritePerByte => "file_write_ns_per_byte",
            Self::Process => "process_ns",
        }
    }
}
