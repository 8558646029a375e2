//! A diagnosis for people.

use std::fmt::Write as _;

use corun_app::{Advice, Cause, Diagnosis, LostShare, ProgramFacts};

use crate::output::counted;

/// Columns of the text.
const WIDTH: usize = 100;
/// Where the words of a cause begin.
const INDENT: &str = "      ";

pub(super) fn text(facts: &ProgramFacts, diagnosis: &Diagnosis) -> String {
    let mut text = wrapped(&diagnosis.verdict, "");
    let looked = format!(
        "Followed {} of {} for {:.1} s: {:.2} s on CPUs, {} waiting for one, {:.2} s blocked, {:.2} s asleep.",
        counted(facts.threads, "thread"),
        if facts.pids.len() == 1 {
            "1 process".to_owned()
        } else {
            format!("{} processes", facts.pids.len())
        },
        facts.interval_s,
        facts.time.on_cpu_s,
        facts.time.waiting_s.map_or("-".to_owned(), |waited| format!("{waited:.2} s")),
        facts.time.blocked_s,
        facts.time.asleep_s,
    );
    text.push_str(&wrapped(&looked, ""));
    if !diagnosis.causes.is_empty() {
        text.push_str("\nCauses\n");
    }
    for (number, cause) in diagnosis.causes.iter().enumerate() {
        text.push_str(&of_cause(number + 1, cause));
    }
    let mut helps = diagnosis.causes.iter().flat_map(|cause| &cause.advice);
    if let Some(measured) = helps.find_map(measure) {
        text.push_str("\nWhat that is worth, by turns with it and without\n");
        text.push_str(&measured);
    }
    if !diagnosis.unknown.is_empty() {
        text.push_str("\nWhat cannot be told here\n");
    }
    for one in &diagnosis.unknown {
        text.push_str(&wrapped(&format!("{}.", one.why), "  "));
        one.advice.iter().for_each(|advice| text.push_str(&of_advice(advice)));
    }
    text
}

fn of_cause(number: usize, cause: &Cause) -> String {
    let sure = match cause.lost {
        LostShare::Measured(_) => "measured",
        LostShare::Estimated(_) => "estimated",
        LostShare::Predicted(_) => "predicted",
        LostShare::AtMost(_) => "at most that",
    };
    let share = cause.lost.share() * 100.0;
    let mut text = format!("  {number}.  {}: {share:.0} %, {sure}\n", cause.kind.words());
    text.push_str(&wrapped(&cause.found, INDENT));
    cause.advice.iter().for_each(|advice| text.push_str(&of_advice(advice)));
    text
}

/// A command stands on a line of its own and is never broken.
fn of_advice(advice: &Advice) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{INDENT}$ {}", advice.command);
    let _ = writeln!(text, "{INDENT}    {}", advice.does);
    if let Some(undo) = &advice.undo {
        let _ = writeln!(text, "{INDENT}    back: {undo}");
    }
    text
}

/// How to measure what the advice is worth, where it can be taken back.
fn measure(advice: &Advice) -> Option<String> {
    let undo = advice.undo.as_ref()?;
    let quoted = |command: &str| shlex::try_quote(command).map(|word| word.into_owned()).ok();
    let (on, off) = (quoted(&advice.command)?, quoted(undo)?);
    Some(format!(
        "{INDENT}$ corun ab --on {on} --off {off} --count done='wc -l < OUTPUT'\n\
         {INDENT}    --count: what prints how much the program has done so far\n"
    ))
}

fn wrapped(text: &str, indent: &str) -> String {
    let options = textwrap::Options::new(WIDTH).initial_indent(indent).subsequent_indent(indent);
    let mut text = textwrap::fill(text, options);
    text.push('\n');
    text
}
