//! System calls of one thread that fail as they are told to, one in each run.
//!
//! The thread puts a filter on itself by which the kernel asks another thread of this process about each system
//! call in [`CALLS`] (seccomp's user notification). The code that is tested knows nothing of it.
#![allow(unsafe_code)] // the filter and its answers are raw system calls

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::mpsc::channel;

/// What happens to one system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does nothing and answers with this error.
    Error(i32),
    /// A write that writes half of what it was given. Not one below `/sys`, which the kernel takes as a whole.
    ShortWrite,
    /// Something happens just before it, such as the end of a thread: what [`run`] is given.
    Before,
    /// Of the pages that it was to move half stay where they are. Met by a call that moves pages alone.
    HalfMoved,
}

/// The calls by which the kernel and the journal are read and told. Memory, locks and clocks are not among them.
const CALLS: [libc::c_long; 26] = [
    libc::SYS_openat,
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_ftruncate,
    libc::SYS_flock,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_mkdirat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(not(target_arch = "x86_64"))]
    libc::SYS_mkdirat,
    libc::SYS_statx,
    libc::SYS_newfstatat,
    libc::SYS_fstat,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(not(target_arch = "x86_64"))]
    libc::SYS_readlinkat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(not(target_arch = "x86_64"))]
    libc::SYS_unlinkat,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getaffinity,
    libc::SYS_setpriority,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_getscheduler,
    libc::SYS_prctl,
    libc::SYS_pidfd_open,
    libc::SYS_move_pages,
];

/// What a run answered, and whether it came to the call that was to fail.
pub(crate) struct Ran<T> {
    pub(crate) answer: T,
    /// The number of the call that failed; none where the run made fewer calls.
    pub(crate) hit: Option<i32>,
}

impl Fault {
    /// Can this call fail so? Only writing needs room, and what only reads does not.
    fn meets(self, call: &libc::seccomp_notif) -> bool {
        const READING: [libc::c_long; 8] = [
            libc::SYS_read,
            libc::SYS_pread64,
            libc::SYS_statx,
            libc::SYS_newfstatat,
            libc::SYS_fstat,
            libc::SYS_getdents64,
            libc::SYS_sched_getaffinity,
            libc::SYS_sched_getscheduler,
        ];
        match self {
            Self::ShortWrite => writes_a_file(call),
            Self::Error(libc::ENOSPC) => !READING.contains(&call.data.nr.into()),
            Self::HalfMoved => moves_pages(call),
            Self::Error(_) | Self::Before => true,
        }
    }
}

/// Runs something on a thread of its own. Of the calls that it makes and that can meet the fault, counted from 0, that
/// at `place` does.
pub(crate) fn run<T: Send>(
    place: usize,
    fault: Fault,
    before: impl Fn(),
    what: impl FnOnce() -> T + Send,
) -> Ran<T> {
    run_over(place, fault, before, |_, _| None, what)
}

/// As [`run`], with some calls answered in the kernel's place: `stand_in` is given each call that meets no error, and
/// whether it is the one to meet the fault. None: the kernel answers.
pub(crate) fn run_over<T: Send>(
    place: usize,
    fault: Fault,
    before: impl Fn(),
    stand_in: impl Fn(&libc::seccomp_notif, bool) -> Option<i64>,
    what: impl FnOnce() -> T + Send,
) -> Ran<T> {
    std::thread::scope(|scope| {
        let (tell, told) = channel();
        let (done_tell, done) = channel();
        let thread = scope.spawn(move || {
            tell.send(filter_own_calls()).unwrap();
            let answer = what();
            // Dropping the last filtered thread ends the listener: the channel says so before.
            done_tell.send(()).unwrap();
            answer
        });
        let listener = told.recv().unwrap().expect("the kernel takes a filter with a listener");
        let (mut count, mut hit) = (0, None);
        while let Some(call) = next_call(&listener) {
            // What the thread does once it is through is not its task.
            if done.try_recv().is_ok() {
                count = usize::MAX;
            }
            let meets = fault.meets(&call);
            let is_it = meets && count == place && hit.is_none();
            if is_it {
                hit = Some(call.data.nr);
            }
            match fault {
                Fault::Error(errno) if is_it => answer(&listener, &call, 0, -errno, 0),
                Fault::ShortWrite if is_it => {
                    answer(&listener, &call, half_written(&call), 0, 0);
                }
                _ => {
                    if fault == Fault::Before && is_it {
                        before();
                    }
                    match stand_in(&call, is_it) {
                        Some(value) => answer(&listener, &call, value, 0, 0),
                        None => {
                            let go_on = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
                            answer(&listener, &call, 0, 0, go_on);
                        }
                    }
                }
            }
            count = count.saturating_add(usize::from(meets));
        }
        Ran { answer: thread.join().expect("no fault is a panic"), hit }
    })
}

