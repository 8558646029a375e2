//! What is so on a machine: facts without judgement. `None` is unknown, never no.

use std::collections::BTreeMap;
use std::path::PathBuf;

use corun_machine::CpuSet;
use corun_policy::CounterKind;
use serde::Serialize;

/// What was found on a machine, for one user.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Facts {
    /// Is it this machine? What only a system call tells is unknown of a captured one.
    pub here: bool,
    /// The kernel's release: `6.12.0`.
    pub kernel: Option<String>,
    /// The user's number; 0 is root.
    pub user: Option<u32>,
    /// Capabilities in effect that matter here, in the kernel's names: `CAP_PERFMON`.
    pub capabilities: Option<Vec<String>>,
    /// The processors and caches.
    pub shape: Option<Shape>,
    /// Does a hypervisor run it?
    pub virtual_machine: Option<bool>,
    /// Who made the machine, or the hypervisor's name.
    pub maker: Option<String>,
    /// Counters of the processor and the kernel.
    pub perf: Perf,
    /// Cache control and monitoring.
    pub resctrl: Resctrl,
    /// Energy counters (RAPL, through powercap).
    pub energy: Vec<EnergyZone>,
    /// CPUs that this process may use.
    pub allowed_cpus: Option<CpuSet>,
    /// Could this process set its own affinity?
    pub affinity: Option<bool>,
    /// Does the kernel take corun's scheduler (`--backend sched-ext`)?
    pub sched_ext: Option<SchedExt>,
    /// Can all threads of a process be read at once, by a BPF program?
    pub threads_at_once: Option<ThreadsAtOnce>,
    /// Cgroups with CPU sets.
    pub cgroups: Cgroups,
    /// NUMA memory.
    pub memory: MemoryFacts,
    /// Files that a process may hold open at once; a counter is one.
    pub open_files: Option<u64>,
    /// What `corun profile` needs.
    pub tracer: Option<Tracer>,
    /// Where changes are journalled.
    pub journal: Option<Folder>,
}

/// Processors and caches, in numbers.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Shape {
    /// Packages.
    pub packages: usize,
    /// Cores.
    pub cores: usize,
    /// Hardware threads on line.
    pub cpus: usize,
    /// Last-level caches.
    pub llcs: usize,
    /// Size of the first last-level cache.
    pub llc_bytes: Option<u64>,
    /// Its ways.
    pub llc_ways: Option<u32>,
    /// NUMA nodes.
    pub numa_nodes: usize,
    /// Hardware threads of a core, at most.
    pub threads_per_core: usize,
    /// Kinds of core and their CPUs.
    pub core_types: Vec<CoreKind>,
    /// Policies that are not for a machine such as this, with their reasons.
    #[serde(skip)]
    pub unfit: BTreeMap<String, String>,
}

/// A kind of core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CoreKind {
    /// Its name.
    pub name: String,
    /// Its CPUs.
    pub cpus: CpuSet,
}

/// Counters through `perf_event_open`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Perf {
    /// `kernel.perf_event_paranoid`.
    pub paranoid: Option<i64>,
    /// The cores' counting units, one for each kind of core.
    pub cores: Vec<CoreCounters>,
    /// Counting units outside of the cores.
    pub uncore: Vec<String>,
    /// Events that the kernel counts itself.
    pub software: Vec<Tried>,
    /// Does the kernel's watchdog hold a counter?
    pub watchdog: Option<bool>,
}

/// The counting unit of one kind of core.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CoreCounters {
    /// Its name in sysfs: `cpu`, `cpu_core`, `cpu_atom`; none where sysfs shows none.
    pub unit: Option<String>,
    /// The CPUs it is for; none: all.
    pub cpus: Option<CpuSet>,
    /// Each event and what came of it.
    pub events: Vec<Tried>,
}

/// An event and what came of counting it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tried {
    /// Its name as `perf list` has it.
    pub event: &'static str,
    /// What it gives a policy, where it gives something.
    #[serde(serialize_with = "counter_name")]
    pub counter: Option<CounterKind>,
    /// What came of it.
    #[serde(flatten)]
    pub answer: CountOutcome,
}

fn counter_name<S: serde::Serializer>(
    counter: &Option<CounterKind>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    counter.map(CounterKind::in_words).serialize(serializer)
}

