//! The machine file: the schema of `machines/*.toml`, which discovery fills in too.
//!
//! Units are in the names. A figure that is absent is unknown, never zero.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::CpuSet;
use crate::measured::{
    AccessRates, ExecutionLatencies, Fetching, KernelCosts, LineTransfer, LoadedLatency,
    Measurement, PredictionError, Prefetching, Tlb,
};

/// The version of the machine file that this build reads and writes.
pub const MACHINE_FILE_VERSION: u32 = 1;

/// A whole machine file.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// Version of the schema: [`MACHINE_FILE_VERSION`].
    pub version: u32,
    /// The name by which the machine is asked for.
    pub name: String,
    /// One line for people: vendor, model, year.
    #[serde(default)]
    pub title: String,
    /// Where the figures come from: a figure's path, or less of it, to a citation (see
    /// [`MachineSpec::source_of`]).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, String>,
    /// How far figures were seen to vary while they were measured: a figure's path, or a part of a figure behind its
    /// path (`memory_latency_ns.0.1`), to the low and the high end of an interval in the figure's unit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub spread: BTreeMap<String, (f64, f64)>,
    /// How the figures were measured, where they were measured on the machine itself.
    pub measurement: Option<Measurement>,
    /// How far predictions were off here, where that was measured.
    pub prediction_error: Option<PredictionError>,
    /// CPUs that exist and are off line; they are in no object of the tree.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub offline_cpus: CpuSet,
    /// Kinds of core. A machine has at least one.
    #[serde(default, rename = "core_type")]
    pub core_types: Vec<CoreType>,
    /// Memory access latency in ns from node (row) to node (column), in the order of node numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_latency_ns: Vec<Vec<f64>>,
    /// The kernel's relative node distances (10 = local), in the order of node numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_distance: Vec<Vec<u32>>,
    /// What bounds the traffic to memory, in any order; `stage` tells who comes first.
    #[serde(default, rename = "bandwidth", skip_serializing_if = "Vec::is_empty")]
    pub bandwidth_domains: Vec<BandwidthDomain>,
    /// Power figures, where known.
    pub power: Option<PowerModel>,
    /// What policies go by that was measured on the machine, or fitted to its model.
    pub calibration: Option<Calibration>,
    /// What cache lines take from core to core.
    pub line_transfer: Option<LineTransfer>,
    /// What the kernel takes.
    pub kernel: Option<KernelCosts>,
    /// The tree: the children of the machine.
    #[serde(rename = "object")]
    pub objects: Vec<ObjectSpec>,
}

impl MachineSpec {
    /// A machine of which nothing but the name is known: it has no core types and no objects yet.
    pub fn new(name: &str) -> Self {
        Self {
            version: MACHINE_FILE_VERSION,
            name: name.to_owned(),
            title: String::new(),
            sources: BTreeMap::new(),
            spread: BTreeMap::new(),
            measurement: None,
            prediction_error: None,
            offline_cpus: CpuSet::new(),
            core_types: Vec::new(),
            memory_latency_ns: Vec::new(),
            node_distance: Vec::new(),
            bandwidth_domains: Vec::new(),
            power: None,
            calibration: None,
            line_transfer: None,
            kernel: None,
            objects: Vec::new(),
        }
    }
}

/// A node of the tree as written in a file; `count` stands for so many equal siblings.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectSpec {
    /// What this object is.
    pub kind: ObjectType,
    /// How many equal siblings this entry stands for.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u32,
    /// The operating system's number of the object, where it has one.
    pub os_index: Option<u32>,
    /// Of a cache: its level, 1 nearest to the core.
    pub level: Option<u32>,
    /// Of a cache: what it holds.
    pub holds: Option<CacheType>,
    /// Of a cache: capacity in KiB (1024 bytes).
    pub size_kib: Option<u64>,
    /// Of a cache: associativity.
    pub ways: Option<u32>,
    /// Of a cache that the hardware can divide among programs: the fewest ways that a partition of it may have.
    /// Absent: it is not known to be one; policies that partition caches all the same take 1.
    pub min_partition_ways: Option<u32>,
    /// Of a cache: bytes a line.
    pub line_bytes: Option<u32>,
    /// Of a cache: does it hold what the caches nearer to the core hold? Absent: it does when it is
    /// at least twice as large as they are together.
    pub inclusion: Option<Inclusion>,
    /// Of a cache: load-to-use latency of a hit, in ns.
    pub latency_ns: Option<f64>,
    /// Of a cache: how much of it a program alone gets, in KiB (1024 bytes); less than `size_kib` where others outside share it.
    pub effective_kib: Option<u64>,
    /// Of a cache: the share of its lines, 0 to 1, that are still there after so many ms in which nobody on this machine
    /// used them, by rising times. Less than all where others outside share it: the neighbours of a virtual machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle_survival: Vec<(f64, f64)>,
    /// Of a cache: how long a line of a stream stays, as a share of the time that a line stays which was used again,
    /// above 0 up to 1. Absent: 1, which is LRU. Less where the cache resists streams.
    pub single_use_life: Option<f64>,
    /// Of a cache: the same of a line that was used once, at random. Absent: as of a stream.
    pub random_use_life: Option<f64>,
    /// Of an LRU cache: the pages, in KiB (1024 bytes), that lie in its sets at random, so that some sets get too many.
    /// Absent: programs fill all sets alike.
    pub random_page_kib: Option<u64>,
    /// Of a cache: what one core alone reaches out of it.
    pub rates: Option<AccessRates>,
    /// Of a core: the name of its core type.
    pub core_type: Option<String>,
    /// Of a core: its CPUs' operating-system numbers; given out in tree order where absent.
    pub cpus: Option<CpuSet>,
    /// Of a NUMA node: its memory in MiB.
    pub memory_mib: Option<u64>,
    /// What it contains.
    #[serde(default, rename = "object", skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectSpec>,
}

