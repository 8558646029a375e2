//! System calls by number: which start, replace or end processes and threads, and what else the kernel does for them.

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
    /// Writes to this descriptor; the call returns how many bytes.
    Writes(u64),
    /// Reads, or writes to what is no file; the call returns how many bytes.
    Transfers,
    /// Changes what may be done with memory or how it will be used. All pages keep what they hold.
    Protects,
    /// Waits for the time or for a lock. The call's result tells whether the thread slept.
    Waits,
    /// Touches neither files nor what memory is mapped to: wakes who waits for a lock, asks for the time or for a
    /// number, sets a signal's mask.
    Light,
    /// Anything else.
    Other,
}

/// Kinds of system calls that take the kernel differently long. Each call is of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// [`Work::Light`], and waiting that found nothing to wait for.
    Light,
    /// Changes what memory is mapped to, or tells the kernel about that.
    Mapping,
    /// The thread slept.
    Sleeping,
    /// Anything else: most are calls on files.
    Other,
}

/// `FUTEX_PRIVATE_FLAG` and `FUTEX_CLOCK_REALTIME`, which stand beside the operation.
const FUTEX_FLAGS: u64 = 128 | 256;
/// `FUTEX_WAIT`, `FUTEX_LOCK_PI`, `FUTEX_WAIT_BITSET`, `FUTEX_WAIT_REQUEUE_PI`, `FUTEX_LOCK_PI2`.
const FUTEX_WAITS: [u64; 5] = [0, 6, 9, 11, 13];
/// `EINTR` and `ETIMEDOUT` in all of the kernel's ports here.
const ENDS_OF_SLEEP: [i64; 2] = [-4, -110];

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
    /// mmap (or mmap2), munmap, madvise, brk, mremap, mprotect.
    memory: [i64; 6],
    /// write, pwrite64, writev.
    writes: &'static [i64],
    /// Others that return how many bytes they read or wrote.
    transfers: &'static [i64],
    /// nanosleep, clock_nanosleep, and with times of 64 bits where those of the others have 32.
    sleeps: &'static [i64],
    /// futex, and with times of 64 bits where those of the other have 32.
    futexes: &'static [i64],
    /// sched_yield; getpid, gettid, getppid, getuid, geteuid, getgid, getegid; clock_gettime,
    /// gettimeofday, times, getrusage; rt_sigaction, rt_sigprocmask, sigaltstack; set_tid_address,
    /// set_robust_list, rseq, prlimit64.
    light: &'static [i64],
}

impl Work {
    /// Does it change what memory is mapped to or holds?
    pub(crate) fn changes_memory(self) -> bool {
        use Work::{Light, Other, Protects, Transfers, Waits, Writes};
        !matches!(self, Transfers | Writes(_) | Protects | Waits | Light | Other)
    }

