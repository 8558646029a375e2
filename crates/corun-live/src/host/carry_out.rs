//! Plans carried out on the real machine.

use corun_policy::{Action, ActionKind, Nanoseconds, Plan};

use super::{Decision, Host, Round, Verdict, locked};
use crate::{ActError, Change};

impl Host {
    /// Prepares each step on what the steps before it leave, writes all changes into the journal
    /// at once, and makes them.
    pub(super) fn carry_out(
        &mut self,
        policy: usize,
        now: Nanoseconds,
        plan: Plan,
        round: &mut Round,
    ) {
        let acting = self.journal.is_some();
        let mut changes: Vec<Change> = Vec::new();
        // Each decision with the range of its changes.
        let mut decisions = Vec::new();
        for step in plan.steps {
            let first = changes.len();
            let verdict = match self.prepare(policy, &step.action, now) {
                Ok(prepared) if prepared.is_empty() => Verdict::AsAsked,
                Ok(prepared) => {
                    for change in &prepared {
                        if let Change::Affinity { task, after, .. } = change {
                            self.care.moved(*task, after, acting);
                        }
                    }
                    changes.extend(prepared);
                    Verdict::Done(changes[first..].to_vec())
                }
                Err(why) => Verdict::Refused(why),
            };
            let (policy, at) = (self.hosted[policy].name.clone(), now);
            let decision =
                Decision { at, policy, action: step.action, reason: step.reason, verdict };
            decisions.push((decision, first..changes.len()));
        }
        let outcomes = if acting { self.change(&changes) } else { Vec::new() };
        for (mut decision, range) in decisions {
            if let Verdict::Done(done) = &decision.verdict {
                let failed = outcomes.get(range).and_then(|made| made.iter().flatten().next());
                if let Some(why) = failed {
                    decision.verdict = Verdict::Failed(why.clone());
                } else if !acting {
                    decision.verdict = Verdict::Proposed(done.clone());
                }
            }
            round.decisions.push(decision);
        }
    }

    fn prepare(
        &mut self,
        policy: usize,
        action: &Action,
        now: Nanoseconds,
    ) -> Result<Vec<Change>, String> {
        let kind: ActionKind = action.kind();
        if !self.owns(policy, kind) {
            return Err(format!("the policy did not say that it needs the action {kind:?}"));
        }
        let able = self.actuators.iter_mut().find(|actuator| actuator.kinds().contains(&kind));
        let Some(actuator) = able else {
            return Err(format!("nothing here carries out the action {kind:?}"));
        };
        let prepared = actuator.prepare(action, &self.machine, self.care.held(), now);
        prepared.map_err(|refusal| refusal.to_string())
    }

    /// Journals changes and makes them; of each that was not made, why. A change that cannot be
    /// written down is not made.
    pub(super) fn change(&mut self, changes: &[Change]) -> Vec<Option<String>> {
        let Some(journal) = &self.journal else { return Vec::new() };
        if changes.is_empty() {
            return Vec::new();
        }
        let written = locked(journal).write(changes);
        if let Err(error) = written {
            let why = error.to_string();
            for change in changes {
                self.was_not_moved(change);
            }
            return changes.iter().map(|_| Some(why.clone())).collect();
        }
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            let made = change.apply(&self.roots);
            if let (Err(ActError::ChangedByOthers { .. }), Change::Affinity { task, .. }) =
                (&made, change)
            {
                self.care.leave_alone(*task);
            }
            if made.is_err() {
                self.was_not_moved(change);
            }
            outcomes.push(made.err().map(|error| error.to_string()));
        }
        outcomes
    }

    fn was_not_moved(&mut self, change: &Change) {
        if let Change::Affinity { task, before, .. } = change {
            self.care.moved(*task, before, true);
        }
    }
}
