//! The gate before a policy's plans: a plan is made only where the model expects it to help, and undone where the
//! counters afterwards show that it harms.
//!
//! 1. Before: the [`Forecast`] solves the model for the threads where they are and where the plan would send
//!    them. A plan whose gain is within the noise, or by which a program would lose too much, is refused.
//! 2. While: one plan at a time. Its changes are limited to so many migrations a second.
//! 3. After: the [`Trial`] compares the instructions a second of some ticks before and after. Where they fell by
//!    more than the noise, the plan is undone and the policy rests.
//!
//! On machines of several core types a plan may have threads change places with others on cores of another type. Who of them is faster
//! then is the policy's to say, by turns: what is asked is whether programs get in each other's way more than before, and
//! whether those who stay get slower.
//!
//! Where the model cannot tell (a program without a profile, a plan that does more than place threads) the plan
//! is made on trial; where there are no counters, nothing is judged afterwards.

mod forecast;
#[cfg(test)]
mod tests;
mod trial;

use std::collections::BTreeSet;
use std::sync::Arc;

use corun_machine::CpuSet;
use corun_model::Model;
use corun_policy::{Action, Nanoseconds, Step};
use corun_profile::Library;

use crate::{Change, Threads};
use trial::{Judgement, Trial};

use forecast::{Expectation, Forecast, Foreseen};

/// What the gate lets through.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GateOptions {
    /// A gain or loss up to this share may be chance or an error of the model. Plans that are expected to gain
    /// no more are not made.
    pub noise: f64,
    /// The largest share of its speed that a program may lose by a plan.
    pub most_loss: f64,
    /// How long no plan is made after one that did harm.
    pub rest: Nanoseconds,
    /// Threads that may be moved a second, in the long run. One plan may move more at once; the next plan then
    /// waits.
    pub migrations_per_s: f64,
}

impl Default for GateOptions {
    fn default() -> Self {
        Self {
            noise: 0.02,
            most_loss: 0.1,
            rest: Nanoseconds(60_000_000_000),
            migrations_per_s: 10.0,
        }
    }
}

/// Decides which plans are made, and which are undone.
pub struct Gate {
    options: GateOptions,
    forecast: Forecast,
    trial: Trial,
    /// Until when no plan is made, and why.
    rest: Option<(Nanoseconds, String)>,
    migrations: Budget,
    /// The actions of the plan on trial, each with the index of its policy.
    on_trial: Vec<(usize, Action)>,
    /// Why the model could not tell, each reason once.
    told: BTreeSet<String>,
    refused: Option<RefusedPlan>,
}

/// A plan that the model spoke against. A policy that proposes it again at each of its intervals hears the same for a
/// while, and the model is not asked about hundreds of threads each time.
struct RefusedPlan {
    until: Nanoseconds,
    actions: Vec<Action>,
    why: String,
}

impl RefusedPlan {
    /// How long one is remembered.
    const FOR: Nanoseconds = Nanoseconds(5_000_000_000);

    fn is(&self, steps: &[Step], now: Nanoseconds) -> bool {
        let mut actions = self.actions.iter().zip(steps);
        now < self.until
            && self.actions.len() == steps.len()
            && actions.all(|(action, step)| *action == step.action)
    }
}

/// A plan that was let through.
#[derive(Debug)]
pub(crate) struct Admitted {
    /// None of a plan by which no thread runs elsewhere: there is nothing to judge.
    foreseen: Option<Foreseen>,
    moves: usize,
}

/// What the gate wants done after a count.
#[derive(Debug, Default)]
pub(crate) struct After {
    /// Changes that take a plan back.
    pub(crate) undo: Vec<Change>,
    /// The actions of that plan, each with the index of its policy.
    pub(crate) taken_back: Vec<(usize, Action)>,
    /// For people.
    pub(crate) notes: Vec<String>,
}

impl Gate {
    /// A gate that asks this model about the programs of this library, by their profiles' names.
    pub fn new(model: Arc<Model>, library: Library, options: GateOptions) -> Self {
        Self {
            options,
            forecast: Forecast::new(model, library),
            trial: Trial::default(),
            rest: None,
            migrations: Budget::full(options.migrations_per_s),
            on_trial: Vec::new(),
            told: BTreeSet::new(),
            refused: None,
        }
    }

    /// May a plan be carried out?
    ///
    /// # Errors
    /// Why not, in words.
    pub(crate) fn admit(
        &mut self,
        now: Nanoseconds,
        steps: &[Step],
        table: &Threads,
        online: &CpuSet,
    ) -> Result<Admitted, String> {
        if let Some(refused) = self.refused.as_ref().filter(|refused| refused.is(steps, now)) {
            return Err(refused.why.clone());
        }
        if self.forecast.changes_nothing(steps, table, online) {
            return Ok(Admitted { foreseen: None, moves: 0 });
        }
        if let Some((until, why)) = &self.rest {
            if now < *until {
                let until_s = until.as_secs_f64();
                return Err(format!("the policy rests until {until_s:.1} s: {why}"));
            }
            self.rest = None;
        }
        if let Some(since) = self.trial.since() {
            let since_s = since.as_secs_f64();
            return Err(format!("the plan of {since_s:.1} s is still being judged"));
        }
        let moves = steps.iter().map(moves).sum();
        if !self.migrations.has(now, moves) {
            let most = self.options.migrations_per_s;
            return Err(format!("more than {most} migrations a second"));
        }
        let foreseen = self.forecast.expect(steps, table, online);
        if let Expectation::Told { gain, worst, program } = &foreseen.expected {
            let (noise, most_loss) = (self.options.noise, self.options.most_loss);
            let are_turns = !foreseen.turns.is_empty();
            let besides = if are_turns { ", besides turns" } else { "" };
            let told = format!("the model expects {} in all{besides}", percent(*gain));
            let why = if *gain < -noise {
                Some(format!("{told}, which is a loss"))
            } else if *gain <= noise && !are_turns {
                Some(format!("{told}, which is within the noise of {}", percent(noise)))
            } else if *worst < -most_loss {
                Some(format!("{told}, but {} for {program}", percent(*worst)))
            } else {
                None
            };
            if let Some(why) = why {
                let actions = steps.iter().map(|step| step.action.clone()).collect();
                let until = Nanoseconds(now.0.saturating_add(RefusedPlan::FOR.0));
                self.refused = Some(RefusedPlan { until, actions, why: why.clone() });
                return Err(why);
            }
        }
        Ok(Admitted { foreseen: Some(foreseen), moves })
    }

