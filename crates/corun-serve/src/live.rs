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
    /// Where orders go; none where viewers may only look.
    pub(crate) asker: Option<Asker>,
}

impl Live {
    /// Nothing is seen yet.
    pub fn new(machine: Arc<Machine>) -> Self {
        Self { machine, newest: watch::Sender::new(Arc::from("")), asker: None }
    }

    /// From now on viewers may also ask for something to be done.
    #[must_use]
    pub fn acting(self, asker: Asker) -> Self {
        Self { asker: Some(asker), ..self }
    }

    /// Shows viewers a look: the JSON document of `corun top --once --format json`, with what was done as `act` where viewers
    /// may act; or `{"error": ".."}` once no more come.
    pub fn show(&self, document: String) {
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

    /// The looks from now on, the newest at once; an empty text where there is none.
    pub(crate) fn looks(&self) -> watch::Receiver<Arc<str>> {
        self.newest.subscribe()
    }
}
