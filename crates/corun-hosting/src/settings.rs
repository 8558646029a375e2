//! What a host is made by: the policy, where counters come from, what places threads.

use std::path::PathBuf;
use std::time::Duration;

use corun_app::NO_POLICY;
use corun_live::GateOptions;
use corun_policy::BuildOptions;

/// The least time between samples, and between two decisions, in seconds.
pub const LEAST_INTERVAL_S: f64 = 0.01;

/// Seconds that a thread waits for its CPUs where nothing else is said: four slices of the scheduler.
pub const SPILL_AFTER_S: f64 = 0.02;

/// Where counters come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counters {
    /// The hardware where it counts, and stored profiles.
    Auto,
    /// The hardware's counters.
    Perf,
    /// Stored profiles alone.
    Profiles,
    /// The model: real threads, counters computed from where they are.
    Model,
}

impl Counters {
    /// By the name that is typed.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "auto" => Self::Auto,
            "perf" => Self::Perf,
            "profiles" => Self::Profiles,
            "model" => Self::Model,
            _ => return None,
        })
    }
}

/// What places threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placer {
    /// Each thread's affinity: it runs there and nowhere else.
    Affinity,
    /// A scheduler in the kernel: it runs there while there is room.
    SchedExt,
    /// The scheduler in the kernel where there can be one, else affinity.
    Auto,
}

impl Placer {
    /// All there are.
    const ALL: [Self; 3] = [Self::Affinity, Self::SchedExt, Self::Auto];

    /// By the name that is typed.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Affinity => "affinity",
            Self::SchedExt => "sched-ext",
            Self::Auto => "auto",
        }
    }
}

/// What places threads, and what it goes by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlacerSettings {
    /// What places threads.
    pub placer: Placer,
    /// Seconds that a thread waits for its CPUs before it runs elsewhere; infinite: for ever.
    pub spill_after_s: f64,
    /// Nothing else takes its place where there can be none.
    pub is_required: bool,
    /// The scheduler in the kernel counts who wakes whom.
    pub counts_wakers: bool,
}

impl PlacerSettings {
    /// How long a thread waits for its CPUs; none: for ever.
    pub fn spill_after(&self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.spill_after_s).ok()
    }
}

impl Default for PlacerSettings {
    fn default() -> Self {
        Self {
            placer: Placer::Affinity,
            spill_after_s: SPILL_AFTER_S,
            is_required: false,
            counts_wakers: false,
        }
    }
}

/// How the threads of a process that has many are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThreadReading {
    /// All at once by a BPF program where that can be loaded, else each by its files.
    Auto,
    /// All at once by a BPF program.
    Bpf,
    /// Each by its files in `/proc`.
    #[default]
    Files,
}

impl ThreadReading {
    /// By the name that is typed.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "auto" => Self::Auto,
            "bpf" => Self::Bpf,
            "files" => Self::Files,
            _ => return None,
        })
    }
}

/// What every command needs that runs a policy on this machine.
#[derive(Debug, Clone)]
pub struct HostSettings {
    /// The policy's name.
    pub policy: String,
    /// Where counters come from.
    pub counters: Counters,
    /// Folder or file of stored profiles; the shipped ones where absent.
    pub profiles: Option<PathBuf>,
    /// Seconds between two decisions; the policy's own where absent.
    pub interval_s: Option<f64>,
    /// Nothing is done.
    pub dry_run: bool,
    /// A description of this machine; it is looked at where absent.
    pub machine: Option<PathBuf>,
    /// Where journals are kept; the user's folder where absent.
    pub journals: Option<PathBuf>,
    /// Seed of policies that draw at random.
    pub seed: u64,
    /// The policy's parameters that are not at their defaults.
    pub set: Vec<(String, f64)>,
    /// What plans have to pass; none where each is carried out.
    pub gate: Option<GateOptions>,
    /// A policy whose live form was not evaluated may act.
    pub untested: bool,
    /// What places threads.
    pub placing: PlacerSettings,
    /// How threads are read. To load a program takes more than to read the files of some threads a few times.
    pub reading: ThreadReading,
}

impl HostSettings {
    /// Of a host that only looks: [`NO_POLICY`], and no journal.
    pub fn that_looks(counters: Counters) -> Self {
        Self {
            policy: NO_POLICY.to_owned(),
            counters,
            profiles: None,
            interval_s: None,
            dry_run: true,
            machine: None,
            journals: None,
            seed: 1,
            set: Vec::new(),
            gate: None,
            untested: false,
            placing: PlacerSettings::default(),
            reading: ThreadReading::default(),
        }
    }

    /// What its policies are built with.
    pub(crate) fn build_options(&self) -> BuildOptions {
        BuildOptions { seed: self.seed, parameters: self.set.iter().cloned().collect() }
    }
}
