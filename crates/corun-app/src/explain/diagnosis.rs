//! What a diagnosis says: causes with their figures and what would help, and what cannot be told.

use serde::Serialize;

/// What a program loses time to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CauseKind {
    /// Others run where it could run.
    WaitingForCpu,
    /// The quota of its cgroup holds it back.
    ThrottledByQuota,
    /// The host of this virtual machine runs others.
    StolenByHost,
    /// Memory is short: its pages are read back from swap or files, or it waits for free ones.
    WaitingForMemory,
    /// It waits for a disk.
    WaitingForDisk,
    /// A signal stopped it.
    Stopped,
    /// A debugger, or another tracer, holds it.
    HeldByTracer,
    /// Its cgroup is frozen.
    Frozen,
    /// It misses in the cache whoever runs beside it.
    CacheByItsNature,
    /// It misses in the cache, or waits for memory, because of those that run beside it.
    CacheBecauseOfNeighbour,
    /// It runs on a slower kind of core.
    SlowCore,
    /// Nearly all of its memory is on another node than the one where it runs.
    FarNode,
    /// A part of its memory is on other nodes.
    PagesElsewhere,
}

impl CauseKind {
    /// What the program does or what is done to it: `waits for a CPU`.
    pub fn words(self) -> &'static str {
        match self {
            Self::WaitingForCpu => "waits for a CPU",
            Self::ThrottledByQuota => "is held back by its quota of CPU time",
            Self::StolenByHost => "loses its CPUs to other virtual machines",
            Self::WaitingForMemory => "waits because memory is short",
            Self::WaitingForDisk => "waits for a disk",
            Self::Stopped => "is stopped",
            Self::HeldByTracer => "is held by a tracer",
            Self::Frozen => "is in a frozen cgroup",
            Self::CacheByItsNature => "waits for memory by its own nature",
            Self::CacheBecauseOfNeighbour => "is slowed down by its neighbours",
            Self::SlowCore => "runs on slow cores",
            Self::FarNode => "runs far from its memory",
            Self::PagesElsewhere => "has a part of its memory on other nodes",
        }
    }
}

/// Share of the program's active time that is lost, 0 to 1, and how sure that is. Active is all time but that in
/// which the program sleeps by its own wish.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "sureness", content = "share")]
pub enum LostShare {
    /// The kernel counted it.
    Measured(f64),
    /// The kernel's counts and samples give it.
    Estimated(f64),
    /// The model predicts it from stored profiles.
    Predicted(f64),
    /// It is no more than this; how much of it is lost needs hardware counters.
    AtMost(f64),
}

impl LostShare {
    /// The figure.
    pub fn share(self) -> f64 {
        match self {
            Self::Measured(share)
            | Self::Estimated(share)
            | Self::Predicted(share)
            | Self::AtMost(share) => share,
        }
    }

    /// By what causes are put in order: a bound counts half, since the loss lies between none and the bound.
    pub(super) fn weight(self) -> f64 {
        match self {
            Self::AtMost(share) => share / 2.0,
            other => other.share(),
        }
    }
}

/// A cause, with its figure and what would help.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cause {
    /// Which.
    pub kind: CauseKind,
    /// What it takes.
    pub lost: LostShare,
    /// What was found, in a sentence.
    pub found: String,
    /// What would help: a sentence, and a command where there is one.
    pub advice: Vec<Advice>,
}

/// What would help.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// What it does.
    pub does: String,
    /// As typed in a shell.
    pub command: String,
    /// What takes it back, as typed in a shell; absent where nothing has to be, or where what was before is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
}

/// What cannot be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnknownKind {
    /// How long it waits for a CPU.
    WaitingForCpu,
    /// Whether caches slow it down.
    Cache,
    /// Whether its misses are its own nature or a neighbour's doing.
    CacheOrNeighbour,
    /// Where its memory is.
    Memory,
    /// What it sleeps for.
    Sleep,
    /// Who wakes it.
    Wakers,
}

/// Something that cannot be told, and what would tell it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unknown {
    /// What.
    pub kind: UnknownKind,
    /// Why it cannot be told.
    pub why: String,
    /// What would tell it.
    pub advice: Vec<Advice>,
}

/// A program on another LLC with which most wake-ups are shared. What share of the time that costs is not known, so that
/// it is no cause among the others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FarPartner {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Wake-ups a second between the two from one LLC to another.
    pub wakeups_per_s: f64,
    /// Share of all wake-ups that the program gives and gets, 0 to 1.
    pub share: f64,
    /// Were both on their LLCs at the beginning and at the end? Else where they were is estimated.
    pub is_measured: bool,
    /// What was found, in sentences.
    pub found: String,
    /// What would help.
    pub advice: Vec<Advice>,
}

/// Causes, the heaviest first, and what cannot be told.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// One sentence: the first cause, or that none was found, or that it cannot be told.
    pub verdict: String,
    /// The heaviest first.
    pub causes: Vec<Cause>,
    /// A program on another LLC with which most wake-ups are shared.
    pub far_partner: Option<FarPartner>,
    /// What the facts leave open.
    pub unknown: Vec<Unknown>,
}

impl Diagnosis {
    /// Is there no cause, and something that could be one?
    pub fn cannot_tell(&self) -> bool {
        self.causes.is_empty() && !self.unknown.is_empty()
    }
}
