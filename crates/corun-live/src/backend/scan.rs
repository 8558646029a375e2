//! The thread table brought up to date: who came and went, where threads may run, who moved them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use corun_linux::procfs::{Process, weight_of_nice};
use corun_linux::sysfs::online_cpus;
use corun_linux::{Roots, Task, TaskFacts, cgroup};
use corun_machine::{CpuSet, Machine};
use corun_policy::{Event, Nanoseconds, ProcessId, ThreadId, ThreadView};

use super::makers::Makers;
use super::{HeldGroup, LiveBackend, ManagedThread, Threads, locked};
use crate::act::names_of;
use crate::{Change, PinScope, ScannedThread};

/// What a scan changed in the table.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Who came, then who went, each in the order of the threads.
    pub(super) events: Vec<Event>,
    pub(super) left_alone: Vec<String>,
    /// Threads that were born with an affinity that is ours, not the user's.
    pub(super) inherited: Vec<Change>,
}

impl LiveBackend {
    /// Takes over what a scan found.
    pub(super) fn update(
        &mut self,
        now: Nanoseconds,
        found: &[ScannedThread],
        online: &CpuSet,
        table: &mut Threads,
    ) -> News {
        let mut news = News::default();
        let was_online = std::mem::replace(&mut self.online, online.clone());
        let before = self.scanned_at.replace(now).unwrap_or(now);
        let elapsed = Nanoseconds(now.0 - before.0);
        let found = || found.iter().filter(|one| !one.facts.is_real_time);
        // Before any thread is new: the number of one that ended may be another's by now.
        let gone = self.drop_absent(found().map(|one| one.facts.task), table);
        let mut born = Vec::new();
        let (mut ids, mut next) = (self.ids.iter().peekable(), 0);
        for one in found() {
            // Most were there at the last look, in this order.
            let id = ids.next_if(|(task, _)| **task == one.facts.task).map(|(_, &id)| id);
            let Some(id) = id.or_else(|| self.ids.get(&one.facts.task).copied()) else {
                born.push(one);
                continue;
            };
            let is_next = table.views().get(next).is_some_and(|view| view.id == id);
            let index = if is_next { Some(next) } else { table.index_of(id) };
            let index = index.expect("ids are those of the table");
            next = index + 1;
            let (view, thread) = table.at_mut(index);
            thread.ran = ran(&thread.facts, &one.facts, elapsed);
            thread.elapsed = elapsed;
            thread.target = one.target;
            thread.facts.update(&one.facts);
            view.state = one.state;
            if let Some(moved) = self.refresh(view, thread, &was_online) {
                news.left_alone.push(moved);
            }
        }
        if !born.is_empty() {
            let mut makers = Makers::new(table, &self.online);
            born.into_iter().for_each(|one| self.adopt(one.clone(), &mut makers, table, &mut news));
        }
        news.events.extend(gone.into_iter().map(Event::Exited));
        news
    }

    fn adopt(
        &mut self,
        found: ScannedThread,
        makers: &mut Makers,
        table: &mut Threads,
        news: &mut News,
    ) {
        let ScannedThread { facts, state, target: index } = found;
        let id = ThreadId(self.next_thread);
        self.next_thread += 1;
        let process = self.processes.entry(facts.task.pid).or_insert_with(|| {
            self.next_process += 1;
            (ProcessId(self.next_process - 1), 0)
        });
        process.1 += 1;
        let process = process.0;
        let (facts_task, facts_parent) = (facts.task, facts.parent);
        self.ids.insert(facts.task, id);
        let target = &self.scanner.targets()[index];
        let group = (target.pin == PinScope::Cgroup).then(|| self.group_of(&facts, table));
        let inherited = makers.allowed(&facts, group.as_ref());
        let may_run_on = match &inherited {
            Some(theirs) => {
                let (before, after) = (theirs.clone(), facts.affinity.clone());
                if group.is_none() {
                    news.inherited.push(Change::Affinity { task: facts.task, before, after });
                }
                theirs.clone()
            }
            None if group.is_none() => self.user_affinity(&facts),
            None => facts.affinity.clone(),
        };
        if let Some(group) = &group {
            self.groups.entry(group.name.clone()).or_default().insert(id);
        }
        let view = ThreadView {
            weight: weight_of_nice(facts.nice),
            important: target.important,
            state,
            cpu: Some(facts.cpu),
            allowed: facts.affinity.clone(),
            ..ThreadView::new(id, process, &*target.name, &may_run_on.intersection(&self.online))
        };
        let mut thread = ManagedThread::new(facts, index, target.profile_name().unwrap_or(""));
        if inherited.is_none() {
            (thread.expected, thread.allowed) = (may_run_on.clone(), may_run_on.clone());
        }
        let mut view = view;
        if let Some(group) = group.as_ref().filter(|group| group.is_preferred) {
            // Until it is sent somewhere itself, it does not widen its cgroup.
            view.allowed = group.cpus.intersection(&self.online);
            thread.allowed.clone_from(&group.cpus);
            thread.preferred = Some(group.cpus.clone());
        }
        if self.is_acting() {
            let held = self.actuators.iter_mut().find_map(|actuator| actuator.held(&facts_task));
            if let Some(held) = held {
                // It was born with its maker's policy, which was another before corun came.
                let before = makers.policy(&facts_task, facts_parent);
                thread.policy_before = before;
                if let Some(before) = before {
                    let after = corun_scx::SCHED_EXT;
                    let change = Change::SchedulingPolicy { task: facts_task, before, after };
                    news.inherited.push(change);
                }
                view.allowed = held.intersection(&self.online);
                thread.allowed.clone_from(&held);
                thread.preferred = Some(held);
            }
        }
        let thread = ManagedThread { may_run_on, group, ..thread };
        makers.add(id, &thread);
        table.insert(view, thread);
        news.events.push(Event::Arrived(id));
    }

