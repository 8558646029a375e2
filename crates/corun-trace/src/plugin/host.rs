//! What the plug-in asks of the operating system for the process it lives in.
#![allow(unsafe_code)] // Calls of the C library.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

/// Ends the process without running anything of QEMU's.
pub(super) fn end_process() -> ! {
    // SAFETY: ends the process; nothing runs after it.
    unsafe { libc::_exit(0) }
}

/// Calls these around every fork of this process: before it, and after it in both processes.
pub(super) fn at_fork(
    before: extern "C" fn(),
    in_parent: extern "C" fn(),
    in_child: extern "C" fn(),
) {
    // SAFETY: the functions live as long as the plug-in, which is never unloaded. Should there be
    // no memory for the entry, children record into their parent's place, and no more.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

/// Reads this process's own memory at an address that came from outside; fewer bytes than asked
/// for, or an error, where it cannot be read.
pub(super) fn read_own_memory(address: u64, into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(address as usize),
        iov_len: into.len(),
    };
    // SAFETY: the kernel writes within `into` alone, and checks the other address itself.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// A set of signals, one bit each, the lowest for signal 1.
pub(super) type Signals = u64;

/// Signals that the C library keeps to itself: no program can block them through it.
const INTERNAL: [i32; 2] = [32, 33];

/// All signals are held back while this lives.
pub(super) struct HeldSignals {
    before: libc::sigset_t,
}

impl HeldSignals {
    /// Holds all back that can be. `None` when QEMU has one for the program in its hands that it
    /// has not delivered yet: it then blocks even the signals that no program can.
    pub(super) fn new() -> Option<Self> {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: sigfillset fills the first set in, and pthread_sigmask the second.
        let held = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Self { before: before.assume_init() }
        };
        (held.blocked() & bits(&INTERNAL) == 0).then_some(held)
    }

    /// Those that were blocked before.
    pub(super) fn blocked(&self) -> Signals {
        let is_member = |signal: i32| {
            // SAFETY: the set was filled in.
            unsafe { libc::sigismember(&self.before, signal) == 1 }
        };
        bits(&(1..=64).filter(|&signal| is_member(signal)).collect::<Vec<_>>())
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // SAFETY: the set was filled in.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, null_mut()) };
    }
}

fn bits(signals: &[i32]) -> Signals {
    signals.iter().fold(0, |set, signal| set | 1 << (signal - 1))
}

/// Blocks these signals and no other.
pub(super) fn block_signals(signals: Signals) {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset fills the set in; the numbers are signals'.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in (1..=64).filter(|signal| signals >> (signal - 1) & 1 == 1) {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), null_mut());
    }
}

/// What is done on a signal, where the system tells.
fn action(signal: i32) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: sigaction changes nothing, and fills the action in where it succeeds.
    unsafe {
        (libc::sigaction(signal, null(), action.as_mut_ptr()) == 0).then(|| action.assume_init())
    }
}

fn set_action(signal: i32, action: &libc::sigaction) {
    // SAFETY: an action that the system gave, or one that ignores the signal.
    unsafe { libc::sigaction(signal, action, null_mut()) };
}

/// The signals that this process ignores.
pub(super) fn ignored_signals() -> Signals {
    let is_ignored =
        |signal: &i32| action(*signal).is_some_and(|one| one.sa_sigaction == libc::SIG_IGN);
    bits(&(1..=64).filter(is_ignored).collect::<Vec<_>>())
}

/// Handlers that gave way to ignoring their signals, until this is dropped.
pub(super) struct IgnoredHandlers {
    before: Vec<(i32, libc::sigaction)>,
}

impl IgnoredHandlers {
    /// Ignores those of these signals that have a handler.
    pub(super) fn of(signals: Signals) -> Self {
        let has_handler = |one: &libc::sigaction| {
            one.sa_sigaction != libc::SIG_IGN && one.sa_sigaction != libc::SIG_DFL
        };
        let mut before = Vec::new();
        for signal in (1..=64).filter(|signal| signals >> (signal - 1) & 1 == 1) {
            let Some(handled) = action(signal).filter(has_handler) else { continue };
            set_action(signal, &libc::sigaction { sa_sigaction: libc::SIG_IGN, ..handled });
            before.push((signal, handled));
        }
        Self { before }
    }
}

impl Drop for IgnoredHandlers {
    fn drop(&mut self) {
        for (signal, handled) in &self.before {
            set_action(*signal, handled);
        }
    }
}

/// Replaces this process's program; comes back only when that fails.
pub(super) fn execute(program: &CString, words: &[CString], environment: &[CString]) {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|one| one.as_ptr()).chain([null()]).collect()
    };
    let (words, environment) = (pointers(words), pointers(environment));
    // SAFETY: both lists end with a null pointer and point to strings that live on.
    unsafe { libc::execve(program.as_ptr(), words.as_ptr(), environment.as_ptr()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_there_can_be_read_and_other_not() {
        let text = *b"some text";
        let mut read = [0; 9];
        assert_eq!(read_own_memory(text.as_ptr().addr() as u64, &mut read).unwrap(), 9);
        assert_eq!(read, text);
        assert!(read_own_memory(8, &mut read).is_err());
    }

    #[test]
    fn handlers_give_way_and_come_back() {
        extern "C" fn handler(_: i32) {}
        let handler = handler as *const () as usize;
        let (caught, left) = (libc::SIGXFSZ, libc::SIGVTALRM);
        let first = action(caught).unwrap();
        set_action(caught, &libc::sigaction { sa_sigaction: handler, ..first });
        let both = bits(&[caught, left]);
        assert_eq!(ignored_signals() & both, 0);
        let given_way = IgnoredHandlers::of(both);
        // A signal without a handler keeps its default.
        assert_eq!(ignored_signals() & both, bits(&[caught]));
        drop(given_way);
        assert_eq!(action(caught).unwrap().sa_sigaction, handler);
        set_action(caught, &first);
    }

    #[test]
    fn held_signals_are_given_back() {
        let own = || HeldSignals::new().unwrap().blocked();
        let before = own();
        block_signals(before | bits(&[libc::SIGUSR1]));
        assert_eq!(own(), before | bits(&[libc::SIGUSR1]));
        let held = HeldSignals::new().unwrap();
        assert_eq!(own() | bits(&INTERNAL), !bits(&[libc::SIGKILL, libc::SIGSTOP]));
        drop(held);
        block_signals(before);
        assert_eq!(own(), before);
    }
}
