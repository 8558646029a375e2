//! The tasks on the cores of this machine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use corun_app::{Error, Result};
use rayon::prelude::*;

use crate::runner::{Runner, TaskRows};
use crate::store::Store;

/// Tasks that one thread does before it looks for more: few enough to share the end out, enough to
/// set up a mix once for several.
const CHUNK: usize = 8;

/// Answers tasks on `jobs` threads (0: one a core), and stores the answers as they come. `tell` sees
/// how many more tasks are done. What was answered before a stop is stored.
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
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build().map_err(Error::failed)?;
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
