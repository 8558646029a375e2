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
        self.actuators.iter_mut().for_each(|actuator| actuator.begin_plan());
        let mut changes: Vec<Change> = Vec::new();
        // Each decision with the range of its changes.
        let mut decisions = Vec::new();
        for step in plan.steps {
            let first = changes.len();
            let verdict = match self.prepare(policy, &step.action, now) {
                Ok(prepared) if prepared.is_empty() => {
                    self.was_sent(&step.action);
                    Verdict::AsAsked
                }
                Ok(prepared) => {
                    for change in &prepared {
                        self.was_moved(change, acting);
                    }
                    self.was_sent(&step.action);
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
            if let Err(ActError::ChangedByOthers { .. }) = &made {
                match change {
                    Change::Affinity { task, .. } => self.care.leave_alone(*task),
                    Change::Cpuset { file, .. } => self.care.leave_group_alone(file),
                    _ => {}
                }
            }
            if made.is_err() {
                self.was_not_moved(change);
            }
            outcomes.push(made.err().map(|error| error.to_string()));
        }
        outcomes
    }

    fn was_moved(&mut self, change: &Change, acting: bool) {
        match change {
            Change::Affinity { task, after, .. } => self.care.moved(*task, after, acting),
            Change::Cpuset { file, after, .. } => {
                let after = after.parse().expect("a list that was made of a set of CPUs");
                self.care.group_moved(file, &after, acting);
            }
            _ => {}
        }
    }

    fn was_not_moved(&mut self, change: &Change) {
        match change {
            Change::Affinity { task, before, .. } => self.care.moved(*task, before, true),
            Change::Cpuset { file, before, .. } => self.care.group_was_not_moved(file, before),
            _ => {}
        }
    }

    /// What holds a thread by its cgroup knows where each of the group was sent.
    fn was_sent(&mut self, action: &Action) {
        match action {
            Action::Allow { thread, cpus } => self.care.sent(*thread, cpus),
            Action::Swap { first, second } => {
                let allowed = |id| {
                    let views = self.care.views();
                    let place = views.binary_search_by_key(&id, |thread| thread.id).ok()?;
                    Some(views[place].allowed.clone())
                };
                if let (Some(one), Some(other)) = (allowed(*first), allowed(*second)) {
                    self.care.sent(*first, &other);
                    self.care.sent(*second, &one);
                }
            }
            _ => {}
        }
    }
}
