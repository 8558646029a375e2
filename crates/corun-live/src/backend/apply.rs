//! Plans carried out on the real machine.

use corun_machine::CpuSet;
use corun_policy::{Action, Nanoseconds, Step, ThreadId};

use super::{LiveBackend, Threads, Verdict, locked};
use crate::gate::{After, taken_back};
use crate::{ActError, Change, Refusal, Reverted};

impl LiveBackend {
    /// Asks the gate, where there is one, and carries out what it lets through.
    pub(super) fn carry_out_gated(
        &mut self,
        now: Nanoseconds,
        policy: usize,
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
        let (mut actions, mut changes) = (Vec::new(), Vec::new());
        for (step, verdict) in steps.iter().zip(&verdicts) {
            if let Verdict::Done(made) = verdict {
                actions.push((policy, step.action.clone()));
                changes.extend(made.iter().cloned());
            }
        }
        if let Some(gate) = &mut self.gate {
            gate.carried_out(now, admitted, actions, changes);
        }
        verdicts
    }

    /// Takes back a plan that did harm. Returns what is to be told.
    pub(super) fn judge(&mut self, now: Nanoseconds, table: &mut Threads) -> Vec<String> {
        let Some(gate) = &mut self.gate else { return Vec::new() };
        let After { mut notes, undo, taken_back } = gate.counted(now, table);
        for change in &undo {
            self.was_moved(change, true, table);
        }
        notes.extend(self.make_each(&undo, table));
        for (_, action) in &taken_back {
            self.not_in_force(action);
        }
        self.taken_back.extend(taken_back);
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
        let written = if acting { self.write(&changes, table) } else { Ok(()) };
        let mut verdicts = Vec::with_capacity(steps.len());
        for (Step { action, .. }, range) in steps.iter().zip(prepared) {
            let verdict = match (range, &written) {
                (Err(refusal), _) => Verdict::Refused(refusal),
                (Ok(range), _) if range.is_empty() => Verdict::AsAsked,
                (Ok(range), _) if !acting => Verdict::Proposed(changes[range].to_vec()),
                (Ok(_), Err(why)) => Verdict::Failed(why.clone()),
                (Ok(range), Ok(())) => match self.make_all(&changes[range.clone()], table) {
                    Ok(()) => Verdict::Done(changes[range].to_vec()),
                    Err(why) => Verdict::Failed(why),
                },
            };
            if matches!(verdict, Verdict::Failed(_)) {
                self.not_in_force(action);
            }
            verdicts.push(verdict);
        }
        verdicts
    }

    fn not_in_force(&mut self, action: &Action) {
        let kind = action.kind();
        let able = self.actuators.iter_mut().find(|one| one.kinds().contains(&kind));
        if let Some(actuator) = able {
            actuator.not_in_force(action);
        }
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
        self.make_each(&due, table)
    }

    /// Journals changes. What cannot be written down is not made.
    fn write(&mut self, changes: &[Change], table: &mut Threads) -> Result<(), String> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let lasting = |change: &&Change| change.outlives_corun();
        let lasting: Vec<Change> = changes.iter().filter(lasting).cloned().collect();
        let written = locked(journal).write(&lasting);
        written.map_err(|error| {
            for change in changes {
                self.was_not_moved(change, table);
            }
            error.to_string()
        })
    }

    /// Makes changes that stand for themselves. Returns why those that failed did.
    fn make_each(&mut self, changes: &[Change], table: &mut Threads) -> Vec<String> {
        if self.journal.is_none() || changes.is_empty() {
            return Vec::new();
        }
        if let Err(why) = self.write(changes, table) {
            return vec![why];
        }
        let made = changes.iter().filter_map(|change| self.make(change, table).err());
        made.map(|error| error.to_string()).collect()
    }

    /// Makes the changes of one step, in order. Where one fails, those before it are taken back: a step is in force as
    /// a whole, or what was before it is. A thread that ended meanwhile needs nothing.
    fn make_all(&mut self, changes: &[Change], table: &mut Threads) -> Result<(), String> {
        let mut made: Vec<&Change> = Vec::with_capacity(changes.len());
        let mut gone = None;
        for (place, change) in changes.iter().enumerate() {
            match self.make(change, table) {
                Ok(()) => made.push(change),
                Err(error @ ActError::Gone { .. }) if change.task().is_some() => {
                    gone = Some(error.to_string());
                }
                Err(error) => {
                    for change in &changes[place + 1..] {
                        self.was_not_moved(change, table);
                    }
                    let stuck: Vec<String> = made
                        .into_iter()
                        .rev()
                        .filter_map(|change| self.take_back(change, table).err())
                        .map(|why| format!("; and not taken back: {why}"))
                        .collect();
                    return Err(format!("{error}{}", stuck.concat()));
                }
            }
        }
        match gone.filter(|_| made.is_empty()) {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    /// Makes one change that the journal knows.
    fn make(&mut self, change: &Change, table: &mut Threads) -> Result<(), ActError> {
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
        made
    }

    /// Takes back a change of a step of which a later change failed. What is not taken back stands in the journal.
    fn take_back(&mut self, change: &Change, table: &mut Threads) -> Result<(), ActError> {
        let own = taken_back(change).and_then(|back| {
            let mut own = self.actuators.iter_mut();
            own.find_map(|actuator| actuator.make(&back))
        });
        match own {
            Some(answer) => answer?,
            None => match change.revert(&self.roots)? {
                Reverted::Done | Reverted::AsBefore | Reverted::Gone => {}
                Reverted::ChangedByOthers { found } | Reverted::Unclear { why: found } => {
                    let what = change.to_string();
                    let expected = "as it was set".to_owned();
                    return Err(ActError::ChangedByOthers { what, found, expected });
                }
            },
        }
        self.was_not_moved(change, table);
        Ok(())
    }

    fn was_moved(&self, change: &Change, acting: bool, table: &mut Threads) {
        match change {
            Change::Affinity { task, after, .. } => self.moved(*task, after, acting, table),
            Change::Prefer { task, after, .. } => self.preferred(*task, after, table),
            Change::PreferGroup { group, after, .. } => {
                self.group_preferred(group, after, true, table);
            }
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
            Change::PreferGroup { group, before, .. } => {
                self.group_was_not_preferred(group, before, table);
            }
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
