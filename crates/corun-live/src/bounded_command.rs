//! Commands of others that are run so that none can hang, or take our Ctrl-C.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How a command ended, and what it said until then.
#[derive(Debug)]
pub struct Ended {
    /// None: it was ended, since it took too long or was no longer wanted.
    pub status: Option<ExitStatus>,
    /// Its standard output.
    pub printed: Vec<u8>,
    /// Its standard error.
    pub said: Vec<u8>,
}

impl Ended {
    /// The last line of its standard error that is not empty, if it has one.
    pub fn last_line_said(&self) -> Option<String> {
        let said = String::from_utf8_lossy(&self.said);
        said.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
    }
}

/// Runs a command for `longest` at most, or until it is no longer `wanted`; it is then ended with all of its process
/// group, which is one of its own. Of each of its outputs at most `most_bytes` are read.
///
/// # Errors
/// When it cannot be run, or there is no room for what it prints.
pub fn run(
    mut command: Command,
    longest: Duration,
    wanted: impl Fn() -> bool,
    most_bytes: u64,
) -> io::Result<Ended> {
    // Files rather than pipes: a pipe fills up, and a child that the command leaves behind keeps one open.
    let (mut printed, mut said) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(printed.try_clone()?).stderr(said.try_clone()?);
    // Ctrl-C is for us, and the command may be what undoes something.
    let mut child = command.process_group(0).spawn()?;
    let status = wait(&mut child, longest, wanted)?;
    let read = |file: &mut File| {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.take(most_bytes).read_to_end(&mut bytes)?;
        Ok::<_, io::Error>(bytes)
    };
    Ok(Ended { status, printed: read(&mut printed)?, said: read(&mut said)? })
}

fn wait(
    child: &mut Child,
    longest: Duration,
    wanted: impl Fn() -> bool,
) -> io::Result<Option<ExitStatus>> {
    let began = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() >= longest || !wanted() {
            if let Some(group) = Pid::from_raw(child.id() as i32) {
                // It may have ended at this moment.
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn shell(line: &str, longest: Duration, wanted: bool, most_bytes: u64) -> Ended {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]);
        run(command, longest, || wanted, most_bytes).unwrap()
    }

    #[test]
    fn what_is_printed_and_said_is_told_apart() {
        // More than a pipe holds.
        let line = "head -c 1000000 /dev/zero; echo first >&2; echo last >&2; echo >&2; exit 3";
        let found = shell(line, LONG, true, u64::MAX);
        assert_eq!(
            (found.status.and_then(|one| one.code()), found.printed.len()),
            (Some(3), 1_000_000)
        );
        assert_eq!(found.last_line_said().unwrap(), "last");
        let found = shell("echo 12345", LONG, true, 3);
        assert_eq!((found.printed.as_slice(), found.last_line_said()), (&b"123"[..], None));
    }

    #[test]
    fn what_takes_too_long_or_is_not_wanted_is_ended() {
        assert!(
            shell("sleep 100000 & sleep 100000", Duration::from_millis(1), true, 1)
                .status
                .is_none()
        );
        assert!(shell("exec sleep 100000", LONG, false, 1).status.is_none());
    }

    #[test]
    fn what_a_command_leaves_behind_is_not_waited_for() {
        let found = shell("sleep 1000 & echo $!", LONG, true, 99);
        assert!(found.status.is_some_and(|status| status.success()));
        let left = String::from_utf8(found.printed).unwrap();
        // It still runs.
        assert!(Command::new("kill").args(["-9", left.trim()]).status().unwrap().success());
    }
}
