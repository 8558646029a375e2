//! Who comes out best on that machine, and by how much?
//!
//! A [`Comparison`] sets policies side by side with the best and the worst placement; a
//! [`PlacementDocument`] is one decision about where programs run, a partition ([`PartitionDocument`]) one
//! about who has which ways of an LLC. The command and the Python package ask here, so that both
//! give the same figures and the same errors.

#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod arrangement;
mod batch;
mod cancel;
mod comparison;
mod data;
mod decided;
mod error;
mod explain;
mod fingerprint;
mod joint;
mod kept;
mod lookup;
mod observation;
mod partition;
mod placement;
mod policy_spec;
mod recording;
mod run;
mod scenario;
mod tell;
mod trace;
mod what_if;
mod wording;

use std::sync::atomic::{AtomicBool, Ordering};

pub use arrangement::{Arrangement, arrangements};
pub use batch::{BatchFigures, MixBatch};
pub use cancel::Cancel;
pub use comparison::{
    Bounds, Comparison, ComparisonData, ComparisonHooks, ComparisonOutcome, ComparisonRequest,
    ComparisonRow, ComparisonSetup, FrontierEntry, LongRow, Migration, PolicyFigures, RowKind,
    SHORT_RUN_S, ServiceRow, Timeline, figures, timeline,
};
pub use data::{DataSources, profile_sources};
pub use error::{Error, Result};
pub use explain::{
    Advice, CacheFacts, Cause, CauseKind, Competitor, CoreFacts, CountedWakeups, Diagnosis,
    FarPartner, LostShare, MemoryFacts, MemoryLimitFacts, Neighbour, NiceFacts, PredictedFactors,
    PressureFacts, ProgramFacts, ProgramObserver, QuotaFacts, SchedulingPlace, SeenThread,
    StandstillFacts, ThreadTime, Tracer, UncountedWakeups, Unknown, UnknownKind, WakeCount,
    WakePartner, WakeupFacts, diagnose,
};
pub use fingerprint::fingerprint;
pub use kept::keep_replays;
pub use lookup::{DEFAULT_MACHINE, find_core, find_machine, open_library};
pub use observation::parse_observation;
pub use partition::{
    ParetoDocument, ParetoEntry, PartitionDocument, PartitionEntry, PartitionFigures,
    PartitionRequest, PartitionScenario,
};
pub use placement::{
    PLACEMENT_SEARCHES, PlacementData, PlacementDocument, PlacementFigures, PlacementMethod,
    PlacementSearch, SearchProof, placement_cpus,
};
pub use policy_spec::{
    PolicySpec, build_policies, build_policies_with, check_live_form, policy_names,
};
pub use recording::{
    ComparedFigure, ComparedProgram, NO_POLICY, ProgramPresence, RecordedFigure,
    RecordingComparison, RecordingFacts, compare_recordings, recorded_host,
};
pub use run::{AppEntry, PlacementEntry, RunDocument, StepEntry, ThreadEntry, run_document};
pub use scenario::{Scenario, solo_table};
pub use tell::tell;
pub use trace::trace_document;
pub use what_if::{
    CauseEntry, Culprit, DomainTraffic, ExplainedPlacement, Layout, MoveEntry, ProgramDetails,
    SlowdownFactors, WaysEntry, parse_way_mask,
};
pub use wording::counted;

/// A figure to `decimals` places, so that documents carry no digits without meaning.
pub fn round(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    let rounded = (value * scale).round() / scale;
    // No negative zero in documents.
    if rounded == 0.0 { 0.0 } else { rounded }
}

/// # Errors
/// [`Error::Interrupted`] once the caller wants to stop.
pub(crate) fn check(stop: &AtomicBool) -> Result {
    if stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
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
