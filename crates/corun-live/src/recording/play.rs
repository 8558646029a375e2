//! A recording in the place of the machine: its threads, and a source of its figures.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use corun_machine::CpuSet;

use super::{LiveRecording, Look};
use crate::{Follow, Followed, LiveError, Reading, Rule, Target, Whom};

/// The look that is played.
#[derive(Debug)]
pub(crate) struct Playing {
    recording: Arc<LiveRecording>,
    next: usize,
    online: Option<CpuSet>,
    threads: BTreeMap<u32, (Followed, Reading)>,
}

/// The look that is played, shared by whoever shows a part of it.
#[derive(Debug, Clone)]
pub struct Recording(Arc<Mutex<Playing>>);

/// The threads of a recording: each scan is the next look.
#[derive(Debug)]
pub struct RecordedThreads {
    playing: Recording,
    targets: Vec<Target>,
}

impl RecordedThreads {
    /// From the first look on. After the last there are no threads.
    pub fn new(recording: Arc<LiveRecording>) -> Self {
        let playing = Playing { recording, next: 0, online: None, threads: BTreeMap::new() };
        Self { playing: Recording(Arc::new(Mutex::new(playing))), targets: Vec::new() }
    }

    /// What is played, for [`crate::RecordingSource`].
    pub fn recording(&self) -> Recording {
        self.playing.clone()
    }
}

impl Recording {
    pub(crate) fn look(&self) -> MutexGuard<'_, Playing> {
        // It is whole after every step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Playing {
    pub(crate) fn recording(&self) -> &LiveRecording {
        &self.recording
    }

    /// What was read of a thread in this look.
    pub(crate) fn reading(&self, task: crate::Task) -> Option<&Reading> {
        let (followed, reading) = self.threads.get(&task.tid)?;
        (followed.facts.task == task).then_some(reading)
    }

    /// On to the next look; none after the last.
    fn advance(&mut self) -> Option<Look> {
        let look = self.recording.looks.get(self.next)?.clone();
        self.next += 1;
        if let Some(online) = &look.online {
            self.online = Some(online.clone());
        }
        for tid in &look.gone {
            self.threads.remove(tid);
        }
        for (followed, reading) in &look.changed {
            let now = (followed.clone(), reading.clone());
            self.threads.insert(followed.facts.task.tid, now);
        }
        Some(look)
    }
}

impl Follow for RecordedThreads {
    fn targets(&self) -> &[Target] {
        &self.targets
    }

    fn scan(&mut self) -> Result<Vec<Followed>, LiveError> {
        let mut playing = self.playing.look();
        let Some(look) = playing.advance() else { return Ok(Vec::new()) };
        let programs = look.programs.into_iter().map(|program| Target {
            profile: program.profile,
            important: program.important,
            // Nobody of this machine.
            ..Target::new(program.name, Whom::Rule(Rule::default()))
        });
        self.targets.extend(programs);
        let mut threads: Vec<Followed> =
            playing.threads.values().map(|(followed, _)| followed.clone()).collect();
        threads.sort_unstable_by_key(|one| one.facts.task);
        Ok(threads)
    }

    fn add(&mut self, target: Target) -> Result<(), LiveError> {
        self.targets.push(target);
        Ok(())
    }

    fn online(&self) -> Option<CpuSet> {
        self.playing.look().online.clone()
    }
}
