//! What a daemon sees, for the viewers of the page: looks one way, orders the other.
//!
//! The daemon is asked only while somebody looks on. Where it goes away the page says so, and shows what it sees once it is
//! back.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use corun_app::{Cancel, Error};
use corun_machine::{Machine, MachineError};
use serde_json::json;

use crate::protocol::{Hello, Message, NumberedOrder, document_of_look};
use crate::{ActAsked, Done, Live, Order, Orders, Undone};

/// For the daemon's first line, and to write an order.
const HELLO_TIME: Duration = Duration::from_secs(5);
/// Between two attempts to reach a daemon that is away.
const AGAIN: Duration = Duration::from_secs(1);
/// Bytes of a line at most: a look of some 100,000 threads.
const MOST_LINE_BYTES: usize = 64 << 20;
/// Bytes that are read at once.
const MOST_AT_ONCE: usize = 64 << 10;

/// A daemon's socket, and what the daemon said of itself.
pub struct Attached {
    path: PathBuf,
    /// May viewers act?
    acts: bool,
    machine: Arc<Machine>,
}

/// A daemon that is there.
struct Connection {
    stream: BufReader<UnixStream>,
    /// What came of a line that is not whole.
    begun: Vec<u8>,
}

/// Orders that were passed on, by their numbers. Where the daemon goes away before it answers, their viewers are told.
#[derive(Default)]
struct PassedOn(Mutex<BTreeMap<u64, Order>>);

impl Attached {
    /// Asks the daemon at a socket which machine it is on. `act`: viewers are to act.
    ///
    /// # Errors
    /// Where no daemon answers, or viewers may not act there.
    pub fn to(path: &Path, act: bool) -> corun_app::Result<Self> {
        let shown = path.display();
        let (_, hello) = Connection::open(path).map_err(|error| {
            Error::input(format!("--daemon: no daemon answers at {shown}: {error}")).hint(format!(
                "viewers = \"{shown}\" in the daemon's configuration, and its user or root here"
            ))
        })?;
        if act && !hello.acts {
            let what = "--act: the daemon does not let viewers act";
            return Err(Error::input(what)
                .hint("apply = false and viewers_may_act = true in the daemon's configuration"));
        }
        let machine = Arc::new(machine_of(&hello).map_err(Error::input)?);
        Ok(Self { path: path.to_owned(), acts: hello.acts, machine })
    }

    /// The machine that the daemon is on.
    pub fn machine(&self) -> Arc<Machine> {
        self.machine.clone()
    }

    /// Passes looks and orders on until the user wants to stop.
    pub fn watch(self, live: &Live, orders: &Orders, cancel: &Cancel) {
        while !cancel.is_set() {
            if !live.is_watched() {
                live.forget();
                // An order is asked for by somebody who looked on just now.
                let Some(order) = orders.next_or_woken() else { continue };
                self.attend(Some(order), live, orders, cancel);
                continue;
            }
            self.attend(None, live, orders, cancel);
        }
    }

    /// As long as the daemon answers and somebody looks on.
    fn attend(&self, first: Option<Order>, live: &Live, orders: &Orders, cancel: &Cancel) {
        let ended = Connection::open(&self.path).and_then(|(connection, hello)| {
            let machine = machine_of(&hello).map_err(io::Error::other)?;
            if hello.acts != self.acts || !machine.is_known_as(&self.machine) {
                return Err(io::Error::other("its configuration changed: start corun serve anew"));
            }
            connection.pass_on(first, live, orders, cancel)
        });
        let Err(error) = ended else { return };
        let away = format!(
            "The daemon at {} is away ({error}); what was seen last stays. Waiting for it.",
            self.path.display()
        );
        live.show(&json!({ "away": away }).to_string());
        let since = Instant::now();
        while let Some(left) = AGAIN.checked_sub(since.elapsed()).filter(|_| !cancel.is_set()) {
            if let Some(order) = orders.next_within(left) {
                order.answer(Err(Undone::Refused("the daemon is away".to_owned())));
            }
        }
    }
}

fn machine_of(hello: &Hello) -> Result<Machine, MachineError> {
    Machine::from_toml(&hello.machine, "the daemon's machine")
}

