//! Who comes out best on that machine, and by how much?
//!
//! A [`Comparison`] sets policies side by side with the best and the worst placement; a
//! [`Placement`] is one decision about where programs run, a partition ([`PartitionDocument`]) one
//! about who has which ways of an LLC. The command and the Python package ask here, so that both
//! give the same figures and the same errors.

mod batch;
mod comparison;
mod data;
mod error;
mod joint;
mod lookup;
mod near_names;
mod partition;
mod placement;
mod policies;
mod run;
mod scenario;
mod trace;

use std::sync::atomic::{AtomicBool, Ordering};

pub use batch::{Batch, BatchFigures};
pub use comparison::{
    Asked, Bounds, Compared, Comparison, ComparisonData, Figures, Hooks, LongRow, Move, Row,
    RowKind, Setup, TimeLine, figures, time_line,
};
pub use data::{Data, data_of};
pub use error::Error;
pub use lookup::{DEFAULT_MACHINE, core, library, machine};
pub use near_names::near;
pub use partition::{Ground, PartitionAsked, PartitionDocument, PartitionEntry, PartitionFigures};
pub use placement::{Placement, PlacementData, PlacementFigures, Placer, Proof, given};
pub use policies::{Chosen, build, build_with, together};
pub use run::{AppEntry, PlacementEntry, RunDocument, StepEntry, ThreadEntry, run_document};
pub use scenario::{Scenario, table_of};
pub use trace::trace_document;

/// What everything here returns.
pub type Result<T = ()> = std::result::Result<T, Error>;

/// A figure to `decimals` places, so that documents carry no digits without meaning.
pub fn round(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    let rounded = (value * scale).round() / scale;
    // No negative zero in documents.
    if rounded == 0.0 { 0.0 } else { rounded }
}

/// # Errors
/// [`Error::Stopped`] once the caller wants to stop.
pub(crate) fn check(stop: &AtomicBool) -> Result {
    if stop.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::round;

    #[test]
    fn rounding_keeps_no_negative_zero() {
        assert_eq!(round(-0.000_000_1, 3).to_string(), "0");
        assert_eq!(round(1.234_56, 3), 1.235);
    }
}
