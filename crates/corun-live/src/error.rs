//! Why this machine cannot be watched or acted on as asked.

use std::io;
use std::path::PathBuf;

use corun_policy::{ActionKind, CounterKind, Nanoseconds};

/// Why this machine cannot be watched or acted on as asked.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The kernel's list of processes cannot be read.
    #[error("{}: {reason}; corun needs /proc mounted and readable", path.display())]
    Proc {
        /// What was read.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        reason: io::Error,
    },
    /// A rule names a user that this machine does not have.
    #[error("no user is called `{user}` here; expected a user's name or number")]
    UnknownUser {
        /// The name.
        user: String,
    },
    /// A rule's pattern cannot be read.
    #[error(
        "{field}: `{pattern}` is no pattern: {reason}; * stands for any text, ? for one letter"
    )]
    BadPattern {
        /// The rule's field.
        field: &'static str,
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A policy says that it is not for this machine.
    #[error("policy `{policy}` is not for this machine: {why}")]
    Unfit {
        /// The policy.
        policy: String,
        /// Its reason.
        why: String,
    },
    /// A policy needs a counter that no source gives.
    #[error(
        "policy `{policy}` needs the counter {counter:?}, and nothing here gives it (sources: \
         {sources}); corun doctor says what would"
    )]
    Counter {
        /// The policy.
        policy: String,
        /// What it needs.
        counter: CounterKind,
        /// The sources there are.
        sources: String,
    },
    /// A policy needs figures from stored profiles.
    #[error(
        "policy `{policy}` goes by stored profiles, and there is no source of them (sources: \
         {sources}); record one with corun profile, and name it"
    )]
    Profiles {
        /// The policy.
        policy: String,
        /// The sources there are.
        sources: String,
    },
    /// A policy needs an action that nothing carries out here.
    #[error(
        "policy `{policy}` needs the action {kind:?}, which cannot be carried out here; corun \
         doctor says what would make it possible"
    )]
    Control {
        /// The policy.
        policy: String,
        /// What it needs.
        kind: ActionKind,
    },
    /// Two policies want to decide the same.
    #[error("policies `{first}` and `{second}` both need the action {kind:?}: one at a time")]
    TwoOwners {
        /// The one.
        first: String,
        /// The other.
        second: String,
        /// What both need.
        kind: ActionKind,
    },
    /// A policy asks for decisions at no interval.
    #[error("policy `{policy}`: its interval is 0, expected more")]
    Interval {
        /// The policy.
        policy: String,
    },
    /// A policy can decide no more.
    #[error("at {:.6} s policy `{policy}` failed: {why}", at.as_secs_f64())]
    Policy {
        /// The policy.
        policy: String,
        /// When, since the host started.
        at: Nanoseconds,
        /// Its reason.
        why: String,
    },
    /// A policy's own code failed.
    #[error("policy `{policy}` failed by a fault of its own; nothing more is decided")]
    PolicyPanicked {
        /// The policy.
        policy: String,
    },
}
