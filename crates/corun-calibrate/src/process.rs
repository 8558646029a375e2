//! The end of a process and what it took, and a process that does nothing.
#![allow(unsafe_code)] // wait4 alone tells the CPU time of one child with its descendants.

use std::fs::File;
use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::Pid;

/// Waits for the end of a child. Its status as `wait4` has it, and the CPU seconds, in user mode and in the
/// kernel, of it and of those of its descendants for which was waited.
///
/// # Errors
/// The kernel's: there is no such child.
pub fn wait_for(child: Pid) -> io::Result<(i32, f64)> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to live values of the types that wait4 writes.
        let found = unsafe {
            libc::wait4(child.as_raw_nonzero().get(), &raw mut status, 0, usage.as_mut_ptr())
        };
        if found >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: all zeroes is a valid rusage, and wait4 has filled it in.
    let usage = unsafe { usage.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    Ok((status, seconds(usage.ru_utime) + seconds(usage.ru_stime)))
}

/// Machine code of `exit_group(0)`, and the number of its processor in an ELF file.
#[cfg(target_arch = "x86_64")]
const EXIT: (u16, &[u8]) = (62, &[0xb8, 0xe7, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05]);
#[cfg(target_arch = "aarch64")]
const EXIT: (u16, &[u8]) = (183, &[0xc8, 0x0b, 0x80, 0xd2, 0, 0, 0x80, 0xd2, 0x01, 0, 0, 0xd4]);

/// Where the file is mapped, and how long its headers are.
const BASE: u64 = 0x40_0000;
const HEADER_BYTES: u64 = 64;
const SEGMENT_BYTES: u64 = 56;

/// The least executable file: its headers, one segment, and the code.
fn executable() -> Vec<u8> {
    let (processor, code) = EXIT;
    let begin = HEADER_BYTES + SEGMENT_BYTES;
    let bytes = begin + code.len() as u64;
    // 64 bits, little-endian, version 1.
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let halves = |file: &mut Vec<u8>, all: &[u16]| {
        all.iter().for_each(|one| file.extend(one.to_le_bytes()));
    };
    let words = |file: &mut Vec<u8>, all: &[u32]| {
        all.iter().for_each(|one| file.extend(one.to_le_bytes()));
    };
    let doubles = |file: &mut Vec<u8>, all: &[u64]| {
        all.iter().for_each(|one| file.extend(one.to_le_bytes()));
    };
    // An executable; where it begins, and where its one segment is described.
    halves(&mut file, &[2, processor]);
    words(&mut file, &[1]);
    doubles(&mut file, &[BASE + begin, HEADER_BYTES, 0]);
    words(&mut file, &[0]);
    halves(&mut file, &[HEADER_BYTES as u16, SEGMENT_BYTES as u16, 1, 0, 0, 0]);
    // To be loaded, to be read and executed: the whole file.
    words(&mut file, &[1, 5]);
    doubles(&mut file, &[0, BASE, BASE, bytes, bytes, 0x1000]);
    file.extend(code);
    file
}

/// A program without libraries that ends at once, in memory.
pub(crate) struct Nothing {
    file: File,
}

impl Nothing {
    /// # Errors
    /// Where the kernel gives no file in memory.
    pub(crate) fn new() -> io::Result<Self> {
        let mut file = File::from(memfd_create("corun-nothing", MemfdFlags::CLOEXEC)?);
        file.write_all(&executable())?;
        Ok(Self { file })
    }

    /// Starts it and waits for its end; its CPU seconds.
    ///
    /// # Errors
    /// Where it cannot be executed, as where files in memory may not be.
    pub(crate) fn run(&self) -> io::Result<f64> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let null = Stdio::null;
        let child = Command::new(path).stdin(null()).stdout(null()).stderr(null()).spawn()?;
        let (status, cpu_s) = wait_for(Pid::from_child(&child))?;
        if status == 0 { Ok(cpu_s) } else { Err(io::ErrorKind::Other.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_nothing_ends_well() {
        let nothing = Nothing::new().unwrap();
        for _ in 0..3 {
            assert!(nothing.run().unwrap() >= 0.0);
        }
    }

    #[test]
    #[expect(clippy::zombie_processes)] // `wait_for` has waited for it.
    fn a_childs_status_and_time_are_told() {
        let child = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let (status, cpu_s) = wait_for(pid).unwrap();
        assert_eq!(libc::WEXITSTATUS(status), 7);
        assert!(cpu_s > 0.0);
        assert!(wait_for(pid).is_err());
    }
}
