//! Plans carried out on the real machine.

use corun_machine::CpuSet;
use corun_policy::{Action, Nanoseconds, Step, ThreadId};

use super::{LiveBackend, Threads, Verdict, locked};
use crate::gate::After;
use crate::{ActError, Change, Refusal};

impl LiveBackend {
    /// Asks the gate, where there is one, and carries out what it lets through.
    pub(super) fn carry_out_gated(
        &mut self,
        now: Nanoseconds,
        steps: &[Step],
        table: &mut Threads,
    ) -> Vec<Verdict> {
        let admitted = match &mut self.gate {
            None => return self.carry_out(now, steps, table),
            Some(gate) => gate.admit(now, steps, table, &self.online),
        };
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(why) => {
                let refused = |_| Verdict::Refused(Refusal(format!("gate: {why}")));
                return steps.iter().map(refused).collect();
            }
        };
        let verdicts = self.carry_out(now, steps, table);
        let made = verdicts.iter().filter_map(|verdict| match verdict {
            Verdict::Done(changes) => Some(changes),
            _ => None,
        });
        let made = made.flatten().cloned().collect();
        if let Some(gate) = &mut self.gate {
            gate.carried_out(now, admitted, made);
        }
        verdicts
    }

    /// Takes back a plan that did harm. Returns what is to be told.
    pub(super) fn judge(&mut self, now: Nanoseconds, table: &mut Threads) -> Vec<String> {
        let Some(gate) = &mut self.gate else { return Vec::new() };
        let After { mut notes, undo } = gate.counted(now, table);
        for change in &undo {
            self.was_moved(change, true, table);
        }
        notes.extend(self.make(&undo, table).into_iter().flatten());
        notes
    }

    /// Prepares each step on what the steps before it leave, writes all changes into the journal
    /// at once, and makes them.
    pub(super) fn carry_out(
        &mut self,
        now: Nanoseconds,
        steps: &[Step],
        table: &mut Threads,
    ) -> Vec<Verdict> {
        let acting = self.is_acting();
        self.actuators.iter_mut().for_each(|actuator| actuator.begin_plan());
        let mut changes: Vec<Change> = Vec::new();
        // Each step's range of changes, or why it has none.
        let mut prepared = Vec::with_capacity(steps.len());
        for Step { action, .. } in steps {
            let first = changes.len();
            prepared.push(self.prepare(action, now, table).map(|more| {
                for change in &more {
                    self.was_moved(change, acting, table);
                }
                was_sent(action, table);
                changes.extend(more);
                first..changes.len()
            }));
        }
        let outcomes = if acting { self.make(&changes, table) } else { Vec::new() };
        let verdict = |range: Result<std::ops::Range<usize>, Refusal>| match range {
            Err(refusal) => Verdict::Refused(refusal),
            Ok(range) if range.is_empty() => Verdict::AsAsked,
            Ok(range) if !acting => Verdict::Proposed(changes[range].to_vec()),
            Ok(range) => match outcomes[range.clone()].iter().flatten().next() {
                Some(why) => Verdict::Failed(why.clone()),
                None => Verdict::Done(changes[range].to_vec()),
            },
        };
        prepared.into_iter().map(verdict).collect()
    }

    fn prepare(
        &mut self,
        action: &Action,
        now: Nanoseconds,
        table: &Threads,
    ) -> Result<Vec<Change>, Refusal> {
        let kind = action.kind();
        let mut able = self.actuators.iter_mut().filter(|one| one.kinds().contains(&kind));
        let actuator = able.next().ok_or_else(|| {
            Refusal(format!("nothing here carries out the action {}", kind.name()))
        })?;
        actuator.prepare(action, &self.machine, table, now)
    }

    /// Changes that are due by time alone. Returns what failed.
    pub(super) fn expire(&mut self, now: Nanoseconds, table: &mut Threads) -> Vec<String> {
        let due: Vec<Change> = self.actuators.iter_mut().flat_map(|one| one.due(now)).collect();
        if due.is_empty() || !self.is_acting() {
            return Vec::new();
        }
        for change in &due {
            self.was_moved(change, true, table);
        }
        self.make(&due, table).into_iter().flatten().collect()
    }

    /// Journals changes and makes them; of each that was not made, why. A change that cannot be
    /// written down is not made.
    fn make(&mut self, changes: &[Change], table: &mut Threads) -> Vec<Option<String>> {
        let Some(journal) = &self.journal else { return Vec::new() };
        if changes.is_empty() {
            return Vec::new();
        }
        let lasting = |change: &&Change| change.outlives_corun();
        let lasting: Vec<Change> = changes.iter().filter(lasting).cloned().collect();
        let written = locked(journal).write(&lasting);
        if let Err(error) = written {
            let why = error.to_string();
            for change in changes {
                self.was_not_moved(change, table);
            }
            return changes.iter().map(|_| Some(why.clone())).collect();
        }
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            let own = self.actuators.iter_mut().find_map(|actuator| actuator.make(change));
            let made = own.unwrap_or_else(|| change.apply(&self.roots));
            if let Err(ActError::ChangedByOthers { .. }) = &made {
                match change {
                    Change::Affinity { task, .. } => self.leave_alone(*task, table),
                    Change::Cpuset { file, .. } => self.leave_group_alone(file, table),
                    _ => {}
                }
            }
            if made.is_err() {
                self.was_not_moved(change, table);
            }
            outcomes.push(made.err().map(|error| error.to_string()));
        }
        outcomes
    }

    fn was_moved(&self, change: &Change, acting: bool, table: &mut Threads) {
        match change {
            Change::Affinity { task, after, .. } => self.moved(*task, after, acting, table),
            Change::Prefer { task, after, .. } => self.preferred(*task, after, table),
            Change::SchedulingPolicy { task, before, .. } => {
                self.policy_was_set(*task, *before, table);
            }
            Change::Nice { task, after, .. } => self.reniced(*task, *after, table),
            Change::Cpuset { file, after, .. } => {
                let after = after.parse().expect("a list that was made of a set of CPUs");
                self.group_moved(file, &after, acting, table);
            }
            _ => {}
        }
    }

    fn was_not_moved(&self, change: &Change, table: &mut Threads) {
        match change {
            Change::Affinity { task, before, .. } => self.moved(*task, before, true, table),
            Change::Prefer { task, before, .. } => self.was_not_preferred(*task, before, table),
            Change::Nice { task, before, .. } => self.reniced(*task, *before, table),
            Change::Cpuset { file, before, .. } => self.group_was_not_moved(file, before, table),
            _ => {}
        }
    }
}

/// A thread that is held by its cgroup knows where it was sent itself.
fn was_sent(action: &Action, table: &mut Threads) {
    match action {
        Action::Allow { thread, cpus } => send(*thread, cpus, table),
        Action::Swap { first, second } => {
            let allowed = |id| Some(table.at(table.index_of(id)?).0.allowed.clone());
            if let (Some(one), Some(other)) = (allowed(*first), allowed(*second)) {
                send(*first, &other, table);
                send(*second, &one, table);
            }
        }
        _ => {}
    }
}

fn send(thread: ThreadId, to: &CpuSet, table: &mut Threads) {
    let Some(index) = table.index_of(thread) else { return };
    let (view, thread) = table.at_mut(index);
    if thread.group.is_some() {
        let to = to.intersection(&thread.may_run_on);
        view.allowed.clone_from(&to);
        thread.allowed = to;
    }
}
