//! Live recordings: what the sources and the kernel said, sample by sample, to be decided on later.
//!
//! A recording is a file of JSON lines. The first line says what it is: version, machine, counters.
//! Each further line is one sample and says what changed since the sample before; a thread that it
//! does not name did as it did then. docs/recording-file.md is the reference.

mod line;
mod play;
mod read;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use corun_machine::{CpuSet, Machine};
use corun_policy::{CounterKind, Nanoseconds, Rates, SoloFigures, ThreadView, WaysCurve};

pub use play::{Playback, RecordedThreads};
pub use read::RecordingError;
pub use write::RecordingWriter;

use crate::ScannedThread;

/// The version of the format; a reader refuses others.
const VERSION: u32 = 1;

/// A recording that was read and checked whole.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveRecording {
    machine: Arc<Machine>,
    counters: Vec<CounterKind>,
    profiles: bool,
    interval_s: f64,
    samples: Vec<Sample>,
    /// The last line has no end: whoever wrote it was killed. It is left out.
    broken_off: bool,
}

/// What changed from one sample to the next.
#[derive(Debug, Clone, PartialEq, Default)]
struct Sample {
    at: Nanoseconds,
    /// CPUs on line, where others than before.
    online: Option<CpuSet>,
    /// Programs that are watched from now on.
    programs: Vec<Program>,
    /// Threads that ended.
    gone: Vec<u32>,
    /// Threads that are new or did something else than in the sample before.
    changed: Vec<(ScannedThread, RecordedFigures)>,
}

/// What a recording has of a thread in a sample beside what the kernel said. Absent is unknown.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct RecordedFigures {
    /// Over the time since the sample before, without the CPU share: that follows from the time on CPUs.
    rates: Rates,
    llc_occupancy_bytes: Option<f64>,
    pages_by_node: Vec<f64>,
    solo: Option<SoloFigures>,
    by_ways: Option<Arc<WaysCurve>>,
}

impl RecordedFigures {
    /// Shows them in a view. `elapsed`: since the sample before.
    pub(crate) fn add_to(&self, view: &mut ThreadView, elapsed: Nanoseconds) {
        view.counts.add_rates(&self.rates, elapsed);
        view.llc_occupancy_bytes = self.llc_occupancy_bytes;
        view.pages_by_node.clone_from(&self.pages_by_node);
        view.solo = self.solo;
        view.by_ways.clone_from(&self.by_ways);
    }
}

/// A program that was watched.
#[derive(Debug, Clone, PartialEq)]
struct Program {
    name: String,
    profile: Option<String>,
    important: bool,
}

impl LiveRecording {
    /// The machine that was watched.
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// What was counted.
    pub fn counters(&self) -> &[CounterKind] {
        &self.counters
    }

    /// Are there figures from stored profiles?
    pub fn profiles(&self) -> bool {
        self.profiles
    }

    /// Time between two samples, as it was asked for, in seconds.
    pub fn interval_s(&self) -> f64 {
        self.interval_s
    }

    /// When the samples were taken, from the first to the last.
    pub fn times(&self) -> impl Iterator<Item = Nanoseconds> {
        self.samples.iter().map(|sample| sample.at)
    }

    /// Does it end within a line? What that line would have said is left out.
    pub fn is_broken_off(&self) -> bool {
        self.broken_off
    }
}