/// Why there can be no filter, if there can be none: in some containers another one asks already.
pub(crate) fn try_filter() -> io::Result<()> {
    let thread = std::thread::spawn(|| filter_own_calls().map(drop));
    thread.join().expect("it answers instead of panicking")
}

/// Puts the filter on this thread, for good.
fn filter_own_calls() -> io::Result<OwnedFd> {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    // The number is the first field of what a filter sees.
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for call in CALLS {
        program.push(libc::sock_filter {
            code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            jt: 0,
            jf: 1,
            k: call as u32,
        });
        program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_USER_NOTIF));
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the first sets a flag of this thread; the second reads the program, which lives until it returns, and
    // answers with a new descriptor.
    let listener = unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &filter,
        )
    };
    if listener < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    let listener = unsafe { OwnedFd::from_raw_fd(listener as i32) };
    // Both threads take turns: on one CPU they need not wake another. Kernels before 6.6 do not know it.
    const SYNC_WAKE_UP: u64 = 1;
    // SAFETY: the last argument is a number.
    unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS as _, SYNC_WAKE_UP)
    };
    Ok(listener)
}

/// The next call that waits for an answer; none when the thread has ended.
fn next_call(listener: &OwnedFd) -> Option<libc::seccomp_notif> {
    loop {
        let mut ready = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one such structure is there. Without a thread under the filter the kernel hangs up.
        let count = unsafe { libc::poll(&mut ready, 1, -1) };
        if count < 1 {
            // Interrupted, as when this process is stopped and goes on.
            continue;
        }
        if ready.revents & libc::POLLIN == 0 {
            return None;
        }
        // SAFETY: all bits 0 are such a structure, and the kernel wants it so.
        let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one such structure.
        let got = unsafe {
            libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV as _, &mut call)
        };
        if got == 0 {
            return Some(call);
        }
    }
}

fn answer(listener: &OwnedFd, call: &libc::seccomp_notif, val: i64, error: i32, flags: u32) {
    let mut answer = libc::seccomp_notif_resp { id: call.id, val, error, flags };
    // SAFETY: the kernel reads one such structure. A call whose thread a signal took away needs no answer.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND as _, &mut answer) };
}

fn writes_a_file(call: &libc::seccomp_notif) -> bool {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", call.data.args[0]));
    let is_file = path.is_ok_and(|path| path.is_absolute() && !path.starts_with("/sys"));
    libc::c_long::from(call.data.nr) == libc::SYS_write && is_file
}

/// Is it a call that moves pages, and does not only ask where they are?
fn moves_pages(call: &libc::seccomp_notif) -> bool {
    libc::c_long::from(call.data.nr) == libc::SYS_move_pages && call.data.args[3] != 0
}

/// What a call of `move_pages` was given.
pub(crate) struct PagesCall<'a> {
    pub(crate) pid: u32,
    pub(crate) addresses: &'a [usize],
    /// Where each is to go; none where the call asks where they are.
    pub(crate) nodes: Option<&'a [i32]>,
    /// What the call answers of each.
    pub(crate) status: &'a mut [i32],
}

/// A call of `move_pages` that the thread made and waits for; none for any other.
pub(crate) fn pages_call(call: &libc::seccomp_notif) -> Option<PagesCall<'_>> {
    if libc::c_long::from(call.data.nr) != libc::SYS_move_pages {
        return None;
    }
    let [pid, count, addresses, nodes, status, _] = call.data.args.map(|one| one as usize);
    // SAFETY: the thread that asked waits for the answer and belongs to this process: so many numbers are there.
    unsafe {
        let read = std::ptr::with_exposed_provenance(addresses);
        let written = std::ptr::with_exposed_provenance_mut(status);
        let nodes = (nodes != 0).then(|| std::ptr::with_exposed_provenance(nodes));
        Some(PagesCall {
            pid: pid as u32,
            addresses: std::slice::from_raw_parts(read, count),
            nodes: nodes.map(|nodes| std::slice::from_raw_parts(nodes, count)),
            status: std::slice::from_raw_parts_mut(written, count),
        })
    }
}

/// Makes a write of this process with half of its bytes: the answer is how many were written.
fn half_written(call: &libc::seccomp_notif) -> i64 {
    let [file, from, count, ..] = call.data.args;
    // SAFETY: the thread that asked waits for the answer and belongs to this process, so that its buffer and its
    // descriptor are what it gave.
    let written = unsafe {
        libc::write(
            file as i32,
            std::ptr::with_exposed_provenance(from as usize),
            count as usize / 2,
        )
    };
    written as i64
}
