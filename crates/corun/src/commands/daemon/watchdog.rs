//! Restores and ends the process when the loop stalls: in a policy, or in the kernel.

use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use corun_live::Undoer;
use tracing::error;

use super::log_undone;
use crate::failure::Outcome;

/// How often the loop's beats are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Watches the loop's beats in a thread of its own.
pub(super) struct Watchdog {
    beats: Arc<AtomicU64>,
    stopped: Arc<AtomicBool>,
}

impl Watchdog {
    /// Ends the process, with everything undone, once there was no beat for so long.
    pub(super) fn start(undoer: Undoer, patience: Duration) -> Outcome<Self> {
        let own = Self { beats: Arc::default(), stopped: Arc::default() };
        let (beats, stopped) = (own.beats.clone(), own.stopped.clone());
        let watch = move || {
            let mut last = (beats.load(Ordering::SeqCst), Instant::now());
            while !stopped.load(Ordering::SeqCst) {
                thread::sleep(LOOK);
                let now = beats.load(Ordering::SeqCst);
                if now != last.0 {
                    last = (now, Instant::now());
                } else if last.1.elapsed() > patience && !stopped.load(Ordering::SeqCst) {
                    give_up(&undoer, patience);
                }
            }
        };
        thread::Builder::new().name("watchdog".to_owned()).spawn(watch)?;
        Ok(own)
    }

    /// The loop goes on.
    pub(super) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::SeqCst);
    }

    /// The loop is over.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }
}

fn give_up(undoer: &Undoer, patience: Duration) -> ! {
    error!(
        seconds = patience.as_secs_f64(),
        "nothing has moved for so long: restoring, then ending"
    );
    match undoer.undo() {
        Some(undone) => log_undone(&undone),
        None => error!("the journal is in use: corun restore undoes it once this process is gone"),
    }
    exit(1)
}
