//! The cgroups of the processes that are watched.

use std::collections::BTreeMap;

use corun_linux::{Roots, Task, workload};
use corun_live::SampledThread;

/// Looks until a process's group is read again: processes are seldom moved, and a machine has thousands of them.
const LOOKS: u64 = 16;

/// What people call the groups of processes.
#[derive(Debug)]
pub(crate) struct Groups {
    roots: Roots,
    looks: u64,
    /// By process: when it started, and its group as last read.
    known: BTreeMap<u32, (u64, Option<String>)>,
}

impl Groups {
    pub(crate) fn new(roots: Roots) -> Self {
        Self { roots, looks: 0, known: BTreeMap::new() }
    }

    /// The group of each thread's process.
    pub(crate) fn of(&mut self, threads: &[SampledThread<'_>]) -> Vec<Option<String>> {
        if self.looks.is_multiple_of(LOOKS) {
            self.known.clear();
        }
        self.looks += 1;
        threads.iter().map(|one| self.group(one.thread.facts.task)).collect()
    }

    fn group(&mut self, task: Task) -> Option<String> {
        // Threads of a process start at different times; the first that is seen stands for it until all is read anew.
        let read = || (task.start_ticks, workload::of_process(&self.roots, task.pid));
        let (started, group) = self.known.entry(task.pid).or_insert_with(read);
        if task.tid == task.pid && task.start_ticks != *started {
            (*started, *group) = (task.start_ticks, workload::of_process(&self.roots, task.pid));
        }
        group.clone()
    }
}
