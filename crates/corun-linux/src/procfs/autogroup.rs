//! The scheduling group that the kernel makes of each session: `/proc/PID/autogroup` (sched(7), "The autogroup feature").

use serde::Serialize;

use super::Process;
use crate::{Roots, files};

/// An autogroup. The kernel shares CPUs among autogroups by their nice values first, and among the threads of one by the
/// threads' own. Threads in a cgroup that has a CPU weight are in none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Autogroup {
    /// The kernel's number of it.
    pub number: u64,
    /// Its nice value, -20 to 19.
    pub nice: i32,
    /// The process by whose file the nice value is set: the leader of the session while it is there, since it is there
    /// longest; else the process that was asked about.
    pub pid: u32,
    /// May this user write to that file? Else root may.
    pub may_be_set: bool,
}

impl Autogroup {
    /// That of a process, by its session. None where the kernel makes no autogroups now, and for a process of no session's
    /// autogroup, as the first processes are.
    pub fn of_process(roots: &Roots, pid: u32) -> Option<Self> {
        let is_on = files::switch(&roots.proc.join("sys/kernel/sched_autogroup_enabled"));
        if is_on != Some(true) {
            return None;
        }
        let of = |pid: u32| {
            let file = roots.proc.join(format!("{pid}/autogroup"));
            let (number, nice) = parse(&files::text(&file)?)?;
            Some(Self { number, nice, pid, may_be_set: files::writable(&file) })
        };
        let own = of(pid)?;
        let process = |pid: u32| Process::new(roots, pid);
        let leader = process(pid).stat().ok().flatten().map(|stat| stat.session);
        // Who may set it is who may write to the file, which is its process's user.
        let is_as_good = |leader: &Self| {
            leader.number == own.number
                && process(leader.pid).effective_user() == process(pid).effective_user()
        };
        Some(leader.filter(|&leader| leader != 0).and_then(of).filter(is_as_good).unwrap_or(own))
    }
}

/// Number and nice value of the file's one line: `/autogroup-17 nice 0`.
fn parse(text: &str) -> Option<(u64, i32)> {
    let (number, nice) = text.trim().strip_prefix("/autogroup-")?.split_once(" nice ")?;
    Some((number.parse().ok()?, nice.parse().ok()?))
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
        let found = Autogroup { number: 17, nice: -5, pid: 7, may_be_set: true };
        assert_eq!(Autogroup::of_process(&roots, 7), Some(found));
        assert_eq!(Autogroup::of_process(&roots, 1), None);
        assert_eq!(Autogroup::of_process(&roots, 9), None);
        write("sys/kernel/sched_autogroup_enabled", "0\n");
        assert_eq!(Autogroup::of_process(&roots, 7), None);
    }

    /// A compiler that ends in a moment, in a session whose leader stays. One of another user, as under `sudo`, may not be
    /// written to by both, and one whose session was left has another group.
    #[test]
    fn an_autogroup_is_set_by_the_leader_of_its_session() {
        let stat = |pid: u32, session: u32| {
            let zeros = "0 ".repeat(33);
            format!("{pid} (a) R 1 1 {session} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0 {zeros}\n")
        };
        for (leader, group, user, expected) in
            [(5, 17, 1000, 5), (5, 17, 0, 7), (5, 18, 1000, 7), (0, 17, 1000, 7), (6, 17, 1000, 7)]
        {
            let folder = tempfile::tempdir().unwrap();
            let roots = Roots::below(folder.path());
            for (name, text) in [
                ("sys/kernel/sched_autogroup_enabled", "1\n".to_owned()),
                ("7/autogroup", "/autogroup-17 nice 0\n".to_owned()),
                ("7/status", "Uid:\t1000\t1000\t1000\t1000\n".to_owned()),
                ("7/task/7/stat", stat(7, leader)),
                ("5/autogroup", format!("/autogroup-{group} nice 0\n")),
                ("5/status", format!("Uid:\t{user}\t{user}\t{user}\t{user}\n")),
            ] {
                let path = roots.proc.join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            let found = Autogroup::of_process(&roots, 7).unwrap();
            assert_eq!((found.number, found.pid), (17, expected), "{leader} {group} {user}");
        }
    }

    #[test]
    fn what_is_no_autogroup_s_line_is_none() {
        for text in
            ["", "/autogroup-", "/autogroup-x nice 0", "/autogroup-3 nice", "/other-3 nice 0"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
