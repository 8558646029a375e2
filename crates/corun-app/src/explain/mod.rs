//! Why is a program slow? Facts about a running program, the causes that follow from them, and what the facts
//! cannot tell.
//!
//! A [`ProgramObserver`] collects [`ProgramFacts`] over a few seconds. [`diagnose`] is a pure function of them.

mod advice;
mod causes;
mod diagnosis;
mod facts;
mod observe;
#[cfg(test)]
mod seeded_cases;
mod stalls;
#[cfg(test)]
mod tests;

pub use causes::diagnose;
pub use diagnosis::{Advice, Cause, CauseKind, Diagnosis, LostShare, Unknown, UnknownKind};
pub use facts::{
    CacheFacts, Competitor, CoreFacts, MemoryFacts, Neighbour, PredictedFactors, PressureFacts,
    ProgramFacts, QuotaFacts, ThreadTime,
};
pub use observe::ProgramObserver;