impl ObjectSpec {
    /// One object of a kind, all else absent.
    pub fn new(kind: ObjectType) -> Self {
        Self {
            kind,
            count: 1,
            os_index: None,
            level: None,
            holds: None,
            size_kib: None,
            ways: None,
            min_partition_ways: None,
            line_bytes: None,
            inclusion: None,
            latency_ns: None,
            effective_kib: None,
            idle_survival: Vec::new(),
            single_use_life: None,
            random_use_life: None,
            random_page_kib: None,
            rates: None,
            core_type: None,
            cpus: None,
            memory_mib: None,
            objects: Vec::new(),
        }
    }

    /// Of a cache: what it holds; unified where the file does not say.
    pub fn holds(&self) -> CacheType {
        self.holds.unwrap_or(CacheType::Unified)
    }
}

fn one() -> u32 {
    1
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

/// The kinds of object in a machine tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectType {
    /// The whole machine: the root.
    Machine,
    /// A physical package (socket).
    Package,
    /// A die inside a package.
    Die,
    /// A NUMA node; one without children has memory and no CPUs.
    NumaNode,
    /// A group of cores that the kernel calls a cluster.
    Cluster,
    /// A cache.
    Cache,
    /// A core.
    Core,
    /// A CPU: a hardware thread.
    Cpu,
}

impl ObjectType {
    /// Its name in a machine file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Package => "package",
            Self::Die => "die",
            Self::NumaNode => "numa-node",
            Self::Cluster => "cluster",
            Self::Cache => "cache",
            Self::Core => "core",
            Self::Cpu => "cpu",
        }
    }
}

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheType {
    /// Data and instructions.
    Unified,
    /// Data alone.
    Data,
    /// Instructions alone.
    Instruction,
}

impl CacheType {
    /// Its name in a machine file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unified => "unified",
            Self::Data => "data",
            Self::Instruction => "instruction",
        }
    }
}

/// How a cache relates to the caches nearer to the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inclusion {
    /// Holds all that the nearer caches hold: its capacity is the whole.
    Inclusive,
    /// Mostly holds what the nearer caches do not (victim caches too): capacities add.
    NonInclusive,
    /// Neither inclusive nor exclusive (NINE): what comes from memory comes in here, too, and so does what the nearer caches write
    /// back; a line stays when a nearer cache takes it, and leaves without the copies there. Capacities add for written lines alone.
    Neither,
}

impl Inclusion {
    /// Does a cache of this kind hold other lines than the nearer caches, whether they were written or not?
    pub fn capacities_add(self) -> bool {
        self == Self::NonInclusive
    }
}

