//! A thread for tests.

use std::process::{Child, Command};

use corun_linux::procfs::Process;
use corun_linux::{Roots, Task, affinity};
use corun_machine::{CpuId, CpuSet};

use super::syscalls::set_affinity;
use crate::Change;

/// The thread of a program that sleeps until it is dropped. Not one of the test's own process: what
/// other tests start at the same time would descend from a process that is held.
pub(crate) struct Sleeper {
    pub(crate) task: Task,
    /// Where it could run at first.
    pub(crate) found: CpuSet,
    program: Child,
}

impl Sleeper {
    pub(crate) fn new() -> Self {
        let program = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = program.id();
        let start_ticks = Process::new(&Roots::default(), pid).stat().unwrap().unwrap().start_ticks;
        let found = affinity(pid).unwrap();
        Self { task: Task { pid, tid: pid, start_ticks }, found, program }
    }

    /// Where it may run now.
    pub(crate) fn now(&self) -> CpuSet {
        affinity(self.task.tid).unwrap()
    }

    /// What somebody else does to it.
    pub(crate) fn set(&self, cpus: &CpuSet) {
        set_affinity(self.task.tid, cpus).unwrap();
    }

    /// Two CPUs on which it may run; none, and a word about it, where there is one only.
    pub(crate) fn two_cpus(&self) -> Option<(CpuSet, CpuSet)> {
        let all: Vec<CpuId> = self.found.iter().take(2).collect();
        if let &[first, second] = all.as_slice() {
            return Some((CpuSet::from_iter([first]), CpuSet::from_iter([second])));
        }
        eprintln!("skipped: this test may run on one CPU only");
        None
    }

    /// The change from where it could run at first.
    pub(crate) fn change(&self, after: &CpuSet) -> Change {
        Change::Affinity { task: self.task, before: self.found.clone(), after: after.clone() }
    }

    /// Ends it, and waits until the kernel knows it no more.
    pub(crate) fn end(&mut self) {
        // It may have ended already.
        let _ = self.program.kill();
        self.program.wait().unwrap();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.end();
    }
}
