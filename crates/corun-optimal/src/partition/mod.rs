//! The best way to share the ways of one LLC: strict partitioning and clustering.

mod additive;
mod brute;
mod completion;
mod corner;
mod error;
mod fair;
mod family;
mod law;
mod modelled;
mod objective;
mod pareto;
mod pressure;
mod problem;
mod slowest;
mod solve;
mod table;
mod walk;

pub use error::PartitionSearchError;
pub use family::Kind;
pub use objective::PartitionObjective;
pub use pareto::{FRONT_STEP, ParetoFront, ParetoPoint};
pub use problem::{MOST_CLUSTERED, MOST_PARTITIONED, PartitionProblem, PartitionResult};
pub use solve::MOST_PARTITIONS;

#[cfg(test)]
mod tests;
