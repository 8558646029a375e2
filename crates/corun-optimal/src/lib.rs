//! What is the best that could be?
//!
//! Placements of programs on the CPUs of a machine, one to a CPU: the best, the worst and the
//! average one, by the model and by pair degradations.
//!
//! - [`match_pairs`]: Jiang's method, a minimum-weight perfect matching on pair degradations.
//! - [`Placer`]: exact branch and bound over groups that share an LLC, with a proof or a gap, for
//!   any [`Contention`].
//! - [`distributed`]: the same search in parts, for several processes.
//! - [`EveryPlacement`]: everything, one by one, to check the others against.
//! - [`partition`]: the ways of one LLC among programs, strictly or in clusters.
//! - [`JointProblem`]: both, where LLCs do not affect one another.
//! - [`packing`]: which threads an LLC has room for, and what is worth most, as a linear program.
//!
//! It knows nothing of time: a program is one phase. docs/optimum.md has the method, the proofs
//! of the bounds and figures.

mod brute;
mod completion;
mod contention;
mod cpu_slots;
pub mod distributed;
mod error;
mod expectation;
mod frontier;
mod groups;
mod joint;
mod local_search;
mod matching;
mod modelled;
mod objective;
pub mod packing;
pub mod partition;
mod placement;
mod search;
mod search_space;
mod solve;
mod symmetry;

pub use brute::{Enumerated, EveryPlacement};
pub use contention::{Contention, Coupling, CpuSlot};
pub use error::PlacementError;
pub use expectation::{MOST_VISITED, RandomExpectation};
pub use frontier::FrontierPoint;
pub use joint::{JointCluster, JointError, JointProblem, JointResult};
pub use matching::{MatchingError, PairMatching, match_pairs};
pub use modelled::{ModelScratch, PlacementProblem};
pub use objective::{Goal, Objective, TIE};
pub use placement::{PlacementResult, Placer, SearchLimits, WithinTarget};
pub use search::Candidate;
