//! What can go wrong with an experiment.

use corun_policy::{ActionKind, Nanoseconds, ThreadId};
use corun_runtime::{NotAnnounced, RuntimeError};

/// Why an experiment cannot start or had to stop.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SimError {
    /// A figure of a program to run is not usable.
    #[error("app `{app}`: {field} is {found}, expected {expected}")]
    App {
        /// The program's shown name.
        app: String,
        /// The field.
        field: &'static str,
        /// What was found.
        found: String,
        /// What is expected.
        expected: &'static str,
    },
    /// A setting of the experiment is not usable.
    #[error("{field} is {found}, expected {expected}")]
    Setting {
        /// The field.
        field: &'static str,
        /// What was found.
        found: String,
        /// What is expected.
        expected: &'static str,
    },
    /// The experiment has no program.
    #[error("there is no program to run")]
    NoApps,
    /// A policy cannot start or go on.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A policy asked for something that cannot be done.
    #[error("at {:.6} s policy `{policy}` asked for what cannot be done: {source}", at.as_secs_f64())]
    Action {
        /// The policy.
        policy: String,
        /// When.
        at: Nanoseconds,
        /// What is wrong with it.
        source: ActionError,
    },
    /// Nothing moves any more although programs have not ended.
    #[error("the simulation stalled at {:.6} s ({why}); queues:\n{dump}", at.as_secs_f64())]
    Stalled {
        /// When.
        at: Nanoseconds,
        /// What was seen.
        why: &'static str,
        /// Who runs and waits where.
        dump: String,
    },
    /// The experiment did not end within its limit of simulated time.
    #[error(
        "not ended after {limit_s} simulated seconds; complete runs so far: {completions}; \
         programs of fewer instructions end earlier: `instructions` in a mix file, or --instructions"
    )]
    TimeLimit {
        /// The limit in simulated seconds.
        limit_s: f64,
        /// Complete runs of each program.
        completions: String,
    },
    /// The caller asked to stop.
    #[error("cancelled")]
    Cancelled,
}

/// Why an action cannot be carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ActionError {
    /// There is no such thread (any more).
    #[error("there is no thread {}", .0.0)]
    UnknownThread(ThreadId),
    /// A set of CPUs is not within what the user allowed.
    #[error("thread {} may run on {may_run_on}, and {asked} is not within that", thread.0)]
    Outside {
        /// The thread.
        thread: ThreadId,
        /// What was asked for.
        asked: String,
        /// What the user allowed.
        may_run_on: String,
    },
    /// A thread was allowed nowhere.
    #[error("thread {} was allowed on no CPU", .0.0)]
    Nowhere(ThreadId),
    /// There is no such CPU on line.
    #[error("there is no CPU {0}")]
    UnknownCpu(u32),
    /// There is no such LLC.
    #[error("there is no LLC {0}")]
    UnknownLlc(usize),
    /// There is no such NUMA node.
    #[error("there is no NUMA node {0}")]
    UnknownNode(usize),
    /// An LLC whose ways are not known cannot be partitioned.
    #[error("the ways of LLC {0} are not known")]
    NoWays(usize),
    /// A mask has no way, or ways that the LLC lacks.
    #[error("mask {mask:#x} does not fit LLC {llc} of {ways} ways")]
    Mask {
        /// The LLC.
        llc: usize,
        /// Its ways.
        ways: u32,
        /// What was asked for.
        mask: u64,
    },
    /// A thread stands in two parts of one LLC.
    #[error("thread {} stands in two parts of LLC {llc}", thread.0)]
    TwoParts {
        /// The LLC.
        llc: usize,
        /// The thread.
        thread: ThreadId,
    },
    /// A thread that is in no part runs on a partitioned LLC: it would overlap all parts.
    #[error("thread {} runs on LLC {llc}, which is partitioned, and is in no part", thread.0)]
    Unpartitioned {
        /// The LLC.
        llc: usize,
        /// The thread.
        thread: ThreadId,
    },
    /// A weight that is no positive number.
    #[error("a weight of {0}: expected a number above 0")]
    Weight(f64),
    /// A cap that is no positive number.
    #[error("a cap of {0} MB/s: expected a number above 0")]
    Cap(f64),
    /// A length of time of zero.
    #[error("{0} of zero length")]
    Length(&'static str),
    /// The policy did not say beforehand that it takes such actions.
    #[error("it did not announce actions of the kind {0:?}")]
    NotAnnounced(ActionKind),
}

impl From<NotAnnounced> for ActionError {
    fn from(NotAnnounced(kind): NotAnnounced) -> Self {
        Self::NotAnnounced(kind)
    }
}
