//! The processes that corun schedules, and their threads.

mod at_once;
mod command_lines;
mod followed;
mod found_again;
mod lineage;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use corun_linux::procfs::{Process, ProcessList, Stat, own_pid};
use corun_linux::{Roots, Task, TaskFacts, is_exhausted};
use corun_machine::CpuSet;
use corun_policy::ThreadState;
use corun_scx::ThreadReader;

use crate::{LiveError, Scanner};
use at_once::AtOnce;
use command_lines::CommandLines;
use followed::{DescriptorBudget, FollowedProcess};
use found_again::FoundAgain;
use lineage::{Kin, Lineage};
use rules::Matcher;

/// A program that corun was told to schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// What it is called in messages.
    pub name: Arc<str>,
    /// Its profile's name, where the user says it.
    pub profile: Option<String>,
    /// Is it otherwise the program's name? Else each process's command line leads to its profile: a name that was taken from
    /// a process may be an interpreter's.
    pub name_is_profile: bool,
    /// Is it one to protect?
    pub important: bool,
    /// Which processes it is.
    pub processes: ProcessSelector,
    /// What is held where a policy places its threads.
    pub pin: PinScope,
}

impl Target {
    /// With the profile of its name, not to be protected, held thread by thread.
    pub fn new(name: impl Into<Arc<str>>, processes: ProcessSelector) -> Self {
        let name = name.into();
        Self {
            name,
            profile: None,
            name_is_profile: true,
            important: false,
            processes,
            pin: PinScope::Threads,
        }
    }

    /// The profile's name; none where each process's command line leads to it.
    pub(crate) fn profile_name(&self) -> Option<&str> {
        self.profile.as_deref().or_else(|| self.name_is_profile.then_some(&*self.name))
    }
}

/// What is held where a policy places threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PinScope {
    /// Each thread, by its affinity.
    #[default]
    Threads,
    /// The cgroup that it is in, by its cpuset: for containers, whose threads come and go faster
    /// than each could be held.
    Cgroup,
}

/// Which processes a target is.
#[derive(Debug, Clone, PartialEq)]
pub enum ProcessSelector {
    /// A process and all that come from it: its children and theirs, also after their parents
    /// ended. One whose parent ended before anybody saw the two together is found only while its
    /// session or process group is one that the target's processes made.
    Descendants(Task),
    /// All processes that a rule means.
    Rule(Rule),
}

/// Says which processes are meant: all given parts must hold. With none given, no process is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// The process.
    pub pid: Option<u32>,
    /// Its effective user: a name or a number.
    pub user: Option<String>,
    /// A pattern over the executable's file name, or over its path if the pattern has a slash:
    /// `postgres`, `/opt/*/bin/java`. Of a script its own name or path fits as well as its interpreter's
    /// ([`Process::script`]).
    pub command: Option<String>,
    /// A pattern over the command line, arguments parted by spaces: `*--role worker*`. Of a longer one its
    /// first [`COMMAND_LINE_BYTES`](corun_linux::procfs::COMMAND_LINE_BYTES).
    pub arguments: Option<String>,
    /// A path below the root of cgroups, of version 1 or 2, or a pattern over it; the groups below
    /// it belong to it: `/system.slice/docker-*.scope`.
    pub cgroup: Option<String>,
    /// A systemd unit of the system: `nginx`, `system.slice`, `user@1000.service`. A unit of a user's own
    /// manager is named by `cgroup`.
    pub unit: Option<String>,
}

/// A thread of a target.
#[derive(Debug, Clone, PartialEq)]
pub struct ScannedThread {
    /// What the kernel says of it.
    pub facts: TaskFacts,
    /// What it does: a thread that wants a CPU runs if it had one since the last scan, or is new.
    pub state: ThreadState,
    /// Index in [`Processes::targets`].
    pub target: usize,
}

/// A process that belongs to nobody is looked at again after 1, 2, 4 .. rounds, at most so many: it
/// may have become another program, moved to another cgroup, or be another process by now.
const MOST_ROUNDS_UNSEEN: u64 = 16;
/// The same of processes that can come to belong to nobody: the kernel's own threads, and where targets are known by
/// their numbers or descent, of which the former do not change and the latter is settled when a process is new.
const MOST_ROUNDS_OF_STRANGERS: u64 = 256;

