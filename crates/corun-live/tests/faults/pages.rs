//! Memory that is moved between nodes, whatever fails. A second node stands in where the machine has one: the calls that
//! move pages are answered here, and `numa_maps` shows what they did.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use corun_linux::{Roots, Task, facts};
use corun_live::{
    Change, Journal, RestoreOutcome, Restored, RestoredJournal, Reverted, Which, restore,
    would_restore,
};

use super::inject::{Fault, PagesCall, pages_call, run_over, try_filter};

const FAULTS: [Fault; 6] = [
    Fault::Error(libc::EPERM),
    Fault::Error(libc::ENOMEM),
    Fault::Error(libc::EIO),
    Fault::Error(libc::EINTR),
    Fault::HalfMoved,
    Fault::Before,
];

const PAGE: usize = 4096;
const BEGIN: usize = 0x7f00_0000_0000;
/// Pages on node 0 and on node 1 at first: more than a call moves.
const PAGES: [usize; 2] = [400, 200];
/// The node that gets them all.
const TO: u32 = 1;

/// A program that sleeps, whose memory is on two nodes.
struct Memory {
    base: tempfile::TempDir,
    roots: Roots,
    program: Child,
    task: Task,
    /// The node of each page, by address.
    nodes: Mutex<BTreeMap<usize, i32>>,
    /// Pages in use all the time.
    stuck: BTreeSet<usize>,
}

impl Memory {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let roots = Roots { proc: base.path().join("proc"), ..Roots::default() };
        std::fs::create_dir(&roots.proc).unwrap();
        for name in ["self", "sys"] {
            symlink(format!("/proc/{name}"), roots.proc.join(name)).unwrap();
        }
        let program = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = program.id();
        let task = facts(&Roots::default(), pid, pid).unwrap().task;
        let folder = roots.proc.join(pid.to_string());
        std::fs::create_dir(&folder).unwrap();
        for name in ["stat", "status", "task"] {
            symlink(format!("/proc/{pid}/{name}"), folder.join(name)).unwrap();
        }
        let end = BEGIN + PAGE * (PAGES[0] + PAGES[1]);
        std::fs::write(folder.join("maps"), format!("{BEGIN:x}-{end:x} rw-p 0 00:00 0\n")).unwrap();
        let node = |page: usize| i32::from(page >= PAGES[0]);
        let nodes = (0..PAGES[0] + PAGES[1]).map(|page| (BEGIN + page * PAGE, node(page)));
        let nodes = Mutex::new(nodes.collect());
        let memory = Self { base, roots, program, task, nodes, stuck: BTreeSet::new() };
        memory.shows_own_process();
        memory.shows_pages();
        memory
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<usize, i32>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn folder(&self) -> PathBuf {
        self.base.path().join("corun")
    }

    fn own(&self) -> PathBuf {
        self.roots.proc.join(std::process::id().to_string())
    }

    fn shows_own_process(&self) {
        symlink(format!("/proc/{}", std::process::id()), self.own()).unwrap();
    }

    fn shows_pages(&self) {
        let [zero, one] = self.counts().map(|pages| pages as u64);
        let count =
            |node, pages| if pages > 0 { format!(" N{node}={pages}") } else { String::new() };
        let counts = format!("{}{}", count(0, zero), count(1, one));
        let line = format!("{BEGIN:x} default anon={}{counts} kernelpagesize_kB=4\n", zero + one);
        let file = self.roots.proc.join(self.task.pid.to_string()).join("numa_maps");
        std::fs::write(file, line).unwrap();
    }

    fn counts(&self) -> [usize; 2] {
        [0, 1].map(|node| self.nodes().values().filter(|on| **on == node).count())
    }

    fn change(&self) -> Change {
        let before = PAGES.iter().zip(0..).map(|(&pages, node)| (node, pages as u64)).collect();
        Change::Pages { task: self.task, before, to: TO }
    }

