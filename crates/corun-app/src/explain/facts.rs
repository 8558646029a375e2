//! What was seen of a running program over some seconds. What is absent could not be seen.

use corun_linux::FrozenGroup;
use corun_machine::{CpuId, CpuSet};
use serde::Serialize;

use super::shares::SchedulingPlace;

/// What was seen of a program: one process, or all of a unit or a cgroup.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProgramFacts {
    /// The program's name, for people.
    pub program: String,
    /// Its processes, by number, ascending.
    pub pids: Vec<u32>,
    /// How many threads were followed.
    pub threads: usize,
    /// How long the program was followed, in seconds.
    pub interval_s: f64,
    /// The systemd unit that the program is in; absent outside of units.
    pub unit: Option<String>,
    /// The nice value of its first process; absent where that ended.
    pub nice: Option<NiceFacts>,
    /// Where its first process is in the scheduler's groups.
    pub place: SchedulingPlace,
    /// What its threads did with their time.
    pub time: ThreadTime,
    /// Share of the time of the CPUs on which it ran that the host gave to other virtual machines, 0 to 1.
    pub stolen_share: f64,
    /// The CPUs on which its threads may run, each on all of them or some.
    pub may_run_on: CpuSet,
    /// May each of its threads run on all of those CPUs?
    pub all_may_run_on_same: bool,
    /// The command line of its first process; none where that cannot be read. Command lines may hold secrets, so that it
    /// is in no document.
    #[serde(skip)]
    pub command: Option<Vec<String>>,
    /// The folder from which names in that command line are meant, where it is another one than that of who asks.
    #[serde(skip)]
    pub command_folder: Option<std::path::PathBuf>,
    /// CPUs on which it may not run, though its cgroup would let it, and that were idle for at least half of the time.
    pub idle_cpus: CpuSet,
    /// All CPUs on which it may not run, though its cgroup would let it.
    pub barred_cpus: CpuSet,
    /// Programs that used the CPUs on which it ran, the busiest first.
    pub competitors: Vec<Competitor>,
    /// The quota of CPU time that held it back most.
    pub quota: Option<QuotaFacts>,
    /// The limit of memory that its cgroups reached most often meanwhile; absent where none was reached.
    pub memory_limit: Option<MemoryLimitFacts>,
    /// Time that its cgroup, or else the machine, lost to a shortage of memory.
    pub memory_pressure: Option<PressureFacts>,
    /// Time that its cgroup, or else the machine, lost to waiting for disks.
    pub io_pressure: Option<PressureFacts>,
    /// Page faults a second that waited for a disk or for swap.
    pub major_faults_per_s: f64,
    /// Bytes of its memory that are in swap.
    pub swapped_bytes: Option<u64>,
    /// On which kinds of core it ran; absent where all cores are of one kind.
    pub cores: Option<CoreFacts>,
    /// Where its memory is; absent on a machine of one node.
    pub memory: Option<MemoryFacts>,
    /// Why its memory could not be looked at, on a machine of several nodes.
    pub memory_unseen: Option<String>,
    /// What is known of its use of caches.
    pub cache: CacheFacts,
    /// Who holds it still.
    pub standstill: StandstillFacts,
    /// Who wakes it, and whom it wakes.
    pub wakeups: WakeupFacts,
}

/// Who holds a program still.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct StandstillFacts {
    /// May this user send signals to all of its processes? Else root may.
    pub may_be_signalled: bool,
    /// What held a thread of it as a debugger does; absent where nothing did, or has ended since.
    pub tracer: Option<Tracer>,
    /// The cgroups that were told to hold their processes still.
    pub frozen_groups: Vec<FrozenGroup>,
}

/// A process that follows what another one does, and may hold that one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tracer {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// The nice value of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NiceFacts {
    /// -20 to 19.
    pub value: i32,
    /// May this user give it the value 0, or where `SCHED_IDLE` is its policy the usual one? Else root may.
    pub may_be_0: bool,
    /// Threads of the process, each of which has a nice value.
    pub threads: u32,
    /// Is the process scheduled by `SCHED_IDLE`, which gets a CPU where others leave it?
    pub is_idle_policy: bool,
}

