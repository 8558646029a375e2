//! Threads that sleep, and a file system that can be filled.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use corun_linux::procfs::Process;
use corun_linux::{Roots, Task, facts};
use corun_machine::{CpuId, CpuSet};
use rustix::process::{Pid, geteuid, setpriority_process};

/// Sleeping threads of this process with affinities of their own.
pub(crate) struct Threads {
    sleepers: Vec<Sleeper>,
}

/// What a thread has: the CPUs of its mask, those that are off line included, its nice value and its scheduling
/// policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    cpus: CpuSet,
    nice: i32,
    policy: i32,
}

impl State {
    /// None where the thread ended.
    pub(crate) fn of(pid: u32, tid: u32) -> Option<Self> {
        let process = Process::new(&Roots::default(), pid);
        let cpus = process.thread_allowed_cpus(tid).ok()??;
        let nice = process.thread_stat(tid).ok()??.nice;
        Some(Self { cpus, nice, policy: corun_scx::policy_of(tid).ok()? })
    }
}

struct Sleeper {
    task: Task,
    before: State,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Threads {
    /// One with no thread.
    pub(crate) fn none() -> Self {
        Self { sleepers: Vec::new() }
    }

    /// So many threads on the first CPU, the second, or both; none, and a word about it, where this
    /// test may run on one CPU only.
    pub(crate) fn new(count: usize) -> Option<Self> {
        if places().is_none() {
            eprintln!("skipped: this test may run on one CPU only");
            return None;
        }
        Some(Self { sleepers: (0..count).map(Sleeper::new).collect() })
    }

    pub(crate) fn tasks(&self) -> Vec<Task> {
        self.sleepers.iter().map(|sleeper| sleeper.task).collect()
    }

    /// Ends so many threads and starts others.
    pub(crate) fn replace(&mut self, count: usize) {
        for place in 0..count {
            self.sleepers[place] = Sleeper::new(place);
        }
    }

    pub(crate) fn assert_as_before(&self, when: &str) {
        for sleeper in &self.sleepers {
            let Task { pid, tid, .. } = sleeper.task;
            assert_eq!(State::of(pid, tid).as_ref(), Some(&sleeper.before), "{when}");
        }
    }
}

/// Where threads are put: the first CPU that this test may use, the second, both.
pub(crate) fn places() -> Option<[CpuSet; 3]> {
    let all: Vec<CpuId> = facts(&Roots::default(), std::process::id(), std::process::id())
        .ok()?
        .affinity
        .iter()
        .take(2)
        .collect();
    let &[first, second] = all.as_slice() else { return None };
    Some([CpuSet::from_iter([first]), CpuSet::from_iter([second]), CpuSet::from_iter(all)])
}

/// Where a thread may run; none when it ended.
pub(crate) fn affinity(task: &Task) -> Option<CpuSet> {
    let facts = facts(&Roots::default(), task.pid, task.tid).ok()?;
    (facts.task == *task).then_some(facts.affinity)
}

/// A nice value that was raised may be lowered again by root alone.
pub(crate) fn may_renice() -> bool {
    geteuid().is_root()
}

/// A thread's nice value; none when it ended.
pub(crate) fn nice(task: &Task) -> Option<i32> {
    State::of(task.pid, task.tid).map(|state| state.nice)
}

/// What somebody else does to a thread.
pub(crate) fn set_affinity(task: &Task, to: &CpuSet) {
    let mut cpus = rustix::thread::CpuSet::new();
    to.iter().for_each(|cpu| cpus.set(cpu.0 as usize));
    rustix::thread::sched_setaffinity(Pid::from_raw(task.tid as i32), &cpus).unwrap();
}

/// A cgroup with all CPUs.
pub(crate) struct Cgroup(PathBuf);

impl Cgroup {
    /// None, and a word about it, where none can be made.
    pub(crate) fn new() -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup/cpuset");
        let folder = root.join(format!("corun-test-{}-stray", std::process::id()));
        if !root.join("cpuset.cpus").is_file() || std::fs::create_dir(&folder).is_err() {
            eprintln!("skipped: no cgroup of version 1 with cpuset can be made here");
            return None;
        }
        for file in ["cpuset.cpus", "cpuset.mems"] {
            std::fs::write(folder.join(file), std::fs::read(root.join(file)).unwrap()).unwrap();
        }
        Some(Self(folder))
    }

    pub(crate) fn take(&self, task: &Task) {
        std::fs::write(self.0.join("tasks"), task.pid.to_string()).unwrap();
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The kernel lets go of a process that was killed a moment later.
        for _ in 0..1000 {
            if std::fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

impl Sleeper {
    fn new(number: usize) -> Self {
        let (end, ended) = channel::<()>();
        let (tell, told): (Sender<u32>, Receiver<u32>) = channel();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let _ = ended.recv();
        });
        let tid = told.recv().unwrap();
        let task = facts(&Roots::default(), std::process::id(), tid).unwrap().task;
        set_affinity(&task, &places().unwrap()[number % 3]);
        if may_renice() {
            // Some are less urgent by their user's wish.
            let own = Pid::from_raw(tid as i32);
            setpriority_process(own, 3 * (number % 2) as i32).unwrap();
        }
        let before = State::of(task.pid, tid).unwrap();
        Self { task, before, end: Some(end), thread: Some(thread) }
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

/// A file system of 64 KiB.
pub(crate) struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// None, and a word about it, where none can be mounted.
    pub(crate) fn new() -> Option<Self> {
        let disk = Self { folder: tempfile::tempdir().unwrap() };
        if !mount(&["-t", "tmpfs", "-o", "size=64k", "corun-test"], disk.path()) {
            eprintln!("skipped: no file system can be mounted here");
            return None;
        }
        Some(disk)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves no page free.
    pub(crate) fn fill(&self) {
        let path: PathBuf = self.path().join("filler");
        let full = std::fs::write(path, vec![0u8; 1 << 20]).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    }

    pub(crate) fn make_read_only(&self) {
        assert!(mount(&["-o", "remount,ro"], self.path()));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).output();
    }
}

fn mount(options: &[&str], at: &Path) -> bool {
    let done = Command::new("mount").args(options).arg(at).output();
    done.is_ok_and(|done| done.status.success())
}
