//! Threads that began where their maker was held.
//!
//! The kernel gives a new thread the affinity of the one that started it. One that was started by
//! a thread in our hands is therefore held by us, though no plan names it. It is taken for such where it
//! was born after its corun, has exactly an affinity that we gave to a thread of its family, and all those
//! threads could run on the same CPUs before. Its family is a held process above it, as long as all
//! processes between run; where its parent ended before, the held processes of its cgroup.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;

use corun_linux::procfs::{Process, Stat, pids, tids};
use corun_linux::{Roots, Task, cgroup, if_there};
use corun_machine::CpuSet;

use crate::Change;

/// How many different affinities of a family are remembered.
const REMEMBERED: usize = 64;

/// What was done to the affinities of threads of one process, or of one cgroup's processes. Beside each
/// affinity: when the youngest thread that had it was started, in clock ticks since boot.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Different affinities from before corun came.
    before: Vec<(CpuSet, u64)>,
    /// Different affinities that corun gave, the latest last.
    given: Vec<(CpuSet, u64)>,
}

impl Held {
    fn add(&mut self, task: &Task, before: Option<&CpuSet>, given: &CpuSet) {
        let started = |list: &mut Vec<(CpuSet, u64)>, cpus: &CpuSet| {
            let place = list.iter().position(|(one, _)| one == cpus);
            let known = place.map_or(0, |place| list.remove(place).1);
            list.push((cpus.clone(), known.max(task.start_ticks)));
        };
        if let Some(before) = before {
            started(&mut self.before, before);
        }
        started(&mut self.given, given);
        if self.given.len() > REMEMBERED {
            self.given.remove(0);
        }
    }

    /// Is it still the process that was held, by when the process of this number started? No thread is
    /// older than its process.
    fn is_of(&self, process_start_ticks: u64) -> bool {
        self.given.iter().any(|&(_, started)| started >= process_start_ticks)
    }

    fn has_given(&self, affinity: &CpuSet) -> bool {
        self.given.iter().any(|(given, _)| given == affinity)
    }

    /// Where a thread that has inherited `affinity` could have run; none where it did not, or where
    /// that cannot be told. Affinities of an earlier process of the same number do not count, and one that may use
    /// more than those that were held could before has it from elsewhere.
    fn inherited(&self, affinity: &CpuSet, process_start_ticks: u64) -> Option<&CpuSet> {
        let mut before = self.before.iter().filter(|(_, started)| *started >= process_start_ticks);
        let is_ours =
            |(given, started): &(CpuSet, u64)| given == affinity && *started >= process_start_ticks;
        match (before.next(), before.next()) {
            (Some((before, _)), None)
                if narrows(before, affinity) && self.given.iter().any(is_ours) =>
            {
                Some(before)
            }
            _ => None,
        }
    }
}

/// What was held, by process and by cgroup.
#[derive(Debug, Default)]
pub(super) struct Families {
    processes: HashMap<u32, Held>,
    /// The cgroup that a process was in when it was first held.
    cgroup_of: HashMap<u32, String>,
    cgroups: BTreeMap<String, Held>,
}

impl Families {
    /// A thread is held; `before` where it was not yet.
    pub(super) fn add(&mut self, task: &Task, before: Option<&CpuSet>, given: &CpuSet) {
        self.processes.entry(task.pid).or_default().add(task, before, given);
        if let Some(path) = self.cgroup_of.get(&task.pid) {
            self.cgroups.entry(path.clone()).or_default().add(task, before, given);
        }
    }

    /// The cgroups of processes that are held from now on.
    pub(super) fn add_cgroups(&mut self, cgroups: BTreeMap<u32, String>) {
        self.cgroup_of.extend(cgroups);
    }

    pub(super) fn cgroup_of(&self, pid: u32) -> Option<&String> {
        self.cgroup_of.get(&pid)
    }

    /// Forgets all processes but these. What their cgroups were given stays known.
    pub(super) fn retain(&mut self, left: &HashSet<u32>) {
        self.processes.retain(|pid, _| left.contains(pid));
        self.cgroup_of.retain(|pid, _| left.contains(pid));
    }

    /// Where a thread that no plan named could run before, if it is held.
    ///
    /// # Errors
    /// When that cannot be read, for another reason than that the thread ended.
    pub(super) fn inherited(
        &self,
        roots: &Roots,
        task: &Task,
        affinity: &CpuSet,
        since_ticks: u64,
    ) -> io::Result<Option<CpuSet>> {
        if task.start_ticks < since_ticks {
            return Ok(None);
        }
        let Some(own) = Process::new(roots, task.pid).stat()? else { return Ok(None) };
        let (held, started) = match self.processes.get(&task.pid) {
            Some(held) if held.is_of(own.start_ticks) => (Some(held), own.start_ticks),
            _ => {
                let parent = Process::new(roots, own.parent).stat()?;
                let started = parent.map(|parent| parent.start_ticks);
                (
                    self.processes.get(&own.parent).filter(|_| started.is_some()),
                    started.unwrap_or(0),
                )
            }
        };
        Ok(held.and_then(|held| held.inherited(affinity, started)).cloned())
    }
}

