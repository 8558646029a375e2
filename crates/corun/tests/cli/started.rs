//! Programs that run while a command looks at them.

use std::process::{Child, Command, Stdio};

/// A program that a test started, ended with the test.
pub(crate) struct Started(Child);

impl Started {
    pub(crate) fn new(script: &str) -> Self {
        let child = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn();
        Self(child.unwrap())
    }

    /// The same in a session of its own, which the shell is in when this returns.
    pub(crate) fn in_a_session(script: &str) -> Self {
        let mut command = Command::new("setsid");
        let child = command.args(["sh", "-c", script]).stdin(Stdio::null()).spawn();
        let started = Self(child.unwrap());
        while started.proc("comm") != "sh\n" {
            std::thread::yield_now();
        }
        started
    }

    /// A program that keeps a CPU busy.
    pub(crate) fn busy() -> Self {
        Self::new("while :; do :; done")
    }

    /// A program that has a CPU for a tenth of its time, for tests that ask no more than that it runs: a busy one takes
    /// CPU time from all other tests.
    pub(crate) fn seldom_busy() -> Self {
        let corun = assert_cmd::cargo::cargo_bin!("corun").display();
        Self::new(&format!("exec {corun} stand-in --cpu-ms 5 --wait-ms 45"))
    }

    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// A file of its folder in procfs.
    pub(crate) fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.0.id())).unwrap()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It has no other way to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
