//! What was recorded on a machine, as a source.

use corun_policy::{CounterKind, Nanoseconds};

use super::{Source, SourceError};
use crate::Threads;
use crate::recording::Playback;

/// Gives what a live recording says of the sample that is played.
#[derive(Debug)]
pub struct RecordingSource {
    recording: Playback,
    /// When the sample before was taken.
    sampled_at: Option<Nanoseconds>,
}

impl RecordingSource {
    /// The source of a recording that [`crate::RecordedThreads`] plays.
    pub fn new(recording: Playback) -> Self {
        Self { recording, sampled_at: None }
    }
}

impl Source for RecordingSource {
    fn name(&self) -> &'static str {
        "recording"
    }

    fn counters(&self) -> Vec<CounterKind> {
        self.recording.sample().recording().counters().to_vec()
    }

    fn knows_profiles(&self) -> bool {
        self.recording.sample().recording().profiles()
    }

    fn count(&mut self, now: Nanoseconds, threads: &mut Threads) -> Result<(), SourceError> {
        // A recorded rate is over the time since the sample before, for a thread that came since, too.
        let elapsed = Nanoseconds(now.0 - self.sampled_at.replace(now).unwrap_or(now).0);
        let sample = self.recording.sample();
        for (view, thread) in threads.iter_mut() {
            let Some(recorded) = sample.figures(thread.task()) else { continue };
            recorded.add_to(view, elapsed);
        }
        Ok(())
    }
}
