//! The threads of one process, round after round.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Instant;

use corun_linux::procfs::{LookDepth, Stat, ThreadFiles, ThreadLook, ThreadSample, brief_ns, tids};
use corun_linux::{Roots, TaskFacts, is_gone, process_cpu_ns};
use corun_policy::ThreadState;

use super::at_once::{AtOnce, ReadAtOnce};
use super::found_again::{FoundAgain, state};
use super::lineage::Kin;

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
    /// Tells it from a later process of its number.
    start_ticks: u64,
    /// None where its threads' files are read.
    at_once: Option<ReadAtOnce>,
    /// Those whose files are read.
    threads: BTreeMap<u32, Thread>,
    /// Its CPU time at the last look; none where that is not known.
    cpu_ns: Option<u64>,
    /// Its CPU time less that of its threads when all of them were read last: that of threads that ended, and what its
    /// threads ran while they were read.
    beside_ns: Option<i64>,
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
    /// What it did up to the look at which its counts were read last, where it ran briefly then.
    brief: Option<BriefRun>,
}

/// A thread that ran briefly up to the look at which its counts were read last.
#[derive(Debug, Clone, Copy)]
struct BriefRun {
    /// For how long it ran between two looks, in nanoseconds.
    each_look_ns: u64,
    /// Looks since its counts were read, those left out at which its process had rested.
    unread: u32,
}

/// What is known of a process before its threads are looked at.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// No thread was on a CPU since the last look.
    rests: bool,
    /// Threads that ran briefly are read too.
    reads_all: bool,
    /// As [`brief_ns`] says of the time since the last look.
    brief_ns: u64,
}

/// The scheduler's counts of a thread that ran briefly are read at each so manieth look, as long as the CPU time of its
/// process shows that such threads went on as before.
const BRIEF_EVERY: u32 = 4;

/// A thread that is on no CPU, or briefly, is read whole at each so manieth look: what others changed of it is seen then.
const WHOLE_EVERY: u32 = 8;

/// What a round learns of a process's threads.
#[derive(Default)]
struct Seen {
    /// For how long a thread may run between two looks, and run briefly.
    brief_ns: u64,
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
    pub(super) fn new(target: usize, start_ticks: u64) -> Self {
        Self {
            target,
            start_ticks,
            at_once: None,
            threads: BTreeMap::new(),
            cpu_ns: None,
            beside_ns: None,
            looked: Instant::now(),
        }
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
        at_once: Option<&mut AtOnce>,
        found: &mut FoundAgain<'_>,
    ) -> Option<Kin> {
        if let Some(at_once) = at_once {
            if self.at_once.is_none() {
                self.at_once = at_once.follow(pid, self.start_ticks, self.threads.len());
            }
            if let Some(process) = &self.at_once
                && let Some((threads, kin)) = at_once.read(process, self.target, found)
            {
                self.close_files(budget);
                if at_once.are_few(threads) {
                    self.at_once = None;
                }
                return kin;
            }
        }
        self.at_once = None;
        self.read_files(roots, pid, budget, found)
    }

    fn close_files(&mut self, budget: &mut DescriptorBudget) {
        if !self.threads.is_empty() {
            self.release(budget);
            self.threads.clear();
            (self.cpu_ns, self.beside_ns) = (None, None);
        }
    }

    fn read_files(
        &mut self,
        roots: &Roots,
        pid: u32,
        budget: &mut DescriptorBudget,
        found: &mut FoundAgain<'_>,
    ) -> Option<Kin> {
        let is_new = self.threads.is_empty();
        // Read before the threads: what runs meanwhile shows at the next look.
        let own = roots.proc == Path::new("/proc");
        let cpu_ns = if own { process_cpu_ns(pid).ok() } else { None };
        let has_rested = cpu_ns.is_some() && cpu_ns == self.cpu_ns;
        self.cpu_ns = cpu_ns;
        let before = std::mem::replace(&mut self.looked, Instant::now());
        let round = Round {
            rests: has_rested,
            // Without its process's time nobody tells that a thread that is not read goes on as before.
            reads_all: self.beside_ns.is_none(),
            brief_ns: brief_ns(self.looked - before),
        };
        let mut seen = Seen { brief_ns: round.brief_ns, ..Seen::default() };
        self.refresh(roots, pid, budget, &mut seen, |thread| Some(thread.depth(pid, round)));
        if !has_rested && self.is_unread_more_than(round.brief_ns) {
            self.refresh(roots, pid, budget, &mut seen, |thread| thread.depth_if_unread(round));
        }
        // A first thread that ended while others run leaves a shadow in the kernel's count.
        let known = self.threads.len() + usize::from(!self.threads.contains_key(&pid));
        if is_new || self.threads.is_empty() || seen.threads.is_some_and(|count| count != known) {
            self.list(roots, pid, budget, &mut seen);
        }
        self.note_beside();
        for thread in self.threads.values() {
            found.add(&thread.facts, thread.state, self.target);
        }
        seen.main.as_ref().map(Kin::of)
    }

