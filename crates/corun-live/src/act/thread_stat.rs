//! Is this thread still the one that was meant, and may it be touched?

use std::io::{self, Read as _};
use std::path::Path;

use crate::{ActError, Roots, Task};

/// The kernel's own threads (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;
/// `SCHED_FIFO`, `SCHED_RR`, `SCHED_DEADLINE`.
const REAL_TIME: [u32; 3] = [1, 2, 6];

/// What `/proc/PID/task/TID/stat` says that acting needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadStat {
    /// Running, sleeping, `Z`ombie, and so on, by the kernel's letter.
    pub(crate) state: char,
    /// The process that started this one.
    pub(crate) parent_pid: u32,
    pub(crate) kernel_thread: bool,
    pub(crate) real_time: bool,
    pub(crate) start_ticks: u64,
}

impl ThreadStat {
    /// It ended; only its number is left.
    pub(crate) fn ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    fn parse(text: &str) -> Option<Self> {
        // The name may hold anything, parentheses and blanks too.
        let (_, after_name) = text.rsplit_once(')')?;
        let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
        // proc(5) counts from 1; the state is field 3.
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Self {
            state: field(3)?.chars().next()?,
            parent_pid: field(4)?.parse().ok()?,
            kernel_thread: field(9)?.parse::<u64>().ok()? & KERNEL_THREAD != 0,
            real_time: REAL_TIME.contains(&field(41)?.parse().ok()?),
            start_ticks: field(22)?.parse().ok()?,
        })
    }
}

/// What the kernel says of a thread; none when there is no such thread.
pub(crate) fn stat(roots: &Roots, pid: u32, tid: u32) -> io::Result<Option<ThreadStat>> {
    read(&roots.proc.join(format!("{pid}/task/{tid}/stat")))
}

/// What the kernel says of a process; none when there is no such process.
pub(crate) fn process_stat(roots: &Roots, pid: u32) -> io::Result<Option<ThreadStat>> {
    read(&roots.proc.join(format!("{pid}/stat")))
}

fn read(path: &Path) -> io::Result<Option<ThreadStat>> {
    let mut text = Vec::with_capacity(512);
    let done = std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut text));
    match done {
        Ok(_) => {}
        Err(error) if is_gone(&error) => return Ok(None),
        Err(error) => return Err(error),
    }
    let stat = ThreadStat::parse(&String::from_utf8_lossy(&text));
    stat.map(Some).ok_or_else(|| {
        let what = format!("{}: not as proc(5) describes it", path.display());
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}

/// Does the kernel say that what was asked about is no more?
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// The thread as it is now, if it is the one that was meant and has not ended.
///
/// # Errors
/// [`ActError::Gone`] when it ended, also when its number went to another thread since.
pub(crate) fn still_there(roots: &Roots, task: &Task) -> Result<ThreadStat, ActError> {
    let stat = stat(roots, task.pid, task.tid).map_err(|reason| ActError::Kernel {
        what: format!("reading about thread {task}"),
        reason,
        advice: None,
    })?;
    match stat {
        Some(stat) if stat.start_ticks == task.start_ticks && !stat.ended() => Ok(stat),
        _ => Err(ActError::Gone { what: format!("thread {task}") }),
    }
}

/// The thread as it is now, if it also is one that may be touched.
///
/// # Errors
/// As [`still_there`]; [`ActError::Protected`] for kernel threads and real-time threads.
pub(crate) fn touchable(roots: &Roots, task: &Task) -> Result<(), ActError> {
    let stat = still_there(roots, task)?;
    let why = match () {
        () if stat.kernel_thread => "it is the kernel's own",
        () if stat.real_time => "it is scheduled in real time",
        () => return Ok(()),
    };
    Err(ActError::Protected { what: format!("thread {task}"), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "4 (a) b (c) S 2 0 0 0 -1 69238880 0 0 0 0 0 0 0 0 20 -5 1 0 777 0 0 \
        18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 17 1 0 0 0 0 0\n";

    #[test]
    fn fields_are_counted_from_the_last_parenthesis() {
        let stat = ThreadStat::parse(LINE).unwrap();
        assert_eq!((stat.state, stat.parent_pid, stat.start_ticks), ('S', 2, 777));
        assert!(stat.kernel_thread && !stat.real_time);
        let fifo = LINE.replace("17 1 0 0 0 0 0\n", "17 1 50 1 0 0 0\n").replace("69238880", "0");
        let stat = ThreadStat::parse(&fifo).unwrap();
        assert!(!stat.kernel_thread && stat.real_time);
    }

    #[test]
    fn half_a_line_is_none() {
        for end in 0..LINE.len() - 12 {
            assert_eq!(ThreadStat::parse(&LINE[..end]), None, "{end}");
        }
    }

    #[test]
    fn this_thread_is_there_and_another_start_is_gone() {
        let roots = Roots::default();
        let pid = std::process::id();
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let start_ticks = stat(&roots, pid, tid).unwrap().unwrap().start_ticks;
        let task = Task { pid, tid, start_ticks };
        touchable(&roots, &task).unwrap();
        let reused = Task { start_ticks: start_ticks + 1, ..task };
        assert!(matches!(touchable(&roots, &reused), Err(ActError::Gone { .. })));
    }
}
