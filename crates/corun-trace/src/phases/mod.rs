//! Phases: which windows of an execution behave alike.
//!
//! Every window of instructions has a [`BehaviourVector`]. A window belongs to the nearest phase
//! whose mean lies within [`vector::SAME_PHASE_DISTANCE`] by Manhattan distance, or begins a new one (the
//! instruction type vectors of the CAMPS thesis, section 4.3.2, with an access vector beside
//! them). docs/tracer.md says how the figures were chosen.

mod clusters;
mod execution;
mod merging;
mod sequence;
mod vector;

pub(crate) use clusters::Behaviour;
pub(crate) use execution::Execution;
pub(crate) use merging::merge_similar;
pub(crate) use vector::BehaviourVector;

/// Phases kept at most; when one more would not fit, the two nearest become one.
pub(crate) const MOST_PHASES: usize = 32;

/// Stretches of a sequence at most; a longer one is coarsened, see docs/tracer.md.
pub(crate) const MOST_STRETCHES: usize = 1000;

/// The least share of a run that is a phase of its own. What is shorter joins the nearest phase:
/// nothing much depends on it, and a cold start is no behaviour of its own unless it is long.
pub(crate) const SHORTEST_PHASE_SHARE: f64 = 0.01;

#[cfg(test)]
mod tests;
