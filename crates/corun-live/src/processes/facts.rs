//! What the kernel says of one thread, and the files that say it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use corun_machine::{CpuId, CpuSet};
use corun_policy::ThreadState;
use rustix::fs::{Mode, OFlags};

use super::stat::{Stat, cpu_ns};
use crate::{Roots, Scheduling, Task, TaskFacts};

/// Longer than any `stat` or `schedstat`: a name of 15 bytes and some 50 numbers.
const LINE_BYTES: usize = 2048;

/// Scheduling policies as the kernel numbers them (sched(7)).
const SCHED_FIFO: u32 = 1;
const SCHED_RR: u32 = 2;
const SCHED_DEADLINE: u32 = 6;

/// What the kernel says of a thread now.
///
/// A thread that wants a CPU is given as running: `/proc` does not tell whether it has one.
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`] when the thread is no more; else what the kernel answered.
pub fn facts(roots: &Roots, pid: u32, tid: u32) -> io::Result<TaskFacts> {
    let look = ThreadFiles::open(&roots.proc, pid, tid)?.look(&roots.proc, pid, tid)?;
    Ok(look.facts(pid, tid))
}

/// What was read of a thread at one moment.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) stat: Stat,
    cpu_ns: u64,
    affinity: CpuSet,
}

impl Look {
    pub(super) fn facts(&self, pid: u32, tid: u32) -> TaskFacts {
        let stat = &self.stat;
        TaskFacts {
            task: Task { pid, tid, start_ticks: stat.start_ticks },
            parent: stat.parent,
            name: stat.name.clone(),
            state: match stat.state {
                'R' => ThreadState::Running,
                _ => ThreadState::Sleeping,
            },
            cpu: CpuId(stat.cpu),
            cpu_ns: self.cpu_ns,
            nice: stat.nice,
            scheduling: match stat.policy {
                SCHED_FIFO | SCHED_RR | SCHED_DEADLINE => Scheduling::RealTime,
                _ => Scheduling::Fair,
            },
            affinity: self.affinity.clone(),
        }
    }
}

/// The open files of a thread. They stay that thread's: once it ended, reading them fails, also
/// when the kernel has given its number to another.
#[derive(Debug)]
pub(super) struct ThreadFiles {
    stat: File,
    /// Absent where the kernel was built without it.
    schedstat: Option<File>,
}

impl ThreadFiles {
    pub(super) fn open(proc: &Path, pid: u32, tid: u32) -> io::Result<Self> {
        // Both from one folder, so that both are the same thread's.
        let folder = proc.join(format!("{pid}/task/{tid}"));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        let stat = open_in(&folder, "stat")?;
        let schedstat = match open_in(&folder, "schedstat") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            other => Some(other?),
        };
        Ok(Self { stat, schedstat })
    }

    pub(super) fn look(&self, proc: &Path, pid: u32, tid: u32) -> io::Result<Look> {
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
        Ok(Look { stat, cpu_ns, affinity })
    }
}

fn open_in(folder: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?))
}

fn read_whole<'a>(file: &File, line: &'a mut [u8]) -> io::Result<&'a [u8]> {
    match file.read_at(line, 0) {
        Ok(0) => Err(gone()),
        Err(error) if is_gone(&error) => Err(gone()),
        other => Ok(&line[..other?]),
    }
}

/// Did the thread end? The kernel says so in two ways, before and after the file was opened.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
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

/// Where a thread may run. The running kernel is asked; a folder that is not its own says it in
/// `status`, and so does a kernel with more CPUs than the call takes.
fn affinity(proc: &Path, pid: u32, tid: u32) -> io::Result<CpuSet> {
    if proc == Path::new("/proc") {
        let thread = i32::try_from(tid).ok().and_then(rustix::process::Pid::from_raw);
        let answer = rustix::thread::sched_getaffinity(thread);
        match answer {
            Ok(set) => {
                let cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu));
                let count = set.count() as usize;
                return Ok(cpus.take(count).map(|cpu| CpuId(cpu as u32)).collect());
            }
            Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let status = std::fs::read_to_string(proc.join(format!("{pid}/task/{tid}/status")))?;
    let list = field(&status, "Cpus_allowed_list:").unwrap_or_default();
    list.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{error}")))
}

/// A field of `/proc/PID/status`.
pub(super) fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}