    /// Where a thread's user allows it to run, CPUs that are off line included, which the facts leave out.
    fn user_affinity(&self, facts: &TaskFacts) -> CpuSet {
        let process = Process::new(&self.roots, facts.task.pid);
        let whole = process.thread_allowed_cpus(facts.task.tid).ok().flatten();
        let fits = |whole: &CpuSet| whole.intersection(&self.online) == facts.affinity;
        whole.filter(fits).unwrap_or_else(|| facts.affinity.clone())
    }

    /// The cgroup that a thread is in. One that cannot be read has no name, and is refused when it
    /// is to be held.
    fn group_of(&self, facts: &TaskFacts, table: &Threads) -> HeldGroup {
        let name = cgroup::of_thread(&self.roots, &facts.task).ok().flatten();
        let name: Arc<str> = name.unwrap_or_default().into();
        let member = self.groups.get(&name).and_then(BTreeSet::first);
        let member = member.and_then(|&id| Some(table.at(table.index_of(id)?).1));
        let known = member.and_then(|thread| thread.group.clone());
        let cpus = facts.affinity.clone();
        known.unwrap_or(HeldGroup { name, cpus, is_preferred: false })
    }

    /// Brings a thread up to date with its facts; says in words when somebody else moved it.
    fn refresh(
        &self,
        view: &mut ThreadView,
        thread: &mut ManagedThread,
        was_online: &CpuSet,
    ) -> Option<String> {
        let facts = &thread.facts;
        view.cpu = Some(facts.cpu);
        view.weight = weight_of_nice(facts.nice);
        if self.online != *was_online {
            // A CPU that came back shows in the affinity of all that were never barred from it.
            let new = facts.affinity.intersection(&without(&self.online, was_online));
            if thread.expected.is_disjoint(&new) && thread.may_run_on == thread.expected {
                thread.may_run_on = thread.may_run_on.union(&new);
            }
            thread.expected = thread.expected.union(&new);
        }
        let visible = on_line(&thread.expected, &self.online);
        let mut moved = None;
        if visible.is_empty() {
            // All its CPUs went off line, and the kernel let it run elsewhere.
            thread.expected = facts.affinity.clone();
            thread.allowed = facts.affinity.clone();
        } else if *visible != facts.affinity && !thread.left_alone {
            thread.left_alone = true;
            moved = Some(format!(
                "{} (thread {}): somebody set its affinity to {}, it was {visible}",
                view.program, facts.task, facts.affinity
            ));
        }
        if thread.left_alone {
            thread.follow_others();
        }
        if self.is_acting() && thread.group.is_none() {
            // With all preferred CPUs off line the scheduler in the kernel lets the thread run anywhere.
            let preferred = thread.preferred.as_ref();
            let held = preferred.filter(|preferred| !preferred.is_disjoint(&self.online));
            let held = held.unwrap_or(&thread.expected);
            set_to(&mut thread.allowed, &on_line(held, &self.online));
        }
        set_to(&mut view.may_run_on, &on_line(&thread.may_run_on, &self.online));
        set_to(&mut view.allowed, &on_line(&thread.allowed, &self.online));
        moved
    }

