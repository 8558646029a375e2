//! The open connections of a server.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// Connections at a time; one more ends the oldest of its kind.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    /// Of clients that did not show who they are.
    pub strangers: usize,
    /// Of clients that did.
    pub admitted: usize,
}

/// The open connections of a server. Clones share them.
#[derive(Debug, Clone)]
pub struct Connections {
    allowance: Allowance,
    open: Arc<Mutex<Open>>,
}

/// Each the oldest first.
#[derive(Debug, Default)]
struct Open {
    strangers: VecDeque<Connection>,
    admitted: VecDeque<Connection>,
    /// Of the next connection.
    number: u64,
}

#[derive(Debug)]
struct Connection {
    number: u64,
    task: AbortHandle,
}

/// A connection among the others of its server.
#[derive(Debug, Clone)]
pub struct Standing {
    number: u64,
    connections: Connections,
}

impl Connections {
    /// None is open yet.
    pub fn new(allowance: Allowance) -> Self {
        Self { allowance, open: Arc::default() }
    }

    /// Serves a stranger's connection in a task of its own.
    pub(crate) async fn spawn<F: Future<Output = ()> + Send + 'static>(
        &self,
        serve: impl FnOnce(Standing) -> F,
    ) {
        let has_ended = make_room(&mut self.open().strangers, self.allowance.strangers);
        if has_ended {
            // Its descriptor and its memory are free once its task has had its turn.
            tokio::task::yield_now().await;
        }
        let number = {
            let mut open = self.open();
            open.number += 1;
            open.number
        };
        let task = tokio::spawn(serve(Standing { number, connections: self.clone() }));
        self.open().strangers.push_back(Connection { number, task: task.abort_handle() });
        // What the client sent along with its connection is read before the next connection comes.
        tokio::task::yield_now().await;
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the oldest connection where there is no room for one more. Was one ended?
fn make_room(connections: &mut VecDeque<Connection>, most: usize) -> bool {
    connections.retain(|one| !one.task.is_finished());
    if connections.len() < most {
        return false;
    }
    connections.pop_front().inspect(|oldest| oldest.task.abort()).is_some()
}

impl Standing {
    /// Its client showed who it is: strangers cannot end this connection any more.
    pub fn admit(&self) {
        let mut open = self.connections.open();
        let place = open.strangers.iter().position(|one| one.number == self.number);
        if let Some(own) = place.and_then(|place| open.strangers.remove(place)) {
            make_room(&mut open.admitted, self.connections.allowance.admitted);
            open.admitted.push_back(own);
        }
    }

    /// Was its client admitted?
    pub fn is_admitted(&self) -> bool {
        self.connections.open().admitted.iter().any(|one| one.number == self.number)
    }
}
