//! The API server, asked by `kubectl`.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use corun_app::Cancel;

use crate::failure::{Failure, Outcome};

/// For each answer of the API server. `kubectl` asks several times for a patch.
const ANSWER_TIME: &str = "--request-timeout=10s";
/// For all of them, and whatever else `kubectl` waits for.
const LONGEST_CALL: Duration = Duration::from_secs(25);
/// How often it is looked whether `kubectl` has ended.
const PAUSE: Duration = Duration::from_millis(10);
/// The longest text of a failure that is said.
const MOST_SAID: usize = 500;

/// What `kubectl` prints. It is ended where it takes too long, or the agent is to stop.
pub(super) fn kubectl(words: &[&str], cancel: &Cancel) -> Outcome<Vec<u8>> {
    let mut command = Command::new("kubectl");
    command.arg(ANSWER_TIME).args(words);
    answer(command, words[0], LONGEST_CALL, cancel)
}

fn answer(
    mut command: Command,
    name: &str,
    longest: Duration,
    cancel: &Cancel,
) -> Outcome<Vec<u8>> {
    // Files never fill up, as pipes do that nobody reads.
    let (mut printed, mut said) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(printed.try_clone()?).stderr(said.try_clone()?);
    let Some(status) = ended(command, longest, cancel)? else {
        let why = if cancel.is_set() { "the agent stops" } else { "it does not end" };
        return Err(Failure::Failed(anyhow!("kubectl {name}: {why}")));
    };
    if status.success() {
        return contents(&mut printed);
    }
    let said = contents(&mut said)?;
    let said = String::from_utf8_lossy(&said);
    let last = said.trim().lines().last().unwrap_or("it says nothing");
    let said: String = last.chars().take(MOST_SAID).collect();
    Err(Failure::Failed(anyhow!("kubectl {name}: {said}")))
}

/// How a command ended; none where it had to be ended.
fn ended(mut command: Command, longest: Duration, cancel: &Cancel) -> Outcome<Option<ExitStatus>> {
    let mut child = command.spawn().context("kubectl does not start")?;
    let until = Instant::now() + longest;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if cancel.is_set() || Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
}

fn contents(file: &mut File) -> Outcome<Vec<u8>> {
    let mut all = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut all)?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(script: &str, longest: Duration) -> Result<Vec<u8>, String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        answer(command, "get", longest, &Cancel::default()).map_err(|failure| failure.report())
    }

    #[test]
    fn what_is_printed_is_the_answer_and_the_last_line_said_is_the_failure() {
        let long = Duration::from_secs(600);
        // More than a pipe holds.
        let printed = answered("head -c 1000000 /dev/zero; echo aside >&2", long).unwrap();
        assert_eq!(printed.len(), 1_000_000);
        let said = answered("echo first >&2; echo refused >&2; exit 3", long).unwrap_err();
        assert!(said.contains("kubectl get: refused") && !said.contains("first"), "{said}");
    }

    #[test]
    fn a_call_that_does_not_end_is_ended() {
        let said = answered("exec sleep 100000", Duration::from_millis(1)).unwrap_err();
        assert!(said.contains("kubectl get: it does not end"), "{said}");
    }
}
