//! Threads that began where their parent was held.
//!
//! The kernel gives a new thread the affinity of the one that started it. One that was started by
//! a thread in our hands is therefore held by us, though no plan names it. It is taken for such
//! where it was born after its corun, has exactly an affinity that we gave to a thread of its
//! process or of a process above it, and all those threads could run on the same CPUs before.

use std::collections::{BTreeMap, HashMap};

use corun_linux::procfs::{Process, pids, tids};
use corun_linux::{Roots, Task, facts};
use corun_machine::CpuSet;

use crate::Change;

/// How many different affinities of a process are remembered.
const REMEMBERED: usize = 64;

/// What was done to the affinities of a process's threads.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Different affinities from before corun came.
    before: Vec<CpuSet>,
    /// Different affinities that corun gave, the latest last.
    given: Vec<CpuSet>,
}

impl Held {
    pub(super) fn add(&mut self, before: Option<&CpuSet>, given: &CpuSet) {
        if let Some(before) = before.filter(|before| !self.before.contains(before)) {
            self.before.push(before.clone());
        }
        self.given.retain(|one| one != given);
        self.given.push(given.clone());
        if self.given.len() > REMEMBERED {
            self.given.remove(0);
        }
    }

    /// Where a thread that has inherited `affinity` could have run; none where it did not, or where
    /// that cannot be told.
    fn inherited(&self, affinity: &CpuSet) -> Option<&CpuSet> {
        match self.before.as_slice() {
            [before] if before != affinity && self.given.contains(affinity) => Some(before),
            _ => None,
        }
    }
}

/// By process.
pub(super) type HeldProcesses = HashMap<u32, Held>;

/// The change by which a thread that no plan named is held, if it is.
pub(super) fn change_of(
    held: &HeldProcesses,
    roots: &Roots,
    task: &Task,
    affinity: &CpuSet,
    since_ticks: u64,
) -> Option<Change> {
    if task.start_ticks < since_ticks {
        return None;
    }
    let of = match held.get(&task.pid) {
        Some(of) => of,
        None => held.get(&Process::new(roots, task.pid).stat().ok()??.parent)?,
    };
    let before = of.inherited(affinity)?.clone();
    Some(Change::Affinity { task: *task, before, after: affinity.clone() })
}

/// What one look at the held processes and those below them finds.
#[derive(Debug, Default)]
pub(super) struct InheritedAffinities {
    /// Those by which threads are held that no plan named.
    pub(super) changes: Vec<Change>,
    /// A thread ended before it was read. The thread may have started another, held one.
    pub(super) missed: bool,
}

/// Looks at the held processes and those below them.
pub(super) fn all(
    held: &HeldProcesses,
    roots: &Roots,
    since_ticks: u64,
    is_known: impl Fn(&Task) -> bool,
) -> InheritedAffinities {
    let mut found = InheritedAffinities::default();
    if held.is_empty() {
        return found;
    }
    for (pid, of) in below(held, roots) {
        for tid in tids(roots, pid).unwrap_or_default() {
            let Ok(Some(stat)) = Process::new(roots, pid).thread_stat(tid) else {
                found.missed = true;
                continue;
            };
            let task = Task { pid, tid, start_ticks: stat.start_ticks };
            if stat.start_ticks < since_ticks || stat.is_kernel_thread() || is_known(&task) {
                continue;
            }
            let Ok(facts) = facts(roots, pid, tid) else {
                found.missed = true;
                continue;
            };
            if let Some(before) = held[&of].inherited(&facts.affinity) {
                let before = before.clone();
                found.changes.push(Change::Affinity { task, before, after: facts.affinity });
            }
        }
    }
    found
}

/// Processes and the held one that each is or descends from.
fn below(held: &HeldProcesses, roots: &Roots) -> BTreeMap<u32, u32> {
    let parent = |pid: u32| Some((pid, Process::new(roots, pid).stat().ok()??.parent));
    let parents: BTreeMap<u32, u32> =
        pids(roots).unwrap_or_default().into_iter().filter_map(parent).collect();
    let mut found = BTreeMap::new();
    for &pid in parents.keys() {
        let mut above = pid;
        // As many steps as there are processes: the kernel may have given numbers anew meanwhile.
        for _ in 0..parents.len() {
            if held.contains_key(&above) {
                found.insert(pid, above);
                break;
            }
            match parents.get(&above) {
                Some(&parent) => above = parent,
                None => break,
            }
        }
    }
    found
}
