//! Why policies cannot start or go on.

use corun_policy::{ActionKind, CounterKind, Nanoseconds};

/// Why policies cannot start or go on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RuntimeError {
    /// A policy says that it is not for this machine.
    #[error("policy `{policy}` is not for machine `{machine}`: {why}")]
    Unfit {
        /// The policy.
        policy: String,
        /// The machine.
        machine: String,
        /// Its reason.
        why: String,
    },
    /// A policy needs a counter that nothing counts.
    #[error(
        "policy `{policy}` needs the counter `{}`, and nothing here counts it (sources: {sources})",
        counter.name()
    )]
    Counter {
        /// The policy.
        policy: String,
        /// What it needs.
        counter: CounterKind,
        /// What counts.
        sources: String,
    },
    /// A policy needs figures from stored profiles.
    #[error(
        "policy `{policy}` goes by stored profiles, and there are none here (sources: {sources})"
    )]
    Profiles {
        /// The policy.
        policy: String,
        /// What counts.
        sources: String,
    },
    /// A policy goes by how long the requests of services take.
    #[error(
        "policy `{policy}` goes by the latency of services, and nothing here tells it (sources: {sources})"
    )]
    Latency {
        /// The policy.
        policy: String,
        /// What counts.
        sources: String,
    },
    /// A policy needs figures by ways, and the ways of an LLC are not known.
    #[error(
        "policy `{policy}` needs figures by ways of the LLC, and the machine does not say how many \
         ways LLC {llc} has, or they are over 64"
    )]
    ByWays {
        /// The policy.
        policy: String,
        /// The LLC.
        llc: usize,
    },
    /// A policy needs an action that nothing carries out.
    #[error("policy `{policy}` needs the action `{}`, which cannot be carried out here", kind.name())]
    Control {
        /// The policy.
        policy: String,
        /// What it needs.
        kind: ActionKind,
    },
    /// Two policies want the same kind of action.
    #[error(
        "policies `{first}` and `{second}` both take the action `{}`: each has one owner",
        kind.name()
    )]
    TwoOwners {
        /// The one.
        first: String,
        /// The other.
        second: String,
        /// What both take.
        kind: ActionKind,
    },
    /// A policy asks for decisions at no interval.
    #[error("policy `{policy}` asks for an interval of zero length")]
    Interval {
        /// The policy.
        policy: String,
    },
    /// A policy can decide no more.
    #[error("at {:.6} s policy `{policy}` failed: {why}", at.as_secs_f64())]
    Policy {
        /// The policy.
        policy: String,
        /// When, since the start.
        at: Nanoseconds,
        /// Its reason.
        why: String,
    },
    /// A policy panicked.
    #[error("policy `{policy}` failed by a fault of its own; nothing more is decided")]
    Panicked {
        /// The policy.
        policy: String,
    },
}

impl RuntimeError {
    /// Was a policy refused before the start, since this machine does not give it what it needs? Else the
    /// policy itself failed.
    pub fn is_refusal(&self) -> bool {
        !matches!(self, Self::Interval { .. } | Self::Policy { .. } | Self::Panicked { .. })
    }
}