/// Seconds of all threads together.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct ThreadTime {
    /// On a CPU.
    pub on_cpu_s: f64,
    /// Of that, in the kernel: system calls and page faults. In steps of a clock tick.
    pub in_kernel_s: f64,
    /// Runnable and waiting for a CPU, as the scheduler counts; absent where the kernel does not count.
    pub waiting_s: Option<f64>,
    /// Is the waiting of some thread estimated from samples? The kernel counts a wait when it is over, and a long one
    /// may not be.
    pub waiting_is_sampled: bool,
    /// In uninterruptible sleep: waiting for a disk, for swap or for memory. Estimated from samples.
    pub blocked_s: f64,
    /// Stopped by a signal. Estimated from samples.
    pub stopped_s: f64,
    /// Held by a tracer. Estimated from samples.
    pub traced_s: f64,
    /// In a cgroup that was frozen. Estimated from samples.
    pub frozen_s: f64,
    /// Asleep by its own wish.
    pub asleep_s: f64,
}

/// Who else used the program's CPUs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Competitor {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// CPUs that it kept busy.
    pub cpus_busy: f64,
    /// Its nice value, -20 to 19.
    pub nice: i32,
    /// May this user give it its nice value back once it was raised? Else root may.
    pub may_be_given_back: bool,
    /// Do nice values and weights count for it? They do not for one that is scheduled by priority or deadline.
    pub is_weighed: bool,
    /// Its threads.
    pub threads: u32,
    /// Where it is in the scheduler's groups.
    pub place: SchedulingPlace,
}

/// A quota of CPU time at work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuotaFacts {
    /// The cgroup that has the quota.
    pub group: String,
    /// The file that sets the quota.
    pub file: std::path::PathBuf,
    /// The most CPUs that the group may use.
    pub cpus: f64,
    /// The period over which the quota holds, in microseconds.
    pub period_us: f64,
    /// Seconds for which the group was held back, added up over its CPUs.
    pub throttled_s: f64,
    /// Share of the quota's periods in which the group was held back, 0 to 1.
    pub throttled_periods_share: f64,
}

/// A limit of memory at work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemoryLimitFacts {
    /// The cgroup that has the limit.
    pub group: String,
    /// The file that sets the limit.
    pub file: std::path::PathBuf,
    /// The most that the group may use, in bytes.
    pub bytes: u64,
    /// What it used at the end, in bytes.
    pub used_bytes: u64,
    /// How often the group wanted more while the program was looked at.
    pub times_reached: u64,
    /// Memory that the machine has left, in bytes; absent where the kernel does not say.
    pub available_bytes: Option<u64>,
}

/// Shares of the time, 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PressureFacts {
    /// The cgroup; absent where the figures are of the whole machine.
    pub group: Option<String>,
    /// Has the group no processes but the program's?
    pub is_of_program_alone: bool,
    /// In which at least one thread waited.
    pub some_share: f64,
    /// In which all threads that were not idle waited.
    pub full_share: f64,
}

/// On which cores a program ran, of a machine with several kinds of core.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CoreFacts {
    /// Its speed on the cores where it ran against the fastest ones, 0 to 1, weighted by time.
    pub speed: f64,
    /// Share of its CPU time on cores slower than the fastest, 0 to 1.
    pub slow_share: f64,
    /// The fastest cores' CPUs.
    pub fast_cpus: CpuSet,
}

/// Where a program's memory is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemoryFacts {
    /// The node with most of its memory.
    pub home_node: u32,
    /// Share of its memory on that node, 0 to 1.
    pub home_share: f64,
    /// The node where it ran most.
    pub ran_on_node: u32,
    /// Share of its memory that was on another node than the one where it ran, 0 to 1, weighted by CPU time.
    pub far_share: f64,
    /// Latency of that memory against memory of the own node.
    pub latency_ratio: f64,
    /// The home node's CPUs.
    pub home_cpus: CpuSet,
    /// May its threads run on one of them?
    pub may_run_at_home: bool,
}

