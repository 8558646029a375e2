//! A recording in the place of the machine: its threads, and a source of its figures.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use corun_linux::Task;
use corun_machine::CpuSet;

use super::{LiveRecording, RecordedFigures, Sample};
use crate::{LiveError, ProcessSelector, Rule, ScannedThread, Scanner, Target};

/// The sample that is played.
#[derive(Debug)]
pub(crate) struct Playing {
    recording: Arc<LiveRecording>,
    next: usize,
    online: Option<CpuSet>,
    threads: BTreeMap<u32, (ScannedThread, RecordedFigures)>,
}

/// The sample that is played, shared by whoever shows a part of it.
#[derive(Debug, Clone)]
pub struct Playback(Arc<Mutex<Playing>>);

/// The threads of a recording: each scan is the next sample.
#[derive(Debug)]
pub struct RecordedThreads {
    playing: Playback,
    targets: Vec<Target>,
}

impl RecordedThreads {
    /// From the first sample on. After the last there are no threads.
    pub fn new(recording: Arc<LiveRecording>) -> Self {
        let playing = Playing { recording, next: 0, online: None, threads: BTreeMap::new() };
        Self { playing: Playback(Arc::new(Mutex::new(playing))), targets: Vec::new() }
    }

    /// What is played, for [`crate::RecordingSource`].
    pub fn playback(&self) -> Playback {
        self.playing.clone()
    }
}

impl Playback {
    pub(crate) fn sample(&self) -> MutexGuard<'_, Playing> {
        // It is whole after every step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Playing {
    pub(crate) fn recording(&self) -> &LiveRecording {
        &self.recording
    }

    /// What this sample has of a thread.
    pub(crate) fn figures(&self, task: Task) -> Option<&RecordedFigures> {
        let (thread, figures) = self.threads.get(&task.tid)?;
        (thread.facts.task == task).then_some(figures)
    }

    /// On to the next sample; none after the last.
    fn advance(&mut self) -> Option<Sample> {
        let sample = self.recording.samples.get(self.next)?.clone();
        self.next += 1;
        if let Some(online) = &sample.online {
            self.online = Some(online.clone());
        }
        for tid in &sample.gone {
            self.threads.remove(tid);
        }
        for (thread, figures) in &sample.changed {
            let now = (thread.clone(), figures.clone());
            self.threads.insert(thread.facts.task.tid, now);
        }
        Some(sample)
    }
}

impl Scanner for RecordedThreads {
    fn targets(&self) -> &[Target] {
        &self.targets
    }

    fn scan(&mut self) -> Result<Vec<ScannedThread>, LiveError> {
        let mut playing = self.playing.sample();
        let Some(sample) = playing.advance() else { return Ok(Vec::new()) };
        let programs = sample.programs.into_iter().map(|program| Target {
            profile: program.profile,
            important: program.important,
            // Nobody of this machine.
            ..Target::new(program.name, ProcessSelector::Rule(Rule::default()))
        });
        self.targets.extend(programs);
        let mut threads: Vec<ScannedThread> =
            playing.threads.values().map(|(thread, _)| thread.clone()).collect();
        threads.sort_unstable_by_key(|one| one.facts.task);
        Ok(threads)
    }

    fn add(&mut self, target: Target) -> Result<(), LiveError> {
        self.targets.push(target);
        Ok(())
    }

    fn online(&self) -> Option<CpuSet> {
        self.playing.sample().online.clone()
    }
}
