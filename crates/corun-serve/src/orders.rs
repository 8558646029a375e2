//! What viewers ask to be done on this machine, on its way to the one who may act.
//!
//! The server only carries orders. Whoever holds [`Orders`] does one at a time and answers each. Viewers say which
//! state of the machine they saw; an order of a viewer who has not seen the newest state is refused whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use corun_machine::CpuSet;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

/// Orders that wait at a time.
const MOST_WAITING: usize = 16;

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Deed {
    /// Hold all threads of a process on these CPUs.
    Hold {
        /// The process.
        pid: u32,
        /// Where its threads may run from now on.
        cpus: CpuSet,
    },
    /// Carry out what the policy would do now.
    ApplyPlan,
    /// Undo all that was done.
    UndoAll,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The state of the machine from now on: how often something was done.
    pub revision: u64,
    /// In words.
    pub done: Vec<String>,
    /// What was asked for and is as it was, with why.
    pub not_done: Vec<String>,
}

/// Why nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Undone {
    /// The viewer saw another state.
    #[error(
        "somebody else acted meanwhile; nothing was done. Look at what is shown now, and ask again"
    )]
    Outdated,
    /// It cannot or must not be done.
    #[error("{0}")]
    Refused(String),
}

/// An order that waits for its answer.
#[derive(Debug)]
pub struct Order {
    /// The state that the viewer saw.
    pub seen: u64,
    /// What to do.
    pub deed: Deed,
    answer: oneshot::Sender<Result<Done, Undone>>,
}

impl Order {
    /// Tells the viewer what came of it.
    pub fn answer(self, answer: Result<Done, Undone>) {
        // The viewer may have gone; what was done shows in the next look.
        let _ = self.answer.send(answer);
    }

    /// Does the viewer still wait? What nobody waits for any more is not begun.
    pub fn is_waited_for(&self) -> bool {
        !self.answer.is_closed()
    }
}

/// The side that does what is asked.
#[derive(Debug)]
pub struct Orders {
    /// None wakes the side that does what is asked, and asks for nothing.
    receiver: Receiver<Option<Order>>,
    /// Is there a none that was not received yet?
    woken: Arc<AtomicBool>,
    /// Keeps the channel open where nobody may ask.
    _open: SyncSender<Option<Order>>,
}

impl Orders {
    /// The next order, if there is one.
    pub fn next(&self) -> Option<Order> {
        self.receiver.try_iter().find_map(|order| self.unless_woken(order))
    }

    /// The next order; none where none came for so long, or somebody called [`Asker::wake`]. To wait costs nothing.
    pub fn next_within(&self, longest: Duration) -> Option<Order> {
        self.unless_woken(self.receiver.recv_timeout(longest).ok()?)
    }

    /// The next order; none where somebody called [`Asker::wake`]. To wait costs nothing.
    pub fn next_or_woken(&self) -> Option<Order> {
        self.unless_woken(self.receiver.recv().ok()?)
    }

    fn unless_woken(&self, order: Option<Order>) -> Option<Order> {
        if order.is_none() {
            self.woken.store(false, Ordering::SeqCst);
        }
        order
    }
}

/// The side that asks.
#[derive(Debug, Clone)]
pub struct Asker {
    sender: SyncSender<Option<Order>>,
    woken: Arc<AtomicBool>,
}

impl Asker {
    /// Both sides.
    pub fn new() -> (Self, Orders) {
        // One more place, for a none.
        let (sender, receiver) = sync_channel(MOST_WAITING + 1);
        let woken = Arc::new(AtomicBool::new(false));
        let asker = Self { sender: sender.clone(), woken: woken.clone() };
        (asker, Orders { receiver, woken, _open: sender })
    }

    /// Ends the other side's wait: there is something to look at besides orders.
    pub fn wake(&self) {
        if self.woken.swap(true, Ordering::SeqCst) {
            return;
        }
        // Where the channel is full, nobody waits.
        if self.sender.try_send(None).is_err() {
            self.woken.store(false, Ordering::SeqCst);
        }
    }

    /// Where the answer will come; none where too many wait, or nobody acts any more.
    pub(crate) fn ask(
        &self,
        seen: u64,
        deed: Deed,
    ) -> Option<oneshot::Receiver<Result<Done, Undone>>> {
        let (answer, answered) = oneshot::channel();
        self.sender.try_send(Some(Order { seen, deed, answer })).ok()?;
        Some(answered)
    }

    /// Asks, and waits for the answer: for threads that serve nobody else meanwhile. `handed` is called once the order
    /// waits to be carried out.
    pub fn ask_and_wait(&self, asked: ActAsked, handed: impl FnOnce()) -> Result<Done, Undone> {
        let deed = asked.deed.read().map_err(Undone::Refused)?;
        let silent = || Undone::Refused("nobody acts, or too many orders wait".to_owned());
        let answered = self.ask(asked.seen, deed).ok_or_else(silent)?;
        handed();
        answered.blocking_recv().unwrap_or_else(|_| Err(silent()))
    }
}

/// An order as a request's body.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActAsked {
    /// The state that the viewer saw.
    pub seen: u64,
    /// What is to be done.
    pub deed: DeedAsked,
}

impl ActAsked {
    /// An order once more, for somebody who carries it out elsewhere.
    pub fn of(order: &Order) -> Self {
        let deed = match &order.deed {
            Deed::Hold { pid, cpus } => DeedAsked::Hold { pid: *pid, cpus: cpus.to_string() },
            Deed::ApplyPlan => DeedAsked::ApplyPlan,
            Deed::UndoAll => DeedAsked::UndoAll,
        };
        Self { seen: order.seen, deed }
    }
}

/// A [`Deed`] whose CPUs are not read yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum DeedAsked {
    /// Hold all threads of a process on these CPUs.
    Hold {
        /// The process.
        pid: u32,
        /// A list of CPUs.
        cpus: String,
    },
    /// Carry out what the policy would do now.
    ApplyPlan,
    /// Undo all that was done.
    UndoAll,
}

impl DeedAsked {
    /// With its CPUs read; else why they cannot be.
    pub(crate) fn read(self) -> Result<Deed, String> {
        Ok(match self {
            Self::Hold { pid, cpus } => {
                let read: CpuSet =
                    cpus.trim().parse().map_err(|error| format!("CPUs {cpus:?}: {error}"))?;
                if read.is_empty() {
                    return Err("no CPUs are named to hold the process on".to_owned());
                }
                Deed::Hold { pid, cpus: read }
            }
            Self::ApplyPlan => Deed::ApplyPlan,
            Self::UndoAll => Deed::UndoAll,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_an_order_or_when_woken_and_wakes_take_no_orders_place() {
        let (asker, orders) = Asker::new();
        (0..100).for_each(|_| asker.wake());
        let answers: Vec<_> = (0..MOST_WAITING).map(|_| asker.ask(0, Deed::UndoAll)).collect();
        assert!(answers.iter().all(Option::is_some));
        assert!(orders.next_or_woken().is_none());
        assert!(orders.next_or_woken().is_some());
        asker.wake();
        let left = std::iter::from_fn(|| orders.next()).count();
        assert_eq!(left, MOST_WAITING - 1);
        asker.wake();
        assert!(orders.next_within(Duration::from_secs(60)).is_none());
        // With nobody left to ask, the wait is a wait all the same.
        drop(asker);
        assert!(orders.next_within(Duration::from_millis(1)).is_none());
    }
}