    /// The kind of the call, once that is certain: of a call that waits by its result, of others before it begins.
    pub(crate) fn kind(self, result: Option<i64>) -> Option<Kind> {
        match (self, result) {
            (Self::Waits, None) => None,
            (Self::Waits, Some(result)) if result == 0 || ENDS_OF_SLEEP.contains(&result) => {
                Some(Kind::Sleeping)
            }
            (Self::Waits | Self::Light, _) => Some(Kind::Light),
            (Self::Transfers | Self::Writes(_) | Self::Other, _) => Some(Kind::Other),
            _ => Some(Kind::Mapping),
        }
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
                memory: [9, 11, 28, 12, 25, 10],
                writes: &[1, 18, 20],
                transfers: &[0, 17, 19, 40, 44, 45, 46, 47, 217, 326],
                sleeps: &[35, 230],
                futexes: &[202],
                light: &[
                    24, 39, 186, 110, 102, 107, 104, 108, 228, 96, 100, 98, 13, 14, 131, 218, 273,
                    334, 302,
                ],
            },
            "i386" => Self {
                fork: &[2, 190],
                clone: 120,
                exec: [11, 358],
                pointer_bytes: Some(4),
                exit: &[1, 252],
                signal: &[37, 238, 270],
                memory: [192, 91, 219, 45, 163, 125],
                writes: &[4, 181, 146],
                transfers: &[3, 145, 180, 187, 220],
                sleeps: &[162, 267, 407],
                futexes: &[240, 422],
                light: &[
                    158, 20, 224, 64, 199, 201, 200, 202, 265, 78, 43, 77, 174, 175, 186, 258, 311,
                    386, 340,
                ],
            },
            "arm" | "armeb" => Self {
                fork: &[2, 190],
                clone: 120,
                exec: [11, 387],
                pointer_bytes: (name == "arm").then_some(4),
                exit: &[1, 248],
                signal: &[37, 238, 268],
                memory: [192, 91, 220, 45, 163, 125],
                writes: &[4, 181, 146],
                transfers: &[3, 145, 180, 187, 217],
                sleeps: &[162, 265, 407],
                futexes: &[240, 422],
                light: &[
                    158, 20, 224, 64, 199, 201, 200, 202, 263, 78, 43, 77, 174, 175, 186, 256, 338,
                    398, 369,
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
                memory: [222, 215, 233, 214, 216, 226],
                writes: &[64, 68, 66],
                transfers: &[61, 63, 65, 67, 71, 206, 207, 211, 212, 285],
                sleeps: &[101, 115, 407],
                futexes: &[98, 422],
                light: &[
                    124, 172, 178, 173, 174, 175, 176, 177, 113, 169, 153, 165, 134, 135, 132, 96,
                    99, 293, 261,
                ],
            },
            _ => Self {
                fork: &[],
                clone: -1,
                exec: [-1; 2],
                pointer_bytes: None,
                exit: &[],
                signal: &[],
                memory: [-1; 6],
                writes: &[],
                transfers: &[],
                sleeps: &[],
                futexes: &[],
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
        let [map, unmap, advise, heap, remap, protect] = self.memory;
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
        } else if number == protect || number == advise {
            Work::Protects
        } else if self.sleeps.contains(&number) {
            Work::Waits
        } else if self.futexes.contains(&number) {
            let waits = FUTEX_WAITS.contains(&(second & !FUTEX_FLAGS & u64::from(u32::MAX)));
            if waits { Work::Waits } else { Work::Light }
        } else if self.writes.contains(&number) {
            Work::Writes(first)
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
        assert_eq!(numbers.work(28, [4096, 8192, 8, 0, 0]), Work::Protects);
        assert_eq!(numbers.work(10, [4096, 8192, 1, 0, 0]), Work::Protects);
        assert!(!Work::Protects.changes_memory());
        assert_eq!(numbers.work(25, [4096, 8192, 16_384, 1, 0]), Work::Moves(4096, 8192, 16_384));
        assert!(!numbers.work(0, [0; 5]).changes_memory());
        assert!(numbers.work(12, [0; 5]).changes_memory());
        assert_eq!(Numbers::of_target("aarch64").work(64, [1, 2, 3, 0, 0]), Work::Writes(1));
        assert_eq!(Numbers::of_target("aarch64").work(63, [1, 2, 3, 0, 0]), Work::Transfers);
        assert!(!Work::Writes(1).changes_memory());
        assert_eq!(numbers.work(39, [0; 5]), Work::Light);
        assert_eq!(Numbers::of_target("aarch64").work(178, [0; 5]), Work::Light);
        assert!(!Work::Light.changes_memory());
        assert_eq!(numbers.work(257, [0; 5]), Work::Other);
    }

    #[test]
    fn waiting_is_told_from_waking() {
        let numbers = Numbers::of_target("x86_64");
        // FUTEX_WAIT, its private kind, and FUTEX_WAIT_BITSET for a time of the clock.
        for operation in [0, 128, 9 | 128 | 256] {
            assert_eq!(numbers.work(202, [4096, operation, 0, 0, 0]), Work::Waits);
        }
        // FUTEX_WAKE, FUTEX_CMP_REQUEUE, FUTEX_WAKE_BITSET.
        for operation in [1 | 128, 4, 10] {
            assert_eq!(numbers.work(202, [4096, operation, 0, 0, 0]), Work::Light);
        }
        for (target, sleeps, futexes) in [
            ("x86_64", &[35, 230][..], &[202][..]),
            ("i386", &[162, 267, 407], &[240, 422]),
            ("arm", &[162, 265, 407], &[240, 422]),
            ("aarch64", &[101, 115], &[98]),
            ("riscv32", &[407], &[422]),
        ] {
            for &number in sleeps.iter().chain(futexes) {
                let work = Numbers::of_target(target).work(number, [0; 5]);
                assert_eq!(work, Work::Waits, "{target} {number}");
            }
        }
        assert!(!Work::Waits.changes_memory());
    }

    #[test]
    fn each_call_is_of_one_kind() {
        let kind = |work: Work| work.kind(None);
        assert_eq!(kind(Work::MapsFile(1)), Some(Kind::Mapping));
        assert_eq!(kind(Work::MovesHeap), Some(Kind::Mapping));
        assert_eq!(kind(Work::Protects), Some(Kind::Mapping));
        assert_eq!(kind(Work::Light), Some(Kind::Light));
        assert_eq!(kind(Work::Transfers), Some(Kind::Other));
        assert_eq!(kind(Work::Other), Some(Kind::Other));
        // Waiting is of a kind when it is over: woken, out of time, interrupted; or the lock was free already.
        assert_eq!(kind(Work::Waits), None);
        for slept in [0, -110, -4] {
            assert_eq!(Work::Waits.kind(Some(slept)), Some(Kind::Sleeping));
        }
        assert_eq!(Work::Waits.kind(Some(-11)), Some(Kind::Light));
        assert_eq!(Work::Waits.kind(Some(-14)), Some(Kind::Light));
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