    /// Reads the threads for which there is a depth. One that ended is dropped.
    fn refresh(
        &mut self,
        roots: &Roots,
        pid: u32,
        budget: &mut DescriptorBudget,
        seen: &mut Seen,
        depth: impl Fn(&mut Thread) -> Option<LookDepth>,
    ) {
        let mut ended_ns = 0;
        self.threads.retain(|&tid, thread| {
            let Some(depth) = depth(thread) else { return true };
            let there = thread.refresh(roots, pid, tid, depth, seen).is_ok();
            if !there {
                ended_ns += thread.facts.cpu_ns.cast_signed();
                if thread.files.is_some() {
                    budget.give_back();
                }
            }
            there
        });
        self.beside_ns = self.beside_ns.map(|beside| beside + ended_ns);
    }

    /// Its CPU time that is none of its threads' as they were read last.
    fn not_of_threads_ns(&self) -> Option<i64> {
        let threads = self.threads.values().map(|thread| thread.facts.cpu_ns.cast_signed());
        Some(self.cpu_ns?.cast_signed() - threads.sum::<i64>())
    }

    /// Did threads whose counts were not read at this look run for longer than twice what they did before, by so much?
    fn is_unread_more_than(&self, by_ns: u64) -> bool {
        let Some((now, beside)) = self.not_of_threads_ns().zip(self.beside_ns) else {
            return false;
        };
        let brief = self.threads.values().filter_map(|thread| thread.brief);
        let expected: u64 = brief.map(|one| one.each_look_ns * u64::from(one.unread)).sum();
        now - beside > (2 * expected + by_ns).cast_signed()
    }

    /// Once all threads are read it is known anew what is beside them.
    fn note_beside(&mut self) {
        let is_unread = |thread: &Thread| thread.brief.is_some_and(|one| one.unread > 0);
        if !self.threads.values().any(is_unread) {
            self.beside_ns = self.not_of_threads_ns();
        }
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
        let state = state(facts.wants_cpu, true);
        // Threads of one process are read whole by turns.
        let files = budget.take().then_some(files);
        Ok(Self { files, facts, state, looks: tid, brief: None })
    }

    /// How much of it is read at the next look.
    fn depth(&mut self, pid: u32, round: Round) -> LookDepth {
        self.looks = self.looks.wrapping_add(1);
        let is_turn = |every| self.looks.is_multiple_of(every);
        if round.rests {
            return if is_turn(WHOLE_EVERY) { LookDepth::WholeRested } else { LookDepth::Rested };
        }
        if let Some(brief) = &mut self.brief {
            brief.unread += 1;
        }
        // A process's first thread tells how many there are.
        if self.facts.task.tid == pid || is_turn(WHOLE_EVERY) {
            LookDepth::Whole
        } else if self.brief.is_some() && !round.reads_all && !is_turn(BRIEF_EVERY) {
            LookDepth::Rested
        } else {
            self.changed(round)
        }
    }

    /// How much is read of one whose counts were not read at this look.
    fn depth_if_unread(&self, round: Round) -> Option<LookDepth> {
        self.brief.filter(|one| one.unread > 0).map(|_| self.changed(round))
    }

    fn changed(&self, round: Round) -> LookDepth {
        LookDepth::Changed { brief_ns: round.brief_ns.saturating_mul(self.unread()) }
    }

    /// Looks since its counts were read, with this one.
    fn unread(&self) -> u64 {
        self.brief.map_or(1, |one| one.unread.max(1).into())
    }

