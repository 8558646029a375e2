//! What a policy wants.

use corun_machine::{CpuId, CpuSet};

use crate::{Nanoseconds, ThreadId};

/// A list of steps, to be carried out in order. Empty: leave all as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<Step>,
}

impl Plan {
    /// A plan that changes nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds a step with its reason, in words a person can read.
    pub fn push(&mut self, action: Action, reason: impl Into<String>) {
        self.steps.push(Step { action, reason: reason.into() });
    }
}

/// An action and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What is to be done.
    pub action: Action,
    /// Why: "milc: 33 MPKI, moved off LLC 0, shared with mcf".
    pub reason: String,
}

/// What a host can be asked to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Hold a thread on these CPUs (within what its user allowed).
    Allow {
        /// The thread.
        thread: ThreadId,
        /// Where it may run from now on.
        cpus: CpuSet,
    },
    /// Exchange the places of two threads: each is held where the other was.
    Swap {
        /// The one.
        first: ThreadId,
        /// The other.
        second: ThreadId,
    },
    /// Partition an LLC. Each thread that runs there has to be in a part: any other one ends a simulation, and has all ways
    /// on a real machine.
    Partition {
        /// Index in [`corun_machine::Machine::llcs`].
        llc: usize,
        /// Who gets which ways.
        parts: Vec<CachePart>,
    },
    /// Cap the memory traffic of a group of threads together.
    CapBandwidth {
        /// The threads.
        threads: Vec<ThreadId>,
        /// The cap in MB/s (1e6 bytes a second); none lifts it.
        mb_per_s: Option<f64>,
    },
    /// Move a thread's pages to a NUMA node.
    MovePages {
        /// The thread (its whole process's memory moves).
        thread: ThreadId,
        /// Index in [`corun_machine::Machine::nodes`].
        node: usize,
    },
    /// Keep a CPU idle for a while.
    IdleCpu {
        /// The CPU.
        cpu: CpuId,
        /// For how long.
        duration: Nanoseconds,
    },
    /// Change a thread's weight until a moment.
    SetWeight {
        /// The thread.
        thread: ThreadId,
        /// Its new weight; 1 is that of nice 0.
        weight: f64,
        /// When the old one comes back; none: never.
        until: Option<Nanoseconds>,
    },
    /// Run these threads on a CPU in this order, over and over: one slot of CPU time each, those who want to
    /// run and come first before those behind them.
    OrderSlots {
        /// The CPU.
        cpu: CpuId,
        /// The threads in order.
        threads: Vec<ThreadId>,
        /// Length of a slot.
        slot: Nanoseconds,
    },
}

/// Ways of an LLC and the threads that use them.
#[derive(Debug, Clone, PartialEq)]
pub struct CachePart {
    /// Bit i: way i.
    pub mask: u64,
    /// Who uses them.
    pub threads: Vec<ThreadId>,
}

/// The kinds of action: what a host says it supports and a policy that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActionKind {
    /// [`Action::Allow`] and [`Action::Swap`].
    Place,
    /// [`Action::Partition`].
    Partition,
    /// [`Action::CapBandwidth`].
    CapBandwidth,
    /// [`Action::MovePages`].
    MovePages,
    /// [`Action::IdleCpu`].
    IdleCpu,
    /// [`Action::SetWeight`].
    SetWeight,
    /// [`Action::OrderSlots`].
    OrderSlots,
}

impl Action {
    /// The threads that it is about.
    pub fn threads(&self) -> Vec<ThreadId> {
        match self {
            Self::Allow { thread, .. }
            | Self::MovePages { thread, .. }
            | Self::SetWeight { thread, .. } => vec![*thread],
            Self::Swap { first, second } => vec![*first, *second],
            Self::Partition { parts, .. } => {
                parts.iter().flat_map(|part| part.threads.iter().copied()).collect()
            }
            Self::CapBandwidth { threads, .. } | Self::OrderSlots { threads, .. } => {
                threads.clone()
            }
            Self::IdleCpu { .. } => Vec::new(),
        }
    }

    /// The kind of this action. Each kind has one owner among the policies of a host.
    pub fn kind(&self) -> ActionKind {
        match self {
            Self::Allow { .. } | Self::Swap { .. } => ActionKind::Place,
            Self::Partition { .. } => ActionKind::Partition,
            Self::CapBandwidth { .. } => ActionKind::CapBandwidth,
            Self::MovePages { .. } => ActionKind::MovePages,
            Self::IdleCpu { .. } => ActionKind::IdleCpu,
            Self::SetWeight { .. } => ActionKind::SetWeight,
            Self::OrderSlots { .. } => ActionKind::OrderSlots,
        }
    }

    /// The threads that the action places: those of [`Action::Allow`] and [`Action::Swap`].
    pub fn placed(&self) -> Vec<ThreadId> {
        match self {
            Self::Allow { thread, .. } => vec![*thread],
            Self::Swap { first, second } => vec![*first, *second],
            _ => Vec::new(),
        }
    }

    /// The action in words; `name` names a thread.
    pub fn in_words(&self, name: &dyn Fn(ThreadId) -> String) -> String {
        let names = |ids: &[_]| ids.iter().map(|&id| name(id)).collect::<Vec<_>>().join(", ");
        match self {
            Self::Allow { thread, cpus } => format!("{} on CPU {cpus}", name(*thread)),
            Self::Swap { first, second } => {
                format!("{} and {} change places", name(*first), name(*second))
            }
            Self::Partition { llc, parts } => {
                let part =
                    |part: &CachePart| format!("{:#x} for {}", part.mask, names(&part.threads));
                let parts: Vec<String> = parts.iter().map(part).collect();
                format!("ways of LLC {llc}: {}", parts.join("; "))
            }
            Self::CapBandwidth { threads, mb_per_s: Some(cap) } => {
                format!("{} capped at {cap:.0} MB/s", names(threads))
            }
            Self::CapBandwidth { threads, mb_per_s: None } => {
                format!("{}: no cap any more", names(threads))
            }
            Self::MovePages { thread, node } => {
                format!("pages of {} to node {node}", name(*thread))
            }
            Self::IdleCpu { cpu, duration } => {
                format!("CPU {cpu} idle for {:.3} s", duration.as_secs_f64())
            }
            Self::SetWeight { thread, weight, .. } => {
                format!("{}: weight {weight}", name(*thread))
            }
            Self::OrderSlots { cpu, .. } => format!("order of CPU {cpu}'s run queue"),
        }
    }
}

impl ActionKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Place,
        Self::Partition,
        Self::CapBandwidth,
        Self::MovePages,
        Self::IdleCpu,
        Self::SetWeight,
        Self::OrderSlots,
    ];

    /// Its name, in kebab-case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Place => "place",
            Self::Partition => "partition",
            Self::CapBandwidth => "cap-bandwidth",
            Self::MovePages => "move-pages",
            Self::IdleCpu => "idle-cpu",
            Self::SetWeight => "set-weight",
            Self::OrderSlots => "order-slots",
        }
    }
}