/// What came of counting an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum CountOutcome {
    /// It counted.
    Works,
    /// It could be opened and counted nothing: some hypervisors do that.
    Silent,
    /// The kernel forbids it to this user.
    Forbidden,
    /// The machine or the kernel has no such event.
    Absent,
    /// Something else.
    Failed {
        /// The kernel's words.
        why: String,
    },
    /// Nothing was tried: the machine is not here.
    NotTried,
}

/// The resctrl file system.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Resctrl {
    /// What the processor can do, by the kernel's flags: `cat_l3`, `cqm_llc`, `mba`.
    pub processor: Option<Vec<String>>,
    /// Does the kernel know the file system?
    pub kernel: Option<bool>,
    /// Is it mounted?
    pub mounted: Option<bool>,
    /// May this user write to it?
    pub writable: Option<bool>,
    /// Resources that can be partitioned: `L3`, `L2`, with code and data apart `L3CODE`, `L3DATA`.
    pub caches: Vec<CacheControlFacts>,
    /// Throttling of memory bandwidth.
    pub bandwidth: Option<BandwidthControlFacts>,
    /// What can be monitored.
    pub monitoring: Option<MonitoringFacts>,
    /// Groups that exist, the root's aside.
    pub groups: Option<usize>,
}

/// A cache whose ways can be given away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CacheControlFacts {
    /// Its name in a schemata: `L3`.
    pub resource: String,
    /// Ways: bits of a full mask.
    pub ways: Option<u32>,
    /// The fewest ways of a part.
    pub min_ways: Option<u32>,
    /// Groups there can be, the root's included.
    pub classes: Option<u32>,
    /// Ways that other devices use too, as a mask: `600`.
    pub shared_mask: Option<String>,
    /// May a mask have gaps?
    pub sparse: Option<bool>,
}

/// Throttling of memory bandwidth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BandwidthControlFacts {
    /// Groups there can be, the root's included.
    pub classes: Option<u32>,
    /// The lowest setting.
    pub least: Option<u32>,
    /// The step.
    pub step: Option<u32>,
}

/// What resctrl can monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MonitoringFacts {
    /// `llc_occupancy`, `mbm_total_bytes`, `mbm_local_bytes`.
    pub features: Vec<String>,
    /// Groups that can be monitored at once.
    pub groups: Option<u32>,
}

/// An energy counter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EnergyZone {
    /// Its name: `package-0`, `dram`.
    pub name: String,
    /// May this user read it?
    pub readable: bool,
}

/// What the kernel has for corun's scheduler. Whether this user may load it is a matter of capabilities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum SchedExt {
    /// All that it needs, and no other scheduler is in force.
    Ready,
    /// No `sched_ext`.
    Absent,
    /// `sched_ext` without parts that the scheduler needs.
    Incomplete {
        /// What is missing, in the kernel's names.
        missing: Vec<String>,
    },
    /// Another scheduler is in force.
    InUse {
        /// Its name, and the state of `sched_ext`.
        by: String,
    },
    /// It could not be found out.
    Unreadable {
        /// Why.
        why: String,
    },
}

/// What came of reading the threads of this process by a BPF program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum ThreadsAtOnce {
    /// They were read, and are as `/proc` shows them.
    Works,
    /// They were not.
    No {
        /// Why.
        why: String,
    },
}

/// Cgroups with CPU sets.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Cgroups {
    /// The version whose hierarchy has CPU sets: 1 or 2; none where neither has or none is known.
    pub cpuset_version: Option<u8>,
    /// Are any cgroups mounted?
    pub mounted: Option<bool>,
    /// May this user write to them?
    pub writable: Option<bool>,
}

/// NUMA memory.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct MemoryFacts {
    /// Nodes with memory.
    pub nodes: Option<usize>,
    /// Can the kernel move pages?
    pub migration: Option<bool>,
    /// Does the kernel move pages by itself (`kernel.numa_balancing`)?
    pub balancing: Option<bool>,
}

/// What `corun profile` needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tracer {
    /// What is missing and what to do; none: all is there.
    pub missing: Option<String>,
}

/// A folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Folder {
    /// Where.
    pub path: PathBuf,
    /// May this user write there (or make it)?
    pub writable: bool,
}
