//! One run of a program, timed.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use corun_calibrate::wait_for;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::TimedProgram;

/// How often is looked whether to stop.
const LOOK: Duration = Duration::from_millis(50);

/// A run that came to its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Run {
    /// When it was started and when it had ended.
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
    /// CPU time of the program and its descendants, in user mode and in the kernel.
    pub(crate) cpu_s: f64,
}

/// Why a program was not timed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No words to run.
    #[error("it has no command")]
    NoCommand,
    /// The file after `<` cannot be read.
    #[error("{file}: {source}")]
    Input {
        /// Its name.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// It cannot be started.
    #[error("{program} cannot be started: {source}")]
    Start {
        /// The first word of the command.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It ended with a code that means failure.
    #[error("it ended with exit code {0}")]
    Code(i32),
    /// A signal ended it.
    #[error("signal {0} ended it")]
    Signal(i32),
    /// It took too long.
    #[error("it had not ended after {0} s")]
    Limit(f64),
    /// It ran for less time than its recording can take.
    #[error(
        "it took {took_s:.4} s, and the instructions of its recording take {least_s:.4} s at least: it did something else \
         than when it was recorded, for want of its standard input, for instance"
    )]
    Other {
        /// CPU seconds of a run.
        took_s: f64,
        /// What a core takes at least.
        least_s: f64,
    },
    /// The caller wanted no more.
    #[error("stopped")]
    Stopped,
    /// The kernel refused to wait for it or to bind it to a CPU.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}

fn system(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> RunError {
    move |error| RunError::System { what, source: error.into() }
}

/// Binds the calling thread, and with it what it starts, to a CPU.
pub(crate) fn bind(cpu: u32) -> Result<(), RunError> {
    let mut only = rustix::thread::CpuSet::new();
    only.set(cpu as usize);
    rustix::thread::sched_setaffinity(None, &only).map_err(system("binding to a CPU"))
}

/// Runs a program to its end, on the CPU to which the calling thread is bound.
pub(crate) fn run(
    subject: &TimedProgram,
    folder: &Path,
    limit: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Run, RunError> {
    let mut command = command(subject, folder)?;
    let program = || subject.command[0].clone();
    let begun = Instant::now();
    let child = command.spawn().map_err(|source| RunError::Start { program: program(), source })?;
    let pid = Pid::from_child(&child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(system("pidfd_open"))?;
    let end = wait_for_end(&pidfd, begun, limit, stop);
    if end.is_err() {
        // Gone by itself in the meantime: nothing to kill.
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let (status, cpu_s) =
        wait_for(pid).map_err(|source| RunError::System { what: "wait4", source })?;
    let ended = Instant::now();
    // What it started and left behind must not run beside the next.
    let _ = kill_process_group(pid, Signal::KILL);
    end?;
    if libc::WIFSIGNALED(status) {
        return Err(RunError::Signal(libc::WTERMSIG(status)));
    }
    let code = libc::WEXITSTATUS(status);
    if code != 0 && !subject.good_codes.contains(&code) {
        return Err(RunError::Code(code));
    }
    Ok(Run { begun, ended, cpu_s })
}

fn command(subject: &TimedProgram, folder: &Path) -> Result<Command, RunError> {
    let words = subject.command.as_slice();
    let (words, input) = match words {
        [words @ .., sign, file] if sign == "<" => (words, Some(file)),
        words => (words, None),
    };
    let (program, arguments) = words.split_first().ok_or(RunError::NoCommand)?;
    let stdin = match input {
        None => Stdio::null(),
        Some(file) => File::open(folder.join(file))
            .map_err(|source| RunError::Input { file: file.clone(), source })?
            .into(),
    };
    // A path is the folder's; a bare name is looked up where commands are.
    let program = if program.contains('/') { folder.join(program) } else { program.into() };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(folder)
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    Ok(command)
}

fn wait_for_end(
    pidfd: &OwnedFd,
    begun: Instant,
    limit: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<(), RunError> {
    loop {
        let left = limit.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(RunError::Limit(limit.as_secs_f64()));
        }
        let look = Timespec::try_from(left.min(LOOK)).unwrap_or_default();
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&look)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(system("poll")(error)),
        }
        if stop() {
            return Err(RunError::Stopped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(words: &[&str]) -> TimedProgram {
        TimedProgram {
            name: "it".to_owned(),
            command: words.iter().map(|&word| word.to_owned()).collect(),
            good_codes: vec![10],
        }
    }

    fn tried(words: &[&str], seconds: f64) -> Result<Run, RunError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("two"), "2\n").unwrap();
        run(&subject(words), folder.path(), Duration::from_secs_f64(seconds), &|| false)
    }

    #[test]
    fn a_run_to_its_end_is_timed() {
        // Cycles, not sleep, are what it is charged for.
        let busy = tried(&["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"], 60.0);
        assert!(busy.unwrap().cpu_s > 0.0);
        let codes =
            [tried(&["sh", "-c", "exit 10"], 60.0), tried(&["grep", "2", "<", "two"], 60.0)];
        assert!(codes.iter().all(Result::is_ok), "{codes:?}");
    }

    #[test]
    fn what_goes_wrong_is_named() {
        let said = |words: &[&str], seconds| tried(words, seconds).unwrap_err().to_string();
        assert_eq!(said(&["false"], 60.0), "it ended with exit code 1");
        assert_eq!(said(&["sh", "-c", "kill -9 $$"], 60.0), "signal 9 ended it");
        assert_eq!(said(&["sleep", "1000"], 0.2), "it had not ended after 0.2 s");
        assert!(said(&["./absent"], 60.0).contains("absent cannot be started: No such file"));
        assert!(said(&["cat", "<", "absent"], 60.0).starts_with("absent: No such file"));
        assert_eq!(said(&[], 60.0), "it has no command");
    }

    /// It reads an empty input rather than the caller's.
    #[test]
    fn who_reads_from_nowhere_does_not_wait() {
        assert!(tried(&["cat"], 60.0).is_ok());
    }

    #[test]
    fn who_is_told_to_stop_ends_its_program() {
        let folder = tempfile::tempdir().unwrap();
        let found =
            run(&subject(&["sleep", "1000"]), folder.path(), Duration::from_secs(900), &|| true);
        assert!(matches!(found, Err(RunError::Stopped)), "{found:?}");
    }
}
