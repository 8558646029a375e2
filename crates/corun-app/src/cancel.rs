//! Ctrl-C: asks long work to stop, so that no file is left half-written.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{Error, Result};

/// Set once the user wants to stop. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<Wishes>);

/// What the user wants.
#[derive(Default)]
struct Wishes {
    stop: AtomicBool,
    hurry: AtomicBool,
    /// Done when `stop` is set.
    waiting: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl Wishes {
    /// Sets `stop`, and says whether it was set before.
    fn stop(&self) -> bool {
        let before = self.stop.swap(true, Ordering::SeqCst);
        let waiting =
            std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.into_iter().for_each(|act| act());
        before
    }
}

impl fmt::Debug for Wishes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stop, hurry, .. } = self;
        f.debug_struct("Wishes").field("stop", stop).field("hurry", hurry).finish_non_exhaustive()
    }
}

impl Cancel {
    /// A flag that Ctrl-C (and SIGTERM, SIGHUP) sets. A second Ctrl-C ends the process at once.
    pub fn on_signal() -> Result<Self> {
        Self::on_signal_and_last(|| {})
    }

    /// As [`Self::on_signal`]; `last` is done before a second Ctrl-C ends the process.
    pub fn on_signal_and_last(last: fn()) -> Result<Self> {
        let cancel = Self::default();
        let flag = cancel.clone();
        on_each_signal(move || {
            if flag.0.stop() {
                last();
                std::process::exit(130);
            }
        })?;
        Ok(cancel)
    }

    /// As [`Self::on_signal`], for work that has to be undone: no signal ends the process. A second one only
    /// says that the user is in a hurry.
    ///
    /// # Errors
    /// When the signals cannot be caught.
    pub fn on_signal_undoing() -> Result<Self> {
        let cancel = Self::default();
        let wishes = cancel.0.clone();
        on_each_signal(move || {
            if wishes.stop() {
                wishes.hurry.store(true, Ordering::SeqCst);
            }
        })?;
        Ok(cancel)
    }

    /// Does this once the user wants to stop, on the thread that hears of it; at once where the user does already. Who
    /// waits for something else is woken so.
    pub fn when_set(&self, act: impl FnOnce() + Send + 'static) {
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_set() {
            waiting.push(Box::new(act));
            return;
        }
        drop(waiting);
        act();
    }

    /// Did the user ask a second time?
    pub fn is_hurried(&self) -> bool {
        self.0.hurry.load(Ordering::SeqCst)
    }

    /// Does the user want to stop?
    pub fn is_set(&self) -> bool {
        self.0.stop.load(Ordering::SeqCst)
    }

    /// The flag itself, for work that polls it.
    pub fn flag(&self) -> &AtomicBool {
        &self.0.stop
    }

    /// # Errors
    /// [`Error::Interrupted`] once the user wants to stop.
    pub fn check(&self) -> Result {
        if self.is_set() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// Does this at each Ctrl-C, SIGTERM and SIGHUP. Where the caller has this process ignore SIGHUP, as `nohup` does, it
/// goes on, and so do the programs that it starts. Shells have what they start in the background ignore SIGINT, which
/// is caught all the same: it is how scripts end corun.
fn on_each_signal(mut act: impl FnMut() + Send + 'static) -> Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(Error::failed)?;
    let outlives_its_terminal = ignores(&status, SIGHUP);
    let hang_up = Some(SIGHUP).filter(|_| !outlives_its_terminal);
    let caught = [SIGINT, SIGTERM].into_iter().chain(hang_up);
    let mut signals = Signals::new(caught).map_err(Error::failed)?;
    let watch = move || signals.forever().for_each(|_| act());
    std::thread::Builder::new().name("signals".to_owned()).spawn(watch).map_err(Error::failed)?;
    Ok(())
}

/// Does a process ignore this signal, by its `status` in procfs? No where that does not say.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_told_once_and_at_once_where_it_is_set_already() {
        let cancel = Cancel::default();
        let (told, heard) = std::sync::mpsc::channel();
        let (first, second) = (told.clone(), told);
        cancel.when_set(move || first.send(1).unwrap());
        assert!(heard.try_recv().is_err());
        assert!(!cancel.0.stop() && cancel.is_set());
        assert_eq!(heard.try_recv(), Ok(1));
        assert!(cancel.0.stop());
        assert!(heard.try_recv().is_err());
        cancel.when_set(move || second.send(2).unwrap());
        assert_eq!(heard.try_recv(), Ok(2));
    }

    #[test]
    fn signals_that_are_ignored_are_read_from_procfs() {
        let status = "Name:\tcorun\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\n";
        assert!(ignores(status, SIGHUP) && ignores(status, 13) && !ignores(status, SIGINT));
        assert!(!ignores("Name:\tcorun\n", SIGHUP) && !ignores("SigIgn:\tx\n", SIGHUP));
    }
}