/// Follows the threads of the targets.
#[derive(Debug)]
pub struct Processes {
    roots: Roots,
    targets: Vec<Target>,
    /// One a target; none where it is no rule.
    matchers: Vec<Option<Matcher>>,
    lineage: Lineage,
    /// corun's own process: never a target's.
    own: Option<u32>,
    list: ProcessList,
    known: BTreeMap<u32, Known>,
    command_lines: CommandLines,
    round: u64,
    budget: DescriptorBudget,
    /// None where threads' files are read, always.
    at_once: Option<AtOnce>,
}

/// A process that was looked at.
#[derive(Debug)]
struct Known {
    start_ticks: u64,
    /// Looked at again in this round.
    again: u64,
    /// Rounds from that to the next.
    pause: u64,
    followed: Option<FollowedProcess>,
}

fn matcher(target: &Target) -> Result<Option<Matcher>, LiveError> {
    match &target.processes {
        ProcessSelector::Descendants(_) => Ok(None),
        ProcessSelector::Rule(rule) => Matcher::new(rule).map(Some),
    }
}

impl Processes {
    /// Makes ready to follow these targets. A process that several targets mean is the first's.
    ///
    /// # Errors
    ///
    /// A rule's pattern that cannot be read or user that is not known.
    pub fn new(roots: &Roots, targets: Vec<Target>) -> Result<Self, LiveError> {
        Ok(Self {
            own: own_pid(roots),
            roots: roots.clone(),
            matchers: targets.iter().map(matcher).collect::<Result<_, _>>()?,
            lineage: Lineage::new(&targets),
            targets,
            list: ProcessList::new(roots),
            known: BTreeMap::new(),
            command_lines: CommandLines::default(),
            round: 0,
            budget: DescriptorBudget::new(),
            at_once: None,
        })
    }

    /// From now on the threads of a process that has many are read at once, in place of their files. What is found is the
    /// same.
    pub fn read_at_once(&mut self, reader: ThreadReader) {
        self.at_once = Some(AtOnce::new(reader));
    }

    /// All processes, ascending, and some that ended; those of before while this process may open no more files.
    fn list(&mut self) -> Result<Vec<u32>, LiveError> {
        match self.list.read() {
            Ok(listed) => Ok(listed.to_vec()),
            Err(reason) if is_exhausted(&reason) => Ok(self.known.keys().copied().collect()),
            Err(reason) => Err(LiveError::Proc { path: self.roots.proc.clone(), reason }),
        }
    }

    fn forget_ended(&mut self, listed: &[u32]) {
        let budget = &mut self.budget;
        self.known.retain(|pid, known| {
            let there = listed.binary_search(pid).is_ok();
            if !there && let Some(followed) = &known.followed {
                followed.release(budget);
            }
            there
        });
        self.command_lines.forget_ended(listed);
        self.lineage.forget_before(self.round.saturating_sub(1));
    }

    /// Decides whose the new processes are, and looks again at those that are due.
    fn sort_out(&mut self, listed: &[u32]) {
        let mut orphans = Vec::new();
        let began: BTreeSet<u32> = self.list.began().iter().copied().collect();
        for &pid in listed {
            let due = self.known.get(&pid).is_none_or(|known| known.again <= self.round)
                || began.contains(&pid);
            if !due || Some(pid) == self.own {
                continue;
            }
            let stat = match Process::new(&self.roots, pid).stat() {
                Ok(Some(stat)) => stat,
                Err(error) if is_exhausted(&error) => continue,
                _ => {
                    self.drop_process(pid);
                    self.list.ended(pid);
                    continue;
                }
            };
            if self.known.get(&pid).is_some_and(|known| known.start_ticks != stat.start_ticks) {
                self.drop_process(pid);
            }
            let is_new = !self.known.contains_key(&pid);
            let target = self.target_of(&stat, is_new);
            if target.is_none() && is_new {
                orphans.push(stat.clone());
            }
            self.note(&stat, target);
        }
        self.find_children(orphans);
    }

    /// A child may have been looked at before its parent, where numbers started over.
    fn find_children(&mut self, mut orphans: Vec<Stat>) {
        loop {
            let before = orphans.len();
            let mut found = Vec::new();
            orphans.retain(|stat| {
                let target = self.target_of(stat, true);
                found.extend(target.map(|target| (stat.clone(), target)));
                target.is_none()
            });
            for (stat, target) in found {
                self.note(&stat, Some(target));
            }
            if orphans.len() == before {
                return;
            }
        }
    }

