//! Programs that sleep, seen by corun through a `/proc` that has nobody else, and what is done to them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use corun_linux::cgroup::FolderIdentity;
use corun_linux::procfs::Process;
use corun_linux::{Roots, Task, facts};
use corun_live::Change;
use corun_machine::{CpuId, CpuSet};

/// `SCHED_BATCH`, which every kernel has.
pub(crate) const BATCH: i32 = 3;
/// So much the nice value of one of the programs is raised.
const NICER_BY: i32 = 5;

/// What stands in the root group's schemata, and what corun makes of it: as long, since plain files stand in for
/// the kernel's.
const SCHEMATA: &str = "L3:0=f";
const NARROWER: &str = "L3:0=3";
/// The group that corun makes.
const MADE: &str = "corun-1";

/// All that is given to a thread and taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    affinity: CpuSet,
    nice: i32,
    policy: i32,
}

/// The programs, the folder of journals, and the CPUs on which the programs are put.
pub(crate) struct World {
    base: tempfile::TempDir,
    pub(crate) roots: Roots,
    pub(crate) first: CpuSet,
    pub(crate) second: CpuSet,
    pub(crate) both: CpuSet,
    pub(crate) sleepers: Vec<Program>,
    pub(crate) group: Option<Group>,
    before: BTreeMap<u32, State>,
}

/// A shell that sleeps, and starts another program when it is told to.
pub(crate) struct Program {
    child: Child,
    pub(crate) task: Task,
}

/// A cgroup of version 1 without a program in it.
pub(crate) struct Group {
    file: PathBuf,
    folder: PathBuf,
    text: String,
}

impl World {
    /// Without programs yet; none, and a word about it, where this test may run on one CPU only.
    pub(crate) fn new() -> Option<Self> {
        let own = std::process::id();
        let found = facts(&Roots::default(), own, own).unwrap();
        let all: Vec<CpuId> = found.affinity.iter().take(2).collect();
        let &[first, second] = all.as_slice() else {
            eprintln!("skipped: this test may run on one CPU only");
            return None;
        };
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        let roots = Roots { proc: at("proc"), resctrl: at("resctrl"), ..Roots::default() };
        std::fs::create_dir(&roots.proc).unwrap();
        std::fs::create_dir(&roots.resctrl).unwrap();
        std::fs::write(roots.resctrl.join("schemata"), format!("{SCHEMATA}\n")).unwrap();
        for name in ["self", "sys"] {
            symlink(format!("/proc/{name}"), roots.proc.join(name)).unwrap();
        }
        let world = Self {
            base,
            roots,
            first: CpuSet::from_iter([first]),
            second: CpuSet::from_iter([second]),
            both: found.affinity,
            sleepers: Vec::new(),
            group: Group::new(),
            before: BTreeMap::new(),
        };
        Some(world)
    }