    /// Answers a call that moves pages or asks where they are; none for all others.
    fn answers(&self, call: &libc::seccomp_notif, is_fault: bool, fault: Fault) -> Option<i64> {
        let PagesCall { pid, addresses, nodes: to, status } = pages_call(call)?;
        assert_eq!(pid, self.task.pid);
        if self.has_ended() {
            return Some(-i64::from(libc::ESRCH));
        }
        let mut nodes = self.nodes();
        let Some(to) = to else {
            status.iter_mut().zip(addresses).for_each(|(one, page)| *one = nodes[page]);
            return Some(0);
        };
        let half = is_fault && fault == Fault::HalfMoved;
        let most = if half { addresses.len() / 2 } else { addresses.len() };
        let mut stayed = (addresses.len() - most) as i64;
        for (page, &node) in addresses.iter().zip(to).take(most) {
            if self.stuck.contains(page) && nodes[page] != node {
                stayed += 1;
            } else {
                nodes.insert(*page, node);
            }
        }
        drop(nodes);
        self.shows_pages();
        Some(stayed)
    }

    fn run<T: Send>(&self, place: usize, fault: Fault, what: impl FnOnce() -> T + Send) -> Ran<T> {
        let end = || {
            let pid = rustix::process::Pid::from_raw(self.task.pid as i32).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        };
        let stand_in = |call: &libc::seccomp_notif, is_it| self.answers(call, is_it, fault);
        let ran = run_over(place, fault, end, stand_in, what);
        let when = format!("{fault:?} at place {place}, call {:?}", ran.hit);
        Ran { answer: ran.answer, hit: ran.hit, when }
    }

    fn has_ended(&self) -> bool {
        let stat = format!("/proc/{}/stat", self.task.pid);
        std::fs::read_to_string(stat).map_or(true, |stat| stat.contains(") Z "))
    }

    /// What an outcome says is so.
    fn assert_true(&self, restored: &[Restored], when: &str) {
        for one in restored {
            match &one.outcome {
                Ok(Reverted::Done | Reverted::AsBefore) => {
                    assert_eq!(self.counts(), PAGES, "{when}: {restored:?}");
                }
                Ok(Reverted::Gone) => assert!(self.has_ended(), "{when}: it is there"),
                Ok(other) => panic!("{when}: nobody else moved pages: {other:?}"),
                Err(_) => {}
            }
        }
    }

