//! What is observed of this machine, for as many viewers as there are.

use std::sync::Arc;

use corun_machine::Machine;
use tokio::sync::watch;

use crate::orders::Asker;

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