    fn refresh(
        &mut self,
        roots: &Roots,
        pid: u32,
        tid: u32,
        depth: LookDepth,
        seen: &mut Seen,
    ) -> io::Result<()> {
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
                self.brief = Some(self.brief_run(cpu_ns));
                (self.facts.cpu_ns, self.facts.wants_cpu) = (cpu_ns, false);
                self.state = ThreadState::Sleeping;
                return Ok(());
            }
            ThreadLook::Idle(moved) => {
                if let Some(affinity) = moved {
                    self.facts.affinity = affinity;
                }
                let waits = self.facts.wants_cpu;
                if matches!(depth, LookDepth::Changed { .. }) {
                    let brief = self.brief_run(self.facts.cpu_ns);
                    self.brief = (!waits).then_some(brief);
                }
                self.state = if waits { ThreadState::Runnable } else { ThreadState::Sleeping };
                return Ok(());
            }
        };
        let facts = sample.facts(pid, tid);
        if facts.task != self.facts.task {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.state = state(facts.wants_cpu, facts.cpu_ns != self.facts.cpu_ns);
        if depth != LookDepth::WholeRested {
            let brief = self.brief.map(|_| self.brief_run(facts.cpu_ns));
            let goes_on = |one: &BriefRun| one.each_look_ns < seen.brief_ns && !facts.wants_cpu;
            self.brief = brief.filter(goes_on).filter(|_| depth == LookDepth::Whole);
        }
        self.facts = facts;
        seen.note(sample, tid == pid);
        Ok(())
    }

    /// What it did since its counts were read last, where that was briefly.
    fn brief_run(&self, cpu_ns: u64) -> BriefRun {
        let ran_ns = cpu_ns.saturating_sub(self.facts.cpu_ns);
        BriefRun { each_look_ns: ran_ns / self.unread(), unread: 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{PoisonError, mpsc};
    use std::time::Duration;

    use super::super::tests::OWN_THREAD_FILES;
    use super::*;
    use crate::ScannedThread;

    /// This process, looked at again and again.
    struct Own {
        process: FollowedProcess,
        budget: DescriptorBudget,
        found: Vec<ScannedThread>,
    }

    impl Own {
        /// What is known of a thread now, and whether its counts were left unread.
        fn look(&mut self, tid: u32) -> (u64, bool) {
            let mut found = FoundAgain::new(&mut self.found);
            let pid = std::process::id();
            self.process.read(&Roots::default(), pid, &mut self.budget, None, &mut found);
            found.finish();
            let is_unread = |thread: &Thread| thread.brief.is_some_and(|one| one.unread > 0);
            let one = self.found.iter().find(|one| one.facts.task.tid == tid).unwrap();
            (one.facts.cpu_ns, is_unread(&self.process.threads[&tid]))
        }
    }

    /// A thread that runs a moment for each message, or a while.
    #[test]
    fn a_thread_that_ran_briefly_is_read_by_turns_until_it_runs_for_longer() {
        let _alone = OWN_THREAD_FILES.lock().unwrap_or_else(PoisonError::into_inner);
        let (ask, asked) = mpsc::channel::<Duration>();
        let (tell, told) = mpsc::channel::<u32>();
        let thread = std::thread::spawn(move || {
            let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            tell.send(own).unwrap();
            for long in asked {
                let clock = || {
                    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
                    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
                };
                let since = clock();
                while clock() - since < long {}
                tell.send(own).unwrap();
            }
        });
        let tid = told.recv().unwrap();
        let mut own = Own {
            process: FollowedProcess::new(0, 0),
            budget: DescriptorBudget::new(),
            found: Vec::new(),
        };
        let run = |long: Duration| {
            ask.send(long).unwrap();
            told.recv().unwrap();
            // The kernel counts it when it is off its CPU.
            std::thread::sleep(Duration::from_millis(5));
        };
        // Beside other tests, whose threads are this process's, it may take some looks.
        let mut unread = (0..2000).map(|_| {
            run(Duration::ZERO);
            own.look(tid)
        });
        let Some((before_ns, _)) = unread.find(|(_, is_unread)| *is_unread) else {
            return eprintln!("skipped: this kernel counts no time that threads ran");
        };
        let long = Duration::from_millis(300);
        run(long);
        let (after_ns, is_unread) = own.look(tid);
        assert!(after_ns >= before_ns + long.as_nanos() as u64, "{before_ns} {after_ns}");
        assert!(!is_unread);
        drop(ask);
        thread.join().unwrap();
    }
}
