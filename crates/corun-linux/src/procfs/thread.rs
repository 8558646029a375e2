//! What the kernel says of one thread, and the files that say it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use corun_machine::{CpuId, CpuSet};
use rustix::fs::{Mode, OFlags};

use super::process::status_field;
use super::stat::{Stat, cpu_ns, switches, wait_ns};
use crate::syscalls::{FIRST_WORDS, affinity_words, cpus_of};
use crate::{Roots, Task};

/// Longer than any `stat` or `schedstat`: a name of 15 bytes and some 50 numbers.
pub(super) const LINE_BYTES: usize = 2048;

/// Longer than any `schedstat`: three numbers.
const COUNTS_BYTES: usize = 128;

/// What the kernel says of a thread at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskFacts {
    /// The thread.
    pub task: Task,
    /// The process that made its process; 1 or a reaper once that ended.
    pub parent: u32,
    /// Its name, as the kernel cuts it (15 bytes).
    pub name: String,
    /// Does it run or want to? `/proc` does not tell whether it has a CPU.
    pub wants_cpu: bool,
    /// Where it runs, or ran last.
    pub cpu: CpuId,
    /// Time on CPUs since it started, in nanoseconds.
    pub cpu_ns: u64,
    /// Its nice value, -20 to 19.
    pub nice: i32,
    /// Is it scheduled by priority or deadline? Such threads are never touched.
    pub is_real_time: bool,
    /// Where it may run now.
    pub affinity: CpuSet,
}

impl TaskFacts {
    /// Becomes a copy of what the kernel says now. Name and affinity, which have memory of their own, are copied where
    /// they differ.
    pub fn update(&mut self, now: &Self) {
        let Self { task, parent, name, wants_cpu, cpu, cpu_ns, nice, is_real_time, affinity } = now;
        (self.task, self.parent, self.wants_cpu) = (*task, *parent, *wants_cpu);
        (self.cpu, self.cpu_ns, self.nice) = (*cpu, *cpu_ns, *nice);
        self.is_real_time = *is_real_time;
        if self.name != *name {
            self.name.clone_from(name);
        }
        if self.affinity != *affinity {
            self.affinity.clone_from(affinity);
        }
    }
}

