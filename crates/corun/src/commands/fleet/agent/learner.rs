//! Profiles that an agent learns of its node's pods, and what of them it publishes.

use std::path::Path;
use std::sync::Arc;

use corun_app::{find_machine, open_library};
use corun_fleet::{LearnedNotes, LearnedUpdate, PodGroups, RunningPod};
use corun_hosting::{CountedGroup, Learning, LearningSettings, check_same_caches};
use corun_linux::Roots;
use corun_policy::{LearnedProgram, Nanoseconds};
use corun_profile::Library;

use super::Moment;
use crate::cli::AgentArgs;
use crate::failure::Outcome;

/// Of what was counted so long ago 1/e counts: a workload's mean, over its phases and its busy and its quiet minutes.
const WINDOW_S: f64 = 3600.0;

/// Learns the profiles of a node's pods.
pub(super) struct Learner {
    /// The machine's name.
    machine: String,
    learning: Learning,
    /// Profiles that were recorded: nothing that was learned takes their place.
    recorded: Library,
    /// None until the node's object was read.
    notes: Option<LearnedNotes>,
}

impl Learner {
    /// By the hardware's counters.
    pub(super) fn by_hardware(arguments: &AgentArgs, roots: &Roots) -> Outcome<Self> {
        let machine = find_machine(&arguments.machine)?;
        // Where the node's /sys is not in sight the operator's word is taken.
        if let Ok(found) = corun_machine::discover(Path::new(&arguments.root)) {
            check_same_caches(&machine, &found, &arguments.machine)?;
        }
        let recorded = open_library(arguments.library.profiles.as_deref())?;
        let settings = LearningSettings {
            roots: roots.clone(),
            machine: Arc::new(machine),
            library: recorded.clone(),
            every: Nanoseconds(arguments.every * 1_000_000_000),
            window_s: WINDOW_S,
        };
        let machine = settings.machine.name().to_owned();
        Ok(Self::new(machine, Learning::by_hardware(settings)?, recorded))
    }

    pub(super) fn new(machine: String, learning: Learning, recorded: Library) -> Self {
        Self { machine, learning, recorded, notes: None }
    }

    /// The machine's name, as the extender knows it.
    pub(super) fn machine(&self) -> &str {
        &self.machine
    }

    /// Was it not asked yet what an agent before this one learned?
    pub(super) fn begins(&self) -> bool {
        self.notes.is_none()
    }

    /// Goes on from what the node's object says.
    pub(super) fn resume(&mut self, annotation: Option<&str>) {
        self.notes = Some(LearnedNotes::resume(&self.machine, annotation));
    }

    /// Counts the pods that say a profile. What cannot be counted is added to `words`.
    pub(super) fn look(
        &mut self,
        pods: &[RunningPod],
        groups: &PodGroups,
        at: Moment,
        words: &mut Vec<String>,
    ) {
        let counted = pods.iter().filter_map(|pod| {
            let (program, cgroup) = (pod.profile.clone()?, groups.path(&pod.uid)?.to_owned());
            Some(CountedGroup { program, cgroup })
        });
        let counted: Vec<CountedGroup> = counted.collect();
        match self.learning.look(&counted, Nanoseconds::from_secs_f64(at.clock_s)) {
            Ok(unread) => words.extend(unread),
            Err(error) => {
                words.push(format!(
                    "assumed: nothing is learned of pods: {}",
                    error.report().trim()
                ));
            }
        }
    }

    /// What is worth an update of the node's object.
    pub(super) fn due(&self, at: Moment) -> Option<LearnedUpdate> {
        let mut running: Vec<(String, LearnedProgram)> = self.learning.running();
        running.retain(|(name, _)| self.recorded.find(name).is_none());
        self.notes.as_ref()?.due(at.clock_s as u64, at.since_1970_s, &running)
    }

    /// The update was published.
    pub(super) fn published(&mut self, at: Moment, update: LearnedUpdate) {
        if let Some(notes) = &mut self.notes {
            notes.published(at.clock_s as u64, update);
        }
    }
}