    fn drop_absent(
        &mut self,
        present: impl Iterator<Item = Task> + Clone,
        table: &mut Threads,
    ) -> Vec<ThreadId> {
        // Both ascend.
        let mut there = present.clone();
        if self.ids.keys().all(|known| there.find(|task| task >= known) == Some(*known)) {
            return Vec::new();
        }
        let present: BTreeSet<Task> = present.collect();
        table.retain(|view, thread| {
            let task = thread.task();
            let stays = present.contains(&task);
            if !stays {
                self.forget(view.id, task, thread.group.as_ref());
            }
            stays
        })
    }

    fn forget(&mut self, id: ThreadId, task: Task, group: Option<&HeldGroup>) {
        self.ids.remove(&task);
        if let Some(group) = group
            && let Some(members) = self.groups.get_mut(&group.name)
        {
            members.remove(&id);
            if members.is_empty() {
                self.groups.remove(&group.name);
            }
        }
        if let Some((_, threads)) = self.processes.get_mut(&task.pid) {
            *threads -= 1;
            if *threads == 0 {
                self.processes.remove(&task.pid);
            }
        }
    }

    /// Threads that their makers handed an affinity of ours are undone with the others. Returns what
    /// could not be written down.
    pub(super) fn note_inherited(&mut self, inherited: &[Change]) -> Vec<String> {
        let journal = self.journal.as_ref().filter(|_| !inherited.is_empty());
        let written = journal.map(|journal| locked(journal).write(inherited));
        written.and_then(Result::err).map(|error| error.to_string()).into_iter().collect()
    }

    /// A thread is held elsewhere now, or shown so in a dry run.
    pub(super) fn moved(&self, task: Task, to: &CpuSet, acting: bool, table: &mut Threads) {
        let Some(index) = self.ids.get(&task).and_then(|&id| table.index_of(id)) else { return };
        let (view, thread) = table.at_mut(index);
        thread.allowed.clone_from(to);
        view.allowed.clone_from(to);
        if acting {
            thread.expected.clone_from(to);
        }
    }

    /// Indices of the threads in the cgroups whose cpuset the file may be.
    fn members(&self, file: &Path, table: &Threads) -> Vec<usize> {
        let groups = names_of(file).filter_map(|name| self.groups.get(name.as_str()));
        groups.flatten().filter_map(|&id| table.index_of(id)).collect()
    }

    /// A thread has another scheduling policy now; `before`: what it was.
    pub(super) fn policy_was_set(&self, task: Task, before: i32, table: &mut Threads) {
        if let Some(index) = self.ids.get(&task).and_then(|&id| table.index_of(id)) {
            table.at_mut(index).1.policy_before.get_or_insert(before);
        }
    }

    /// A thread has another weight now: a policy that is asked again in the same tick goes by it.
    pub(super) fn reniced(&self, task: Task, nice: i32, table: &mut Threads) {
        if let Some(index) = self.ids.get(&task).and_then(|&id| table.index_of(id)) {
            table.at_mut(index).0.weight = weight_of_nice(nice);
        }
    }

    /// The scheduler in the kernel has a thread there now.
    pub(super) fn preferred(&self, task: Task, to: &CpuSet, table: &mut Threads) {
        let Some(index) = self.ids.get(&task).and_then(|&id| table.index_of(id)) else { return };
        let (view, thread) = table.at_mut(index);
        view.allowed = to.intersection(&self.online);
        thread.allowed.clone_from(to);
        thread.preferred = Some(to.clone());
    }

    /// The scheduler in the kernel was to have a thread elsewhere, and has it where it was.
    pub(super) fn was_not_preferred(&self, task: Task, before: &CpuSet, table: &mut Threads) {
        let Some(index) = self.ids.get(&task).and_then(|&id| table.index_of(id)) else { return };
        let (view, thread) = table.at_mut(index);
        view.allowed = before.intersection(&self.online);
        thread.was_not_preferred(before);
    }

    /// The scheduler in the kernel has a cgroup there now; not `is_preferred`: no longer, and all its CPUs are these.
    pub(super) fn group_preferred(
        &self,
        group: &str,
        to: &CpuSet,
        is_preferred: bool,
        table: &mut Threads,
    ) {
        for &id in self.groups.get(group).into_iter().flatten() {
            let Some(index) = table.index_of(id) else { continue };
            let thread = table.at_mut(index).1;
            thread.preferred = is_preferred.then(|| to.clone());
            if let Some(group) = &mut thread.group {
                group.cpus.clone_from(to);
                group.is_preferred = is_preferred;
            }
        }
    }

