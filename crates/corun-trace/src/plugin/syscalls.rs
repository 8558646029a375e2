//! System call numbers that start, replace or end processes and threads.

/// What a system call does to the process, as far as the tracer must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// May start a process or thread.
    Fork,
    /// Replaces the program.
    Exec,
    /// Ends the thread or the process.
    Exit,
    /// Anything else.
    Other,
}

/// Numbers of one instruction set, from the kernel's tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    fork: &'static [i64],
    exec: &'static [i64],
    exit: &'static [i64],
}

impl Numbers {
    /// The numbers for QEMU's name of a target; none known for some.
    pub(crate) fn of_target(name: &str) -> Self {
        match name {
            // clone, fork, vfork, clone3; execve, execveat; exit, exit_group.
            "x86_64" => Self { fork: &[56, 57, 58, 435], exec: &[59, 322], exit: &[60, 231] },
            "i386" | "arm" | "armeb" => {
                Self { fork: &[2, 120, 190, 435], exec: &[11, 358, 387], exit: &[1, 252, 248] }
            }
            "aarch64" | "aarch64_be" | "riscv64" | "riscv32" | "loongarch64" => {
                Self { fork: &[220, 435], exec: &[221, 281], exit: &[93, 94] }
            }
            _ => Self { fork: &[], exec: &[], exit: &[] },
        }
    }

    pub(crate) fn kind(&self, number: i64) -> Call {
        if self.fork.contains(&number) {
            Call::Fork
        } else if self.exec.contains(&number) {
            Call::Exec
        } else if self.exit.contains(&number) {
            Call::Exit
        } else {
            Call::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_by_target() {
        assert_eq!(Numbers::of_target("x86_64").kind(59), Call::Exec);
        assert_eq!(Numbers::of_target("x86_64").kind(0), Call::Other);
        assert_eq!(Numbers::of_target("aarch64").kind(220), Call::Fork);
        assert_eq!(Numbers::of_target("s390x").kind(59), Call::Other);
    }
}
