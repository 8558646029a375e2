//! Threads of a process that has many, read at once by a program in the kernel.

use corun_linux::Roots;
use corun_linux::sysfs::online_cpus;
use corun_machine::CpuSet;
use corun_scx::{FollowedThreads, ThreadReader};

use super::found_again::FoundAgain;
use super::lineage::Kin;

/// A process of so many threads is read at once. To begin and end a read costs what the files of some forty threads do
/// (docs/benchmarks.md).
const MANY: usize = 64;

/// Reads all threads of a process at once.
#[derive(Debug)]
pub(super) struct AtOnce {
    reader: ThreadReader,
    /// The CPUs that were on line when the scan began, where that is known: the kernel tells an affinity with those that
    /// are not.
    online: Option<CpuSet>,
    many: usize,
}

/// A process that is read so.
#[derive(Debug)]
pub(super) struct ReadAtOnce {
    pid: u32,
    /// Tells it from a later process of its number.
    start_ticks: u64,
    followed: FollowedThreads,
}

impl AtOnce {
    pub(super) fn new(reader: ThreadReader) -> Self {
        Self { reader, online: None, many: MANY }
    }

    #[cfg(test)]
    pub(super) fn with_many(mut self, many: usize) -> Self {
        self.many = many;
        self
    }

    /// A scan begins.
    pub(super) fn begin(&mut self, roots: &Roots) {
        self.online = online_cpus(roots).ok();
    }

    pub(super) fn online(&self) -> Option<&CpuSet> {
        self.online.as_ref()
    }

    /// A process of so many threads, where it is worth while.
    pub(super) fn follow(&self, pid: u32, start_ticks: u64, threads: usize) -> Option<ReadAtOnce> {
        if threads < self.many {
            return None;
        }
        let followed = self.reader.follow(pid);
        let followed = followed.inspect_err(|error| tracing::debug!(pid, %error, "not at once"));
        Some(ReadAtOnce { pid, start_ticks, followed: followed.ok()? })
    }

    /// Is it no longer worth while for so many threads?
    pub(super) fn are_few(&self, threads: usize) -> bool {
        threads < self.many / 2
    }

    /// Reads all threads of a process and appends what they do; those that ended are absent. Gives how many there are, and
    /// what the first thread says of the process unless that thread ended; none where the kernel does not answer.
    pub(super) fn read(
        &mut self,
        process: &ReadAtOnce,
        target: usize,
        found: &mut FoundAgain<'_>,
    ) -> Option<(usize, Option<Kin>)> {
        let ReadAtOnce { pid, start_ticks, followed } = process;
        let online = self.online.as_ref()?;
        if let Err(error) = self.reader.read(followed) {
            tracing::debug!(pid, %error, "not at once");
            return None;
        }
        // A first thread that ended stays until the others have.
        let mut first = self.reader.records().filter(|one| one.task.tid == *pid);
        let Some(first) = first.next().filter(|one| one.task.start_ticks == *start_ticks) else {
            return Some((0, None));
        };
        let kin = Kin { pid: *pid, group: first.group, session: first.session };
        let kin = (!first.is_over).then_some(kin);
        let mut threads = 0;
        // Most threads of a process may run on the same CPUs.
        let (mut allowed, mut affinity): (&[u8], CpuSet) = (&[], CpuSet::new());
        for one in self.reader.records().filter(|one| !one.is_over) {
            if one.allowed != allowed {
                (allowed, affinity) = (one.allowed, one.affinity(online));
            }
            found.add_record(&one, &affinity, target);
            threads += 1;
        }
        Some((threads, kin))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::{PoisonError, mpsc};
    use std::thread::JoinHandle;

    use corun_linux::procfs::Process;
    use corun_policy::ThreadState;
    use corun_scx::may_read;
    use rustix::process::{Pid, Signal, kill_process};

    use super::super::followed::{DescriptorBudget, FollowedProcess};
    use super::super::tests::OWN_THREAD_FILES;
    use super::*;
    use crate::{ProcessSelector, Processes, Rule, ScannedThread, Scanner as _, Target};

    /// None where this process may load no programs.
    fn at_once() -> Option<AtOnce> {
        match may_read(&Roots::default()) {
            Ok(()) => {
                let reader = ThreadReader::open(&Roots::default()).unwrap();
                Some(AtOnce::new(reader).with_many(1))
            }
            Err(why) => {
                eprintln!("skipped: {why}");
                None
            }
        }
    }

    /// A thread that sleeps until it is let go.
    struct Sleeper {
        tid: u32,
        end: mpsc::Sender<()>,
        thread: JoinHandle<()>,
    }

    impl Sleeper {
        fn new() -> Self {
            let (tell, told) = mpsc::channel();
            let (end, ended) = mpsc::channel::<()>();
            let thread = std::thread::spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
                let _ = ended.recv();
            });
            let tid = told.recv().unwrap();
            let wants_cpu = || corun_linux::facts(&Roots::default(), std::process::id(), tid);
            while wants_cpu().unwrap().wants_cpu {
                std::thread::yield_now();
            }
            Self { tid, end, thread }
        }

