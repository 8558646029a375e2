//! System calls that act and have no safe wrapper wide enough for us.
#![allow(unsafe_code)] // raw system calls: other CPU sets end at 1024 CPUs, and none moves pages

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use corun_machine::CpuSet;

const BITS: usize = usize::BITS as usize;
/// Only pages that no other process maps (linux/mempolicy.h).
const MPOL_MF_MOVE: libc::c_int = 1 << 1;
const FIRST_WORDS: usize = 1024 / BITS;

/// Sets where a thread may run; the kernel narrows it to the thread's cpuset.
pub(crate) fn set_affinity(tid: u32, cpus: &CpuSet) -> io::Result<()> {
    let words = words_of(cpus);
    // SAFETY: the kernel reads at most the given number of bytes from the vector's own.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_sched_setaffinity,
            tid as libc::pid_t,
            words.len() * size_of::<usize>(),
            words.as_ptr(),
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A descriptor of a thread. Before Linux 6.9 (`PIDFD_THREAD`) only of a process's first thread.
pub(crate) fn open_thread(tid: u32) -> io::Result<OwnedFd> {
    let mut answer = -1;
    for flags in [libc::PIDFD_THREAD, 0] {
        // SAFETY: no argument is a pointer.
        answer = unsafe { libc::syscall(libc::SYS_pidfd_open, tid as libc::pid_t, flags) };
        let refused = io::Error::last_os_error();
        match answer {
            0.. => break,
            _ if refused.raw_os_error() == Some(libc::EINVAL) => {}
            _ => return Err(refused),
        }
    }
    let number = i32::try_from(answer).ok().filter(|number| *number >= 0);
    let number = number.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: the kernel just opened it, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Did the thread of a descriptor end?
pub(crate) fn has_ended(thread: &OwnedFd) -> io::Result<bool> {
    let mut asked = libc::pollfd { fd: thread.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the kernel reads and writes the one structure that it is told of.
    let answer = unsafe { libc::poll(&raw mut asked, 1, 0) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer > 0) }
}

/// Moves pages of a process to nodes, address by address. Did all move that could be tried? Where not, the kernel
/// may not have tried those behind the first that stayed. Pages that others map too stay where they are.
pub(crate) fn move_pages(pid: u32, addresses: &[usize], nodes: &[i32]) -> io::Result<bool> {
    assert_eq!(addresses.len(), nodes.len());
    let mut status = vec![0i32; addresses.len()];
    // SAFETY: the kernel reads as many addresses and nodes, and writes as many numbers, as it is
    // told; the addresses are another process's, or this one's, which keeps what is at them.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid as libc::pid_t,
            addresses.len(),
            addresses.as_ptr(),
            nodes.as_ptr(),
            status.as_mut_ptr(),
            MPOL_MF_MOVE,
        )
    };
    // A positive answer counts pages that could not be moved.
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    // One that is in use may be told by its status alone.
    Ok(answer == 0 && !status.contains(&-libc::EBUSY))
}

fn words_of(cpus: &CpuSet) -> Vec<usize> {
    let mut words = vec![0usize; FIRST_WORDS];
    for cpu in cpus.iter() {
        let (word, bit) = (cpu.0 as usize / BITS, cpu.0 as usize % BITS);
        if word >= words.len() {
            words.resize(word + 1, 0);
        }
        words[word] |= 1 << bit;
    }
    words
}

#[cfg(test)]
mod tests {
    use corun_linux::affinity;

    use super::*;

    #[test]
    fn masks_hold_any_cpu_that_a_set_can_name() {
        for (list, word, bits) in
            [("0", 0, 1), ("63", 0, 1 << 63), ("64-65", 1, 3), ("65535", 1023, 1 << 63)]
        {
            let words = words_of(&list.parse().unwrap());
            assert_eq!(words[word], bits, "{list}");
            assert_eq!(words.iter().map(|word| word.count_ones()).sum::<u32>(), bits.count_ones());
        }
    }

    #[test]
    fn this_thread_has_an_affinity_and_may_set_it_again() {
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let cpus = affinity(own).unwrap();
        assert!(!cpus.is_empty());
        set_affinity(own, &cpus).unwrap();
        assert_eq!(affinity(own).unwrap(), cpus);
    }
}
