//! Two live recordings side by side.

use axum::Json;
use corun_app::{RecordingComparison, compare_recordings};
use corun_live::LiveRecording;
use serde::Deserialize;

use super::answer::{Asked, Failure, Part};
use super::off_thread;

/// Most bytes of a request with two recordings: hours of some threads.
pub(super) const MOST_BODY_BYTES: usize = 64 << 20;

/// What `corun record` wrote before and after a change.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordingsAsked {
    before: String,
    after: String,
}

pub(crate) async fn recordings(
    Asked(asked): Asked<RecordingsAsked>,
) -> Result<Json<RecordingComparison>, Failure> {
    off_thread(move |stop| {
        let RecordingsAsked { before, after } = asked;
        let before = recording(before, "before")?;
        let after = recording(after, "after")?;
        compare_recordings(before, after, stop).map_err(Failure::of(Part::Recordings))
    })
    .await
}

fn recording(text: String, which: &str) -> Result<LiveRecording, Failure> {
    let wrong = |error| Failure::new(Part::Recordings, format!("{which}: {error}"));
    LiveRecording::read(text.as_bytes()).map_err(wrong)
}
