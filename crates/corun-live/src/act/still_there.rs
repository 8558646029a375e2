//! Is this thread still the one that was meant, and may it be touched?

use std::io;
use std::os::fd::OwnedFd;

use corun_linux::procfs::{Process, Stat};
use corun_linux::{Roots, Task, affinity};
use corun_machine::CpuSet;

use super::syscalls::{has_ended, open_thread};
use crate::ActError;

/// Holds on to a thread that is to be touched by its number, which the kernel may give to another as soon as the
/// thread has ended. To be made before the thread is looked at.
#[derive(Debug)]
pub(crate) struct HeldNumber<'a> {
    roots: &'a Roots,
    thread: Option<OwnedFd>,
}

impl<'a> HeldNumber<'a> {
    /// Of a thread; holds nothing where this kernel has no descriptors of threads.
    pub(crate) fn of(roots: &'a Roots, task: &Task) -> Self {
        Self { roots, thread: open_thread(task.tid).ok() }
    }

    /// After the CPUs of the number were set: were they the thread's?
    ///
    /// # Errors
    /// [`ActError::Gone`] when the thread ended before or while they were set, and nobody else has its number;
    /// [`ActError::Kernel`] when another thread has the number and these CPUs.
    pub(crate) fn was_of(&self, task: &Task, cpus: &CpuSet) -> Result<(), ActError> {
        let ended = self.thread.as_ref().is_some_and(|thread| has_ended(thread).unwrap_or(false));
        if !ended {
            return Ok(());
        }
        let what = format!("thread {task}");
        // Until it is waited for, an ended thread keeps its number, and its CPUs can be set.
        let holder = Process::new(self.roots, task.tid).stat().ok().flatten();
        let is_another = holder.is_some_and(|stat| stat.start_ticks != task.start_ticks);
        if is_another && affinity(task.tid).is_ok_and(|found| found == *cpus) {
            let reason = io::Error::other("it ended, and its number went to another thread");
            let advice =
                format!("taskset -p {}: its CPUs may be {cpus} because of corun", task.tid);
            return Err(ActError::Kernel {
                what: format!("setting the affinity of {what}"),
                reason,
                advice: Some(advice),
            });
        }
        Err(ActError::Gone { what })
    }
}

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
    use std::process::{Child, Command};

    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("1000").spawn().unwrap()
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn task_of(child: &Child) -> Task {
        let pid = child.id();
        let stat = Process::new(&Roots::default(), pid).stat().unwrap().unwrap();
        Task { pid, tid: pid, start_ticks: stat.start_ticks }
    }

    /// A stranger stands in for the one that got the number of the thread that ended.
    #[test]
    fn a_number_that_went_to_another_thread_meanwhile_is_noticed() {
        let roots = Roots::default();
        let child = sleeper();
        let task = task_of(&child);
        let number = HeldNumber::of(&roots, &task);
        let cpus = affinity(task.tid).unwrap();
        number.was_of(&task, &cpus).unwrap();
        end(child);
        assert!(matches!(number.was_of(&task, &cpus), Err(ActError::Gone { .. })));
        let stranger = sleeper();
        let theirs = task_of(&stranger);
        let reused = Task { start_ticks: theirs.start_ticks - 1, ..theirs };
        let noticed = number.was_of(&reused, &affinity(theirs.tid).unwrap());
        end(stranger);
        let noticed = noticed.unwrap_err().to_string();
        assert!(noticed.contains("its number went to another thread"), "{noticed}");
    }

    #[test]
    fn a_thread_that_ended_and_was_not_waited_for_is_gone() {
        let roots = Roots::default();
        let mut child = sleeper();
        let task = task_of(&child);
        let number = HeldNumber::of(&roots, &task);
        let cpus = affinity(task.tid).unwrap();
        child.kill().unwrap();
        let pid = Pid::from_raw(task.pid as i32);
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid.unwrap()), ended).unwrap();
        assert_eq!(affinity(task.tid).unwrap(), cpus);
        let found = number.was_of(&task, &cpus);
        end(child);
        assert!(matches!(found, Err(ActError::Gone { .. })), "{found:?}");
    }

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
