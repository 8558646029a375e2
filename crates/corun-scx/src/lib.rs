//! corun's scheduler inside the kernel (`sched_ext`): where threads are to run is said here, and the kernel goes by
//! it at each wake-up.
//!
//! [`ThreadReader`] reads what the kernel knows of threads, all of a process at once, and schedules nothing.
//!
//! [`Scheduler::attach`] loads the BPF program of `bpf/`, which is shipped compiled. [`Scheduler::plan`] gives a
//! thread a set of CPUs; the thread then belongs to the scheduling class of the program. Everybody else stays with
//! the kernel's own scheduler. When the [`Scheduler`] is dropped, when its process ends for whatever reason, and
//! when the kernel's watchdog finds a thread that does not get to run, the kernel detaches the program at once and
//! schedules all threads itself.

mod btf;
mod layout;
mod load;
mod object_file;
mod scheduler;
mod sets;
mod syscalls;
mod threads;
mod wakers;

use std::io;

pub use btf::BtfError;
pub use layout::{Stint, ThreadCounts};
pub use scheduler::{BareScheduler, Options, Plan, PlanError, Program, Scheduler};
pub use scheduler::{SCHED_EXT, check, is_in_class, policy_of, set_policy};
pub use threads::{FollowedThreads, ReaderError, ThreadReader, ThreadRecord, may_read};
pub use wakers::{UncountedError, WakeupReader, Wakeups};

/// The compiled `bpf/corun.bpf.c`.
const OBJECT: &[u8] = include_bytes!("../bpf/corun.bpf.o");
/// The compiled `bpf/threads.bpf.c`.
const THREADS_OBJECT: &[u8] = include_bytes!("../bpf/threads.bpf.o");

/// Why the scheduler cannot be put in force.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The kernel has no `sched_ext`.
    #[error("this kernel has no sched_ext (CONFIG_SCHED_CLASS_EXT)")]
    NoSchedExt,
    /// Only one scheduler can be in force.
    #[error("another scheduler is in force: {0}")]
    Another(String),
    /// The kernel lacks functions, types or flags that the scheduler needs.
    #[error("corun's scheduler needs Linux 7.1 or newer: this kernel has no {}", .missing.join(", "))]
    TooOld {
        /// What is missing, in the kernel's names.
        missing: Vec<String>,
    },
    /// The kernel's description of its types, or that of the shipped object, cannot be used.
    #[error("{0}")]
    Types(#[from] BtfError),
    /// The kernel does not say what its types are.
    #[error("the kernel does not describe its types ({path}): {reason}")]
    NoTypes {
        /// Where the description would be.
        path: String,
        /// The kernel's answer.
        reason: io::Error,
    },
    /// The shipped object is none.
    #[error("the compiled scheduler cannot be read: {0}")]
    Object(String),
    /// The verifier refused a program.
    #[error("the kernel's verifier refuses the program {program}: {reason}\n{log}")]
    Refused {
        /// The program.
        program: String,
        /// The kernel's answer.
        reason: io::Error,
        /// The end of what the verifier says.
        log: String,
    },
    /// The kernel said no.
    #[error("{what}: {reason}{}", advice(.reason))]
    Kernel {
        /// What was tried.
        what: String,
        /// The kernel's answer.
        #[source]
        reason: io::Error,
    },
}

impl LoadError {
    pub(crate) fn kernel(what: String) -> impl FnOnce(io::Error) -> Self {
        move |reason| Self::Kernel { what, reason }
    }
}

fn advice(reason: &io::Error) -> &'static str {
    if lacks_rights(reason) { "; it takes CAP_BPF and CAP_PERFMON, or root" } else { "" }
}

/// Is it the caller's rights? EACCES is how the verifier refuses a program, whoever loads it.
pub(crate) fn lacks_rights(reason: &io::Error) -> bool {
    reason.raw_os_error() == Some(libc::EPERM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_advised_where_they_are_what_is_missing() {
        let told = |errno: i32| {
            let reason = io::Error::from_raw_os_error(errno);
            LoadError::kernel("the map sets".to_owned())(reason).to_string()
        };
        assert!(told(libc::EPERM).ends_with("; it takes CAP_BPF and CAP_PERFMON, or root"));
        assert!(!told(libc::EACCES).contains("CAP_BPF"), "{}", told(libc::EACCES));
    }
}
