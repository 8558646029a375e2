//! `corun decide`: what a policy would have decided over what `corun record` wrote.

use std::fmt::Write as _;
use std::sync::Arc;

use corun_hosting::{DecisionLine, NewDecisions, load_recording};
use corun_live::{Host, LiveRecording};
use corun_policy::Nanoseconds;
use serde::Serialize;

use crate::cli::{DecideArgs, TableFormat};
use crate::failure::{Failure, Outcome};
use corun_report::{Columns, counted, json, round};

#[derive(Debug, Serialize)]
struct Document<'a> {
    machine: String,
    policy: String,
    seconds: f64,
    looks: usize,
    threads: usize,
    decisions: &'a [DecisionLine],
}

pub(super) fn run(arguments: &DecideArgs) -> Outcome<String> {
    let recording = Arc::new(load_recording(&arguments.recording)?);
    let mut host = host(arguments, recording.clone())?;
    let mut decided = NewDecisions::default();
    let mut lines: Vec<DecisionLine> = Vec::new();
    let mut threads = 0;
    for at in recording.times() {
        let tick = host.tick_at(at).map_err(Failure::live)?;
        threads += tick.arrived;
        lines.extend(decided.news(&host, &tick));
    }
    let (first, last) = (recording.times().next(), recording.times().last());
    let seconds =
        last.zip(first).map_or(0.0, |(last, first)| last.as_secs_f64() - first.as_secs_f64());
    let document = Document {
        machine: host.machine().name().to_owned(),
        policy: arguments.policy.clone(),
        seconds: round(seconds, 3),
        looks: recording.times().count(),
        threads,
        decisions: &lines,
    };
    match arguments.format {
        TableFormat::Table => Ok(text(&document)),
        TableFormat::Json => json(&document),
        TableFormat::Csv => csv(&document),
    }
}

fn host(arguments: &DecideArgs, recording: Arc<LiveRecording>) -> Outcome<Host> {
    let policies = corun_app::build_policies(&arguments.policy, arguments.seed)?;
    let interval = arguments.interval.map(Nanoseconds::from_secs_f64);
    corun_app::recorded_host(recording, policies, interval).map_err(Failure::of_recording)
}

fn text(document: &Document<'_>) -> String {
    let mut text = String::new();
    for line in document.decisions {
        let _ = writeln!(text, "{}", line.text());
    }
    let _ = writeln!(
        text,
        "{} on {}: {} in {:.1} s, {}, {}",
        document.policy,
        document.machine,
        counted(document.looks, "look"),
        document.seconds,
        counted(document.threads, "thread"),
        counted(document.decisions.len(), "decision"),
    );
    text
}

fn csv(document: &Document<'_>) -> Outcome<String> {
    Columns::of(document.decisions)
        .left("at_s", |one| round(one.at_s, 3))
        .left("policy", |one| one.policy.clone())
        .left("verdict", |one| one.verdict)
        .left("program", |one| one.program.clone())
        .left("action", |one| one.action.clone())
        .left("reason", |one| one.reason.clone())
        .csv()
}
