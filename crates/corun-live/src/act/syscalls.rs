//! System calls that have no safe wrapper wide enough for us.
#![allow(unsafe_code)] // two raw system calls: rustix's and libc's CPU sets end at 1024 CPUs

use std::io;

use corun_machine::{CpuId, CpuSet};

const BITS: usize = usize::BITS as usize;
/// Room for every CPU that a [`CpuSet`] can name.
const MOST_WORDS: usize = (corun_machine::MAX_CPU as usize + 1) / BITS;
const FIRST_WORDS: usize = 1024 / BITS;

/// Where a thread may run: its affinity within what is on line.
pub(crate) fn affinity(tid: u32) -> io::Result<CpuSet> {
    let mut words = vec![0usize; FIRST_WORDS];
    loop {
        // SAFETY: the kernel writes at most the given number of bytes to the vector's own.
        let written = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                tid as libc::pid_t,
                words.len() * size_of::<usize>(),
                words.as_mut_ptr(),
            )
        };
        if written >= 0 {
            return Ok(cpus_of(&words));
        }
        let error = io::Error::last_os_error();
        // The kernel wants room for all CPUs that it was built for.
        if error.raw_os_error() != Some(libc::EINVAL) || words.len() >= MOST_WORDS {
            return Err(error);
        }
        words = vec![0; words.len() * 2];
    }
}

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

fn cpus_of(words: &[usize]) -> CpuSet {
    let mut cpus = CpuSet::new();
    for (place, &word) in words.iter().enumerate() {
        for bit in (0..BITS).filter(|bit| word >> bit & 1 == 1) {
            cpus.insert(CpuId((place * BITS + bit) as u32));
        }
    }
    cpus
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
    use super::*;

    #[test]
    fn masks_hold_any_cpu_that_a_set_can_name() {
        for list in ["", "0", "63-64", "0-3,1023", "1024,65535"] {
            let cpus: CpuSet = list.parse().unwrap();
            assert_eq!(cpus_of(&words_of(&cpus)), cpus, "{list}");
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

    #[test]
    fn no_thread_is_an_error() {
        // Above the kernel's highest thread id, 2^22.
        assert_eq!(affinity(1 << 30).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
