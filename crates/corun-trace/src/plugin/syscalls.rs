//! System call numbers that start, replace or end processes and threads.

/// What a system call does to the process, as far as the tracer must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// Starts a process.
    Fork,
    /// Replaces the program.
    Exec,
    /// Sends a signal, perhaps a fatal one to itself as `abort` does.
    Signal,
    /// Ends the thread or the process.
    Exit,
    /// Anything else.
    Other,
}

/// What a system call does to memory or moves, for counting what the kernel does for the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Maps a file: bytes. The call returns where.
    MapsFile(u64),
    /// Maps memory that is no file's: bytes. The call returns where.
    MapsAnonymous(u64),
    /// Gives memory back, from an address, so many bytes.
    GivesBack(u64, u64),
    /// The same of what it holds; it stays mapped.
    Discards(u64, u64),
    /// Moves memory or changes its size: from an address, so many bytes before and after. The call
    /// returns where to.
    Moves(u64, u64, u64),
    /// Moves the end of the heap; the call returns where to.
    MovesHeap,
    /// Reads or writes; the call returns how many bytes.
    Transfers,
    /// Touches neither files nor what memory is mapped to: waits for a lock, asks for the time or for a
    /// number, sets a signal's mask.
    Light,
    /// Anything else.
    Other,
}

/// `MADV_DONTNEED`. What `MADV_FREE` names stays as it is until memory is short.
const DISCARDS: u64 = 4;
/// `MAP_ANONYMOUS` in all of the kernel's ports here.
const ANONYMOUS: u64 = 0x20;

/// The arguments of a call that executes a program, as the guest's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExecCall {
    /// The program's path.
    pub(crate) path: u64,
    /// The list of its words.
    pub(crate) words: u64,
    /// The list of its environment.
    pub(crate) environment: u64,
}

/// `AT_FDCWD`: a path counts from the current folder.
const CURRENT_FOLDER: i32 = -100;

/// The flag of clone that asks for a thread of the same process, in all the kernel's ports.
const CLONE_THREAD: u64 = 0x1_0000;

/// Numbers of one instruction set, from the kernel's tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    fork: &'static [i64],
    /// Starts a process or a thread, by its first argument.
    clone: i64,
    /// execve and execveat.
    exec: [i64; 2],
    /// Bytes of a pointer, where the guest is little-endian.
    pointer_bytes: Option<usize>,
    exit: &'static [i64],
    signal: &'static [i64],
    /// mmap (or mmap2), munmap, madvise, brk, mremap.
    memory: [i64; 5],
    /// Those that return how many bytes they read or wrote.
    transfers: &'static [i64],
    /// futex, sched_yield; getpid, gettid, getppid, getuid, geteuid, getgid, getegid; clock_gettime,
    /// gettimeofday, times, getrusage; rt_sigaction, rt_sigprocmask, sigaltstack; set_tid_address,
    /// set_robust_list, rseq, prlimit64.
    light: &'static [i64],
}

impl Work {
    /// Does it change what memory is mapped to or holds?
    pub(crate) fn changes_memory(self) -> bool {
        !matches!(self, Self::Transfers | Self::Light | Self::Other)
    }
}

impl Numbers {
    /// The numbers for QEMU's name of a target; none known for some.
    pub(crate) fn of_target(name: &str) -> Self {
        match name {
            // fork, vfork; clone; execve, execveat; exit, exit_group; kill, tkill, tgkill.
            "x86_64" => Self {
                fork: &[57, 58],
                clone: 56,
                exec: [59, 322],
                pointer_bytes: Some(8),
                exit: &[60, 231],
                signal: &[62, 200, 234],
                memory: [9, 11, 28, 12, 25],
                transfers: &[0, 1, 17, 18, 19, 20, 40, 44, 45, 46, 47, 217, 326],
                light: &[
                    202, 24, 39, 186, 110, 102, 107, 104, 108, 228, 96, 100, 98, 13, 14, 131, 218,
                    273, 334, 302,
                ],
            },
            "i386" => Self {
                fork: &[2, 190],
                clone: 120,
                exec: [11, 358],
                pointer_bytes: Some(4),
                exit: &[1, 252],
                signal: &[37, 238, 270],
                memory: [192, 91, 219, 45, 163],
                transfers: &[3, 4, 145, 146, 180, 181, 187, 220],
                light: &[
                    240, 158, 20, 224, 64, 199, 201, 200, 202, 265, 78, 43, 77, 174, 175, 186, 258,
                    311, 386, 340,
                ],
            },
            "arm" | "armeb" => Self {
                fork: &[2, 190],
                clone: 120,
                exec: [11, 387],
                pointer_bytes: (name == "arm").then_some(4),
                exit: &[1, 248],
                signal: &[37, 238, 268],
                memory: [192, 91, 220, 45, 163],
                transfers: &[3, 4, 145, 146, 180, 181, 187, 217],
                light: &[
                    240, 158, 20, 224, 64, 199, 201, 200, 202, 263, 78, 43, 77, 174, 175, 186, 256,
                    338, 398, 369,
                ],
            },
            "aarch64" | "aarch64_be" | "riscv64" | "riscv32" | "loongarch64" => Self {
                fork: &[],
                clone: 220,
                exec: [221, 281],
                pointer_bytes: match name {
                    "aarch64_be" => None,
                    "riscv32" => Some(4),
                    _ => Some(8),
                },
                exit: &[93, 94],
                signal: &[129, 130, 131],
                memory: [222, 215, 233, 214, 216],
                transfers: &[61, 63, 64, 65, 66, 67, 68, 71, 206, 207, 211, 212, 285],
                light: &[
                    98, 124, 172, 178, 173, 174, 175, 176, 177, 113, 169, 153, 165, 134, 135, 132,
                    96, 99, 293, 261,
                ],
            },
            _ => Self {
                fork: &[],
                clone: -1,
                exec: [-1; 2],
                pointer_bytes: None,
                exit: &[],
                signal: &[],
                memory: [-1; 5],
                transfers: &[],
                light: &[],
            },
        }
    }

