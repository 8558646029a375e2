//! What was done to each target, from the oldest state to the latest.

use std::collections::{HashMap, HashSet};
use std::io;

use corun_linux::procfs::Process;
use corun_linux::{Roots, Task, cgroup, if_there};
use corun_machine::CpuSet;

use super::inherited::{Families, Search};
use super::{JournalError, JournalName, PlanLine, Restored, in_words};
use crate::act::{ApplyMode, ChangeTarget, asked_for, still_there};
use crate::{ActError, Change, Reverted};

/// How often threads are looked for that began held: while some are let go, they may start others.
const GENERATIONS: usize = 64;

/// All things that were changed. Of each only the oldest state and the latest change are kept: a
/// target is in the state after its latest change or, if that one was never made, before it.
#[derive(Debug, Default)]
pub(crate) struct UndoState {
    of: HashMap<ChangeTarget, TargetHistory>,
    added: u64,
    families: Families,
    /// The process of their corun, and when it started, in clock ticks since boot.
    writer: u32,
    since_ticks: u64,
}

#[derive(Debug)]
struct TargetHistory {
    oldest: Change,
    latest: Change,
    /// Which addition was the latest.
    added: u64,
    /// A line before the oldest change could not be read: the state before that change may be corun's own.
    is_uncertain: bool,
}

impl UndoState {
    /// None yet, of a corun that is this process and started then.
    pub(crate) fn of_writer(name: &JournalName) -> Self {
        Self { writer: name.pid, since_ticks: name.start_ticks, ..Self::default() }
    }

