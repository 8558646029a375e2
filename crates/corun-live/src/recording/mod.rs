//! Live recordings: what the sources and the kernel said, look by look, to be decided on later.
//!
//! A recording is a file of JSON lines. The first line says what it is: version, machine, counters.
//! Each further line is one look and says what changed since the look before; a thread that it
//! does not name did as it did then. docs/recording-file.md is the reference.

mod line;
mod play;
mod read;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use corun_machine::{CpuSet, Machine};
use corun_policy::{CounterKind, Nanoseconds};

pub use play::{RecordedThreads, Recording};
pub use read::RecordingError;
pub use write::Recorder;

use crate::{Followed, Reading};

/// The version of the format; a reader refuses others.
const VERSION: u32 = 1;

/// A recording that was read and checked whole.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveRecording {
    machine: Arc<Machine>,
    counters: Vec<CounterKind>,
    profiles: bool,
    interval_s: f64,
    looks: Vec<Look>,
    /// The last line has no end: whoever wrote it was killed. It is left out.
    broken_off: bool,
}

/// What changed from one look to the next.
#[derive(Debug, Clone, PartialEq, Default)]
struct Look {
    at: Nanoseconds,
    /// CPUs on line, where others than before.
    online: Option<CpuSet>,
    /// Programs that are watched from now on.
    programs: Vec<Program>,
    /// Threads that ended.
    gone: Vec<u32>,
    /// Threads that are new or did something else than in the look before.
    changed: Vec<(Followed, Reading)>,
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

    /// Time between two looks, as it was asked for, in seconds.
    pub fn interval_s(&self) -> f64 {
        self.interval_s
    }

    /// When it was looked, from the first look to the last.
    pub fn times(&self) -> impl Iterator<Item = Nanoseconds> {
        self.looks.iter().map(|look| look.at)
    }

    /// Does it end within a line? What that line would have said is left out.
    pub fn is_broken_off(&self) -> bool {
        self.broken_off
    }
}
