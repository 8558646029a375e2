//! What wakes the daemon's loop: signals, and the orders of viewers.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use corun_app::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// What signals ask for.
pub(crate) struct Signals {
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) reload: Arc<AtomicBool>,
    /// Gets a byte with each signal and each order.
    woken: UnixStream,
    wakes: UnixStream,
}

impl Signals {
    pub(crate) fn new() -> Result<Self> {
        let (woken, wakes) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let own = Self { stop: Arc::default(), reload: Arc::default(), woken, wakes };
        // A second one changes nothing: undoing takes milliseconds, and must not be cut short.
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, own.stop.clone())?;
        }
        signal_hook::flag::register(SIGHUP, own.reload.clone())?;
        // After the flags: who is woken finds them.
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, own.wakes.try_clone()?)?;
        }
        Ok(own)
    }

    /// Where a byte ends [`Self::wait`].
    pub(crate) fn waker(&self) -> Result<UnixStream> {
        Ok(self.wakes.try_clone()?)
    }

    /// Sleeps for so long, or until the next signal or order.
    pub(crate) fn wait(&self, longest: Duration) {
        let longest =
            Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: longest.subsec_nanos().into() };
        let mut asked = [PollFd::new(&self.woken, PollFlags::IN)];
        // A signal that another thread took interrupts nothing; what interrupts this one is there to be read.
        if poll(&mut asked, Some(&longest)).is_ok_and(|ready| ready > 0) {
            let _ = (&self.woken).read(&mut [0; 64]);
        }
    }
}
