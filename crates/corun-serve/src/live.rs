//! What is observed of this machine, for as many viewers as there are.

use std::sync::Arc;

use corun_machine::Machine;
use tokio::sync::watch;

use crate::orders::Asker;

/// An experiment of `corun ab` as its progress comes in. Clones share it.
#[derive(Debug, Clone)]
pub struct Experiment {
    newest: watch::Sender<Arc<str>>,
}

impl Default for Experiment {
    /// Nothing is known yet.
    fn default() -> Self {
        Self { newest: watch::Sender::new(Arc::from("")) }
    }
}

impl Experiment {
    /// Shows viewers what is known: `{"about": .., "pairs": [..], "result": ..}`, or `{"away": ".."}` where nothing can be read.
    pub fn show(&self, document: String) {
        self.newest.send_if_modified(|shown| {
            let is_new = **shown != *document;
            if is_new {
                *shown = document.into();
            }
            is_new
        });
    }

    /// Does anybody look on?
    pub fn is_watched(&self) -> bool {
        self.newest.receiver_count() > 0
    }

    /// What is known from now on, the newest at once; an empty text where there is nothing.
    pub(crate) fn progress(&self) -> watch::Receiver<Arc<str>> {
        self.newest.subscribe()
    }
}

/// The newest look at this machine. Clones share the look; viewers who are slow miss looks and never make any
/// wait.
#[derive(Debug, Clone)]
pub struct Live {
    /// The machine whose CPUs the looks name.
    pub machine: Arc<Machine>,
    newest: watch::Sender<Arc<str>>,
    /// Where orders go, and who is woken when a viewer comes or goes.
    asker: Asker,
    acts: bool,
}

impl Live {
    /// Nothing is seen yet. Whoever looks at the machine waits at the other side of `asker`, and is woken when a viewer comes
    /// or goes. `acts`: viewers may also ask for something to be done.
    pub fn new(machine: Arc<Machine>, asker: Asker, acts: bool) -> Self {
        Self { machine, newest: watch::Sender::new(Arc::from("")), asker, acts }
    }

    /// Ends the wait of whoever looks at the machine.
    pub fn wake(&self) {
        self.asker.wake();
    }

    /// Where orders go; none where viewers may only look.
    pub(crate) fn asker(&self) -> Option<&Asker> {
        self.acts.then_some(&self.asker)
    }

    /// A viewer has come: the looks from now on, the newest at once, an empty text where there is none. The looks are to
    /// be dropped before the other part.
    pub(crate) fn viewer(&self) -> (watch::Receiver<Arc<str>>, Viewing) {
        let looks = self.newest.subscribe();
        self.asker.wake();
        (looks, Viewing(self.asker.clone()))
    }

    /// Shows viewers a look: the JSON document of `corun top --once --format json`, with what was done as `act` where viewers
    /// may act; or `{"error": ".."}` once no more come.
    pub fn show(&self, document: &str) {
        self.newest.send_replace(document.into());
    }

    /// Forgets the newest look: whoever comes next waits for one of their time.
    pub fn forget(&self) {
        self.newest.send_replace("".into());
    }

    /// Does anybody look on?
    pub fn is_watched(&self) -> bool {
        self.newest.receiver_count() > 0
    }
}

/// Dropped when a viewer has gone.
pub(crate) struct Viewing(Asker);

impl Drop for Viewing {
    fn drop(&mut self) {
        self.0.wake();
    }
}
