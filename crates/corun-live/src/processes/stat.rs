//! The lines of `/proc` that are read every round.
//!
//! Of `stat`'s fifty fields a round needs twelve, and a line cut short must not bring the host
//! down: both are why no general reader is used.

use std::str::FromStr;

/// What `/proc/PID/task/TID/stat` says (proc_pid_stat(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) pid: u32,
    /// The name, as the kernel cuts it.
    pub(super) name: String,
    pub(super) state: char,
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) session: u32,
    pub(super) flags: u32,
    pub(super) cpu_ticks: u64,
    pub(super) nice: i32,
    pub(super) threads: u32,
    pub(super) start_ticks: u64,
    pub(super) cpu: u32,
    /// As the kernel numbers scheduling policies (sched(7)).
    pub(super) policy: u32,
}

impl Stat {
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
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
        let group = number(field(5)?)?;
        let session = number(field(6)?)?;
        let flags = number(field(9)?)?;
        let user_ticks: u64 = number(field(14)?)?;
        let system_ticks: u64 = number(field(15)?)?;
        Some(Self {
            pid: number(pid)?,
            name: name.to_owned(),
            state,
            parent,
            group,
            session,
            flags,
            cpu_ticks: user_ticks.saturating_add(system_ticks),
            nice: number(field(19)?)?,
            threads: number(field(20)?)?,
            start_ticks: number(field(22)?)?,
            cpu: number(field(39)?)?,
            policy: number(field(41)?)?,
        })
    }

    /// Has it ended, and is not yet waited for?
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Time on CPUs in nanoseconds, the first number of `/proc/PID/task/TID/schedstat`.
pub(super) fn cpu_ns(line: &[u8]) -> Option<u64> {
    number(std::str::from_utf8(line).ok()?.split_ascii_whitespace().next()?)
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINE: &str = "77 (a) b) R 1 2 3 0 -1 4194304 100 0 0 0 40 2 0 0 20 -5 8 0 2468904 3133440 \
                        408 18446744073709551615 1 1 1 1 1 0 0 0 0 0 0 0 17 1 0 6 0 0 0 1 1 1 1 1 1 1 0\n";

    #[test]
    fn fields_are_those_of_the_manual() {
        let stat = Stat::parse(LINE.as_bytes()).unwrap();
        assert_eq!((stat.pid, stat.name.as_str(), stat.state), (77, "a) b", 'R'));
        assert_eq!((stat.parent, stat.group, stat.session, stat.flags), (1, 2, 3, 4_194_304));
        assert_eq!((stat.cpu_ticks, stat.nice, stat.threads), (42, -5, 8));
        assert_eq!((stat.start_ticks, stat.cpu, stat.policy), (2_468_904, 1, 6));
        assert_eq!(cpu_ns(b"123 45 6\n"), Some(123));
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
