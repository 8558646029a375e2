//! Runs an experiment: block after block, and whatever happens the policy ends off.

use std::time::Duration;

use super::design::{Design, SwitchbackBlock};
use super::experiment::{Advice, Done, Effect, Harm, NeededPairs, SwitchbackExperiment};

/// What an experiment is made on.
pub trait Subject {
    /// Turns the policy on or off.
    ///
    /// # Errors
    /// When that cannot be done; the experiment ends then, and [`Subject::restore`] is called.
    fn set(&mut self, policy_on: bool) -> Result<(), SubjectError>;

    /// Each program's value since the last call: work done in a second, or whatever is compared. A
    /// program that has none now is left out.
    ///
    /// # Errors
    /// When no value can be had any more.
    fn measure(&mut self) -> Result<Vec<(String, f64)>, SubjectError>;

    /// Lets this much time pass, doing what has to be done meanwhile.
    ///
    /// # Errors
    /// When it cannot go on.
    fn wait(&mut self, time: Duration) -> Result<Waited, SubjectError>;

    /// Time since some moment before the experiment.
    fn now(&self) -> Duration;

    /// Turns the policy off and undoes all that it changed. Called once at the end, always.
    ///
    /// # Errors
    /// When something could not be undone.
    fn restore(&mut self) -> Result<(), SubjectError>;
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waited {
    /// The time has passed.
    Passed,
    /// The user wants to stop.
    Interrupted,
    /// What is measured ended by itself; in words for the user, such as `sort ended (exit code 0)`.
    Over(String),
}

/// What went wrong with a subject, in words for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SubjectError(pub String);

/// How long, and how often it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoppingLimits {
    /// The longest that an experiment takes; it ends with the block in which this passes.
    pub longest: Duration,
    /// Time between two values in a block.
    pub sample: Duration,
}

/// What is known at the end of a pair of blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct PairProgress {
    /// Pairs that are over.
    pub pairs: usize,
    /// The effect over all programs.
    pub overall: Effect,
    /// Each program's.
    pub programs: Vec<(String, Effect)>,
    /// Time since it began.
    pub elapsed: Duration,
    /// How much longer it goes on, as far as can be told and where nothing else ends it before.
    pub needed: Option<NeededTime>,
}

/// How much longer an experiment goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeededTime {
    /// From now on.
    pub time: Duration,
    /// What ends it then.
    pub until: Done,
}

/// Why an experiment ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// What was asked is known.
    Done(Done),
    /// A program was harmed.
    Harm(Harm),
    /// The longest time has passed.
    Time,
    /// The user stopped it.
    Interrupted,
    /// What was measured ended by itself: what, in words. The block it ended in counts for nothing.
    Over(String),
    /// Something went wrong.
    Failed(SubjectError),
}

/// An experiment's end.
#[derive(Debug, Clone)]
pub struct Conclusion {
    /// Why.
    pub ended: Ended,
    /// What is known.
    pub experiment: SwitchbackExperiment,
    /// How long it took.
    pub elapsed: Duration,
    /// How much longer it would take until it is done, as far as can be told.
    pub needed: Option<NeededTime>,
    /// What could not be undone.
    pub unrestored: Option<SubjectError>,
}

/// Conducts an experiment to its end. `report` hears what is known after each pair of blocks.
pub fn conduct(
    design: Design,
    experiment: SwitchbackExperiment,
    limits: StoppingLimits,
    subject: &mut dyn Subject,
    report: &mut dyn FnMut(&PairProgress),
) -> Conclusion {
    let began = subject.now();
    let mut restoring = Restoring { subject, restored: false };
    let pair_length = design.pair_length();
    let mut run = Run { experiment, limits, began, pair_length, needed: None };
    let ended = run.blocks(design, restoring.subject, report);
    let elapsed = restoring.subject.now().saturating_sub(began);
    let unrestored = restoring.restore().err();
    let done = matches!(ended, Ended::Done(_) | Ended::Harm(_));
    let needed = run.needed.filter(|_| !done);
    Conclusion { ended, experiment: run.experiment, elapsed, needed, unrestored }
}

/// Restores also when something panics on the way.
struct Restoring<'a> {
    subject: &'a mut dyn Subject,
    restored: bool,
}

impl Restoring<'_> {
    fn restore(&mut self) -> Result<(), SubjectError> {
        self.restored = true;
        self.subject.restore()
    }
}

impl Drop for Restoring<'_> {
    fn drop(&mut self) {
        if !self.restored {
            // A panic is on its way already and says more.
            let _ = self.restore();
        }
    }
}

struct Run {
    experiment: SwitchbackExperiment,
    limits: StoppingLimits,
    began: Duration,
    pair_length: Duration,
    needed: Option<NeededTime>,
}

impl Run {
    fn blocks(
        &mut self,
        design: Design,
        subject: &mut dyn Subject,
        report: &mut dyn FnMut(&PairProgress),
    ) -> Ended {
        let mut state = None;
        for block in design {
            match self.block(&block, &mut state, subject) {
                Ok(Waited::Passed) => {}
                Ok(Waited::Interrupted) => return Ended::Interrupted,
                Ok(Waited::Over(what)) => return Ended::Over(what),
                Err(error) => return Ended::Failed(error),
            }
            self.experiment.end(&block);
            if let Some(harm) = self.experiment.harm() {
                return Ended::Harm(harm);
            }
            // Inside a pair nothing new is known of the effect.
            if block.number.is_multiple_of(2) {
                continue;
            }
            match self.experiment.advice() {
                Advice::StopHarm(harm) => return Ended::Harm(harm),
                Advice::Done(done) => return Ended::Done(done),
                Advice::Continue { needed } => self.needed = self.time_of(needed),
            }
            report(&PairProgress {
                pairs: self.experiment.pairs(),
                overall: self.experiment.overall(),
                programs: self.experiment.programs(),
                elapsed: subject.now().saturating_sub(self.began),
                needed: self.needed,
            });
            if subject.now().saturating_sub(self.began) >= self.limits.longest {
                return Ended::Time;
            }
        }
        Ended::Time
    }

    fn block(
        &mut self,
        block: &SwitchbackBlock,
        state: &mut Option<bool>,
        subject: &mut dyn Subject,
    ) -> Result<Waited, SubjectError> {
        if *state != Some(block.on) {
            subject.set(block.on)?;
            *state = Some(block.on);
        }
        let waited = subject.wait(block.washout)?;
        if waited != Waited::Passed {
            return Ok(waited);
        }
        // What happened in the washout does not count.
        subject.measure()?;
        let end = subject.now() + block.measured;
        let mut values = 0;
        loop {
            let left = end.saturating_sub(subject.now());
            if left.is_zero() && values > 0 {
                return Ok(Waited::Passed);
            }
            let waited = subject.wait(left.min(self.limits.sample))?;
            if waited != Waited::Passed {
                return Ok(waited);
            }
            for (program, value) in subject.measure()? {
                self.experiment.add(block, &program, value);
            }
            values += 1;
        }
    }

    fn time_of(&self, needed: Option<NeededPairs>) -> Option<NeededTime> {
        let NeededPairs { pairs, until } = needed?;
        let time = self.pair_length.checked_mul(u32::try_from(pairs).ok()?)?;
        Some(NeededTime { time, until })
    }
}
