//! Ctrl-C: asks long work to stop, so that no file is left half-written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Result};

/// Set once the user wants to stop. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<Wishes>);

/// What the user wants.
#[derive(Debug, Default)]
struct Wishes {
    stop: AtomicBool,
    hurry: AtomicBool,
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
        ctrlc::set_handler(move || {
            if flag.0.stop.swap(true, Ordering::SeqCst) {
                last();
                std::process::exit(130);
            }
        })
        .map_err(Error::failed)?;
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
        ctrlc::set_handler(move || {
            if wishes.stop.swap(true, Ordering::SeqCst) {
                wishes.hurry.store(true, Ordering::SeqCst);
            }
        })
        .map_err(Error::failed)?;
        Ok(cancel)
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