/// A kind of core, with the parameters of the interval model (see corun-model).
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreType {
    /// Its name: what `core_type` of a core refers to.
    pub name: String,
    /// Speed relative to the fastest core type of the machine, 0 to 1.
    #[serde(default = "full_capacity")]
    pub capacity: f64,
    /// Clock in MHz under load: all cores of the machine busy, where it was measured.
    pub clock_mhz: f64,
    /// Clock in MHz while this core alone is busy.
    pub clock_alone_mhz: Option<f64>,
    /// Clock in MHz in the first moments after a pause.
    pub clock_burst_mhz: Option<f64>,
    /// Hardware threads a core.
    #[serde(default = "one")]
    pub threads: u32,
    /// Instructions a second of a core with all its threads busy, relative to one thread alone; 1
    /// to `threads`. Absent: unknown.
    pub smt_yield: Option<f64>,
    /// How its hardware threads share it.
    #[serde(default, skip_serializing_if = "Smt::is_default")]
    pub smt: Smt,
    /// Instructions dispatched a cycle at most.
    #[serde(default = "default_width")]
    pub dispatch_width: f64,
    /// Instructions fetched a cycle at most. Absent: as many as are dispatched.
    pub fetch_width: Option<f64>,
    /// Reorder-buffer entries; 0 for an in-order core.
    #[serde(default = "default_reorder_buffer")]
    pub reorder_buffer: u32,
    /// Stores that have not left for the first level yet, at most. Absent: a fifth of the reorder buffer.
    pub store_buffer: Option<u32>,
    /// Misses a core can have outstanding to the LLC or memory at a time.
    #[serde(default = "default_outstanding")]
    pub outstanding_misses: u32,
    /// Cycles lost on a mispredicted branch.
    #[serde(default = "default_branch_penalty")]
    pub branch_penalty_cycles: f64,
    /// Where the branches that it mispredicts lie between those of the small predictor that recordings count by (0: gshare) and
    /// those of their large one (1: TAGE). Absent: as the large one's.
    pub large_predictor_share: Option<f64>,
    /// Does a comparison with the conditional branch behind it count as one instruction in the pipeline?
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub fuses_branches: bool,
    /// Does it go on behind a branch that it mispredicted? Simulators that run traces do not.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub runs_wrong_path: bool,
    /// Hits in the LLC that a core can have outstanding at a time. Absent: as many as `outstanding_misses`.
    pub outstanding_llc_hits: Option<u32>,
    /// What a translation that no TLB holds adds to a load, in cycles.
    pub page_walk_cycles: Option<f64>,
    /// The same of a load in no order that comes from memory, in cycles, instead: the page's entries lie farther then,
    /// and rows of the memory have to be opened. Absent: as `page_walk_cycles`.
    pub memory_page_walk_cycles: Option<f64>,
    /// Over how many pages loads went where that was measured. The entries of fewer pages lie nearer: what a walk adds goes with the
    /// logarithm of the pages between those whose entries the private cache holds and these. Absent: over any.
    pub memory_page_walk_pages: Option<u32>,
    /// Latencies of instructions.
    pub execution: Option<ExecutionLatencies>,
    /// How fast instructions are fetched.
    pub fetching: Option<Fetching>,
    /// The levels of the data TLB, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tlb: Vec<Tlb>,
    /// What the prefetchers do.
    pub prefetching: Option<Prefetching>,
    /// What one core alone reaches out of memory.
    pub memory_rates: Option<AccessRates>,
    /// Latency of a dependent load to memory beside independent loads of the same core, by the
    /// core's traffic, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_loaded_latency: Vec<LoadedLatency>,
}

impl CoreType {
    /// A core type of which clock and threads alone are known: all else has the file's defaults.
    pub fn new(name: &str, clock_mhz: f64, threads: u32) -> Self {
        Self {
            name: name.to_owned(),
            capacity: full_capacity(),
            clock_mhz,
            clock_alone_mhz: None,
            clock_burst_mhz: None,
            threads,
            smt_yield: None,
            smt: Smt::default(),
            dispatch_width: default_width(),
            fetch_width: None,
            reorder_buffer: default_reorder_buffer(),
            outstanding_misses: default_outstanding(),
            branch_penalty_cycles: default_branch_penalty(),
            large_predictor_share: None,
            fuses_branches: true,
            runs_wrong_path: true,
            store_buffer: None,
            outstanding_llc_hits: None,
            page_walk_cycles: None,
            memory_page_walk_cycles: None,
            memory_page_walk_pages: None,
            execution: None,
            fetching: None,
            tlb: Vec::new(),
            prefetching: None,
            memory_rates: None,
            own_loaded_latency: Vec::new(),
        }
    }
}

/// How the hardware threads of a core share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Smt {
    /// Instructions of all threads in one cycle, in a core made for one thread: together they reach
    /// [`CoreType::smt_yield`].
    #[default]
    Simultaneous,
    /// An in-order pipeline that takes instructions of another ready thread each cycle, so that one
    /// thread's stalls are the others' time. At most [`Smt::MOST_FINE_GRAINED`] threads.
    FineGrained,
}

