//! `corun fleet rank-nodes`: the table of nodes that Slurm's jobs prefer.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use corun_app::{Cancel, find_machine, open_library, tell};
use corun_fleet::{SINFO_FORMAT, SQUEUE_FORMAT, Seats, SlurmNodes, now_s};
use corun_profile::write_atomically;

use crate::cli::{RankNodesArgs, model_options};
use crate::failure::{Failure, Outcome};

/// How often it is looked whether to stop.
const PAUSE: Duration = Duration::from_millis(100);
/// For Slurm to answer, in seconds.
const ANSWER_TIME: &str = "30";
/// Exit code of `timeout` where there is no answer in time.
const TIMED_OUT: i32 = 124;

pub(super) fn run(arguments: &RankNodesArgs) -> Outcome<String> {
    let library = open_library(arguments.library.profiles.as_deref())?;
    let seats = if arguments.threads { Seats::Threads } else { Seats::Cores };
    let mut groups = Vec::new();
    for (machine, list) in &arguments.nodes {
        groups.push((find_machine(machine)?, seats, list.clone()));
    }
    let ranks = SlurmNodes::new(groups, &library, model_options(&arguments.model))?;
    let mut said = BTreeSet::new();
    let Some(every_s) = arguments.every else {
        let table = one_table(arguments, &ranks, &mut said)?;
        let Some(path) = &arguments.output else { return Ok(table) };
        write(path, &table)?;
        return Ok(String::new());
    };
    let path = arguments.output.as_deref().expect("--every requires --output");
    let cancel = Cancel::on_signal()?;
    while !cancel.is_set() {
        let next = Instant::now() + Duration::from_secs(every_s);
        // Slurm may go away for a while: the table grows old then, and is not believed.
        let written = one_table(arguments, &ranks, &mut said).and_then(|table| write(path, &table));
        if let Err(failure) = written {
            tell(failure.report().trim());
        }
        while !cancel.is_set() && Instant::now() < next {
            std::thread::sleep(PAUSE);
        }
    }
    // A table that nobody keeps any more must not be believed.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::Failed(anyhow!("{}: {error}", path.display())))
        }
        _ => Ok(String::new()),
    }
}

/// The table of now; what is assumed is said on stderr while it is new.
fn one_table(
    arguments: &RankNodesArgs,
    ranks: &SlurmNodes,
    said: &mut BTreeSet<String>,
) -> Outcome<String> {
    let nodes = match &arguments.sinfo {
        Some(path) => read(path)?,
        None => asked("sinfo", &["--noheader", "--Node", "--format", SINFO_FORMAT])?,
    };
    let jobs = match &arguments.squeue {
        Some(path) => read(path)?,
        None => asked("squeue", &["--noheader", "--states=RUNNING", "--format", SQUEUE_FORMAT])?,
    };
    let table = ranks.table(&nodes, &jobs, now_s());
    let assumed: BTreeSet<String> = table.assumed.into_iter().collect();
    for one in assumed.difference(said) {
        tell(format_args!("assumed: {one}"));
    }
    *said = assumed;
    Ok(table.text)
}

fn read(path: &Path) -> Outcome<String> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::input(format!("{}: {error}", path.display())))
}

/// What a command of Slurm's prints.
fn asked(command: &str, words: &[&str]) -> Outcome<String> {
    let output = Command::new("timeout")
        .args([ANSWER_TIME, command])
        .args(words)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{command} does not start"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = match output.status.code() {
        Some(TIMED_OUT) => "it does not answer".to_owned(),
        _ => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    };
    Err(Failure::Failed(anyhow!("{command}: {why}")))
}

/// Readers see the old table or the new one, each whole.
fn write(path: &Path, table: &str) -> Outcome {
    write_atomically(path, table.as_bytes())
        .map_err(|error| Failure::Failed(anyhow!("{}: {error}", path.display())))
}