impl Connection {
    fn open(path: &Path) -> io::Result<(Self, Hello)> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(HELLO_TIME))?;
        stream.set_write_timeout(Some(HELLO_TIME))?;
        let stream = BufReader::with_capacity(MOST_AT_ONCE, stream);
        let mut own = Self { stream, begun: Vec::new() };
        let since = Instant::now();
        while since.elapsed() < HELLO_TIME {
            let message = own.receive(|line| Ok(serde_json::from_slice(line)?))?;
            if let Some(Message::Hello(hello)) = message {
                own.stream.get_ref().set_read_timeout(None)?;
                return Ok((own, hello));
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "it does not say which machine it is on"))
    }

    /// One thread waits for the daemon's lines, this one for orders: neither asks now and then whether there is something.
    fn pass_on(
        mut self,
        first: Option<Order>,
        live: &Live,
        orders: &Orders,
        cancel: &Cancel,
    ) -> io::Result<()> {
        let passed_on = PassedOn::default();
        let writing = self.stream.get_ref().try_clone()?;
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let read = self.read(live, &passed_on);
                ended.store(true, Ordering::SeqCst);
                live.wake();
                read
            });
            let (mut next, mut number) = (first, 0);
            let wanted = |next: &Option<Order>| {
                !cancel.is_set()
                    && (live.is_watched() || next.is_some() || passed_on.are_some_left())
            };
            let mut written = Ok(());
            while written.is_ok() && wanted(&next) && !ended.load(Ordering::SeqCst) {
                if let Some(order) = next.take() {
                    number += 1;
                    written = passed_on.write(order, number, &writing);
                }
                next = orders.next_or_woken();
            }
            if let Some(order) = next {
                order.answer(Err(went_away()));
            }
            let ended_by_us = !ended.load(Ordering::SeqCst);
            // What is waited for ends.
            let _ = writing.shutdown(Shutdown::Both);
            let read = reading.join().unwrap_or_else(|panicked| resume_unwind(panicked));
            written.and(if ended_by_us { Ok(()) } else { read })
        })
    }

    /// Shows looks and answers orders, until the daemon ends.
    fn read(&mut self, live: &Live, passed_on: &PassedOn) -> io::Result<()> {
        loop {
            self.receive(|line| {
                // Most lines are looks, and a look is for the page alone to read.
                if let Some(document) = document_of_look(line) {
                    let document = str::from_utf8(document).map_err(io::Error::other)?;
                    // No JSON has one as it is, and no event of a stream may.
                    if document.contains('\r') {
                        return Err(io::Error::other("a look is no line of JSON"));
                    }
                    live.show(document);
                    return Ok(());
                }
                if let Message::Answer { number, answer } = serde_json::from_slice(line)? {
                    passed_on.answer(number, answer);
                    live.wake();
                }
                Ok(())
            })?;
        }
    }

    /// Takes a line; none where nothing came for as long as the stream waits.
    fn receive<T>(&mut self, take: impl FnOnce(&[u8]) -> io::Result<T>) -> io::Result<Option<T>> {
        let left = MOST_LINE_BYTES.saturating_sub(self.begun.len());
        let read = self.stream.by_ref().take(left as u64).read_until(b'\n', &mut self.begun);
        match read {
            // What has come of the line stays.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        let Some(line) = self.begun.strip_suffix(b"\n") else {
            let is_too_long = self.begun.len() >= MOST_LINE_BYTES;
            let why = if is_too_long { "it says too much at once" } else { "it ended" };
            return Err(io::Error::other(why));
        };
        let taken = take(line)?;
        self.begun.clear();
        Ok(Some(taken))
    }
}

impl PassedOn {
    fn orders(&self) -> MutexGuard<'_, BTreeMap<u64, Order>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn are_some_left(&self) -> bool {
        !self.orders().is_empty()
    }

    fn write(&self, order: Order, number: u64, mut stream: &UnixStream) -> io::Result<()> {
        let numbered = NumberedOrder { number, asked: ActAsked::of(&order) };
        // Before the daemon can answer it.
        self.orders().insert(number, order);
        let mut line = serde_json::to_vec(&numbered)?;
        line.push(b'\n');
        stream.write_all(&line)
    }

    fn answer(&self, number: u64, answer: Result<Done, Undone>) {
        if let Some(order) = self.orders().remove(&number) {
            order.answer(answer);
        }
    }
}

impl Drop for PassedOn {
    fn drop(&mut self) {
        for order in std::mem::take(&mut *self.orders()).into_values() {
            order.answer(Err(went_away()));
        }
    }
}

fn went_away() -> Undone {
    let why = "the daemon went away: what is shown next tells whether it was done";
    Undone::Refused(why.to_owned())
}