    /// Whose process it is. Descent is settled when a process is new; rules may come to mean it, or
    /// mean it no longer, at any time.
    fn target_of(&mut self, stat: &Stat, is_new: bool) -> Option<usize> {
        if stat.is_kernel_thread() {
            return None;
        }
        let now = self.known.get(&(stat.pid));
        let now = now.and_then(|known| known.followed.as_ref()).map(|followed| followed.target);
        let parent = self.known.get(&(stat.parent));
        let parent = parent.and_then(|known| known.followed.as_ref());
        let command_lines = &mut self.command_lines;
        (0..self.targets.len()).find(|&target| match &self.matchers[target] {
            Some(matcher) => matcher.matches(&self.roots, stat, |process, pattern| {
                command_lines.fits(process, stat, target, pattern)
            }),
            None if is_new => {
                let child = parent.is_some_and(|parent| parent.target == target);
                child || self.lineage.includes(target, stat)
            }
            None => now == Some(target),
        })
    }

    fn note(&mut self, stat: &Stat, target: Option<usize>) {
        let (round, most) = (self.round, self.most_rounds(stat, target));
        let known = self.known.entry(stat.pid).or_insert_with(|| Known {
            start_ticks: stat.start_ticks,
            again: round,
            pause: 1,
            followed: None,
        });
        if known.again <= round {
            known.again = round + known.pause;
            known.pause = (known.pause * 2).min(most);
        }
        let was = known.followed.as_ref().map(|followed| followed.target);
        if was != target {
            if let Some(followed) = &known.followed {
                followed.release(&mut self.budget);
            }
            known.followed = target.map(|target| FollowedProcess::new(target, stat.start_ticks));
            tracing::debug!(pid = stat.pid, name = stat.name, ?target, "belongs");
        }
        if let Some(target) = target {
            self.lineage.saw(target, Kin::of(stat), round);
        }
    }

    /// How many rounds may pass before a process is looked at again.
    fn most_rounds(&self, stat: &Stat, target: Option<usize>) -> u64 {
        let mut matchers = self.matchers.iter().flatten();
        let may_be_meant = !stat.is_kernel_thread() && matchers.any(|one| one.may_mean(stat.pid));
        if target.is_some() || may_be_meant { MOST_ROUNDS_UNSEEN } else { MOST_ROUNDS_OF_STRANGERS }
    }

    fn drop_process(&mut self, pid: u32) {
        if let Some(known) = self.known.remove(&pid)
            && let Some(followed) = &known.followed
        {
            followed.release(&mut self.budget);
        }
    }
}

impl Scanner for Processes {
    fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Kernel threads and corun's own are never among them. A thread that the kernel calls runnable is given
    /// as running if it had a CPU since the last scan, or is new. What ends meanwhile, or may not be read, is
    /// absent.
    fn scan(&mut self) -> Result<Vec<ScannedThread>, LiveError> {
        let mut found = Vec::new();
        self.scan_again(&mut found)?;
        Ok(found)
    }

    fn scan_again(&mut self, found: &mut Vec<ScannedThread>) -> Result<(), LiveError> {
        self.round += 1;
        let listed = self.list()?;
        self.forget_ended(&listed);
        self.sort_out(&listed);
        if let Some(at_once) = &mut self.at_once {
            at_once.begin(&self.roots);
        }
        let mut found = FoundAgain::new(found);
        for (&pid, known) in &mut self.known {
            let Some(followed) = &mut known.followed else { continue };
            let at_once = self.at_once.as_mut();
            let kin = followed.read(&self.roots, pid, &mut self.budget, at_once, &mut found);
            if let Some(kin) = kin {
                self.lineage.saw(followed.target, kin, self.round);
            }
        }
        found.finish();
        Ok(())
    }

    fn online(&self) -> Option<CpuSet> {
        // Those that the affinities were told with.
        self.at_once.as_ref().and_then(AtOnce::online).cloned()
    }

    /// Of processes that were scanned before, only a rule's become the new target's.
    fn add(&mut self, target: Target) -> Result<(), LiveError> {
        self.matchers.push(matcher(&target)?);
        self.lineage.add(&target);
        self.targets.push(target);
        // Who was nobody's may be the new target's.
        for known in self.known.values_mut().filter(|known| known.followed.is_none()) {
            (known.again, known.pause) = (self.round, 1);
        }
        Ok(())
    }
}