/// What one look at the families finds.
#[derive(Debug, Default)]
pub(super) struct InheritedAffinities {
    /// Those by which threads are held that no plan named.
    pub(super) changes: Vec<Change>,
    /// Threads that have an affinity that corun gave, of which it cannot be told whose doing that is.
    pub(super) unclear: Vec<(Change, String)>,
    /// A thread ended before it was read. The thread may have started another, held one.
    pub(super) missed: bool,
    /// Why something that is there could not be read, the first of such failures.
    pub(super) unread: Option<String>,
}

impl InheritedAffinities {
    /// What was read; none where it is gone or, which is noted, cannot be read.
    fn note<T>(&mut self, what: impl FnOnce() -> String, read: io::Result<T>) -> Option<T> {
        let read = if_there(read);
        read.unwrap_or_else(|error| {
            self.unread.get_or_insert_with(|| format!("{}: {error}", what()));
            None
        })
    }
}

/// Looks for threads that were born held, again and again while their makers are let go.
#[derive(Debug)]
pub(super) struct Search<'a> {
    families: &'a Families,
    roots: &'a Roots,
    /// When the corun started that held them, in clock ticks since boot.
    since_ticks: u64,
    /// This process, if it is that corun and the children of programs that it started become its own when
    /// their parents end.
    keeper: Option<u32>,
    /// Processes that left their family, by number and start, and their family's cgroup. A child of
    /// theirs belongs to it, too.
    strays: HashMap<(u32, u64), String>,
}