    /// What a call of this number and first argument does. (QEMU 7.2 has no clone3.)
    pub(crate) fn kind(&self, number: i64, first: u64) -> Call {
        let process = number == self.clone && first & CLONE_THREAD == 0;
        if process || self.fork.contains(&number) {
            Call::Fork
        } else if self.exec.contains(&number) {
            Call::Exec
        } else if self.exit.contains(&number) {
            Call::Exit
        } else if self.signal.contains(&number) {
            Call::Signal
        } else {
            Call::Other
        }
    }

    /// What a call of this number and these arguments has the kernel do.
    pub(crate) fn work(&self, number: i64, arguments: [u64; 5]) -> Work {
        let [first, second, third, fourth, _] = arguments;
        let [map, unmap, advise, heap, remap] = self.memory;
        if number == map && fourth & ANONYMOUS == 0 {
            Work::MapsFile(second)
        } else if number == map {
            Work::MapsAnonymous(second)
        } else if number == unmap {
            Work::GivesBack(first, second)
        } else if number == advise && third == DISCARDS {
            Work::Discards(first, second)
        } else if number == remap {
            Work::Moves(first, second, third)
        } else if number == heap {
            Work::MovesHeap
        } else if self.transfers.contains(&number) {
            Work::Transfers
        } else if self.light.contains(&number) {
            Work::Light
        } else {
            Work::Other
        }
    }

    /// Bytes of a pointer, where the guest is little-endian.
    pub(crate) fn pointer_bytes(&self) -> Option<usize> {
        self.pointer_bytes
    }

    /// Where the arguments of a [`Call::Exec`] are; `None` for one that names its file by an open
    /// folder or by flags.
    pub(crate) fn exec_call(&self, number: i64, arguments: [u64; 5]) -> Option<ExecCall> {
        let [first, second, third, fourth, flags] = arguments;
        if number == self.exec[0] {
            return Some(ExecCall { path: first, words: second, environment: third });
        }
        (first as i32 == CURRENT_FOLDER && flags as i32 == 0).then_some(ExecCall {
            path: second,
            words: third,
            environment: fourth,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_by_target() {
        assert_eq!(Numbers::of_target("x86_64").kind(59, 0), Call::Exec);
        assert_eq!(Numbers::of_target("x86_64").kind(0, 0), Call::Other);
        assert_eq!(Numbers::of_target("aarch64").kind(220, 17), Call::Fork);
        assert_eq!(Numbers::of_target("aarch64").kind(220, 0x3d_0f00), Call::Other);
        assert_eq!(Numbers::of_target("s390x").kind(59, 0), Call::Other);
    }

    #[test]
    fn work_differs_by_call() {
        let numbers = Numbers::of_target("x86_64");
        assert_eq!(numbers.work(9, [0, 8192, 3, 0x22, u64::MAX]), Work::MapsAnonymous(8192));
        assert_eq!(numbers.work(9, [0, 8192, 1, 2, 3]), Work::MapsFile(8192));
        assert_eq!(numbers.work(11, [4096, 8192, 0, 0, 0]), Work::GivesBack(4096, 8192));
        assert_eq!(numbers.work(28, [4096, 8192, 4, 0, 0]), Work::Discards(4096, 8192));
        assert_eq!(numbers.work(28, [4096, 8192, 8, 0, 0]), Work::Other);
        assert_eq!(numbers.work(25, [4096, 8192, 16_384, 1, 0]), Work::Moves(4096, 8192, 16_384));
        assert!(!numbers.work(0, [0; 5]).changes_memory());
        assert!(numbers.work(12, [0; 5]).changes_memory());
        assert_eq!(Numbers::of_target("aarch64").work(64, [1, 2, 3, 0, 0]), Work::Transfers);
        assert_eq!(numbers.work(39, [0; 5]), Work::Light);
        assert_eq!(Numbers::of_target("aarch64").work(98, [0; 5]), Work::Light);
        assert!(!Work::Light.changes_memory());
        assert_eq!(numbers.work(257, [0; 5]), Work::Other);
    }

    #[test]
    fn executions_differ_by_call() {
        let numbers = Numbers::of_target("x86_64");
        let call = ExecCall { path: 1, words: 2, environment: 3 };
        assert_eq!(numbers.exec_call(59, [1, 2, 3, 4, 5]), Some(call));
        let here = -100i32 as u32;
        assert_eq!(numbers.exec_call(322, [here.into(), 1, 2, 3, 0]), Some(call));
        assert_eq!(numbers.exec_call(322, [here.into(), 1, 2, 3, 0x1000]), None);
        assert_eq!(numbers.exec_call(322, [5, 1, 2, 3, 0]), None);
    }
}
