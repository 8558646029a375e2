//! System calls that read and have no safe wrapper wide enough for us.
#![allow(unsafe_code)] // raw system calls: other CPU sets end at 1024 CPUs, and none asks for nodes of pages

use std::io;

use corun_machine::{CpuId, CpuSet};

const BITS: usize = usize::BITS as usize;
/// Room for every CPU that a [`CpuSet`] can name.
const MOST_WORDS: usize = (corun_machine::MAX_CPU as usize + 1) / BITS;
/// The clock that counts what the scheduler does (the kernel's include/linux/posix-timers_types.h).
const CPUCLOCK_SCHED: i32 = 2;
/// Words of an affinity of up to 1024 CPUs.
pub(crate) const FIRST_WORDS: usize = 1024 / BITS;

/// Where a thread may run: its affinity within what is on line.
///
/// # Errors
/// The kernel's answer: there is no such thread.
pub fn affinity(tid: u32) -> io::Result<CpuSet> {
    let mut words = Vec::new();
    affinity_words(tid, &mut words)?;
    Ok(cpus_of(&words))
}

/// As [`affinity`], as the kernel's words; their number tells nothing.
///
/// # Errors
/// As [`affinity`].
pub(crate) fn affinity_words(tid: u32, words: &mut Vec<usize>) -> io::Result<()> {
    words.resize(words.len().max(FIRST_WORDS), 0);
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
        if let Ok(bytes) = usize::try_from(written) {
            words[bytes.div_ceil(size_of::<usize>())..].fill(0);
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // The kernel wants room for all CPUs that it was built for.
        if error.raw_os_error() != Some(libc::EINVAL) || words.len() >= MOST_WORDS {
            return Err(error);
        }
        words.resize(words.len() * 2, 0);
    }
}

/// Time that the threads of a process spent on CPUs since it started, those that ended included, in nanoseconds:
/// one call, however many threads there are. Of a thread that is on a CPU now, up to its last clock tick.
///
/// # Errors
/// The kernel's answer: there is no such process.
pub fn process_cpu_ns(pid: u32) -> io::Result<u64> {
    // A process's clock is named by the complement of its number (`MAKE_PROCESS_CPUCLOCK` in the kernel's
    // include/linux/posix-timers_types.h), here that which the scheduler counts.
    let clock = (!pid.cast_signed() << 3) | CPUCLOCK_SCHED;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one time to where it may.
    let answer = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The node of each page of a process, or an error as a negative number.
///
/// # Errors
/// The kernel's answer: there is no such process, or it is another user's.
pub fn node_of_pages(pid: u32, addresses: &[usize]) -> io::Result<Vec<i32>> {
    let mut status = vec![0i32; addresses.len()];
    // SAFETY: the kernel reads as many addresses and writes as many numbers as it is told; without nodes it
    // moves nothing. The addresses are another process's, or this one's, which keeps what is at them.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid as libc::pid_t,
            addresses.len(),
            addresses.as_ptr(),
            std::ptr::null::<i32>(),
            status.as_mut_ptr(),
            0,
        )
    };
    if answer >= 0 { Ok(status) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn cpus_of(words: &[usize]) -> CpuSet {
    let mut cpus = CpuSet::new();
    for (place, &word) in words.iter().enumerate() {
        let mut left = word;
        while left != 0 {
            cpus.insert(CpuId((place * BITS + left.trailing_zeros() as usize) as u32));
            // Without its lowest bit.
            left &= left - 1;
        }
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_s_bits_are_cpus() {
        let mut words = vec![0; FIRST_WORDS + 1];
        (words[0], words[1], words[FIRST_WORDS]) = (1 << 3, 1, 1 << 2);
        let expected: CpuSet = format!("3,{},{}", BITS, 1024 + 2).parse().unwrap();
        assert_eq!(cpus_of(&words), expected);
    }

    #[test]
    fn a_process_s_time_grows_while_it_computes_and_only_then() {
        let own = std::process::id();
        let before = process_cpu_ns(own).unwrap();
        let begin = std::time::Instant::now();
        while process_cpu_ns(own).unwrap() < before + 1_000_000 {
            assert!(begin.elapsed().as_secs() < 60);
        }
        let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        // It may still begin to sleep.
        let rests = (0..1000).any(|_| {
            let before = process_cpu_ns(sleeper.id()).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(5));
            process_cpu_ns(sleeper.id()).unwrap() == before
        });
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(rests);
        assert!(process_cpu_ns(sleeper.id()).is_err());
    }

    #[test]
    fn no_thread_is_an_error() {
        // Above the kernel's highest thread id, 2^22.
        assert_eq!(affinity(1 << 30).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