/// A held process, or a held cgroup in its place, that a process comes from.
#[derive(Clone, Copy)]
struct Origin<'a> {
    held: &'a Held,
    /// Only what was given to threads that are no older counts.
    process_start_ticks: u64,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        families: &'a Families,
        roots: &'a Roots,
        since_ticks: u64,
        writer: u32,
    ) -> Self {
        let keeps = || rustix::process::child_subreaper().is_ok_and(|keeper| keeper.is_some());
        let keeper = Some(writer).filter(|&writer| writer == std::process::id() && keeps());
        Self { families, roots, since_ticks, keeper, strays: HashMap::new() }
    }

    /// Looks once. `is_known`: threads that were treated already.
    pub(super) fn look(&mut self, is_known: impl Fn(&Task) -> bool) -> InheritedAffinities {
        let mut found = InheritedAffinities::default();
        if self.families.processes.is_empty() && self.families.cgroups.is_empty() {
            return found;
        }
        let listed = found.note(|| "the list of processes".to_owned(), pids(self.roots));
        let mut all: BTreeMap<u32, Stat> = BTreeMap::new();
        for pid in listed.unwrap_or_default() {
            let read = Process::new(self.roots, pid).stat();
            let stat = found.note(|| format!("process {pid}"), read).flatten();
            all.extend(stat.map(|stat| (pid, stat)));
        }
        for (&pid, stat) in &all {
            if stat.is_kernel_thread() {
                continue;
            }
            match self.origin(pid, &all) {
                Some(origin) => self.look_at(stat, origin, &is_known, &mut found),
                None if stat.start_ticks >= self.since_ticks && self.lost_parent(stat, &all) => {
                    self.look_at_orphan(stat, &is_known, &mut found);
                }
                None => {}
            }
        }
        found
    }

    /// The held process or the stray that a process is or descends from.
    fn origin(&self, pid: u32, all: &BTreeMap<u32, Stat>) -> Option<Origin<'a>> {
        let mut above = pid;
        // As many steps as there are processes: the kernel may have given numbers anew meanwhile.
        for _ in 0..all.len() {
            let stat = all.get(&above)?;
            let process_start_ticks = stat.start_ticks;
            if let Some(held) = self.families.processes.get(&above)
                && held.is_of(process_start_ticks)
            {
                return Some(Origin { held, process_start_ticks });
            }
            if let Some(path) = self.strays.get(&(above, process_start_ticks)) {
                return Some(Origin { held: &self.families.cgroups[path], process_start_ticks: 0 });
            }
            above = stat.parent;
        }
        None
    }

    /// Did the process that started this one end? Its parent is then the first process, a corun that
    /// looks after its programs, or another keeper of orphans, which is in another session.
    fn lost_parent(&self, stat: &Stat, all: &BTreeMap<u32, Stat>) -> bool {
        let session = all.get(&stat.parent).map(|parent| parent.session);
        stat.parent <= 1 || self.keeper == Some(stat.parent) || session != Some(stat.session)
    }

    fn look_at(
        &self,
        stat: &Stat,
        origin: Origin<'_>,
        is_known: &impl Fn(&Task) -> bool,
        found: &mut InheritedAffinities,
    ) {
        for (task, affinity) in self.threads(stat.pid, is_known, found) {
            if let Some(before) = origin.held.inherited(&affinity, origin.process_start_ticks) {
                let before = before.clone();
                found.changes.push(Change::Affinity { task, before, after: affinity });
            }
        }
    }

    /// A process that nobody held is above of: does it come from a held one that ended?
    fn look_at_orphan(
        &mut self,
        stat: &Stat,
        is_known: &impl Fn(&Task) -> bool,
        found: &mut InheritedAffinities,
    ) {
        let threads = self.threads(stat.pid, is_known, found);
        for (task, affinity) in threads {
            let families = self.families;
            let mut givers = families.cgroups.iter().filter(|(_, held)| held.has_given(&affinity));
            let Some(any) = givers.next() else { continue };
            let read = cgroup::of_thread(self.roots, &task);
            let own = found.note(|| format!("the cgroup of thread {task}"), read).flatten();
            let family = match own.and_then(|own| families.cgroups.get_key_value(&own)) {
                // All that its corun looks after was started by its programs.
                None if self.keeper == Some(stat.parent) && givers.next().is_none() => Some(any),
                family => family,
            };
            let before = family.and_then(|(_, held)| held.inherited(&affinity, 0));
            let change = |before: &CpuSet| Change::Affinity {
                task,
                before: before.clone(),
                after: affinity.clone(),
            };
            match (family, before) {
                (Some((path, _)), Some(before)) => {
                    self.strays.insert((stat.pid, stat.start_ticks), path.clone());
                    found.changes.push(change(before));
                }
                (_, None) | (None, _) => {
                    found.unclear.extend(unclear(stat, &affinity, any.1, change))
                }
            }
        }
    }

    /// The threads of a process that were born since its corun started, and where they may run.
    fn threads(
        &self,
        pid: u32,
        is_known: &impl Fn(&Task) -> bool,
        found: &mut InheritedAffinities,
    ) -> Vec<(Task, CpuSet)> {
        let process = Process::new(self.roots, pid);
        let mut threads = Vec::new();
        let listed = found.note(|| format!("the threads of process {pid}"), tids(self.roots, pid));
        for tid in listed.unwrap_or_default() {
            let thread = || format!("thread {tid} of process {pid}");
            let Some(stat) = found.note(thread, process.thread_stat(tid)).flatten() else {
                found.missed = true;
                continue;
            };
            let task = Task { pid, tid, start_ticks: stat.start_ticks };
            if stat.start_ticks < self.since_ticks || stat.is_over() || is_known(&task) {
                continue;
            }
            match found.note(thread, process.thread_allowed_cpus(tid)).flatten() {
                Some(affinity) => threads.push((task, affinity)),
                None => found.missed = true,
            }
        }
        threads
    }
}

/// Does an affinity allow less than that from before? corun gives no other.
fn narrows(before: &CpuSet, given: &CpuSet) -> bool {
    before != given && given.is_subset(before)
}

/// A thread of an orphan that has an affinity which corun gave to others, unless that is what these could
/// use before, too.
fn unclear(
    stat: &Stat,
    affinity: &CpuSet,
    giver: &Held,
    change: impl Fn(&CpuSet) -> Change,
) -> Option<(Change, String)> {
    let (before, _) = giver.before.iter().find(|(before, _)| narrows(before, affinity))?;
    let why = format!(
        "{} has CPUs {affinity}, which corun gave to others: it may come from one of them, or \
         somebody chose the same CPUs; `taskset -p` changes it",
        stat.name
    );
    Some((change(before), why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_that_may_use_less_than_before_has_inherited() {
        let cpus = |list: &str| list.parse::<CpuSet>().unwrap();
        let task = Task { pid: 7, tid: 7, start_ticks: 5 };
        let inherited = |before: &str, given: &str, affinity: &str| {
            let mut held = Held::default();
            held.add(&task, Some(&cpus(before)), &cpus(given));
            held.inherited(&cpus(affinity), 5).cloned()
        };
        assert_eq!(inherited("0-3", "1", "1"), Some(cpus("0-3")));
        assert_eq!(inherited("0-3", "1", "2"), None, "it was given to none");
        assert_eq!(inherited("0-3", "0-3", "0-3"), None, "nothing was taken from it");
        assert_eq!(inherited("0", "0-1", "0-1"), None, "it may use more than they could");
        assert_eq!(inherited("0-1", "1-2", "1-2"), None, "it may use others");
    }
}
