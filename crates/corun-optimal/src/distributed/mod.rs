//! The search for the best placement in parts, for processes that share no memory.
//!
//! A [`Distribution`] holds the parts of the tree that nobody has looked into, hands them out in
//! [`Batch`]es, and takes back [`BatchReport`]s: the best placement that was met, and the parts that
//! the worker had no time for. A worker looks into a batch with [`Placer::work`], for a slice of
//! time, pruning by an [`Incumbent`] that others may tighten meanwhile. So work never stays with one
//! worker for longer than a slice, and a worker that dies costs its batch alone.
//!
//! A part is cut only when all its placements are worse than one that is known, or equal and
//! higher in the order of ties. So the answer is that of [`Placer::solve`], whoever finds what and
//! when; only the numbers of nodes depend on it.

mod distribution;
mod incumbent;
mod message;
mod size;
mod worker;

pub use distribution::{Distribution, Grain};
pub use incumbent::Incumbent;
pub use message::{Batch, BatchReport, BatchReportError, Pass, Subproblem};
pub use worker::Prepared;

#[cfg(doc)]
use crate::placement::Placer;
