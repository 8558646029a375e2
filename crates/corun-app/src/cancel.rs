//! Ctrl-C: asks long work to stop, so that no file is left half-written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Result};

/// Set once the user wants to stop. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

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
            if flag.0.swap(true, Ordering::SeqCst) {
                last();
                std::process::exit(130);
            }
        })
        .map_err(Error::failed)?;
        Ok(cancel)
    }

    /// Does the user want to stop?
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// The flag itself, for work that polls it.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// # Errors
    /// [`Error::Interrupted`] once the user wants to stop.
    pub fn check(&self) -> Result {
        if self.is_set() { Err(Error::Interrupted) } else { Ok(()) }
    }
}