/// What the kernel says of a thread now.
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`] when the thread is no more; else what the kernel answered.
pub fn facts(roots: &Roots, pid: u32, tid: u32) -> io::Result<TaskFacts> {
    let sample = ThreadFiles::open(&roots.proc, pid, tid)?.sample(&roots.proc, pid, tid)?;
    Ok(sample.facts(pid, tid))
}

/// How long a thread waited for a CPU since it started, as the kernel's scheduler counts it when a wait is over;
/// none where the thread ended or the kernel does not count.
pub fn waited_for_cpu(roots: &Roots, pid: u32, tid: u32) -> Option<Duration> {
    CpuWait::of(roots, pid, tid)?.so_far()
}

/// Tells again and again how long a thread waited for a CPU.
#[derive(Debug)]
pub struct CpuWait(File);

impl CpuWait {
    /// None where there is no such thread or the kernel does not count.
    pub fn of(roots: &Roots, pid: u32, tid: u32) -> Option<Self> {
        File::open(schedstat_file(roots, pid, tid)).ok().map(Self)
    }

    /// As [`waited_for_cpu`].
    pub fn so_far(&self) -> Option<Duration> {
        let mut line = [0; LINE_BYTES];
        wait_ns(read_whole(&self.0, &mut line).ok()?).map(Duration::from_nanos)
    }
}

fn schedstat_file(roots: &Roots, pid: u32, tid: u32) -> PathBuf {
    roots.proc.join(format!("{pid}/task/{tid}/schedstat"))
}

/// What the kernel's scheduler counted of a thread since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchedulerCounts {
    /// How often a CPU was switched to it.
    pub switches: u64,
    /// How often it went to sleep by itself: one more than it was woken while it sleeps, else as often.
    pub wakeups: u64,
    /// Nanoseconds in which it could run and waited for a CPU, up to the end of its last wait.
    pub wait_ns: u64,
}

/// What the scheduler counted of a thread up to now; none where the thread ended or the kernel does not count.
pub fn scheduler_counts(roots: &Roots, pid: u32, tid: u32) -> Option<SchedulerCounts> {
    let folder = roots.proc.join(format!("{pid}/task/{tid}"));
    let mut line = [0; LINE_BYTES];
    let line = line_of(&schedstat_file(roots, pid, tid), &mut line).ok()?;
    let status = std::fs::read_to_string(folder.join("status")).ok()?;
    Some(SchedulerCounts {
        switches: switches(line)?,
        wakeups: status_field(&status, "voluntary_ctxt_switches:")?.parse().ok()?,
        wait_ns: wait_ns(line)?,
    })
}

/// What was read of a thread at one moment.
#[derive(Debug)]
pub struct ThreadSample {
    /// The line `stat`.
    pub stat: Stat,
    cpu_ns: u64,
    affinity: CpuSet,
}

impl ThreadSample {
    /// What it says of the thread of these numbers.
    pub fn facts(&self, pid: u32, tid: u32) -> TaskFacts {
        let stat = &self.stat;
        TaskFacts {
            task: Task { pid, tid, start_ticks: stat.start_ticks },
            parent: stat.parent,
            name: stat.name.clone(),
            wants_cpu: stat.state == 'R',
            cpu: CpuId(stat.cpu),
            cpu_ns: self.cpu_ns,
            nice: stat.nice,
            is_real_time: stat.is_real_time(),
            affinity: self.affinity.clone(),
        }
    }
}

/// The open files of a thread. They stay that thread's: once it ended, reading them fails, also
/// when the kernel has given its number to another.
#[derive(Debug)]
pub struct ThreadFiles {
    stat: File,
    /// Absent where the kernel was built without it.
    schedstat: Option<File>,
    last: LastRead,
}

/// What the files said when they were read last.
#[derive(Debug, Default)]
struct LastRead {
    schedstat: Vec<u8>,
    /// The kernel's words of the affinity.
    affinity: Vec<usize>,
}

/// How much of a thread is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookDepth {
    /// Its affinity: it is known to have been on no CPU ([`crate::process_cpu_ns`] of its process has not grown).
    Rested,
    /// All of it but the scheduler's counts: it is known to have been on no CPU.
    WholeRested,
    /// All of it where the scheduler's counts say that it was on a CPU, else its affinity. One that ran and waited for
    /// less than `brief_ns` in all is looked at in part ([`brief_ns`]).
    Changed {
        /// In nanoseconds.
        brief_ns: u64,
    },
    /// All of it.
    Whole,
}

/// How long a thread may run and wait between two looks, so much time apart, and be looked at in part: 0.5 ms, or
/// 0.5 % of the time where that is more. Where it ran for so short moves nobody. In nanoseconds.
pub fn brief_ns(elapsed: Duration) -> u64 {
    const LEAST_NS: u64 = 500_000;
    const SHARE: u32 = 200;
    u64::try_from((elapsed / SHARE).as_nanos()).unwrap_or(u64::MAX).max(LEAST_NS)
}

/// What became of a thread since its files were read last.
#[derive(Debug)]
pub enum ThreadLook {
    /// It was on no CPU since. Its affinity where that is another now; nothing else was read.
    Idle(Option<CpuSet>),
    /// It was on a CPU and waited for one for less than [`LookDepth::Changed`] says in all since: it sleeps but for moments. Its time on
    /// CPUs since it started, in nanoseconds, and its affinity where that is another now; nothing else was read.
    Brief(u64, Option<CpuSet>),
    /// All was read.
    Whole(ThreadSample),
}

impl ThreadFiles {
    /// Opens the files of a thread below a folder that stands for `/proc`.
    ///
    /// # Errors
    /// The kernel's answer: the thread ended.
    pub fn open(proc: &Path, pid: u32, tid: u32) -> io::Result<Self> {
        // Both from one folder, so that both are the same thread's.
        let folder = proc.join(format!("{pid}/task/{tid}"));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        let stat = open_in(&folder, "stat")?;
        let schedstat = match open_in(&folder, "schedstat") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            other => Some(other?),
        };
        Ok(Self { stat, schedstat, last: LastRead::default() })
    }

    /// As [`Self::sample`], but reads only the affinity and the scheduler's counts of a thread that was on no CPU
    /// since the last look, or briefly, unless all is asked for. What others changed of such a thread beside its
    /// affinity, and that it waits for a CPU now, is not seen then.
    ///
    /// # Errors
    /// As [`Self::sample`].
    pub fn look(
        &mut self,
        proc: &Path,
        pid: u32,
        tid: u32,
        depth: LookDepth,
    ) -> io::Result<ThreadLook> {
        let Some(schedstat) = self.schedstat.as_ref().filter(|_| proc == Path::new("/proc")) else {
            return self.sample(proc, pid, tid).map(ThreadLook::Whole);
        };
        let LastRead { schedstat: last, affinity } = &mut self.last;
        let mut words = [0; FIRST_WORDS];
        let was = affinity.get(..FIRST_WORDS).map(|was| words.copy_from_slice(was)).is_some();
        affinity_words(tid, affinity)?;
        let was_read = was && affinity.len() == FIRST_WORDS && !last.is_empty();
        let moved = |affinity: &[usize]| (affinity[..] != words).then(|| cpus_of(affinity));
        if was_read && depth == LookDepth::Rested {
            return Ok(ThreadLook::Idle(moved(affinity)));
        }
        let counted = if was_read && depth == LookDepth::WholeRested {
            cpu_ns(last)
        } else {
            let mut line = [0; COUNTS_BYTES];
            let read = read_whole(schedstat, &mut line)?;
            let may_be_idle = was_read && depth != LookDepth::Whole;
            if may_be_idle && read == last.as_slice() {
                return Ok(ThreadLook::Idle(moved(affinity)));
            }
            let before = cpu_ns(last).zip(wait_ns(last));
            last.clear();
            last.extend_from_slice(read);
            let now = cpu_ns(read).zip(wait_ns(read));
            if may_be_idle
                && let LookDepth::Changed { brief_ns } = depth
                && let Some(((ran, waited), (cpu_ns, wait_ns))) = before.zip(now)
                && cpu_ns.wrapping_sub(ran).saturating_add(wait_ns.wrapping_sub(waited)) < brief_ns
            {
                return Ok(ThreadLook::Brief(cpu_ns, moved(affinity)));
            }
            cpu_ns(read)
        };
        let cpu_ns = counted.ok_or_else(bad)?;
        let mut line = [0; LINE_BYTES];
        let stat = Stat::parse(read_whole(&self.stat, &mut line)?).ok_or_else(bad)?;
        if stat.is_over() {
            return Err(gone());
        }
        let affinity = cpus_of(affinity);
        Ok(ThreadLook::Whole(ThreadSample { stat, cpu_ns, affinity }))
    }

    /// Reads them.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when the thread ended; else the kernel's answer.
    pub fn sample(&self, proc: &Path, pid: u32, tid: u32) -> io::Result<ThreadSample> {
        // The affinity is asked by number. The thread's own files, read after it, tell that the
        // number is still this thread's.
        let affinity = affinity(proc, pid, tid)?;
        let mut line = [0; LINE_BYTES];
        let counted = match &self.schedstat {
            Some(file) => Some(cpu_ns(read_whole(file, &mut line)?).ok_or_else(bad)?),
            None => None,
        };
        let stat = Stat::parse(read_whole(&self.stat, &mut line)?).ok_or_else(bad)?;
        // A thread that has ended and is not yet waited for does nothing any more.
        if stat.is_over() {
            return Err(gone());
        }
        let cpu_ns = counted.unwrap_or_else(|| ticks_ns(stat.cpu_ticks));
        Ok(ThreadSample { stat, cpu_ns, affinity })
    }
}

fn open_in(folder: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?))
}

/// A line of the kernel's, read at once: `std::fs::read` asks for a length that such files do not tell, and then for 32,
/// 32, 64 .. bytes.
pub(super) fn line_of<'a>(path: &Path, line: &'a mut [u8; LINE_BYTES]) -> io::Result<&'a [u8]> {
    read_whole(&File::open(path)?, line)
}

fn read_whole<'a>(file: &File, line: &'a mut [u8]) -> io::Result<&'a [u8]> {
    match file.read_at(line, 0) {
        Ok(0) => Err(gone()),
        Err(error) if is_gone(&error) => Err(gone()),
        other => Ok(&line[..other?]),
    }
}

/// Did the thread end? The kernel says so in two ways, before and after the file was opened.
pub fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// What was read; none where [`is_gone`] says that there is nothing to read.
///
/// # Errors
/// All other answers of the kernel.
pub fn if_there<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(there) => Ok(Some(there)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn gone() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

fn bad() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

fn ticks_ns(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// Where a thread may run. The running kernel is asked; a folder that is not its own says it in `status`.
fn affinity(proc: &Path, pid: u32, tid: u32) -> io::Result<CpuSet> {
    if proc == Path::new("/proc") {
        return crate::affinity(tid);
    }
    let status = std::fs::read_to_string(proc.join(format!("{pid}/task/{tid}/status")))?;
    let list = status_field(&status, "Cpus_allowed_list:").unwrap_or_default();
    list.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{error}")))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_thread_that_was_on_no_cpu_is_read_in_part() {
        let proc = Path::new("/proc");
        let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = sleeper.id();
        let mut files = ThreadFiles::open(proc, pid, pid).unwrap();
        if files.schedstat.is_none() {
            sleeper.kill().unwrap();
            sleeper.wait().unwrap();
            return eprintln!("skipped: this kernel counts no time that threads ran");
        }
        use LookDepth::{Rested, Whole, WholeRested};
        let changed = LookDepth::Changed { brief_ns: 500_000 };
        let mut look = |depth| files.look(proc, pid, pid, depth);
        assert!(matches!(look(Rested), Ok(ThreadLook::Whole(_))), "nothing is known before");
        // It may still begin to sleep.
        let since = Instant::now();
        while !matches!(look(changed), Ok(ThreadLook::Idle(None))) {
            assert!(since.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(matches!(look(Whole), Ok(ThreadLook::Whole(_))), "all was asked for");
        assert!(matches!(look(Rested), Ok(ThreadLook::Idle(None))));
        assert!(matches!(look(WholeRested), Ok(ThreadLook::Whole(_))), "all was asked for");
        // Somebody pins it: a CPU less may make it run.
        let all = crate::affinity(pid).unwrap();
        let first: CpuSet = all.iter().take(1).collect();
        let pin = ["-cp", &first.to_string(), &pid.to_string()].map(str::to_owned);
        assert!(Command::new("taskset").args(pin).output().unwrap().status.success());
        let seen = match look(Rested).unwrap() {
            ThreadLook::Idle(moved) | ThreadLook::Brief(_, moved) => moved.unwrap_or(all),
            ThreadLook::Whole(sample) => sample.affinity,
        };
        assert_eq!(seen, first);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(is_gone(&look(changed).unwrap_err()));
    }

    #[test]
    fn brief_is_a_share_of_the_time_between_looks() {
        assert_eq!(brief_ns(Duration::from_secs(1)), 5_000_000);
        assert_eq!(brief_ns(Duration::from_millis(20)), 500_000);
    }

    /// A thread that runs a moment for each message, or a while.
    #[test]
    fn a_thread_that_ran_briefly_is_read_in_part_and_one_that_ran_long_is_read_whole() {
        let (ask, asked) = std::sync::mpsc::channel::<Duration>();
        let (tell, told) = std::sync::mpsc::channel::<u32>();
        let thread = std::thread::spawn(move || {
            let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            tell.send(own).unwrap();
            for long in asked {
                // On a busy machine it may have no CPU meanwhile.
                let clock = || {
                    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
                    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
                };
                let since = clock();
                while clock() - since < long {}
                tell.send(own).unwrap();
            }
        });
        let (pid, tid) = (std::process::id(), told.recv().unwrap());
        let proc = Path::new("/proc");
        let mut files = ThreadFiles::open(proc, pid, tid).unwrap();
        if files.schedstat.is_some() {
            let mut ran = |long: Duration| {
                ask.send(long).unwrap();
                told.recv().unwrap();
                // The kernel counts it when it is off its CPU.
                std::thread::sleep(Duration::from_millis(2));
                files.look(proc, pid, tid, LookDepth::Changed { brief_ns: 500_000 }).unwrap()
            };
            ran(Duration::ZERO);
            // On a busy machine it waits at times.
            let briefly = (0..200).find_map(|_| match ran(Duration::ZERO) {
                ThreadLook::Brief(cpu_ns, None) => Some(cpu_ns),
                _ => None,
            });
            assert!(briefly.is_some_and(|cpu_ns| cpu_ns > 0));
            let long = ran(Duration::from_millis(20));
            assert!(matches!(long, ThreadLook::Whole(_)), "{long:?}");
        }
        drop(ask);
        thread.join().unwrap();
    }
}