/// What is known of a program's use of caches.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct CacheFacts {
    /// LLC misses per 1000 instructions, by counters; absent where nothing counts.
    pub llc_mpki: Option<f64>,
    /// Instructions per cycle, by counters.
    pub ipc: Option<f64>,
    /// Are the counters the model's, not the hardware's?
    pub is_modelled: bool,
    /// The stored profile; absent where the program has none.
    pub profile: Option<String>,
    /// Where stored profiles were looked for, as typed; absent where in the shipped ones.
    #[serde(skip)]
    pub profiles: Option<String>,
    /// LLC misses per 1000 instructions alone on this machine, by its profile.
    pub solo_llc_mpki: Option<f64>,
    /// Share of its cycles alone in which it waits for memory, by its profile, 0 to 1.
    pub solo_memory_cycles_share: Option<f64>,
    /// Its slowdown where it runs beside those whose profiles are known, as predicted.
    pub predicted: Option<PredictedFactors>,
    /// Who slows it down, the worst first, as predicted.
    pub neighbours: Vec<Neighbour>,
    /// Busy programs under its LLCs that have no profile, by name.
    pub unknown_neighbours: Vec<String>,
    /// A CPU where it would do better, and its slowdown there, as predicted.
    pub better_cpu: Option<(CpuId, f64)>,
}

/// A slowdown as a product.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PredictedFactors {
    /// With what it holds of the LLC against the whole LLC.
    pub cache: f64,
    /// The other hardware threads of its core.
    pub hardware_threads: f64,
    /// Waiting for memory behind the others' traffic.
    pub memory: f64,
}

/// A program that slows another one down.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Neighbour {
    /// The process.
    pub pid: u32,
    /// Its profile.
    pub profile: String,
    /// Where it runs.
    pub cpu: CpuId,
    /// Slowdown beside it / slowdown if it were gone.
    pub factor: f64,
}

/// Who wakes a program, and whom the program wakes.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct WakeupFacts {
    /// Wake-ups of its threads a second, each voluntary switch taken for the wake-up that ends the sleep; absent where the
    /// kernel does not count switches.
    pub woken_per_s: Option<f64>,
    /// Wake-ups in which a thread of the program woke another thread or was woken, as corun's scheduler in the kernel
    /// counts them; absent where they are not counted.
    pub counted: Option<CountedWakeups>,
    /// Why they are not counted; absent too on a machine of one LLC, where nobody asks.
    pub uncounted: Option<UncountedWakeups>,
}

/// Wake-ups in which a thread of a program woke another thread or was woken.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountedWakeups {
    /// All of them a second, also those among the program's own threads.
    pub per_s: f64,
    /// Of the other programs the one with which the program shares most of them.
    pub partner: Option<WakePartner>,
}

/// A program that wakes another one, or is woken by it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WakePartner {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Wake-ups a second that the two share.
    pub per_s: f64,
    /// Of these, between threads that were on different LLCs at the end.
    pub across_llcs_per_s: f64,
    /// Was each of these threads on the same LLC at the beginning and at the end?
    pub stayed: bool,
    /// The LLC on which most of those threads of the partner were, by number.
    pub llc: usize,
    /// The CPUs of that LLC.
    pub llc_cpus: CpuSet,
    /// The LLC on which most of those threads of the program were.
    pub own_llc: usize,
}

/// Why it is not known who wakes a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "why", content = "error")]
pub enum UncountedWakeups {
    /// Corun's scheduler is not in force in this kernel.
    NoScheduler,
    /// It is, and nobody asked it to count who wakes whom.
    NotAsked,
    /// It counts, and the program is not one of those that it has.
    NotInScheduler,
    /// This user may not read what it counts.
    NoRight,
    /// It cannot be read, for this reason.
    Unreadable(String),
}
