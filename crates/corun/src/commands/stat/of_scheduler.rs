//! What the kernel's scheduler counts of a thread and perf does not: wake-ups and waits for a CPU.

use std::collections::BTreeMap;

use corun_linux::procfs::{SchedulerCounts, scheduler_counts};
use corun_linux::{Roots, Task};

use super::rows::Column;
use crate::failure::{Failure, Outcome};

/// Names that stand among those of events.
pub(super) const NAMES: [&str; 2] = ["wake-ups", "run-queue-wait"];

/// The counts of threads up to the last sample.
#[derive(Debug, Default)]
pub(super) struct OfScheduler {
    /// In the order of the columns: those of [`NAMES`].
    names: Vec<String>,
    last: BTreeMap<Task, SchedulerCounts>,
}

impl OfScheduler {
    /// Takes the names of its own out of those of events.
    ///
    /// # Errors
    /// Where there are some and samples are not taken of threads by time.
    pub(super) fn take_from(names: &mut Vec<String>, of_threads_by_time: bool) -> Outcome<Self> {
        let (own, events): (Vec<_>, Vec<_>) =
            std::mem::take(names).into_iter().partition(|name| NAMES.contains(&name.as_str()));
        *names = events;
        match own.first() {
            Some(name) if !of_threads_by_time => {
                let message = format!("`{name}` is counted of threads, from time to time");
                Err(Failure::input(message).hint("leave out --all-cpus and --sample-every"))
            }
            _ => Ok(Self { names: own, last: BTreeMap::new() }),
        }
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = Column> + '_ {
        let is_time = |name: &str| name == NAMES[1];
        self.names.iter().map(move |name| Column { name: name.clone(), is_time: is_time(name) })
    }

    /// Begins to count the threads that are new, and forgets those that are gone.
    pub(super) fn watch(&mut self, roots: &Roots, threads: &[Task]) {
        if self.names.is_empty() {
            return;
        }
        self.last.retain(|task, _| threads.binary_search(task).is_ok());
        for task in threads {
            if !self.last.contains_key(task)
                && let Some(counts) = scheduler_counts(roots, task.pid, task.tid)
            {
                self.last.insert(*task, counts);
            }
        }
    }

    /// What was counted of a thread since the last sample.
    pub(super) fn since(&mut self, roots: &Roots, task: Task) -> Vec<Option<f64>> {
        let read = |_| scheduler_counts(roots, task.pid, task.tid);
        let now = self.names.first().and_then(read);
        let before = now.and_then(|now| self.last.insert(task, now));
        let grown =
            |of: fn(&SchedulerCounts) -> u64| Some(of(&now?).saturating_sub(of(&before?)) as f64);
        let count = |name: &String| match name.as_str() {
            "wake-ups" => grown(|of| of.wakeups),
            _ => grown(|of| of.wait_ns),
        };
        self.names.iter().map(count).collect()
    }

    /// Of rows that are of no thread.
    pub(super) fn unknown(&self) -> Vec<Option<f64>> {
        vec![None; self.names.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_names_are_taken_out_of_the_events() {
        let typed = || ["cycles", "run-queue-wait", "wake-ups"].map(str::to_owned).to_vec();
        let mut names = typed();
        let taken = OfScheduler::take_from(&mut names, true).unwrap();
        assert_eq!(names, ["cycles"]);
        let columns: Vec<_> = taken.columns().map(|one| (one.name, one.is_time)).collect();
        assert_eq!(columns, [("run-queue-wait".to_owned(), true), ("wake-ups".to_owned(), false)]);
        assert!(OfScheduler::take_from(&mut typed(), false).is_err());
    }

    /// A thread that sleeps by itself ten times is woken about as often.
    #[test]
    fn the_wake_ups_of_this_thread_are_counted() {
        let roots = Roots::default();
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let task = Task { pid: std::process::id(), tid, start_ticks: 0 };
        let mut names = vec!["wake-ups".to_owned(), "run-queue-wait".to_owned()];
        let mut counts = OfScheduler::take_from(&mut names, true).unwrap();
        if scheduler_counts(&roots, task.pid, task.tid).is_none() {
            return eprintln!("skipped: this kernel does not count how long threads wait");
        }
        counts.watch(&roots, &[task]);
        for _ in 0..10 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let since = counts.since(&roots, task);
        assert!(since[0].is_some_and(|wakeups| wakeups >= 10.0), "{since:?}");
        assert!(since[1].is_some_and(|wait_ns| wait_ns >= 0.0), "{since:?}");
    }
}