    /// The next run begins: with new programs where one ended or started another, and nothing else.
    pub(crate) fn renew(&mut self) {
        if self.sleepers.len() == 3
            && self.before.len() == 3
            && self.before.keys().all(|pid| State::of(*pid).is_some())
        {
            return;
        }
        for entry in std::fs::read_dir(&self.roots.proc).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name().to_string_lossy().parse::<u32>().is_ok() {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        self.sleepers = (0..3).map(|_| Program::new()).collect();
        let pids: Vec<u32> = self.sleepers.iter().map(|one| one.task.pid).collect();
        pids.iter().for_each(|pid| self.shows(*pid));
        self.shows(std::process::id());
        self.before = pids.into_iter().map(|pid| (pid, State::of(pid).unwrap())).collect();
    }

    /// The folder of journals.
    pub(crate) fn folder(&self) -> PathBuf {
        self.base.path().join("corun")
    }

    /// From now on corun sees this process.
    fn shows(&self, pid: u32) {
        symlink(format!("/proc/{pid}"), self.roots.proc.join(pid.to_string())).unwrap();
    }

    /// Ends the first of the programs, and waits until the kernel knows it no more.
    pub(crate) fn end_first(&self) {
        let pid = rustix::process::Pid::from_raw(self.sleepers[0].task.pid as i32).unwrap();
        // Its parent is this process, which waits for it once: it may be over already.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
    }

    /// Has a program ended?
    pub(crate) fn has_ended(&self) -> bool {
        self.before.keys().any(|pid| State::of(*pid).is_none())
    }

    /// The first program started this one, which has its affinity from it.
    pub(crate) fn adds_heir(&mut self, pid: u32) {
        self.shows(pid);
        // Where it is to be once nobody holds it: where its maker was before.
        self.before.insert(pid, self.before[&self.sleepers[0].task.pid].clone());
    }

    /// From now on corun sees this process no more: who wrote the journal has ended.
    pub(crate) fn hides_own_process(&self) {
        std::fs::remove_file(self.roots.proc.join(std::process::id().to_string())).unwrap();
    }

    /// What the programs get first, and what they get after that where the first of each was made.
    pub(crate) fn plans(&self) -> [Vec<Change>; 2] {
        let [one, other, third] = [0, 1, 2].map(|place| self.sleepers[place].task);
        let nice = self.before[&other.pid].nice;
        let affinity = |task, before: &CpuSet, after: &CpuSet| Change::Affinity {
            task,
            before: before.clone(),
            after: after.clone(),
        };
        let mut changes = vec![
            affinity(one, &self.both, &self.first),
            Change::Nice { task: other, before: nice, after: (nice + NICER_BY).min(19) },
            affinity(other, &self.both, &self.second),
            Change::SchedulingPolicy { task: third, before: 0, after: BATCH },
        ];
        changes.extend(self.group.as_ref().map(|group| Change::Cpuset {
            file: group.file.clone(),
            folder: Some(FolderIdentity::of(&group.folder).unwrap()),
            before: group.text.clone(),
            after: self.first.to_string(),
        }));
        changes.push(Change::ResctrlGroup { group: MADE.into() });
        changes.push(Change::ResctrlSchemata {
            group: PathBuf::new(),
            before: SCHEMATA.to_owned(),
            after: NARROWER.to_owned(),
        });
        let next = vec![
            affinity(one, &self.first, &self.second),
            affinity(third, &self.both, &self.first),
        ];
        [changes, next]
    }

    /// Is it as it was before anything was done? Programs that ended are.
    pub(crate) fn is_as_before(&self) -> bool {
        let group = self.group.as_ref().is_none_or(|group| group.now() == group.text);
        let resctrl = self.schemata() == SCHEMATA && !self.roots.resctrl.join(MADE).exists();
        self.others().is_empty() && group && resctrl
    }

    fn schemata(&self) -> String {
        let text = std::fs::read_to_string(self.roots.resctrl.join("schemata")).unwrap();
        text.trim().to_owned()
    }

    /// The processes that are not as they were.
    pub(crate) fn others(&self) -> Vec<u32> {
        let differs = |pid: &u32, before: &State| State::of(*pid).is_some_and(|now| now != *before);
        let others = self.before.iter().filter(|(pid, before)| differs(pid, before));
        others.map(|(pid, _)| *pid).collect()
    }

    /// Has the change been made, as far as its program runs?
    pub(crate) fn is_made(&self, change: &Change) -> Option<bool> {
        Some(match change {
            Change::Affinity { task, after, .. } => State::of(task.pid)?.affinity == *after,
            Change::Nice { task, after, .. } => State::of(task.pid)?.nice == *after,
            Change::SchedulingPolicy { task, after, .. } => State::of(task.pid)?.policy == *after,
            Change::Cpuset { after, .. } => self.group.as_ref()?.now() == *after,
            Change::ResctrlGroup { group } => self.roots.resctrl.join(group).exists(),
            Change::ResctrlSchemata { after, .. } => self.schemata() == *after,
            other => panic!("no plan has {other}"),
        })
    }
}

impl State {
    /// None where the process has ended.
    fn of(pid: u32) -> Option<Self> {
        let roots = Roots::default();
        let nice = Process::new(&roots, pid).stat().ok()??;
        if nice.is_over() {
            return None;
        }
        let affinity = Process::new(&roots, pid).thread_allowed_cpus(pid).ok()??;
        let policy = corun_scx::policy_of(pid).ok()?;
        Some(Self { affinity, nice: nice.nice, policy })
    }
}

impl Program {
    fn new() -> Self {
        let script = "read line; sleep 1000 & echo $!; wait";
        let child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // So that all that it starts can be ended with it.
            .process_group(0)
            .spawn()
            .unwrap();
        let pid = child.id();
        let task = facts(&Roots::default(), pid, pid).unwrap().task;
        Self { child, task }
    }

    pub(crate) fn start_another(&mut self) -> u32 {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let mut line = String::new();
        BufReader::new(self.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_raw(self.task.pid as i32).unwrap();
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Group {
    /// None, and a word about it, where none can be made.
    fn new() -> Option<Self> {
        let (root, below) = (Path::new("/sys/fs/cgroup/cpuset"), Path::new("cpuset"));
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("corun-test-{}-fault-{number}", std::process::id());
        let folder = root.join(&name);
        if !root.join("cpuset.cpus").is_file() || std::fs::create_dir(&folder).is_err() {
            eprintln!("skipped: no cgroup of version 1 with cpuset can be made here");
            return None;
        }
        std::fs::write(
            folder.join("cpuset.cpus"),
            std::fs::read(root.join("cpuset.cpus")).unwrap(),
        )
        .unwrap();
        let text = now(&folder);
        Some(Self { file: below.join(&name).join("cpuset.cpus"), folder, text })
    }

    fn now(&self) -> String {
        now(&self.folder)
    }
}

fn now(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("cpuset.cpus")).unwrap().trim().to_owned()
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.folder);
    }
}
