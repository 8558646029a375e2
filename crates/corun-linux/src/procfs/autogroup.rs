//! The scheduling group that the kernel makes of each session: `/proc/PID/autogroup` (sched(7), "The autogroup feature").

use serde::Serialize;

use crate::{Roots, files};

/// An autogroup. The kernel shares CPUs among autogroups by their nice values first, and among the threads of one by the
/// threads' own. Threads in a cgroup that has a CPU weight are in none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Autogroup {
    /// The kernel's number of it.
    pub number: u64,
    /// Its nice value, -20 to 19.
    pub nice: i32,
}

impl Autogroup {
    /// That of a process, by its session. None where the kernel makes no autogroups now, and for a process of no session's
    /// autogroup, as the first processes are.
    pub fn of_process(roots: &Roots, pid: u32) -> Option<Self> {
        let is_on = files::switch(&roots.proc.join("sys/kernel/sched_autogroup_enabled"));
        if is_on != Some(true) {
            return None;
        }
        Self::parse(&files::text(&roots.proc.join(format!("{pid}/autogroup")))?)
    }

    /// Reads the file's one line: `/autogroup-17 nice 0`.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, nice) = text.trim().strip_prefix("/autogroup-")?.split_once(" nice ")?;
        Some(Self { number: number.parse().ok()?, nice: nice.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_an_autogroup_where_the_kernel_makes_them() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::below(folder.path());
        let write = |name: &str, text: &str| {
            let path = roots.proc.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("7/autogroup", "/autogroup-17 nice -5\n");
        write("1/autogroup", "");
        assert_eq!(Autogroup::of_process(&roots, 7), None, "the kernel has no switch for them");
        write("sys/kernel/sched_autogroup_enabled", "1\n");
        let found = Autogroup { number: 17, nice: -5 };
        assert_eq!(Autogroup::of_process(&roots, 7), Some(found));
        assert_eq!(Autogroup::of_process(&roots, 1), None);
        assert_eq!(Autogroup::of_process(&roots, 9), None);
        write("sys/kernel/sched_autogroup_enabled", "0\n");
        assert_eq!(Autogroup::of_process(&roots, 7), None);
    }

    #[test]
    fn what_is_no_autogroup_s_line_is_none() {
        for text in
            ["", "/autogroup-", "/autogroup-x nice 0", "/autogroup-3 nice", "/other-3 nice 0"]
        {
            assert_eq!(Autogroup::parse(text), None, "{text}");
        }
    }
}
