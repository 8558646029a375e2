//! The threads of one process, round after round.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Instant;

use corun_linux::procfs::{LookDepth, Stat, ThreadFiles, ThreadLook, ThreadSample, brief_ns, tids};
use corun_linux::{Roots, TaskFacts, is_gone, process_cpu_ns};
use corun_policy::ThreadState;

use super::found_again::FoundAgain;

/// Open files a thread.
const DESCRIPTORS: u64 = 2;

/// How many of the descriptors that a process may have are used to keep threads' files open;
/// counters need some, too. Threads beyond that are read by opening their files each time.
#[derive(Debug)]
pub(super) struct DescriptorBudget {
    used: u64,
    most: u64,
    told: bool,
}

impl DescriptorBudget {
    pub(super) fn new() -> Self {
        Self { used: 0, most: 0, told: false }
    }

    fn take(&mut self) -> bool {
        if self.used + DESCRIPTORS > self.most {
            // The limit may have been raised since.
            let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
            self.most = limit.current.unwrap_or(u64::MAX) / 4;
        }
        let fits = self.used + DESCRIPTORS <= self.most;
        if fits {
            self.used += DESCRIPTORS;
        } else if !std::mem::replace(&mut self.told, true) {
            tracing::warn!(
                "more threads than {} descriptors keep open: watching the others costs more; \
                 raise the limit of open files",
                self.most
            );
        }
        fits
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    fn give_back(&mut self) {
        self.used -= DESCRIPTORS;
    }
}

/// A process of a target.
#[derive(Debug)]
pub(super) struct FollowedProcess {
    pub(super) target: usize,
    threads: BTreeMap<u32, Thread>,
    /// Its CPU time at the last look; none where that is not known.
    cpu_ns: Option<u64>,
    looked: Instant,
}

#[derive(Debug)]
struct Thread {
    /// None beyond the budget.
    files: Option<ThreadFiles>,
    facts: TaskFacts,
    state: ThreadState,
    /// Counts looks, from any number.
    looks: u32,
}

/// A thread that is on no CPU, or briefly, is read whole at each so manieth look: what others changed of it is seen then.
const WHOLE_EVERY: u32 = 8;

/// What a round learns of a process's threads.
#[derive(Default)]
struct Seen {
    /// The first thread's.
    main: Option<Stat>,
    /// How many threads the process has, as the thread that was read last says.
    threads: Option<usize>,
}

impl Seen {
    fn note(&mut self, sample: ThreadSample, is_main: bool) {
        self.threads = Some(sample.stat.threads as usize);
        if is_main {
            self.main = Some(sample.stat);
        }
    }
}

impl FollowedProcess {
    pub(super) fn new(target: usize) -> Self {
        Self { target, threads: BTreeMap::new(), cpu_ns: None, looked: Instant::now() }
    }

    pub(super) fn release(&self, budget: &mut DescriptorBudget) {
        let open = self.threads.values().filter(|thread| thread.files.is_some());
        open.for_each(|_| budget.give_back());
    }

    /// Reads all threads and appends what they do. Gives what its first thread says of the
    /// process, where that was read.
    pub(super) fn read(
        &mut self,
        roots: &Roots,
        pid: u32,
        budget: &mut DescriptorBudget,
        found: &mut FoundAgain<'_>,
    ) -> Option<Stat> {
        let mut seen = Seen::default();
        let is_new = self.threads.is_empty();
        // Read before the threads: what runs meanwhile shows at the next look.
        let own = roots.proc == Path::new("/proc");
        let cpu_ns = if own { process_cpu_ns(pid).ok() } else { None };
        let has_rested = cpu_ns.is_some() && cpu_ns == self.cpu_ns;
        self.cpu_ns = cpu_ns;
        let before = std::mem::replace(&mut self.looked, Instant::now());
        let running = LookDepth::Changed { brief_ns: brief_ns(self.looked - before) };
        let depth = if has_rested { LookDepth::Rested } else { running };
        self.threads.retain(|&tid, thread| {
            let there = thread.refresh(roots, pid, tid, depth, &mut seen).is_ok();
            if !there && thread.files.is_some() {
                budget.give_back();
            }
            there
        });
        // A first thread that ended while others run leaves a shadow in the kernel's count.
        let known = self.threads.len() + usize::from(!self.threads.contains_key(&pid));
        if is_new || self.threads.is_empty() || seen.threads.is_some_and(|count| count != known) {
            self.list(roots, pid, budget, &mut seen);
        }
        for thread in self.threads.values() {
            found.add(&thread.facts, thread.state, self.target);
        }
        seen.main
    }

