//! The process that holds threads under a journal, and its task as it is told to it.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use corun_linux::{Roots, Task, facts};
use corun_live::{ActError, Change, Journal, Restored};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use crate::container::Cpuset;
use crate::threads::{Threads, affinity, may_renice, nice, places};

/// Set in the second process: its task.
const TASK: &str = "CORUN_TEST_TASK";
/// The exit code of one whose journal could not be written.
pub(crate) const NO_JOURNAL: i32 = 3;
/// The exit code of one that could not undo all.
const NOT_UNDONE: i32 = 4;
/// Plans that one carries out which ends by itself.
const PLANS: u64 = 10;

/// How a holder ends if nobody ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    Never,
    Normal,
    Panic,
}

/// What a holder is told to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Held {
    folder: PathBuf,
    threads: Vec<(u32, u32)>,
    /// Held as well, and nice values with it; only threads' CPUs where absent.
    cpuset: Option<Cpuset>,
    ending: Ending,
    seed: u64,
}

/// A holder, seen from the test.
pub(crate) struct Holder {
    child: Child,
    _stdin: ChildStdin,
}

impl Holder {
    pub(crate) fn start(folder: &Path, threads: &Threads, ending: Ending, seed: u64) -> Self {
        Self::start_with(folder, threads, None, ending, seed)
    }

    /// As [`Self::start`], and holds a cgroup and nice values too.
    pub(crate) fn start_with(
        folder: &Path,
        threads: &Threads,
        cpuset: Option<&Cpuset>,
        ending: Ending,
        seed: u64,
    ) -> Self {
        let threads = threads.tasks().iter().map(|task| (task.pid, task.tid)).collect();
        let cpuset = cpuset.cloned();
        let task = Held { folder: folder.to_owned(), threads, cpuset, ending, seed };
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["the_holder", "--exact", "--nocapture", "--test-threads", "1"])
            .env(TASK, serde_json::to_string(&task).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        Self { child, _stdin: stdin }
    }

    /// Waits until it has carried out so many more plans.
    pub(crate) fn wait_for_plans(&mut self, count: u64) {
        let mut said = vec![0; count as usize];
        let stderr = self.child.stderr.as_mut().unwrap();
        stderr.read_exact(&mut said).unwrap();
        if said.iter().any(|&byte| byte != b'.') {
            // It panicked: all that it says, not as many bytes as plans were asked for.
            let _ = stderr.read_to_end(&mut said);
            panic!("{}", String::from_utf8_lossy(&said));
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it with SIGTERM.
    pub(crate) fn terminate(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert_eq!(self.wait().code(), Some(0));
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        // What it says must not fill the pipe.
        let mut said = Vec::new();
        let _ = self.child.stderr.as_mut().unwrap().read_to_end(&mut said);
        self.child.wait().unwrap()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The task of this process, if it is a holder.
pub(crate) fn task() -> Option<Held> {
    let text = std::env::var(TASK).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

/// Undoes everything when it goes, as a host does, also while a panic unwinds.
struct Guard {
    journal: Journal,
    undone: Option<Vec<Restored>>,
}

impl Guard {
    fn undo(&mut self) -> i32 {
        let restored = self.journal.undo(&Roots::default());
        let failed = restored.iter().any(|one| one.outcome.is_err());
        self.undone = Some(restored);
        if failed { NOT_UNDONE } else { 0 }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.undone.is_none() {
            self.undo();
        }
    }
}

impl Held {
    /// Holds the threads, each plan on other CPUs, and returns the exit code.
    pub(crate) fn hold(&self) -> i32 {
        let stop = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&stop)).unwrap();
        let roots = Roots::default();
        let tasks: Vec<Task> = self
            .threads
            .iter()
            .filter_map(|&(pid, tid)| Some(facts(&roots, pid, tid).ok()?.task))
            .collect();
        let Ok(journal) = Journal::create(&self.folder, &roots) else { return NO_JOURNAL };
        let mut guard = Guard { journal, undone: None };
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let mut plans = 0;
        while !stop.load(Ordering::Relaxed) {
            let mut plan = plan(&tasks, &mut random);
            if let Some(cpuset) = &self.cpuset {
                let places = places().expect("the test has made sure of two CPUs");
                plan.extend(cpuset.change(&places[random.random_range(0..places.len())]));
                plan.extend(nice_values(&tasks, &mut random));
            }
            if guard.journal.write(&plan).is_err() {
                guard.undo();
                return NO_JOURNAL;
            }
            for change in &plan {
                match change.apply(&roots) {
                    Ok(()) | Err(ActError::Gone { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            plans += 1;
            // Nobody listens any more: the test is over.
            if std::io::stderr().write_all(b".").is_err() {
                break;
            }
            match self.ending {
                Ending::Normal if plans == PLANS => break,
                Ending::Panic if plans == PLANS => {
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        let _guard = guard;
                        panic!("as told");
                    }))
                    .unwrap_err();
                    return 101;
                }
                _ => {}
            }
        }
        guard.undo()
    }
}

fn plan(tasks: &[Task], random: &mut Pcg64Mcg) -> Vec<Change> {
    let places = places().expect("the test has made sure of two CPUs");
    tasks
        .iter()
        .filter_map(|&task| {
            let before = affinity(&task)?;
            let after = places[random.random_range(0..places.len())].clone();
            (before != after).then_some(Change::Affinity { task, before, after })
        })
        .collect()
}

/// Other nice values for threads, where they can be given back.
fn nice_values(tasks: &[Task], random: &mut Pcg64Mcg) -> Vec<Change> {
    let change = |&task: &Task| {
        let (before, after) = (nice(&task)?, random.random_range(0..10));
        (before != after).then_some(Change::Nice { task, before, after })
    };
    if may_renice() { tasks.iter().filter_map(change).collect() } else { Vec::new() }
}
