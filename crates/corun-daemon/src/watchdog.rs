//! Restores and ends the process when the loop stalls: in a policy, or in the kernel.

use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use corun_linux::Roots;
use corun_linux::procfs::CpuWait;
use corun_live::Undoer;
use tracing::error;

use crate::log::log_undone;
use corun_app::Result;

/// The loop's beats are looked at as often as this, and at least four times in the time that it may stall.
const LONGEST_LOOK: Duration = Duration::from_secs(5);

/// Watches the loop's beats in a thread of its own.
pub(crate) struct Watchdog {
    beats: Arc<AtomicU64>,
    stopped: Arc<AtomicBool>,
}

impl Watchdog {
    /// Ends the process, with everything undone, once the calling thread gave no beat for so long though it
    /// could have run.
    pub(crate) fn start(undoer: Undoer, patience: Duration) -> Result<Self> {
        let own = Self { beats: Arc::default(), stopped: Arc::default() };
        let (beats, stopped) = (own.beats.clone(), own.stopped.clone());
        let watched = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let watch = move || {
            let roots = Roots::default();
            let wait = CpuWait::of(&roots, std::process::id(), watched);
            let waited = || wait.as_ref().and_then(CpuWait::so_far);
            let every = LONGEST_LOOK.min(patience / 4);
            let mut stall = Stall::new(every, beats.load(Ordering::SeqCst), waited());
            while !stopped.load(Ordering::SeqCst) {
                let began = Instant::now();
                thread::sleep(every);
                let now = beats.load(Ordering::SeqCst);
                let stalled = stall.look(now, began.elapsed(), waited());
                if stalled > patience && !stopped.load(Ordering::SeqCst) {
                    give_up(&undoer, patience);
                }
            }
        };
        thread::Builder::new().name("watchdog".to_owned()).spawn(watch)?;
        Ok(own)
    }

    /// The loop goes on.
    pub(crate) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::SeqCst);
    }

    /// The loop is over.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }
}

/// Time in which the loop could have run since its last beat and gave none.
///
/// Not counted is the time that the loop waited for a CPU, as the kernel's scheduler counts it. The kernel
/// counts a wait when it is over. The watchdog itself competes for the same CPUs, so a look that came late
/// counts as two looks at most: others had the CPUs meanwhile.
#[derive(Debug)]
struct Stall {
    /// Time between two looks.
    every: Duration,
    beats: u64,
    /// Time that the loop had waited for a CPU at the last look; none where the kernel does not tell.
    waited: Option<Duration>,
    stalled: Duration,
}

impl Stall {
    fn new(every: Duration, beats: u64, waited: Option<Duration>) -> Self {
        Self { every, beats, waited, stalled: Duration::ZERO }
    }

    /// A look, so long after the one before.
    fn look(&mut self, beats: u64, since: Duration, waited: Option<Duration>) -> Duration {
        let before = std::mem::replace(&mut self.waited, waited);
        if beats != std::mem::replace(&mut self.beats, beats) {
            self.stalled = Duration::ZERO;
            return self.stalled;
        }
        let counted = since.min(2 * self.every);
        let waiting = waited.zip(before).map(|(now, before)| now.saturating_sub(before));
        // A wait that is over now may have begun before the last look.
        self.stalled = (self.stalled + counted).saturating_sub(waiting.unwrap_or_default());
        self.stalled
    }
}

fn give_up(undoer: &Undoer, patience: Duration) -> ! {
    error!(
        seconds = patience.as_secs_f64(),
        "nothing has moved for so long though it could have run: restoring, then ending"
    );
    match undoer.undo() {
        Some(undone) => log_undone(&undone),
        None => error!("the journal is in use: corun restore undoes it once this process is gone"),
    }
    exit(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_loop_that_could_run_and_does_not_has_stalled() {
        let mut stall = Stall::new(ms(200), 7, Some(ms(50)));
        assert_eq!(stall.look(7, ms(200), Some(ms(50))), ms(200));
        assert_eq!(stall.look(7, ms(210), Some(ms(60))), ms(400));
        assert_eq!(stall.look(8, ms(200), Some(ms(60))), ms(0));
        assert_eq!(stall.look(8, ms(200), None), ms(200));
    }

    #[test]
    fn time_that_others_had_the_cpus_is_not_counted() {
        let mut stall = Stall::new(ms(200), 0, Some(ms(0)));
        // It runs 3 ms and waits 597 ms by turns; the kernel counts a wait when it is over.
        let mut longest = ms(0);
        for look in 1..=600 {
            let turns = look * 200 / 600;
            longest = longest.max(stall.look(0, ms(200), Some(ms(597 * turns))));
        }
        // 200 turns of 3 ms, and three looks of the wait that is not over.
        assert!(longest <= ms(200 * 3 + 600), "{longest:?}");
        // The watchdog itself had no CPU for a minute.
        let mut late = Stall::new(ms(200), 0, None);
        assert_eq!(late.look(0, ms(60_000), None), ms(400));
    }

    /// The kernel's word on a thread that shares one CPU with another.
    #[test]
    fn the_kernel_tells_how_long_a_thread_waited() {
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let of = |tid| CpuWait::of(&Roots::default(), std::process::id(), tid);
        let wait = of(own);
        let waited = || wait.as_ref().and_then(CpuWait::so_far);
        let Some(before) = waited() else {
            return eprintln!("skipped: this kernel does not count waits for a CPU");
        };
        assert!(waited().unwrap() >= before);
        assert!(of(1 << 30).is_none());
    }
}
