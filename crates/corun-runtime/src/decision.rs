//! What policies asked for and what became of it.

use std::fmt;

use corun_policy::{Action, ActionKind, Nanoseconds};

/// What became of an action that a policy asked for. `C` is a change to the machine, `R` why there is none.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict<C, R> {
    /// It was carried out by these changes.
    Done(Vec<C>),
    /// All was already as asked.
    AsAsked,
    /// These changes would carry it out; none was made, the backend only looks.
    Proposed(Vec<C>),
    /// It must not or cannot be carried out.
    Refused(R),
    /// It was begun and did not succeed.
    Failed(String),
}

impl<C, R> Verdict<C, R> {
    /// Its name in kebab-case.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::AsAsked => "as-asked",
            Self::Proposed(_) => "proposed",
            Self::Refused(_) => "refused",
            Self::Failed(_) => "failed",
        }
    }
}

/// An action that a policy asked for, and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision<C, R> {
    /// When.
    pub at: Nanoseconds,
    /// The policy's name.
    pub policy: String,
    /// What was asked for.
    pub action: Action,
    /// Why, in the policy's words.
    pub reason: String,
    /// What became of it.
    pub verdict: Verdict<C, R>,
}

/// What happened in one tick.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick<C, R> {
    /// When.
    pub now: Nanoseconds,
    /// What the policies asked for, in order.
    pub decisions: Vec<Decision<C, R>>,
    /// Threads that came.
    pub arrived: usize,
    /// Threads that ended.
    pub exited: usize,
    /// Threads that somebody else moved; they are left alone from now on.
    pub left_alone: Vec<String>,
    /// What could not be read, for people.
    pub unread: Vec<String>,
}

/// The refusal of an action that the policy did not name in its needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAnnounced(pub ActionKind);

impl fmt::Display for NotAnnounced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the policy did not announce actions of the kind {}", self.0.name())
    }
}
