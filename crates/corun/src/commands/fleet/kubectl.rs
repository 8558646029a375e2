//! The API server, asked by `kubectl`.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use corun_app::Cancel;
use corun_live::bounded_command::run;

use crate::failure::{Failure, Outcome};

/// For each answer of the API server. `kubectl` asks several times for a patch.
const ANSWER_TIME: &str = "--request-timeout=10s";
/// For all of them, and whatever else `kubectl` waits for.
const LONGEST_CALL: Duration = Duration::from_secs(25);
/// The largest answer that is read: the pods of a node, thousands of them. An agent may use 256 MiB in all.
const MOST_BYTES: u64 = 64 << 20;
/// The longest text of a failure that is said.
const MOST_SAID: usize = 500;

/// What `kubectl` prints. It is ended where it takes too long, or the agent is to stop.
pub(super) fn kubectl(words: &[&str], cancel: &Cancel) -> Outcome<Vec<u8>> {
    let mut command = Command::new("kubectl");
    command.arg(ANSWER_TIME).args(words);
    answer(command, words[0], (LONGEST_CALL, MOST_BYTES), cancel)
}

fn answer(
    command: Command,
    name: &str,
    (longest, most_bytes): (Duration, u64),
    cancel: &Cancel,
) -> Outcome<Vec<u8>> {
    // One byte more tells an answer that is too large.
    let ended = run(command, longest, || !cancel.is_set(), most_bytes + 1)
        .context("kubectl does not start")?;
    let why = match ended.status {
        _ if ended.printed.len() as u64 > most_bytes => {
            format!("it answers more than {} MiB", most_bytes >> 20)
        }
        Some(status) if status.success() => return Ok(ended.printed),
        Some(_) => ended.last_line_said().unwrap_or_else(|| "it says nothing".to_owned()),
        None if cancel.is_set() => "the agent stops".to_owned(),
        None => "it does not end".to_owned(),
    };
    let why: String = why.chars().take(MOST_SAID).collect();
    Err(Failure::Failed(anyhow!("kubectl {name}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(script: &str, limits: (Duration, u64)) -> Result<Vec<u8>, String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        answer(command, "get", limits, &Cancel::default()).map_err(|failure| failure.report())
    }

    #[test]
    fn what_is_printed_is_the_answer_and_the_last_line_said_is_the_failure() {
        let long = (Duration::from_secs(600), MOST_BYTES);
        // More than a pipe holds.
        let printed = answered("head -c 1000000 /dev/zero; echo aside >&2", long).unwrap();
        assert_eq!(printed.len(), 1_000_000);
        let said = answered("echo first >&2; echo refused >&2; exit 3", long).unwrap_err();
        assert!(said.contains("kubectl get: refused") && !said.contains("first"), "{said}");
    }

    #[test]
    fn no_more_is_read_of_an_answer_than_is_allowed() {
        let limits = (Duration::from_secs(600), 3 << 20);
        let printed = answered("head -c 3145728 /dev/zero", limits).unwrap();
        assert_eq!(printed.len(), 3 << 20);
        let said = answered("head -c 3145729 /dev/zero", limits).unwrap_err();
        assert!(said.contains("kubectl get: it answers more than 3 MiB"), "{said}");
    }

    #[test]
    fn a_call_that_does_not_end_is_ended() {
        let short = (Duration::from_millis(1), MOST_BYTES);
        let said = answered("exec sleep 100000", short).unwrap_err();
        assert!(said.contains("kubectl get: it does not end"), "{said}");
    }
}