    fn assert_all_undone(&self, restored: &[Restored], when: &str) {
        assert!(restored.iter().all(|one| one.outcome.is_ok()), "{when}: {restored:?}");
        self.assert_true(restored, when);
        assert!(self.has_ended() || self.counts() == PAGES, "{when}: {:?}", self.counts());
        let is_empty =
            std::fs::read_dir(self.folder()).map_or(true, |mut all| all.next().is_none());
        assert!(is_empty, "{when}: the journal is there");
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

struct Ran<T> {
    answer: T,
    hit: Option<i32>,
    when: String,
}

/// As in the other tests, with a new program for each run.
fn walk(least: usize, each: impl Fn(&Memory, usize, Fault) -> Option<i32>) {
    if let Err(error) = try_filter() {
        eprintln!("skipped: the kernel asks nobody about system calls here: {error}");
        return;
    }
    let step = if std::env::var_os("CORUN_EVERY_FAULT").is_some() { 1 } else { 3 };
    for (number, fault) in FAULTS.into_iter().enumerate() {
        // Few calls move pages: each is walked.
        let (first, step) = if fault == Fault::HalfMoved { (0, 1) } else { (number % step, step) };
        let places = (first..).step_by(step).take_while(|&place| {
            let memory = Memory::new();
            each(&memory, place, fault).is_some()
        });
        let places = places.count();
        println!("{fault:?}: {places} places");
        let least = if fault == Fault::HalfMoved { 2 } else { least / step };
        assert!(places >= least, "{fault:?}: only {places} calls were seen");
    }
}

/// The change is in the journal and made.
fn moved(memory: &Memory) -> Journal {
    let mut journal = Journal::create(&memory.folder(), &memory.roots).unwrap();
    let change = memory.change();
    journal.write(std::slice::from_ref(&change)).unwrap();
    let made = memory.run(usize::MAX, Fault::Before, || change.apply(&memory.roots));
    made.answer.unwrap();
    assert_eq!(memory.counts(), [0, PAGES[0] + PAGES[1]]);
    journal
}

#[test]
fn whatever_fails_while_pages_are_moved_the_journal_knows_it_and_they_go_back() {
    walk(15, |memory, place, fault| {
        let change = memory.change();
        let (folder, roots) = (memory.folder(), &memory.roots);
        let act = || {
            let mut journal = Journal::create(&folder, roots).ok()?;
            let written = journal.write(std::slice::from_ref(&change)).is_ok();
            Some((journal, written.then(|| change.apply(roots).is_ok())))
        };
        let Ran { answer, hit, when } = memory.run(place, fault, act);
        let is_made = answer.as_ref().and_then(|(_, made)| *made);
        if is_made == Some(true) && fault != Fault::HalfMoved && !memory.has_ended() {
            assert_eq!(memory.counts()[0], 0, "{when}: it says that all were moved");
        }
        let known = would_restore(&folder, roots, Which::Dead).unwrap();
        let mut known = known.iter().flat_map(|journal| &journal.changes);
        let is_known = known.any(|one| one.change == change && one.outcome == Ok(Reverted::Done));
        let is_moved = !memory.has_ended() && memory.counts() != PAGES;
        assert!(is_known || !is_moved, "{when}: the journal does not know");
        if let Some((mut journal, _)) = answer {
            let undone = memory.run(usize::MAX, fault, || journal.undo(roots));
            memory.assert_all_undone(&undone.answer, &when);
        }
        hit
    });
}

#[test]
fn whatever_fails_while_pages_are_moved_back_is_said_and_the_next_attempt_moves_them() {
    walk(15, |memory, place, fault| {
        let mut journal = moved(memory);
        let undo = || (journal.undo(&memory.roots), journal);
        let Ran { answer: (restored, mut journal), hit, when } = memory.run(place, fault, undo);
        memory.assert_true(&restored, &when);
        let is_left = restored.iter().any(|one| one.outcome.is_err());
        assert!(!is_left || journal.path().exists(), "{when}");
        let again = memory.run(usize::MAX, fault, || journal.undo(&memory.roots));
        memory.assert_all_undone(&again.answer, &format!("{when}, again"));
        hit
    });
}

/// After a kill: the journal's writer is no more, and its lock is free.
#[test]
fn whatever_fails_while_pages_are_restored_is_said_and_the_next_attempt_moves_them() {
    walk(15, |memory, place, fault| {
        drop(moved(memory));
        std::fs::remove_file(memory.own()).unwrap();
        let (folder, roots) = (memory.folder(), &memory.roots);
        let restored = || restore(&folder, roots, Which::Dead);
        let Ran { answer, hit, when } = memory.run(place, fault, restored);
        for one in answer.iter().flatten().filter(|one| one.outcome != RestoreOutcome::Running) {
            memory.assert_true(&one.changes, &when);
        }
        let is_left = answer.as_ref().map_or(true, |all| all.iter().any(RestoredJournal::is_left));
        assert!(is_left || memory.has_ended() || memory.counts() == PAGES, "{when}: {answer:?}");
        let again = memory.run(usize::MAX, fault, restored).answer.unwrap();
        let again: Vec<Restored> = again.into_iter().flat_map(|one| one.changes).collect();
        memory.assert_all_undone(&again, &format!("{when}, again"));
        hit
    });
}

#[test]
fn pages_that_stay_where_they_are_are_counted_and_go_back_later() {
    if let Err(error) = try_filter() {
        eprintln!("skipped: the kernel asks nobody about system calls here: {error}");
        return;
    }
    let mut memory = Memory::new();
    let mut journal = moved(&memory);
    memory.stuck = BTreeSet::from([BEGIN, BEGIN + 7 * PAGE]);
    let undone = memory.run(usize::MAX, Fault::Before, || journal.undo(&memory.roots)).answer;
    assert_eq!(memory.counts(), [PAGES[0] - 2, PAGES[1] + 2]);
    let [Restored { outcome: Err(why), .. }] = undone.as_slice() else { panic!("{undone:?}") };
    assert!(why.contains("2 pages of process") && why.contains("stay on node 1"), "{why}");
    assert!(journal.path().exists());
    memory.stuck.clear();
    let again = memory.run(usize::MAX, Fault::Before, || journal.undo(&memory.roots)).answer;
    memory.assert_all_undone(&again, "again");
}