    /// The line of a plan. The first change of an affinity starts from what was asked for before corun
    /// came, as far as the kernel tells ([`asked_for`]).
    ///
    /// # Errors
    /// When what was before cannot be read. Undoing would then give back something else.
    pub(crate) fn plan_line(
        &self,
        roots: &Roots,
        changes: &[Change],
    ) -> Result<PlanLine<'static>, JournalError> {
        let mut line = PlanLine::default();
        let mut targets = HashSet::new();
        let mut first =
            |target: ChangeTarget| !self.of.contains_key(&target) && targets.insert(target);
        for change in changes {
            let mut change = change.clone();
            let is_first = first(change.target());
            if is_first && let Change::Affinity { task, before, after } = &mut change {
                let folder = roots.proc.join(format!("{}/task/{}", task.pid, task.tid));
                let unread = || JournalError::kernel(&folder, "cannot tell where it may run");
                let mut asked = asked_for(roots, task, before).map_err(unread())?;
                if asked.is_none() {
                    // One that was born held could run where its maker could.
                    asked = self.inherited(roots, task, after).map_err(unread())?;
                }
                *before = asked.unwrap_or_else(|| before.clone());
                let path = if_there(cgroup::of_thread(roots, task)).map_err(unread())?.flatten();
                if let Some(path) =
                    path.filter(|path| self.families.cgroup_of(task.pid) != Some(path))
                {
                    line.cgroups.insert(task.pid, path);
                }
            }
            line.changes.to_mut().push(change);
        }
        Ok(line)
    }

    /// Takes over a line of a journal. `after_broken`: a line before it could not be read.
    pub(crate) fn add_line(&mut self, line: PlanLine<'_>, after_broken: bool) {
        self.families.add_cgroups(line.cgroups);
        for change in line.changes.into_owned() {
            self.add(change, after_broken);
        }
    }

    fn add(&mut self, change: Change, after_broken: bool) {
        self.added += 1;
        let is_new = !self.of.contains_key(&change.target());
        let is_uncertain = is_new && after_broken;
        if let Change::Affinity { task, before, after } = &change {
            let before = Some(before).filter(|_| is_new && !is_uncertain);
            self.families.add(task, before, after);
        }
        let added = self.added;
        self.of
            .entry(change.target())
            .and_modify(|history| (history.latest, history.added) = (change.clone(), added))
            .or_insert_with(|| TargetHistory {
                oldest: change.clone(),
                latest: change,
                added,
                is_uncertain,
            });
    }

    /// Undoes everything, newest first, threads that were started by held ones at last.
    pub(crate) fn undo(&self, roots: &Roots, mode: ApplyMode) -> Vec<Restored> {
        let mut restored: Vec<Restored> =
            self.newest_first().into_iter().map(|history| history.undo(roots, mode)).collect();
        // What those that plans named start meanwhile is born free: they are let go by now. What was
        // born held before may have started others until it was let go itself.
        let mut treated: HashSet<Task> = HashSet::new();
        let mut search = Search::new(&self.families, roots, self.since_ticks, self.writer);
        let (mut unclear, mut unread) = (Vec::new(), None);
        for _ in 0..GENERATIONS {
            let found = search.look(|task: &Task| {
                treated.contains(task) || self.of.contains_key(&ChangeTarget::Affinity(*task))
            });
            let none = found.changes.is_empty() && !found.missed && found.unread.is_none();
            (unclear, unread) = (found.unclear, found.unread);
            treated.extend(found.changes.iter().filter_map(Change::task));
            restored.extend(found.changes.into_iter().map(|change| {
                let outcome = in_words(change.undone(roots, mode));
                Restored { change, outcome }
            }));
            if none || mode != ApplyMode::Apply {
                break;
            }
        }
        restored.extend(unread.and_then(|why| self.not_looked_for(&why)));
        restored.extend(
            unclear
                .into_iter()
                .map(|(change, why)| Restored { change, outcome: Ok(Reverted::Unclear { why }) }),
        );
        restored
    }

    /// What began held may still be held: the failure stands beside the change of one who may have started it.
    fn not_looked_for(&self, why: &str) -> Option<Restored> {
        let histories = self.newest_first();
        let is_affinity =
            |history: &&&TargetHistory| matches!(history.latest, Change::Affinity { .. });
        let of = histories.iter().find(is_affinity).or(histories.first())?;
        let outcome =
            Err(format!("what was started while it was held cannot be looked for: {why}"));
        Some(Restored { change: of.latest.since(&of.oldest), outcome })
    }

    /// Where a thread that no plan has named could run before, if it is held.
    ///
    /// # Errors
    /// When that cannot be read, for another reason than that the thread ended.
    pub(crate) fn inherited(
        &self,
        roots: &Roots,
        task: &Task,
        affinity: &CpuSet,
    ) -> io::Result<Option<CpuSet>> {
        if self.of.contains_key(&ChangeTarget::Affinity(*task)) {
            return Ok(None);
        }
        self.families.inherited(roots, task, affinity, self.since_ticks)
    }

    /// Changes that undo the same, in an order that can be written again.
    pub(crate) fn shortest(&self) -> Vec<Change> {
        let mut histories = self.newest_first();
        histories.reverse();
        let one = |history: &TargetHistory| {
            let first = (history.oldest != history.latest)
                .then(|| history.latest.until(&history.oldest).unwrap_or(history.oldest.clone()));
            first.into_iter().chain([history.latest.clone()]).collect::<Vec<_>>()
        };
        histories.into_iter().flat_map(one).collect()
    }

    /// As [`Self::shortest`], in lines.
    pub(crate) fn shortest_lines(&self) -> Vec<PlanLine<'static>> {
        let changes = self.shortest();
        let line = |changes: &[Change]| {
            let pids = changes.iter().filter_map(|change| Some(change.task()?.pid));
            let cgroup = |pid| Some((pid, self.families.cgroup_of(pid)?.clone()));
            let cgroups = pids.filter_map(cgroup).collect();
            PlanLine { changes: changes.to_vec().into(), cgroups }
        };
        changes.chunks(256).map(line).collect()
    }

    /// Forgets threads that ended: nothing is left to undo for them. What they may have started is
    /// known by them, so that of those that were held alike one stays while their process runs, and one
    /// of each cgroup.
    pub(crate) fn forget_ended(&mut self, roots: &Roots) {
        let runs = |task: &Task| !matches!(still_there(roots, task), Err(ActError::Gone { .. }));
        let of_family = |(pid, before, after): &Sent| {
            let family = self.families.cgroup_of(*pid)?;
            Some((family.clone(), before.clone(), after.clone()))
        };
        let (mut ended, mut told, mut told_of) = (Vec::new(), HashSet::new(), HashSet::new());
        for history in self.newest_first() {
            let sent = history.sent();
            match history.latest.task() {
                Some(task) if !runs(task) => ended.push((history.latest.target(), sent)),
                _ => {
                    told_of.extend(sent.as_ref().and_then(of_family));
                    told.extend(sent);
                }
            }
        }
        let mut forgotten = Vec::new();
        for (target, sent) in ended {
            let tells = sent.is_some_and(|sent| {
                let of_family = of_family(&sent).is_some_and(|sent| told_of.insert(sent));
                let of_process = process_runs(roots, &target) && told.insert(sent);
                of_family || of_process
            });
            if !tells {
                forgotten.push(target);
            }
        }
        for target in forgotten {
            self.of.remove(&target);
        }
        let left: HashSet<u32> =
            self.of.values().filter_map(|history| Some(history.latest.task()?.pid)).collect();
        self.families.retain(&left);
    }

    fn newest_first(&self) -> Vec<&TargetHistory> {
        let mut histories: Vec<&TargetHistory> = self.of.values().collect();
        histories.sort_by_key(|history| std::cmp::Reverse(history.added));
        histories
    }
}

/// Is the process of an affinity's thread still the one in which the thread was?
fn process_runs(roots: &Roots, target: &ChangeTarget) -> bool {
    let ChangeTarget::Affinity(task) = target else { return false };
    let stat = Process::new(roots, task.pid).stat().ok().flatten();
    stat.is_some_and(|stat| !stat.is_over() && stat.start_ticks <= task.start_ticks)
}

/// A thread's process, where the thread could run before, and where it was sent.
type Sent = (u32, String, String);

impl TargetHistory {
    fn sent(&self) -> Option<Sent> {
        match self.latest.since(&self.oldest) {
            Change::Affinity { task, before, after } => {
                Some((task.pid, before.to_string(), after.to_string()))
            }
            _ => None,
        }
    }

    fn undo(&self, roots: &Roots, mode: ApplyMode) -> Restored {
        let whole = self.latest.since(&self.oldest);
        if self.is_uncertain
            && let Ok(Reverted::Done | Reverted::AsBefore) = whole.undone(roots, ApplyMode::DryRun)
        {
            let why =
                "what was before may stand in the line that cannot be read; it is left as it is";
            return Restored { change: whole, outcome: Err(why.to_owned()) };
        }
        let mut outcome = whole.undone(roots, mode);
        if let (Ok(Reverted::ChangedByOthers { .. }), Some(earlier)) =
            (&outcome, self.latest.until(&self.oldest))
        {
            outcome = earlier.undone(roots, mode);
        }
        Restored { change: whole, outcome: in_words(outcome) }
    }
}
