//! The best way to share the ways of one LLC: strict partitioning and clustering.

mod additive;
mod bandwidth_coupling;
mod brute;
mod cluster_set;
mod completion;
mod enumeration;
mod error;
mod fair;
mod minimax;
mod modelled;
mod objective;
mod pareto;
mod pressure;
mod problem;
mod solve;
mod table;
mod value_bounds;

pub use cluster_set::Kind;
pub use error::PartitionSearchError;
pub use objective::PartitionObjective;
pub use pareto::{FRONT_STEP, ParetoFront, ParetoPoint};
pub use problem::{PartitionProblem, PartitionResult};

#[cfg(test)]
mod tests;
