//! The tasks on the cores of this machine.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use corun_app::{Error, Result};
use rayon::prelude::*;

use crate::runner::{Runner, TaskRows};
use crate::store::Store;

/// Tasks that one thread does before it looks for more: few enough to share the end out, enough to
/// set up a mix once for several.
const CHUNK: usize = 8;

/// The most threads that a sweep may be given.
pub const MOST_JOBS: u16 = 4096;

/// Answers tasks on at most `jobs` threads (0: one a core), no more than there is work for, and stores the answers as they come.
/// `tell` sees how many more tasks are done. What was answered before a stop is stored.
///
/// # Errors
/// [`Error::Interrupted`] once `stop` is set; what cannot be written.
pub fn run_here(
    runner: &Runner,
    store: &mut Store,
    pending: &[usize],
    jobs: usize,
    stop: &AtomicBool,
    mut tell: impl FnMut(usize),
) -> Result {
    let threads = threads(jobs, pending.len());
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(Error::failed)?;
    let (sender, answers) = mpsc::channel::<Result<Vec<TaskRows>>>();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            pool.install(|| {
                let chunks = pending.par_chunks(CHUNK).with_max_len(1);
                chunks.for_each_with(sender, |sender, chunk| {
                    if !is_over.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
                        // Nobody listens any more once something could not be written.
                        let _ = sender.send(runner.answer(chunk, stop));
                    }
                });
            });
        });
        let mut result = Ok(());
        for answered in answers {
            let stored = answered.and_then(|answers| {
                let count = answers.len();
                store.add(answers)?;
                tell(count);
                Ok(())
            });
            if let Err(error) = stored
                && result.is_ok()
            {
                is_over.store(!matches!(error, Error::Interrupted), Ordering::Relaxed);
                result = Err(error);
            }
        }
        store.flush()?;
        result?;
        if stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    })
}

/// As many threads as were asked for (0: one a core), but no more than there are chunks.
fn threads(jobs: usize, tasks: usize) -> usize {
    let own = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let wanted = if jobs == 0 { own() } else { jobs };
    wanted.min(tasks.div_ceil(CHUNK)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_is_without_work() {
        let found = [(4096, 1), (4096, 17), (2, 1000), (3, 0), (usize::MAX, 80)];
        let found = found.map(|(jobs, tasks)| threads(jobs, tasks));
        assert_eq!(found, [1, 3, 2, 1, 10]);
        assert!(threads(0, 1_000_000) >= 1 && threads(0, 1) == 1);
    }
}
