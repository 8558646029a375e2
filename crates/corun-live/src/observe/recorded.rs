//! What was recorded on a machine, as a source.

use corun_policy::{CounterKind, Nanoseconds};

use super::{Observed, Reading, Source, SourceError};
use crate::recording::Recording;

/// Gives what a live recording says of the look that is played.
#[derive(Debug)]
pub struct RecordingSource {
    recording: Recording,
}

impl RecordingSource {
    /// The source of a recording that [`crate::RecordedThreads`] plays.
    pub fn new(recording: Recording) -> Self {
        Self { recording }
    }
}

impl Source for RecordingSource {
    fn name(&self) -> &'static str {
        "recording"
    }

    fn counters(&self) -> Vec<CounterKind> {
        self.recording.look().recording().counters().to_vec()
    }

    fn knows_profiles(&self) -> bool {
        self.recording.look().recording().profiles()
    }

    fn read(
        &mut self,
        _now: Nanoseconds,
        threads: &[Observed],
        readings: &mut [Reading],
    ) -> Result<(), SourceError> {
        let look = self.recording.look();
        for (thread, reading) in threads.iter().zip(readings) {
            let Some(recorded) = look.reading(thread.task) else { continue };
            let cpu_share = reading.counters.cpu_share;
            reading.clone_from(recorded);
            // The host knows it from the time on CPUs.
            reading.counters.cpu_share = cpu_share;
        }
        Ok(())
    }
}