        fn end(self) {
            drop(self.end);
            self.thread.join().unwrap();
            // The kernel may still know a thread that was joined.
            let own = format!("/proc/self/task/{}", self.tid);
            while std::path::Path::new(&own).exists() {
                std::thread::yield_now();
            }
        }
    }

    /// This process, looked at with and without its files.
    struct Own {
        process: FollowedProcess,
        budget: DescriptorBudget,
        found: Vec<ScannedThread>,
    }

    impl Own {
        fn new() -> Self {
            let own = Process::new(&Roots::default(), std::process::id()).stat().unwrap().unwrap();
            let process = FollowedProcess::new(3, own.start_ticks);
            Self { process, budget: DescriptorBudget::new(), found: Vec::new() }
        }

        /// What is found of these threads.
        fn look(&mut self, mut at_once: Option<&mut AtOnce>, of: &[u32]) -> Vec<ScannedThread> {
            if let Some(at_once) = &mut at_once {
                at_once.begin(&Roots::default());
            }
            let mut found = FoundAgain::new(&mut self.found);
            let pid = std::process::id();
            self.process.read(&Roots::default(), pid, &mut self.budget, at_once, &mut found);
            found.finish();
            assert!(self.found.is_sorted_by_key(|one| one.facts.task));
            self.found.iter().filter(|one| of.contains(&one.facts.task.tid)).cloned().collect()
        }
    }

    #[test]
    fn threads_are_found_at_once_as_their_files_show_them() {
        let _alone = OWN_THREAD_FILES.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut at_once) = at_once() else { return };
        let mut sleepers: Vec<Sleeper> = (0..12).map(|_| Sleeper::new()).collect();
        let mut own = Own::new();
        for round in 0..6 {
            let tids: Vec<u32> = sleepers.iter().map(|one| one.tid).collect();
            let by_files = Own::new().look(None, &tids);
            assert_eq!(own.look(Some(&mut at_once), &tids), by_files, "round {round}");
            assert_eq!(by_files.len(), sleepers.len());
            assert_eq!(own.budget.used() > 0, round == 0, "its files are closed");
            // Who ended is gone, and who came is there.
            sleepers.remove(round).end();
            sleepers.push(Sleeper::new());
        }
        let tids: Vec<u32> = sleepers.iter().map(|one| one.tid).collect();
        let again = own.look(None, &tids);
        assert_eq!(again, Own::new().look(None, &tids), "its files again");
        sleepers.into_iter().for_each(Sleeper::end);
    }

    #[test]
    fn a_process_of_another_start_has_no_threads() {
        let _alone = OWN_THREAD_FILES.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut at_once) = at_once() else { return };
        at_once.begin(&Roots::default());
        let pid = std::process::id();
        let process = at_once.follow(pid, 7, 1).unwrap();
        let mut found = Vec::new();
        let mut again = FoundAgain::new(&mut found);
        assert_eq!(at_once.read(&process, 0, &mut again), Some((0, None)));
        again.finish();
        assert_eq!(found, []);
    }

    #[test]
    fn a_stopped_process_is_scanned_the_same_either_way() {
        let Some(at_once) = at_once() else { return };
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id();
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::STOP).unwrap();
        let stat = || Process::new(&Roots::default(), pid).stat().unwrap().unwrap();
        while stat().state != 'T' {
            std::thread::yield_now();
        }
        let rule = Rule { pid: Some(pid), ..Rule::default() };
        let target = Target::new("one", ProcessSelector::Rule(rule));
        let processes = || Processes::new(&Roots::default(), vec![target.clone()]).unwrap();
        let (mut by_files, mut both) = (processes(), processes());
        both.at_once = Some(at_once);
        let mut found = Vec::new();
        for _ in 0..3 {
            both.scan_again(&mut found).unwrap();
            assert_eq!(found, by_files.scan().unwrap());
            assert_eq!((found.len(), found[0].state), (1, ThreadState::Sleeping));
        }
        assert_eq!(both.online(), online_cpus(&Roots::default()).ok());
        child.kill().unwrap();
        child.wait().unwrap();
        both.scan_again(&mut found).unwrap();
        assert_eq!(found, []);
    }
}
