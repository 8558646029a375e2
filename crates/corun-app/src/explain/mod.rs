//! Why is a program slow? Facts about a running program, the causes that follow from them, and what the facts
//! cannot tell.
//!
//! A [`ProgramObserver`] collects [`ProgramFacts`] over a few seconds. [`diagnose`] is a pure function of them.

mod advice;
mod causes;
mod diagnosis;
mod facts;
mod limits;
mod observe;
mod partners;
#[cfg(test)]
mod seeded_cases;
mod shares;
mod stalls;
mod standstill;
#[cfg(test)]
mod tests;
mod threads;

pub use causes::diagnose;
pub use diagnosis::{
    Advice, Cause, CauseKind, Diagnosis, FarPartner, LostShare, Unknown, UnknownKind,
};
pub use facts::{
    CacheFacts, Competitor, CoreFacts, CountedWakeups, MemoryFacts, MemoryLimitFacts, Neighbour,
    NiceFacts, PredictedFactors, PressureFacts, ProgramFacts, QuotaFacts, StandstillFacts,
    ThreadTime, Tracer, UncountedWakeups, WakePartner, WakeupFacts,
};
pub use observe::ProgramObserver;
pub use partners::{SeenThread, WakeCount};
pub use shares::SchedulingPlace;
