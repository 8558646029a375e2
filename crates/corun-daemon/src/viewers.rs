//! Shows viewers on this machine what the daemon sees, over a socket of its own. `corun serve --daemon` is such a viewer.
//!
//! Both sides write lines of JSON. The daemon says which machine it is on and whether viewers may act, then a look after each
//! tick, `{"look":DOCUMENT}`; a viewer sends orders. Looks are made only while a viewer is connected. A viewer that is slow misses looks, and
//! nobody waits for it.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use corun_machine::Machine;
use corun_serve::protocol::{Hello, Message, NumberedOrder, look_line};
use corun_serve::{Asker, Order, Orders};
use tracing::{info, warn};

use corun_app::Result;

/// Viewers at a time; more are sent away.
const MOST_VIEWERS: usize = 8;
/// Bytes of an order's line at most.
const MOST_LINE_BYTES: u64 = 16 << 10;
/// A viewer that takes no byte for so long is gone.
const WRITE_TIME: Duration = Duration::from_secs(5);
/// Until the next try where nobody can be accepted.
const PAUSE: Duration = Duration::from_secs(1);

/// The daemon's side of all viewers.
pub(crate) struct Viewers {
    shared: Arc<Shared>,
    orders: Orders,
    path: PathBuf,
}

struct Shared {
    newest: Mutex<Newest>,
    changed: Condvar,
    watching: AtomicUsize,
    asker: Asker,
    /// Gets a byte with each order.
    woken: UnixStream,
}

/// What viewers are to have.
#[derive(Default)]
struct Newest {
    /// Empty before the daemon knows its machine.
    hello: Arc<str>,
    look: Arc<str>,
    /// How many there were of both.
    hellos: u64,
    looks: u64,
}

impl Viewers {
    /// Listens at a path, for root and the daemon's own user alone. `woken` gets a byte when there is an order.
    ///
    /// # Errors
    /// Where nothing can listen there, also because another daemon does.
    pub(crate) fn at(path: &Path, woken: UnixStream) -> Result<Self> {
        let listener = listen(path).with_context(|| format!("viewers: {}", path.display()))?;
        woken.set_nonblocking(true)?;
        let (asker, orders) = Asker::new();
        let shared = Arc::new(Shared {
            newest: Mutex::default(),
            changed: Condvar::new(),
            watching: AtomicUsize::new(0),
            asker,
            woken,
        });
        let accepting = shared.clone();
        thread::Builder::new()
            .name("viewers".to_owned())
            .spawn(move || accept(&listener, &accepting))?;
        info!(path = %path.display(), "viewers are shown what is seen");
        Ok(Self { shared, orders, path: path.to_owned() })
    }

    /// From now on viewers are told of this machine. Those who were told otherwise are sent away, and come again.
    pub(crate) fn greet(&self, machine: &Machine, acts: bool) {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let hello = Message::Hello(Hello { version, machine: machine.to_toml(), acts });
        let hello: Arc<str> = hello.line().into();
        let mut newest = self.shared.newest();
        if newest.hello != hello {
            newest.hello = hello;
            newest.hellos += 1;
        }
        // What was seen before was seen by another host.
        newest.look = Arc::from("");
        self.shared.changed.notify_all();
    }

    /// Does anybody look on?
    pub(crate) fn are_there(&self) -> bool {
        self.shared.watching.load(Ordering::SeqCst) > 0
    }

    /// Shows all viewers a look, a JSON document.
    pub(crate) fn show(&self, document: &str) {
        let look = look_line(document).into();
        let mut newest = self.shared.newest();
        newest.look = look;
        newest.looks += 1;
        self.shared.changed.notify_all();
    }

    /// The next order that somebody waits for, if there is one.
    pub(crate) fn order(&self) -> Option<Order> {
        std::iter::from_fn(|| self.orders.next()).find(Order::is_waited_for)
    }
}

impl Drop for Viewers {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Shared {
    fn newest(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A socket that a dead daemon left is taken over; one that answers is another daemon's.
fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    if UnixStream::connect(path).is_ok() {
        let why = "another daemon listens there";
        return Err(io::Error::new(io::ErrorKind::AddrInUse, why));
    }
    let is_socket = |path: &Path| {
        use std::os::unix::fs::FileTypeExt as _;
        fs::symlink_metadata(path).is_ok_and(|one| one.file_type().is_socket())
    };
    if is_socket(path) {
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                if !may_look(&stream) || shared.watching.load(Ordering::SeqCst) >= MOST_VIEWERS {
                    continue;
                }
                shared.watching.fetch_add(1, Ordering::SeqCst);
                let own = shared.clone();
                let attending = move || {
                    let _ = attend(stream, &own);
                    own.watching.fetch_sub(1, Ordering::SeqCst);
                };
                let begun = thread::Builder::new().name("viewer".to_owned()).spawn(attending);
                if begun.is_err() {
                    shared.watching.fetch_sub(1, Ordering::SeqCst);
                }
            }
            Err(error) => {
                warn!(%error, "a viewer was not served");
                thread::sleep(PAUSE);
            }
        }
    }
}

/// Root and the daemon's own user.
fn may_look(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid.is_root() || peer.uid == own)
}

/// Writes what there is to see until the viewer is gone.
fn attend(stream: UnixStream, shared: &Arc<Shared>) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITE_TIME))?;
    let reading = stream.try_clone()?;
    let (writer, gone) = (Arc::new(Mutex::new(stream)), Arc::new(AtomicBool::new(false)));
    let (its, left, own) = (writer.clone(), gone.clone(), shared.clone());
    thread::Builder::new().name("orders".to_owned()).spawn(move || {
        let _ = obey(reading, &its, &own);
        left.store(true, Ordering::SeqCst);
        // Whoever waits for a look has to notice.
        drop(own.newest());
        own.changed.notify_all();
    })?;
    let write = |text: &str| {
        let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.write_all(text.as_bytes())
    };
    let wrote = show_all(shared, &gone, write);
    // Ends the thread that reads.
    let writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = writer.shutdown(std::net::Shutdown::Both);
    wrote
}

fn show_all(
    shared: &Shared,
    gone: &AtomicBool,
    write: impl Fn(&str) -> io::Result<()>,
) -> io::Result<()> {
    let (mut greeted, mut shown) = (0, 0);
    loop {
        let text = {
            let mut newest = shared.newest();
            loop {
                if gone.load(Ordering::SeqCst) || greeted != 0 && greeted != newest.hellos {
                    return Ok(());
                }
                if greeted != newest.hellos {
                    greeted = newest.hellos;
                    break newest.hello.clone();
                }
                if shown != newest.looks && !newest.look.is_empty() {
                    shown = newest.looks;
                    break newest.look.clone();
                }
                newest = shared.changed.wait(newest).unwrap_or_else(PoisonError::into_inner);
            }
        };
        write(&text)?;
    }
}

/// Reads a viewer's orders and answers each, one after the other.
fn obey(reading: UnixStream, writer: &Mutex<UnixStream>, shared: &Shared) -> io::Result<()> {
    let mut reader = BufReader::new(reading);
    loop {
        let mut text = String::new();
        let read = reader.by_ref().take(MOST_LINE_BYTES).read_line(&mut text)?;
        if read == 0 || !text.ends_with('\n') {
            return Ok(());
        }
        let NumberedOrder { number, asked } = serde_json::from_str(&text)?;
        let wake = || {
            let _ = (&shared.woken).write(&[0]);
        };
        let answer = shared.asker.ask_and_wait(asked, wake);
        let text = Message::Answer { number, answer }.line();
        writer.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes())?;
    }
}
