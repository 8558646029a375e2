//! The user's own commands, run so that none can hang or take our Ctrl-C.

use std::io::{Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// The longest that a command may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// The most output that is read.
const MOST_BYTES: u64 = 64 << 10;

/// What a command printed, once it ended well.
pub(super) fn output(line: &str, patience: Duration) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("cannot be run: {error}");
    // Files rather than pipes: a child that the command leaves behind keeps a pipe open.
    let mut out = tempfile::tempfile().map_err(failed)?;
    let mut err = tempfile::tempfile().map_err(failed)?;
    let mut child = Command::new("/bin/sh")
        .args(["-c", line])
        .stdin(Stdio::null())
        .stdout(out.try_clone().map_err(failed)?)
        .stderr(err.try_clone().map_err(failed)?)
        // A group of its own: Ctrl-C is for us, and we still need the command that turns it off.
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let status = wait(&mut child, patience).map_err(failed)?;
    let text = |file: &mut std::fs::File| {
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.take(MOST_BYTES).read_to_end(&mut bytes)).map(|_| bytes)
    };
    let printed = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
    match status {
        None => Err(format!("took longer than {} s and was stopped", patience.as_secs_f64())),
        Some(status) if status.success() => text(&mut out).map(printed).map_err(failed),
        Some(status) => {
            let why = text(&mut err).map(printed).unwrap_or_default();
            let last = why.lines().last().map_or_else(String::new, |line| format!(": {line}"));
            Err(format!("ended with {status}{last}"))
        }
    }
}

/// Waits for a child; one that takes too long is killed with all its group.
fn wait(child: &mut Child, patience: Duration) -> std::io::Result<Option<ExitStatus>> {
    let began = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() >= patience {
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

    #[test]
    fn output_errors_and_endless_commands() {
        assert_eq!(output("echo ' 12 '", PATIENCE), Ok("12".to_owned()));
        let error = output("echo first >&2; echo no such thing >&2; exit 3", PATIENCE).unwrap_err();
        assert_eq!(error, "ended with exit status: 3: no such thing");
        let error = output("sleep 600 & sleep 600", Duration::from_millis(50)).unwrap_err();
        assert!(error.contains("took longer than 0.05 s"), "{error}");
    }

    #[test]
    fn what_a_command_leaves_behind_is_not_waited_for() {
        let began = Instant::now();
        assert_eq!(output("sleep 20 & echo 1", PATIENCE), Ok("1".to_owned()));
        assert!(began.elapsed() < Duration::from_secs(15));
    }
}
