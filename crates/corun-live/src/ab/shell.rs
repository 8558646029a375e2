//! The user's own commands.

use std::process::Command;
use std::time::Duration;

use crate::bounded_command::run;

/// The longest that a command may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// The most output that is read.
const MOST_BYTES: u64 = 64 << 10;

/// What a command printed, once it ended well.
pub(super) fn output(line: &str, patience: Duration) -> Result<String, String> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]);
    let ended = run(command, patience, || true, MOST_BYTES)
        .map_err(|error| format!("cannot be run: {error}"))?;
    match ended.status {
        None => Err(format!("took longer than {} s and was stopped", patience.as_secs_f64())),
        Some(status) if status.success() => {
            Ok(String::from_utf8_lossy(&ended.printed).trim().to_owned())
        }
        Some(status) => {
            let last = ended.last_line_said().map_or_else(String::new, |line| format!(": {line}"));
            Err(format!("ended with {status}{last}"))
        }
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
}
