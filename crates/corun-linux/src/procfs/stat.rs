//! The lines `stat` and `schedstat` of a thread.

use std::str::FromStr;

use crate::escape_controls;

/// Kernel threads carry this flag (`PF_KTHREAD`).
const KERNEL_THREAD: u32 = 0x0020_0000;
/// `SCHED_FIFO`, `SCHED_RR`, `SCHED_DEADLINE` (sched(7)).
const REAL_TIME: [u32; 3] = [1, 2, 6];

/// What `/proc/PID/task/TID/stat` says (proc_pid_stat(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The thread, or the process.
    pub pid: u32,
    /// The name, as the kernel cuts it; control characters in it are escaped ([`escape_controls`]).
    pub name: String,
    /// Running, sleeping, `Z`ombie and so on, by the kernel's letter.
    pub state: char,
    /// The process that made its process.
    pub parent: u32,
    /// Its process group; 0 once it has ended, of which the kernel tells none.
    pub group: u32,
    /// Its session, likewise.
    pub session: u32,
    /// The kernel's flags (`PF_KTHREAD` and others).
    pub flags: u32,
    /// Page faults that waited for a disk or for swap.
    pub major_faults: u64,
    /// Time on CPUs, of the user and of the kernel for it, in clock ticks.
    pub cpu_ticks: u64,
    /// Of that, in the kernel: system calls and page faults, in clock ticks.
    pub system_ticks: u64,
    /// Its nice value, -20 to 19.
    pub nice: i32,
    /// Threads of its process.
    pub threads: u32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// Where its stack begins, another place each time that the process executes a program; 0 where this user
    /// may not know.
    pub start_stack: u64,
    /// The CPU where it runs, or ran last.
    pub cpu: u32,
    /// As the kernel numbers scheduling policies (sched(7)).
    pub policy: u32,
}

impl Stat {
    /// Reads a line; none where it is cut short.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let line = String::from_utf8_lossy(line);
        // The name stands in brackets and may itself hold any.
        let (pid, rest) = line.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let mut fields = rest.split_ascii_whitespace();
        let mut at = 3;
        // The field of a number, counted as the manual does; they are asked in ascending order.
        let mut field = |number: usize| {
            let field = fields.nth(number - at)?;
            at = number + 1;
            Some(field)
        };
        let state = field(3)?.chars().next()?;
        let parent = number(field(4)?)?;
        let group = number_or_none(field(5)?)?;
        let session = number_or_none(field(6)?)?;
        let flags = number(field(9)?)?;
        let major_faults = number(field(12)?)?;
        let user_ticks: u64 = number(field(14)?)?;
        let system_ticks: u64 = number(field(15)?)?;
        Some(Self {
            pid: number(pid)?,
            name: escape_controls(name).into_owned(),
            state,
            parent,
            group,
            session,
            flags,
            major_faults,
            cpu_ticks: user_ticks.saturating_add(system_ticks),
            system_ticks,
            nice: number(field(19)?)?,
            threads: number(field(20)?)?,
            start_ticks: number(field(22)?)?,
            start_stack: number(field(28)?)?,
            cpu: number(field(39)?)?,
            policy: number(field(41)?)?,
        })
    }

    /// Has it ended, and is not yet waited for? Only its number is left.
    pub fn is_over(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Time on CPUs in the kernel, in seconds.
    pub fn system_s(&self) -> f64 {
        self.system_ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    }

    /// Is it the kernel's own thread?
    pub fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    /// Is it scheduled by priority or deadline, not by fair shares?
    pub fn is_real_time(&self) -> bool {
        is_real_time(self.policy)
    }
}

/// Does a scheduling policy go by priority or deadline, not by fair shares? As the kernel numbers them (sched(7)).
pub fn is_real_time(policy: u32) -> bool {
    REAL_TIME.contains(&policy)
}

/// A thread's name as [`Stat::name`] has it, from the kernel's own bytes.
pub fn shown_name(name: &[u8]) -> String {
    escape_controls(&String::from_utf8_lossy(name)).into_owned()
}

