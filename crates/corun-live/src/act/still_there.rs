//! Is this thread still the one that was meant, and may it be touched?

use corun_linux::procfs::{Process, Stat};
use corun_linux::{Roots, Task};

use crate::ActError;

/// The thread as it is now, if it is the one that was meant and has not ended.
///
/// # Errors
/// [`ActError::Gone`] when it ended, also when its number went to another thread since.
pub(crate) fn still_there(roots: &Roots, task: &Task) -> Result<Stat, ActError> {
    let stat = Process::new(roots, task.pid).thread_stat(task.tid);
    let stat = stat.map_err(|reason| ActError::Kernel {
        what: format!("reading about thread {task}"),
        reason,
        advice: None,
    })?;
    match stat {
        Some(stat) if stat.start_ticks == task.start_ticks && !stat.is_over() => Ok(stat),
        _ => Err(ActError::Gone { what: format!("thread {task}") }),
    }
}

/// The thread as it is now, if it also is one that may be touched.
///
/// # Errors
/// As [`still_there`]; [`ActError::Protected`] for kernel threads and real-time threads.
pub(crate) fn touchable(roots: &Roots, task: &Task) -> Result<Stat, ActError> {
    let stat = still_there(roots, task)?;
    let why = match () {
        () if stat.is_kernel_thread() => "it is the kernel's own",
        () if stat.is_real_time() => "it is scheduled in real time",
        () => return Ok(stat),
    };
    Err(ActError::Protected { what: format!("thread {task}"), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_is_there_and_another_start_is_gone() {
        let roots = Roots::default();
        let pid = std::process::id();
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let stat = Process::new(&roots, pid).thread_stat(tid).unwrap().unwrap();
        let task = Task { pid, tid, start_ticks: stat.start_ticks };
        touchable(&roots, &task).unwrap();
        let reused = Task { start_ticks: stat.start_ticks + 1, ..task };
        assert!(matches!(touchable(&roots, &reused), Err(ActError::Gone { .. })));
    }
}
