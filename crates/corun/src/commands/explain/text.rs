//! A diagnosis for people.

use std::fmt::Write as _;

use corun_app::{Advice, Cause, CauseKind, Diagnosis, FarPartner, LostShare, ProgramFacts};

use corun_report::counted;

/// Columns of the text.
const WIDTH: usize = 100;
/// Where the words of a cause begin.
const INDENT: &str = "      ";

pub(super) fn text(facts: &ProgramFacts, diagnosis: &Diagnosis) -> String {
    let mut text = wrapped(&diagnosis.verdict, "");
    let looked = format!(
        "Followed {} of {} for {:.1} s: {:.2} s on CPUs, {} waiting for one, {:.2} s blocked, {:.2} s asleep{}.",
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
        held(facts),
    );
    text.push_str(&wrapped(&looked, ""));
    if !diagnosis.causes.is_empty() {
        text.push_str("\nCauses\n");
    }
    for (number, cause) in diagnosis.causes.iter().enumerate() {
        text.push_str(&of_cause(number + 1, cause));
    }
    diagnosis.far_partner.iter().for_each(|partner| text.push_str(&of_partner(partner)));
    let of_cause = |cause: &Cause| {
        // Whether it goes on is no question of how much.
        if is_held(cause.kind) {
            return None;
        }
        let lacks_cpu =
            matches!(cause.kind, CauseKind::WaitingForCpu | CauseKind::ThrottledByQuota);
        cause.advice.iter().find_map(|advice| measure(lacks_cpu, advice, facts))
    };
    let of_partner = |partner: &FarPartner| measure(false, partner.advice.first()?, facts);
    let measured = diagnosis.causes.iter().find_map(of_cause);
    if let Some(measured) = measured.or_else(|| of_partner(diagnosis.far_partner.as_ref()?)) {
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

fn is_held(kind: CauseKind) -> bool {
    matches!(kind, CauseKind::Stopped | CauseKind::HeldByTracer | CauseKind::Frozen)
}

/// For how long somebody held it still, where somebody did.
fn held(facts: &ProgramFacts) -> String {
    let time = &facts.time;
    let parts = [
        (time.stopped_s, "stopped"),
        (time.traced_s, "held by a tracer"),
        (time.frozen_s, "frozen"),
    ];
    let parts = parts.iter().filter(|(seconds, _)| *seconds > 0.0);
    parts.map(|(seconds, what)| format!(", {seconds:.2} s {what}")).collect()
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

fn of_partner(partner: &FarPartner) -> String {
    let sure = if partner.is_measured { "counted" } else { "counted, where they ran is estimated" };
    let share = partner.share * 100.0;
    let mut text = format!(
        "\nWho wakes it\n  {} ({}), from another LLC: {:.0} times a second, {share:.0} % of its wake-ups, {sure}\n",
        partner.name, partner.pid, partner.wakeups_per_s
    );
    text.push_str(&wrapped(&partner.found, INDENT));
    partner.advice.iter().for_each(|advice| text.push_str(&of_advice(advice)));
    text
}

/// A command stands on a line of its own and is never broken.
fn of_advice(advice: &Advice) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{INDENT}$ {}", advice.command);
    text.push_str(&wrapped(&advice.does, &format!("{INDENT}    ")));
    if let Some(undo) = &advice.undo {
        let _ = writeln!(text, "{INDENT}    back: {undo}");
    }
    text
}

/// How to measure what the advice is worth, where it can be taken back.
fn measure(lacks_cpu: bool, advice: &Advice, facts: &ProgramFacts) -> Option<String> {
    let undo = advice.undo.as_ref()?;
    let quoted = |command: &str| shlex::try_quote(command).map(|word| word.into_owned()).ok();
    let (on, off) = (quoted(&advice.command)?, quoted(undo)?);
    let (count, what) = progress(lacks_cpu, facts);
    Some(format!(
        "{INDENT}$ corun ab --until-clear --on {on} --off {off} --count {count}\n{INDENT}    --count: {what}\n"
    ))
}

/// What tells how far the program is. Of one that lacks a CPU its time on CPUs does, which the kernel counts in the
/// 14th field of a file in which a name stands before, and a name may have spaces.
fn progress(lacks_cpu: bool, facts: &ProgramFacts) -> (String, &'static str) {
    match facts.pids.as_slice() {
        [pid]
            if lacks_cpu && !facts.program.trim_end_matches(&format!(" ({pid})")).contains(' ') =>
        {
            (
                format!("cpu='awk \"{{print \\$14+\\$15}}\" /proc/{pid}/stat'"),
                "the program's time on CPUs; what it gets done, where it says so, is better",
            )
        }
        _ => {
            ("done='wc -l < OUTPUT'".to_owned(), "what prints how much the program has done so far")
        }
    }
}

fn wrapped(text: &str, indent: &str) -> String {
    let options = textwrap::Options::new(WIDTH).initial_indent(indent).subsequent_indent(indent);
    let mut text = textwrap::fill(text, options);
    text.push('\n');
    text
}