    fn list(&mut self, roots: &Roots, pid: u32, budget: &mut DescriptorBudget, seen: &mut Seen) {
        for tid in tids(roots, pid).unwrap_or_default() {
            if self.threads.contains_key(&tid) {
                continue;
            }
            match Thread::open(roots, pid, tid, budget, seen) {
                Ok(thread) => {
                    self.threads.insert(tid, thread);
                }
                Err(error) if is_gone(&error) => {}
                Err(error) => tracing::debug!(pid, tid, %error, "thread cannot be read"),
            }
        }
    }
}

impl Thread {
    fn open(
        roots: &Roots,
        pid: u32,
        tid: u32,
        budget: &mut DescriptorBudget,
        seen: &mut Seen,
    ) -> io::Result<Self> {
        let files = ThreadFiles::open(&roots.proc, pid, tid)?;
        let sample = files.sample(&roots.proc, pid, tid)?;
        let facts = sample.facts(pid, tid);
        seen.note(sample, tid == pid);
        let state = if facts.wants_cpu { ThreadState::Running } else { ThreadState::Sleeping };
        // Threads of one process are read whole by turns.
        Ok(Self { files: budget.take().then_some(files), facts, state, looks: tid })
    }

    /// `depth`: that of most looks; [`LookDepth::Rested`] where no thread of its process was on a CPU since the last.
    fn refresh(
        &mut self,
        roots: &Roots,
        pid: u32,
        tid: u32,
        depth: LookDepth,
        seen: &mut Seen,
    ) -> io::Result<()> {
        self.looks = self.looks.wrapping_add(1);
        // A process's first thread tells how many there are.
        let depth = if tid == pid || self.looks.is_multiple_of(WHOLE_EVERY) {
            LookDepth::Whole
        } else {
            depth
        };
        let looked = match &mut self.files {
            Some(files) => files.look(&roots.proc, pid, tid, depth)?,
            None => {
                let files = ThreadFiles::open(&roots.proc, pid, tid)?;
                ThreadLook::Whole(files.sample(&roots.proc, pid, tid)?)
            }
        };
        let sample = match looked {
            ThreadLook::Whole(sample) => sample,
            ThreadLook::Brief(cpu_ns, moved) => {
                if let Some(affinity) = moved {
                    self.facts.affinity = affinity;
                }
                (self.facts.cpu_ns, self.facts.wants_cpu) = (cpu_ns, false);
                self.state = ThreadState::Sleeping;
                return Ok(());
            }
            ThreadLook::Idle(moved) => {
                if let Some(affinity) = moved {
                    self.facts.affinity = affinity;
                }
                let waits = self.facts.wants_cpu;
                self.state = if waits { ThreadState::Runnable } else { ThreadState::Sleeping };
                return Ok(());
            }
        };
        let facts = sample.facts(pid, tid);
        if facts.task != self.facts.task {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.state = match (facts.wants_cpu, facts.cpu_ns == self.facts.cpu_ns) {
            (true, true) => ThreadState::Runnable,
            (true, false) => ThreadState::Running,
            (false, _) => ThreadState::Sleeping,
        };
        self.facts = facts;
        seen.note(sample, tid == pid);
        Ok(())
    }
}