/// The weight of a nice value against that of nice 0: a step is 1.25 (`sched_prio_to_weight` in
/// kernel/sched/core.c, Linux).
pub fn weight_of_nice(nice: i32) -> f64 {
    1.25_f64.powi(-nice)
}

/// Time on CPUs in nanoseconds, the first number of `/proc/PID/task/TID/schedstat`.
pub(super) fn cpu_ns(line: &[u8]) -> Option<u64> {
    number(std::str::from_utf8(line).ok()?.split_ascii_whitespace().next()?)
}

/// Time spent waiting for a CPU in nanoseconds, the second number of the same line.
pub(super) fn wait_ns(line: &[u8]) -> Option<u64> {
    number(std::str::from_utf8(line).ok()?.split_ascii_whitespace().nth(1)?)
}

/// How often a CPU was switched to the thread, the third number of the same line.
pub(super) fn switches(line: &[u8]) -> Option<u64> {
    number(std::str::from_utf8(line).ok()?.split_ascii_whitespace().nth(2)?)
}

/// A number that the kernel leaves at -1 when the thread is taken apart while it is asked
/// (`do_task_stat` without the thread's signal handlers).
fn number_or_none(text: &str) -> Option<u32> {
    if text == "-1" { Some(0) } else { number(text) }
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINE: &str = "77 (a) b) R 1 2 3 0 -1 4194304 100 0 3 0 40 2 0 0 20 -5 8 0 2468904 3133440 \
                        408 18446744073709551615 1 1 1 1 1 0 0 0 0 0 0 0 17 1 0 6 0 0 0 1 1 1 1 1 1 1 0\n";

    #[test]
    fn fields_are_those_of_the_manual() {
        let stat = Stat::parse(LINE.as_bytes()).unwrap();
        assert_eq!((stat.pid, stat.name.as_str(), stat.state), (77, "a) b", 'R'));
        assert_eq!((stat.parent, stat.group, stat.session, stat.flags), (1, 2, 3, 4_194_304));
        assert_eq!((stat.major_faults, stat.cpu_ticks, stat.system_ticks), (3, 42, 2));
        assert_eq!((stat.nice, stat.threads), (-5, 8));
        assert_eq!((stat.start_ticks, stat.cpu, stat.policy), (2_468_904, 1, 6));
        assert_eq!(stat.start_stack, 1);
        assert!(!stat.is_kernel_thread() && stat.is_real_time() && !stat.is_over());
        let kernels = LINE.replace(" 4194304 ", " 69238880 ").replace(" 1 0 6 0 ", " 1 0 0 0 ");
        let kernels = Stat::parse(kernels.as_bytes()).unwrap();
        assert!(kernels.is_kernel_thread() && !kernels.is_real_time());
        assert_eq!(cpu_ns(b"123 45 6\n"), Some(123));
        assert_eq!((wait_ns(b"123 45 6\n"), wait_ns(b"123")), (Some(45), None));
    }

    #[test]
    fn a_name_cannot_speak_to_a_terminal() {
        let stat = Stat::parse(LINE.replace("a) b", "\u{1b}[2Jx\u{9b}").as_bytes()).unwrap();
        assert_eq!(stat.name, "\\u001b[2Jx\\u009b");
    }

    #[test]
    fn a_thread_that_is_taken_apart_has_no_group_and_is_over() {
        let line = LINE.replace(" R 1 2 3 0 -1 ", " X 0 -1 -1 0 -1 ");
        let stat = Stat::parse(line.as_bytes()).unwrap();
        assert_eq!((stat.parent, stat.group, stat.session), (0, 0, 0));
        assert!(stat.is_over());
    }

    proptest! {
        #[test]
        fn a_line_cut_short_is_no_line(length in 0..LINE.len() - 40) {
            prop_assert_eq!(Stat::parse(&LINE.as_bytes()[..length]), None);
        }

        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            let _ = (Stat::parse(&bytes), cpu_ns(&bytes));
        }
    }
}
