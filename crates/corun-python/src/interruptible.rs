//! Long work: other Python threads run meanwhile, and Ctrl-C ends it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::prelude::*;

/// How often Ctrl-C is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// Does the work on another thread, without the interpreter's lock. Its flag is set when a signal
/// handler raises, and the exception comes back once the work has ended.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> T + Send,
) -> PyResult<T> {
    let stop = AtomicBool::new(false);
    let stop = &stop;
    std::thread::scope(|scope| {
        let (done, mut ended) = channel::<()>();
        let worker = scope.spawn(move || {
            let result = work(stop);
            drop(done);
            result
        });
        let mut raised = None;
        loop {
            let waited;
            (ended, waited) = py.detach(move || {
                let waited = ended.recv_timeout(LOOK);
                (ended, waited)
            });
            if waited != Err(RecvTimeoutError::Timeout) {
                break;
            }
            if let (Err(error), None) = (py.check_signals(), &raised) {
                stop.store(true, Ordering::Relaxed);
                // A Python policy that does not return is told too.
                py.import("corun.policies")?.call_method0("_interrupt_all")?;
                raised = Some(error);
            }
        }
        match (py.detach(|| worker.join()), raised) {
            (Err(panic), _) => std::panic::resume_unwind(panic),
            (Ok(_), Some(error)) => Err(error),
            (Ok(result), None) => Ok(result),
        }
    })
}