    /// These actions of a plan were carried out by these changes.
    pub(crate) fn carried_out(
        &mut self,
        now: Nanoseconds,
        plan: Admitted,
        actions: Vec<(usize, Action)>,
        changes: Vec<Change>,
    ) {
        let Some(foreseen) = plan.foreseen.filter(|_| !changes.is_empty()) else { return };
        self.migrations.take(plan.moves);
        if let Expectation::Told { gain, worst, program } = &foreseen.expected {
            let (gain, worst) = (percent(*gain), percent(*worst));
            if foreseen.turns.is_empty() {
                tracing::info!(gain, worst, %program, "gate: the model expects the plan to help");
            } else {
                tracing::info!(gain, worst, %program, "gate: the model expects no harm besides turns");
            }
        }
        self.on_trial = actions;
        self.trial.begin(now, foreseen, changes);
    }

    /// The threads were counted: notes their rates, and judges the plan that is on trial.
    pub(crate) fn counted(&mut self, now: Nanoseconds, table: &Threads) -> After {
        let mut after = After::default();
        match self.trial.counted(table, self.options.noise, self.options.most_loss) {
            None => {}
            Some(Judgement::Unknown { expected }) => {
                if let Expectation::Unknown { why } = expected
                    && self.told.insert(why.clone())
                {
                    let both = "neither model nor counters can tell whether plans help";
                    after.notes.push(format!("gate: {both}: {why}"));
                }
            }
            Some(Judgement::Fine { gain, .. }) => {
                tracing::info!(gain = percent(gain), "gate: the plan stays");
            }
            Some(Judgement::OfNobody) => {
                tracing::info!(
                    "gate: the plan stays; all took turns, and nobody stayed to judge it by"
                );
            }
            Some(Judgement::Harm { since, loss, whose, expected, changes }) => {
                let at = since.as_secs_f64();
                let hoped = match expected {
                    Expectation::Told { gain, .. } => format!("{} was expected", percent(gain)),
                    Expectation::Unknown { why } => format!("the model could not tell: {why}"),
                };
                let why = format!("the plan of {at:.1} s made {whose} {} ({hoped})", percent(loss));
                after.notes.push(format!("gate: {why}; the plan is undone"));
                after.taken_back = std::mem::take(&mut self.on_trial);
                after.undo = changes.iter().rev().filter_map(taken_back).collect();
                self.rest = Some((Nanoseconds(now.0.saturating_add(self.options.rest.0)), why));
            }
        }
        after
    }

    /// Everything was undone: nothing is on trial.
    pub(crate) fn forget(&mut self) {
        self.refused = None;
        self.trial = Trial::default();
        self.on_trial.clear();
    }
}

/// Threads that a step moves.
fn moves(step: &Step) -> usize {
    match &step.action {
        Action::Allow { .. } | Action::MovePages { .. } => 1,
        Action::Swap { .. } => 2,
        _ => 0,
    }
}

/// The change back, where there is one: groups stay empty, and pages move back at the end.
pub(crate) fn taken_back(change: &Change) -> Option<Change> {
    let mut back = change.clone();
    match &mut back {
        Change::Affinity { before, after, .. }
        | Change::Prefer { before, after, .. }
        | Change::PreferGroup { before, after, .. } => {
            std::mem::swap(before, after);
        }
        Change::Nice { before, after, .. } | Change::SchedulingPolicy { before, after, .. } => {
            std::mem::swap(before, after);
        }
        Change::Cpuset { before, after, .. } if !before.trim().is_empty() => {
            std::mem::swap(before, after);
        }
        Change::ResctrlSchemata { before, after, .. } if !before.is_empty() => {
            std::mem::swap(before, after);
        }
        Change::ResctrlTask { before, after, .. } => std::mem::swap(before, after),
        _ => return None,
    }
    Some(back)
}

/// `+3.2 %`.
fn percent(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

/// Migrations that may be made now; below 0 after a plan with more.
#[derive(Debug)]
struct Budget {
    left: f64,
    per_s: f64,
    at: Nanoseconds,
}

impl Budget {
    fn full(per_s: f64) -> Self {
        Self { left: per_s, per_s, at: Nanoseconds(0) }
    }

    fn has(&mut self, now: Nanoseconds, moves: usize) -> bool {
        let seconds = Nanoseconds(now.0.saturating_sub(self.at.0)).as_secs_f64();
        self.left = (self.left + seconds * self.per_s).min(self.per_s);
        self.at = now;
        self.left >= (moves as f64).min(self.per_s)
    }

    fn take(&mut self, moves: usize) {
        self.left -= moves as f64;
    }
}
