//! Processes that leave their family: their parents ended, and they have a session of their own.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use corun_linux::procfs::Process;
use corun_linux::{Roots, Task, facts};
use corun_live::{Change, Journal};
use corun_machine::CpuSet;

/// A process that a held program started and left behind.
pub(crate) struct Stray(pub(crate) Task);

impl Stray {
    /// Its maker is held on `cpus`, starts it and ends.
    pub(crate) fn of_one_held(found: &CpuSet, cpus: &CpuSet, journal: &mut Journal) -> Self {
        let roots = Roots::default();
        let mut parent = Command::new("sh")
            .args(["-c", "read line; (setsid sleep 1000 >&- & echo $!)"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let task = facts(&roots, parent.id(), parent.id()).unwrap().task;
        let held = Change::Affinity { task, before: found.clone(), after: cpus.clone() };
        journal.write(std::slice::from_ref(&held)).unwrap();
        held.apply(&roots).unwrap();
        parent.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let mut told = String::new();
        parent.stdout.as_mut().unwrap().read_to_string(&mut told).unwrap();
        parent.wait().unwrap();
        let pid = told.trim().parse().unwrap();
        let stat = || Process::new(&roots, pid).stat().unwrap().unwrap();
        // It is born in its parent's session, and has its own a moment later.
        let begin = std::time::Instant::now();
        while stat().session != pid {
            assert!(begin.elapsed().as_secs() < 60);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Self(Task { pid, tid: pid, start_ticks: stat().start_ticks })
    }
}

impl Drop for Stray {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.0.pid.cast_signed()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}
