//! The part of `corun` that learns programs' curves from counters, without the part that decides.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use corun_machine::Machine;

use super::learned::{LearnedProgram, Spell};
use super::{Corun, takes_part};
use crate::{
    BuildOptions, Interval, Nanoseconds, Needs, Plan, Policy, Predictor, ThreadView, View,
};

/// Learns programs' curves from counters while they run, as `corun` does between two decisions, and changes nothing.
///
/// What was learnt is kept by the programs' names and outlives hosts: each host gets a policy of its own
/// ([`CurveLearner::policy`]), one after the other.
#[derive(Clone)]
pub struct CurveLearner {
    interval: Nanoseconds,
    learning: Arc<Mutex<Learning>>,
}

struct Learning {
    corun: Corun,
    /// What is known of the programs that ran in the latest interval.
    running: Vec<(String, LearnedProgram)>,
}

/// What a host runs.
struct Learner(CurveLearner);

impl CurveLearner {
    /// Looks at the counters once in `interval`. Of what was counted `window_s` seconds ago 1/e counts.
    pub fn new(interval: Nanoseconds, window_s: f64) -> Self {
        let mut corun = Corun::new(&BuildOptions::default());
        corun.learned.interval_s = interval.as_secs_f64();
        corun.learned.window_s = Some(window_s);
        Self { interval, learning: Arc::new(Mutex::new(Learning { corun, running: Vec::new() })) }
    }

    fn learning(&self) -> MutexGuard<'_, Learning> {
        self.learning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a host whose threads are others than those of the host before.
    pub fn policy(&self) -> Box<dyn Policy> {
        let mut learning = self.learning();
        learning.corun.learned.forget_threads();
        learning.corun.shared.clear();
        Box::new(Learner(self.clone()))
    }

    /// What is known of each program that ran in the latest interval, by its name.
    pub fn running(&self) -> Vec<(String, LearnedProgram)> {
        self.learning().running.clone()
    }
}

impl Corun {
    /// Learns from an interval in which nothing was tried. Does not decide anything.
    fn learn(&mut self, view: &View<'_>) {
        let Some(predictor) = self.predictor(view.machine) else { return };
        let takes_part = |thread: &&ThreadView| takes_part(view.machine, thread);
        let running: Vec<&ThreadView> = view.threads.iter().filter(takes_part).collect();
        self.note_neighbours(view.machine, &running);
        self.measure(view, &running, predictor.as_ref(), Spell::Usual);
    }
}

impl Policy for Learner {
    fn name(&self) -> &str {
        "learner"
    }

    fn needs(&self) -> Needs {
        Needs {
            // A look that comes a little early is one all the same.
            interval: Interval::Time(Nanoseconds(self.0.interval.0 / 2)),
            counters: self.0.learning().corun.needs().counters,
            controls: Vec::new(),
            solo_figures: false,
            by_ways: false,
        }
    }

    fn unfit_for(&self, machine: &Machine) -> Option<String> {
        self.0.learning().corun.unfit_for(machine)
    }

    fn predict_by(&mut self, predictor: &Arc<dyn Predictor>) {
        self.0.learning().corun.predict_by(predictor);
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        let mut learning = self.0.learning();
        learning.corun.learn(view);
        learning.running = learning.corun.learned.running(view.machine);
        Plan::none()
    }

    fn failure(&self) -> Option<String> {
        self.0.learning().corun.failure()
    }
}
