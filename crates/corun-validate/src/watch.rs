//! Looks at a CPU's core while a program runs there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use corun_calibrate::glance_at_core;

use crate::once::{RunError, bind};

/// From look to look. A look takes some 12 us of the CPU.
const PERIOD: Duration = Duration::from_millis(2);

/// Does some work, which runs a program on this CPU, and meanwhile looks at the CPU's core again and again. Answers the
/// additions a cycle of each look.
///
/// # Errors
/// [`RunError::System`] where the kernel refuses the CPU.
pub(crate) fn watched<T>(cpu: u32, work: impl FnOnce() -> T) -> Result<(T, Vec<f64>), RunError> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            bind(cpu)?;
            let mut looks = Vec::new();
            loop {
                thread::park_timeout(PERIOD);
                if is_over.load(Ordering::Relaxed) {
                    return Ok(looks);
                }
                looks.push(glance_at_core().additions_per_cycle);
            }
        });
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        let looks = watcher.join().unwrap_or(Err(RunError::Stopped))?;
        Ok((done, looks))
    })
}