    /// The scheduler in the kernel was to have a cgroup elsewhere, and has it where it was, or nowhere.
    pub(super) fn group_was_not_preferred(
        &self,
        group: &str,
        before: &CpuSet,
        table: &mut Threads,
    ) {
        let found = self.groups.get(group).and_then(BTreeSet::first);
        let found = found.and_then(|&id| Some(table.at(table.index_of(id)?).1.expected.clone()));
        let is_preferred = found.is_some_and(|found| found != *before);
        self.group_preferred(group, before, is_preferred, table);
        for &id in self.groups.get(group).into_iter().flatten() {
            let Some(index) = table.index_of(id) else { continue };
            let (view, thread) = table.at_mut(index);
            thread.allowed.clone_from(before);
            view.allowed = before.intersection(&self.online);
        }
    }

    /// The scheduler in the kernel is no longer in force: all threads are where their affinities allow.
    pub(super) fn release_preferred(&self, table: &mut Threads) {
        for (view, thread) in table.iter_mut() {
            if thread.preferred.take().is_some() {
                thread.allowed.clone_from(&thread.expected);
                view.allowed = thread.expected.intersection(&self.online);
            }
            if let Some(group) = thread.group.as_mut().filter(|group| group.is_preferred) {
                group.cpus.clone_from(&thread.expected);
                group.is_preferred = false;
            }
        }
    }

    /// A cgroup is held there now, or shown so in a dry run.
    pub(super) fn group_moved(&self, file: &Path, to: &CpuSet, acting: bool, table: &mut Threads) {
        for index in self.members(file, table) {
            let (_, thread) = table.at_mut(index);
            if let Some(group) = &mut thread.group {
                group.cpus.clone_from(to);
            }
            if acting {
                thread.expected.clone_from(to);
            }
        }
    }

    /// A cgroup is where it was, and so are its threads; an empty list is all that it may have.
    pub(super) fn group_was_not_moved(&self, file: &Path, before: &str, table: &mut Threads) {
        for index in self.members(file, table) {
            let (view, thread) = table.at_mut(index);
            let before = before.parse().ok().filter(|cpus: &CpuSet| !cpus.is_empty());
            let before = before.unwrap_or_else(|| thread.may_run_on.clone());
            if let Some(group) = &mut thread.group {
                group.cpus.clone_from(&before);
            }
            thread.allowed.clone_from(&before);
            view.allowed = before.intersection(&self.online);
            thread.expected = before;
        }
    }

    /// Somebody else was quicker.
    pub(super) fn leave_alone(&self, task: Task, table: &mut Threads) {
        if let Some(index) = self.ids.get(&task).and_then(|&id| table.index_of(id)) {
            table.at_mut(index).1.left_alone = true;
        }
    }

    /// Somebody else changed a cgroup.
    pub(super) fn leave_group_alone(&self, file: &Path, table: &mut Threads) {
        for index in self.members(file, table) {
            table.at_mut(index).1.left_alone = true;
        }
    }

    /// After everything was undone: each thread is where its user allowed it to be.
    pub(crate) fn forget_changes(&self, table: &mut Threads) {
        for (view, thread) in table.iter_mut() {
            let own = thread.may_run_on.clone();
            view.allowed = own.intersection(&self.online);
            if let Some(group) = &mut thread.group {
                group.cpus.clone_from(&own);
                group.is_preferred = false;
            }
            thread.expected.clone_from(&own);
            thread.preferred = None;
            thread.allowed = own;
        }
    }

    /// How many threads each of the maps knows, and how many processes there are.
    #[cfg(test)]
    pub(crate) fn sizes(&self) -> [usize; 3] {
        let grouped = self.groups.values().map(BTreeSet::len).sum();
        [self.ids.len(), grouped, self.processes.len()]
    }
}

/// Time on CPUs between two scans. The kernel's clocks are not the same, so that it may come out a little
/// longer than the time between.
fn ran(before: &TaskFacts, now: &TaskFacts, elapsed: Nanoseconds) -> Nanoseconds {
    Nanoseconds(now.cpu_ns.saturating_sub(before.cpu_ns)).min(elapsed)
}

/// The CPUs of a set that are on line: as a rule the set itself. Every thread is asked at each look.
fn on_line<'a>(set: &'a CpuSet, online: &CpuSet) -> Cow<'a, CpuSet> {
    match set.is_subset(online) {
        true => Cow::Borrowed(set),
        false => Cow::Owned(set.intersection(online)),
    }
}

/// Sets one to the other, where they differ.
fn set_to(set: &mut CpuSet, to: &CpuSet) {
    if set != to {
        set.clone_from(to);
    }
}

fn without(set: &CpuSet, other: &CpuSet) -> CpuSet {
    set.iter().filter(|&cpu| !other.contains(cpu)).collect()
}

/// The CPUs that are on line; where the kernel does not say, all of the machine.
pub(super) fn online(roots: &Roots, machine: &Machine) -> CpuSet {
    online_cpus(roots).unwrap_or_else(|_| machine.cpu_set())
}