impl Smt {
    /// Threads that a core of [`Smt::FineGrained`] can have.
    pub const MOST_FINE_GRAINED: u32 = 8;

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn full_capacity() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

fn is_yes(holds: &bool) -> bool {
    *holds
}

fn default_width() -> f64 {
    4.0
}

fn default_reorder_buffer() -> u32 {
    224
}

fn default_outstanding() -> u32 {
    10
}

fn default_branch_penalty() -> f64 {
    15.0
}

/// Something that bounds traffic to memory, and who passes it.
///
/// A flow from a CPU to a node's memory passes the domain when the CPU is in `from_cpus` and the
/// node in `to_nodes` (absent: all), and, with `remote_only`, when the node is not the CPU's own.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BandwidthDomain {
    /// Its name, unique on the machine.
    pub name: String,
    /// What it is.
    pub kind: BandwidthKind,
    /// Its place on the way from the cores to memory: lower stages are passed first.
    pub stage: u32,
    /// The highest rate that programs reach, in MB/s (1e6 bytes a second).
    pub peak_mb_per_s: f64,
    /// The rate on the data sheet, in MB/s.
    pub theoretical_mb_per_s: Option<f64>,
    /// CPUs whose traffic passes; absent: all.
    pub from_cpus: Option<CpuSet>,
    /// Nodes to whose memory the traffic goes; absent: all.
    pub to_nodes: Option<Vec<u32>>,
    /// Only traffic to another node than the CPU's own passes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub remote_only: bool,
    /// What all CPUs together reach through it.
    pub rates: Option<AccessRates>,
    /// Latency of a dependent load through it beside the traffic of other cores, by the traffic of
    /// all, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loaded_latency: Vec<LoadedLatency>,
}

impl BandwidthDomain {
    /// A domain that all traffic passes, of which the peak alone is known.
    pub fn new(name: &str, kind: BandwidthKind, stage: u32, peak_mb_per_s: f64) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            stage,
            peak_mb_per_s,
            theoretical_mb_per_s: None,
            from_cpus: None,
            to_nodes: None,
            remote_only: false,
            rates: None,
            loaded_latency: Vec::new(),
        }
    }
}

pub(crate) fn is_false(value: &bool) -> bool {
    !*value
}

/// The kinds of bandwidth domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BandwidthKind {
    /// A memory controller, or all of a node's together.
    MemoryController,
    /// A front-side bus.
    FrontSideBus,
    /// The bus of a cluster of cores.
    ClusterBus,
    /// A crossbar between cores and caches.
    Crossbar,
    /// A link between nodes.
    Link,
}

/// Power figures of a machine, all in watts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerModel {
    /// The idle machine.
    pub idle_w: f64,
    /// Added by each package with a busy core.
    pub package_active_w: f64,
    /// Added by a fully busy core.
    pub core_w: f64,
    /// Added by each GB/s (1e9 bytes a second) of memory traffic.
    pub w_per_gb_per_s: f64,
}

/// Coefficients that policies go by, of this machine. What is absent a policy derives, or refuses
/// to do without.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// How much slower programs run away from their memory, by their miss rate.
    pub numa_penalty: Option<NumaPenaltyFit>,
    /// LLC misses per 1000 instructions, of all processes under one cache together, at which a link
    /// between nodes is saturated if they all go through it.
    pub link_threshold_mpki: Option<f64>,
    /// Bus transfer rate in MB/s below which a thread on a big core hardly suffers from others.
    pub low_btr_mb_per_s: Option<f64>,
    /// Bus transfer rate in MB/s of a cluster of big cores below which nobody there suffers much.
    pub high_btr_mb_per_s: Option<f64>,
    /// How far one thread's progress may be ahead of another's before they change core types, in ms
    /// of time alone on a big core: so that there is one swap in 400 ms on average.
    pub amp_threshold_ms: Option<f64>,
    /// Speedup factor of a thread by what is counted while it is on a big core.
    pub speedup_on_big: Option<SpeedupFit>,
    /// The same while it is on a small core.
    pub speedup_on_small: Option<SpeedupFit>,
}

/// Speedup factor (instructions a second on a big core / on a small one) as a linear function of
/// counts on one of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeedupFit {
    /// The factor at no counts at all.
    pub intercept: f64,
    /// What each instruction per cycle adds.
    pub per_ipc: f64,
    /// What each LLC miss per 1000 instructions adds.
    pub per_mpki: f64,
    /// What each LLC access per 1000 instructions adds.
    pub per_apki: f64,
}

impl SpeedupFit {
    /// The factor of a thread with these instructions per cycle, LLC misses and LLC accesses per 1000
    /// instructions; at least 1.
    pub fn at(&self, ipc: f64, mpki: f64, apki: f64) -> f64 {
        let Self { intercept, per_ipc, per_mpki, per_apki } = self;
        (intercept + per_ipc * ipc + per_mpki * mpki + per_apki * apki).max(1.0)
    }
}

/// NUMA penalty (cycles per instruction with all memory on another node / with local memory) as a
/// line over LLC misses per 1000 instructions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumaPenaltyFit {
    /// The penalty at no misses at all.
    pub intercept: f64,
    /// What each miss per 1000 instructions adds.
    pub per_mpki: f64,
}

impl NumaPenaltyFit {
    /// The penalty of a program with so many LLC misses per 1000 instructions; at least 1.
    pub fn at(&self, mpki: f64) -> f64 {
        (self.intercept + self.per_mpki * mpki).max(1.0)
    }
}
