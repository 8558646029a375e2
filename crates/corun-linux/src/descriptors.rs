//! Open files: every counter is one.
#![allow(unsafe_code)] // a descriptor that another process opened for this one is known by its number alone

use std::fs::File;
use std::net::TcpListener;
use std::os::fd::{FromRawFd as _, IntoRawFd as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit of open files that this process was started with, once it was raised.
static AT_START: OnceLock<Rlimit> = OnceLock::new();

/// Raises this process's limit of open files to the most that it may have. Programs that corun
/// starts afterwards would inherit it: give them [`Rlimit`] back, which is what it was before.
pub fn raise_descriptor_limit() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    if before.current != before.maximum {
        AT_START.get_or_init(|| before);
        let raised = Rlimit { current: before.maximum, maximum: before.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit of open files stays as it is");
        }
    }
    before
}

/// Starts a program with the limit of open files that this process was started with.
pub fn with_descriptor_limit_at_start(command: &mut Command) {
    let Some(limit) = AT_START.get().copied() else { return };
    let before_program = move || Ok(setrlimit(Resource::Nofile, limit)?);
    // SAFETY: between fork and exec it makes one system call, allocates nothing and takes no lock.
    unsafe { command.pre_exec(before_program) };
}

/// Descriptors that are kept back for later, so that whatever else uses all others cannot prevent what has to be done then.
#[derive(Debug, Default)]
pub struct DescriptorReserve(Vec<File>);

impl DescriptorReserve {
    /// Keeps so many back, and at most an eighth of what this process may have open.
    pub fn keep(descriptors: usize) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let kept =
            (0..(descriptors as u64).min(limit / 8)).map_while(|_| File::open("/dev/null").ok());
        Self(kept.collect())
    }

    /// From now on anybody may have them.
    pub fn release(&mut self) {
        self.0.clear();
    }
}

/// Is it the limit of open files, of this process or of the machine?
pub fn is_exhausted(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let limits = [Errno::MFILE, Errno::NFILE].map(|errno| errno.raw_os_error());
    error.raw_os_error().is_some_and(|found| limits.contains(&found))
}

/// The first listening TCP socket that systemd opened for this process (`LISTEN_FDS`); none where there is none. To be
/// called once, before anything else is opened.
pub fn passed_listener() -> Option<TcpListener> {
    let first = sd_notify::listen_fds().ok()?.next()?;
    // SAFETY: whoever set the variables opened the descriptor for this process and uses it no more. Where this
    // is a lie, the descriptor is given up below, open or not, and nothing was done to it.
    let listener = unsafe { TcpListener::from_raw_fd(first) };
    let is_listening = listener.local_addr().is_ok()
        && rustix::net::sockopt::socket_acceptconn(&listener).unwrap_or(false);
    if is_listening {
        return Some(listener);
    }
    let _ = listener.into_raw_fd();
    None
}
