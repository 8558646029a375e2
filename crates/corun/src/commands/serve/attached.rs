//! What a daemon sees, for the viewers of the page: looks one way, orders the other.
//!
//! The daemon is asked only while somebody looks on. Where it goes away the page says so, and shows what it sees once it is
//! back.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use corun_app::Cancel;
use corun_machine::Machine;
use corun_serve::{ActAsked, Live, Order, Orders, Undone};
use serde_json::json;

use super::super::daemon::{Hello, Message, NumberedOrder};
use super::IDLE_PAUSE;
use crate::failure::{Failure, Outcome};

/// For a read: between two questions of whether there is an order.
const READ_TIME: Duration = Duration::from_millis(50);
/// For the daemon's first line.
const HELLO_TIME: Duration = Duration::from_secs(5);
/// Between two attempts to reach a daemon that is away.
const AGAIN: Duration = Duration::from_secs(1);
/// Bytes of a line at most: a look of some 100,000 threads.
const MOST_LINE_BYTES: usize = 64 << 20;

/// A daemon's socket, and what the daemon said of itself.
pub(super) struct Attached {
    path: PathBuf,
    hello: Hello,
    machine: Arc<Machine>,
}

/// A daemon that is there.
struct Connection {
    stream: UnixStream,
    /// What came of a line that is not whole.
    begun: Vec<u8>,
    /// Orders that were passed on, by their numbers.
    passed_on: BTreeMap<u64, Order>,
    number: u64,
}

impl Attached {
    /// Asks the daemon at a socket which machine it is on. `act`: viewers are to act.
    ///
    /// # Errors
    /// Where no daemon answers, or viewers may not act there.
    pub(super) fn to(path: &Path, act: bool) -> Outcome<Self> {
        let shown = path.display();
        let (_, hello) = Connection::open(path).map_err(|error| {
            Failure::input(format!("--daemon: no daemon answers at {shown}: {error}")).hint(
                format!(
                    "viewers = \"{shown}\" in the daemon's configuration, and its user or root here"
                ),
            )
        })?;
        if act && !hello.acts {
            let what = "--act: the daemon does not let viewers act";
            return Err(Failure::input(what)
                .hint("apply = false and viewers_may_act = true in the daemon's configuration"));
        }
        let machine = Machine::from_toml(&hello.machine, "the daemon's machine");
        let machine = Arc::new(machine.map_err(Failure::input)?);
        Ok(Self { path: path.to_owned(), hello, machine })
    }

    /// The machine that the daemon is on.
    pub(super) fn machine(&self) -> Arc<Machine> {
        self.machine.clone()
    }

    /// Passes looks and orders on until the user wants to stop.
    pub(super) fn watch(self, live: &Live, orders: &Orders, cancel: &Cancel) {
        while !cancel.is_set() {
            if !live.is_watched() {
                live.forget();
                // An order is asked for by somebody who looked on just now.
                let Some(order) = orders.next() else {
                    thread::sleep(IDLE_PAUSE);
                    continue;
                };
                self.attend(Some(order), live, orders, cancel);
                continue;
            }
            self.attend(None, live, orders, cancel);
        }
    }

    /// As long as the daemon answers and somebody looks on.
    fn attend(&self, first: Option<Order>, live: &Live, orders: &Orders, cancel: &Cancel) {
        let ended = Connection::open(&self.path).and_then(|(connection, hello)| {
            if hello.machine != self.hello.machine || hello.acts != self.hello.acts {
                return Err(io::Error::other("its configuration changed: start corun serve anew"));
            }
            connection.pass_on(first, live, orders, cancel)
        });
        let Err(error) = ended else { return };
        let away = format!(
            "The daemon at {} is away ({error}); what was seen last stays. Waiting for it.",
            self.path.display()
        );
        live.show(json!({ "away": away }).to_string());
        let since = Instant::now();
        while since.elapsed() < AGAIN && !cancel.is_set() {
            if let Some(order) = orders.next() {
                order.answer(Err(Undone::Refused("the daemon is away".to_owned())));
            }
            thread::sleep(READ_TIME);
        }
    }
}

impl Connection {
    fn open(path: &Path) -> io::Result<(Self, Hello)> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(READ_TIME))?;
        stream.set_write_timeout(Some(HELLO_TIME))?;
        let mut own = Self { stream, begun: Vec::new(), passed_on: BTreeMap::new(), number: 0 };
        let since = Instant::now();
        while since.elapsed() < HELLO_TIME {
            if let Some(Message::Hello(hello)) = own.messages()?.into_iter().next() {
                return Ok((own, hello));
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "it does not say which machine it is on"))
    }

    fn pass_on(
        mut self,
        first: Option<Order>,
        live: &Live,
        orders: &Orders,
        cancel: &Cancel,
    ) -> io::Result<()> {
        let mut next = first;
        while !cancel.is_set()
            && (live.is_watched() || next.is_some() || !self.passed_on.is_empty())
        {
            while let Some(order) = next.take().or_else(|| orders.next()) {
                self.order(order)?;
            }
            for message in self.messages()? {
                match message {
                    Message::Look(look) => live.show(look.get().to_owned()),
                    Message::Answer { number, answer } => {
                        if let Some(order) = self.passed_on.remove(&number) {
                            order.answer(answer);
                        }
                    }
                    Message::Hello(_) => {}
                }
            }
        }
        Ok(())
    }

    fn order(&mut self, order: Order) -> io::Result<()> {
        self.number += 1;
        let numbered = NumberedOrder { number: self.number, asked: ActAsked::of(&order) };
        self.passed_on.insert(self.number, order);
        let mut line = serde_json::to_vec(&numbered)?;
        line.push(b'\n');
        self.stream.write_all(&line)
    }

    /// The lines that have come; none where none came for a moment.
    fn messages(&mut self) -> io::Result<Vec<Message>> {
        let mut some = [0; 1 << 16];
        match self.stream.read(&mut some) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended")),
            Ok(count) => self.begun.extend_from_slice(&some[..count]),
            Err(error) => {
                let nothing = [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted];
                return if nothing.contains(&error.kind()) { Ok(Vec::new()) } else { Err(error) };
            }
        }
        if self.begun.len() > MOST_LINE_BYTES {
            return Err(io::Error::other("it says too much at once"));
        }
        let Some(end) = self.begun.iter().rposition(|&byte| byte == b'\n') else {
            return Ok(Vec::new());
        };
        let whole: Vec<u8> = self.begun.drain(..=end).collect();
        let lines = whole.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).map_err(io::Error::from)).collect()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        for order in std::mem::take(&mut self.passed_on).into_values() {
            let why = "the daemon went away: what is shown next tells whether it was done";
            order.answer(Err(Undone::Refused(why.to_owned())));
        }
    }
}
