//! A thread for tests.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use corun_machine::{CpuId, CpuSet};

use super::syscalls;
use super::thread_stat::stat;
use crate::{Change, Roots, Task};

/// A thread that sleeps until it is dropped.
pub(crate) struct Sleeper {
    pub(crate) task: Task,
    /// Where it could run at first.
    pub(crate) found: CpuSet,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sleeper {
    pub(crate) fn new() -> Self {
        let (end, ended) = channel::<()>();
        let (tell, told): (Sender<u32>, Receiver<u32>) = channel();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let _ = ended.recv();
        });
        let tid = told.recv().unwrap();
        let pid = std::process::id();
        let start_ticks = stat(&Roots::default(), pid, tid).unwrap().unwrap().start_ticks;
        let found = syscalls::affinity(tid).unwrap();
        let task = Task { pid, tid, start_ticks };
        Self { task, found, end: Some(end), thread: Some(thread) }
    }

    /// Where it may run now.
    pub(crate) fn now(&self) -> CpuSet {
        syscalls::affinity(self.task.tid).unwrap()
    }

    /// What somebody else does to it.
    pub(crate) fn set(&self, cpus: &CpuSet) {
        syscalls::set_affinity(self.task.tid, cpus).unwrap();
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
        drop(self.end.take());
        self.thread.take().unwrap().join().unwrap();
        while stat(&Roots::default(), self.task.pid, self.task.tid).unwrap().is_some() {
            std::thread::yield_now();
        }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
