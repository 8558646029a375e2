#![allow(unsafe_code)] // A child that waits before it becomes the program needs a hook after fork.
//! Starting a program only once all is ready to count it.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit, setrlimit};

use corun_linux::{Roots, Task, facts};

/// Between looks whether a new process waits.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// What the waiting process is told.
const GO: u8 = 1;
const GIVEN_UP: u8 = 0;

/// A process that will become a program when it is let go. Dropped before that, it ends.
#[derive(Debug)]
pub struct Launch {
    pid: u32,
    go: Go,
    /// Waits with the child until it has become the program, or could not.
    starter: JoinHandle<io::Result<Child>>,
}

/// What the process waits for. Processes that were made later and wait as well have copies of the descriptor, so that closing it
/// tells nobody: a word does.
#[derive(Debug)]
struct Go(Option<OwnedFd>);

impl Go {
    fn tell(mut self) -> io::Result<()> {
        if let Some(go) = self.0.take() {
            rustix::io::write(&go, &[GO])?;
        }
        Ok(())
    }
}

impl Drop for Go {
    fn drop(&mut self) {
        if let Some(go) = self.0.take() {
            let _ = rustix::io::write(&go, &[GIVEN_UP]);
        }
    }
}

impl Launch {
    /// Makes the process. `files` is the limit of open files that the program shall have.
    ///
    /// # Errors
    ///
    /// When the kernel gives no more processes or descriptors.
    pub fn prepare(mut command: Command, files: Rlimit) -> io::Result<Self> {
        let (told, tell) = pipe_with(PipeFlags::CLOEXEC)?;
        let (wait, go) = pipe_with(PipeFlags::CLOEXEC)?;
        let own_go = go.as_raw_fd();
        let before_program = move || {
            // SAFETY: the child's copy of a descriptor that nothing in the child uses. While it is
            // open, the child would not notice that its parent is gone.
            unsafe { rustix::io::close(own_go) };
            setrlimit(Resource::Nofile, files)?;
            let pid = std::process::id();
            rustix::io::write(&tell, &pid.to_ne_bytes())?;
            // Without a word where its parent is gone.
            let mut word = [GIVEN_UP];
            rustix::io::read(&wait, &mut word)?;
            if word == [GO] { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
        };
        // SAFETY: between fork and exec it makes system calls alone, allocates nothing and takes no
        // lock.
        unsafe { command.pre_exec(before_program) };
        let starter = std::thread::spawn(move || command.spawn());
        let mut pid = [0; 4];
        match rustix::io::read(&told, &mut pid) {
            Ok(4) => Ok(Self { pid: u32::from_ne_bytes(pid), go: Go(Some(go)), starter }),
            // The child was never made.
            Ok(_) => match joined(starter) {
                Err(error) => Err(error),
                Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// The process, as the kernel tells it apart from others, once it waits to be let go: whoever counts it from then on
    /// counts nothing of what it does before.
    ///
    /// # Errors
    ///
    /// When `/proc` cannot be read.
    pub fn task(&self, roots: &Roots) -> io::Result<Task> {
        loop {
            let facts = facts(roots, self.pid, self.pid)?;
            if !facts.wants_cpu {
                return Ok(facts.task);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Lets it become the program.
    ///
    /// # Errors
    ///
    /// When there is no such program or it may not be run.
    pub fn start(self) -> io::Result<Child> {
        self.go.tell()?;
        joined(self.starter)
    }
}

fn joined(starter: JoinHandle<io::Result<Child>>) -> io::Result<Child> {
    starter.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

#[cfg(test)]
mod tests {
    use rustix::process::getrlimit;

    use super::*;

    fn prepare(program: &str, arguments: &[&str]) -> Launch {
        let mut command = Command::new(program);
        command.args(arguments);
        Launch::prepare(command, getrlimit(Resource::Nofile)).unwrap()
    }

    #[test]
    fn nothing_runs_before_it_is_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ran");
        let launch = prepare("sh", &["-c", "echo $$ > \"$0\"; exit 7", file.to_str().unwrap()]);
        let task = launch.task(&Roots::default()).unwrap();
        assert!(!facts(&Roots::default(), task.pid, task.tid).unwrap().wants_cpu);
        assert!(!file.exists());
        let status = launch.start().unwrap().wait().unwrap();
        assert_eq!(status.code(), Some(7));
        assert_eq!(std::fs::read_to_string(file).unwrap().trim(), task.pid.to_string());
    }

    #[test]
    fn a_program_that_is_not_there_is_said() {
        let error = prepare("/nonexistent/program", &[]).start().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_program_has_the_limit_it_was_given() {
        let before = getrlimit(Resource::Nofile);
        let files = Rlimit { current: Some(123), ..before };
        let mut command = Command::new("sh");
        command.args(["-c", "[ $(ulimit -Sn) = 123 ]"]);
        let status = Launch::prepare(command, files).unwrap().start().unwrap().wait().unwrap();
        assert!(status.success());
        assert_eq!(getrlimit(Resource::Nofile), before);
    }

    #[test]
    fn one_that_is_given_up_ends() {
        let launch = prepare("sleep", &["1000"]);
        let later = prepare("true", &[]);
        let (pid, starter) = (launch.pid, launch.starter);
        drop(launch.go);
        assert!(starter.join().unwrap().is_err());
        assert!(facts(&Roots::default(), pid, pid).is_err());
        assert!(later.start().unwrap().wait().unwrap().success());
    }
}
