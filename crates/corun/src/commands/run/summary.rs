//! What became of a run: for people and as JSON.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use corun_hosting::undone::ChangePart;
use corun_hosting::{HostSettings, Program, Run, decision_in_words};
use corun_live::{Host, Restored, Reverted, Tick, Verdict};
use serde::Serialize;

use corun_report::{counted, round};

/// Most decisions that a summary lists; the first ones are kept.
const MOST_DECISIONS: usize = 10_000;

/// What was decided so far.
#[derive(Debug, Default)]
pub(super) struct Told {
    rounds: u64,
    decisions: Vec<DecisionLine>,
    decided: u64,
    carried_out: u64,
    left_alone: Vec<String>,
}

impl Told {
    pub(super) fn has_decided(&self) -> bool {
        self.decided > 0
    }

    /// How often the policy was asked.
    pub(super) fn rounds(&self) -> usize {
        self.rounds as usize
    }

    pub(super) fn has_acted(&self) -> bool {
        self.carried_out > 0
    }

    pub(super) fn add(&mut self, host: &Host, tick: Tick) {
        self.rounds += 1;
        for decision in &tick.decisions {
            let Some(words) = decision_in_words(host, decision) else { continue };
            self.decided += 1;
            let verdict = decision.verdict.name();
            self.carried_out += u64::from(matches!(decision.verdict, Verdict::Done(_)));
            if self.decisions.len() < MOST_DECISIONS {
                self.decisions.push(DecisionLine {
                    at_s: round(decision.at.as_secs_f64(), 3),
                    verdict,
                    words,
                });
            }
        }
        self.left_alone.extend(tick.left_alone);
    }
}

#[derive(Debug, Clone, Serialize)]
struct DecisionLine {
    at_s: f64,
    verdict: &'static str,
    words: String,
}

#[derive(Debug, Serialize)]
struct ProgramLine {
    name: String,
    runs: Vec<RunLine>,
}

#[derive(Debug, Serialize)]
struct RunLine {
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    /// By corun: its time was over, or the run's was, or the user wanted to stop.
    ended_by_corun: bool,
}

/// The document.
#[derive(Debug, Serialize)]
pub(super) struct Summary<'a> {
    policy: String,
    machine: String,
    dry_run: bool,
    seconds: f64,
    rounds: u64,
    programs: Vec<ProgramLine>,
    decided: u64,
    carried_out: u64,
    decisions: Vec<DecisionLine>,
    left_alone: Vec<String>,
    undone: Undone<'a>,
}

#[derive(Debug, Serialize)]
struct Undone<'a> {
    as_before: usize,
    gone: usize,
    changed_by_others: usize,
    unclear: usize,
    failed: Vec<String>,
    changes: Vec<ChangePart<'a>>,
}

impl<'a> Summary<'a> {
    pub(super) fn new(
        settings: &HostSettings,
        host: &Host,
        programs: &[Program],
        told: &Told,
        undone: &'a [Restored],
        elapsed: Duration,
    ) -> Self {
        let count = |of: fn(&Reverted) -> bool| {
            undone.iter().filter(|one| one.outcome.as_ref().is_ok_and(of)).count()
        };
        let undone = Undone {
            as_before: count(|one| matches!(one, Reverted::Done | Reverted::AsBefore)),
            gone: count(|one| matches!(one, Reverted::Gone)),
            changed_by_others: count(|one| matches!(one, Reverted::ChangedByOthers { .. })),
            unclear: count(|one| matches!(one, Reverted::Unclear { .. })),
            changes: undone.iter().map(ChangePart::new).collect(),
            failed: undone.iter().filter_map(|one| one.outcome.clone().err()).collect(),
        };
        Self {
            policy: settings.policy.clone(),
            machine: host.machine().name().to_owned(),
            dry_run: host.is_dry_run(),
            seconds: round(elapsed.as_secs_f64(), 3),
            rounds: told.rounds,
            programs: programs.iter().map(line).collect(),
            decided: told.decided,
            carried_out: told.carried_out,
            decisions: told.decisions.clone(),
            left_alone: told.left_alone.clone(),
            undone,
        }
    }

    /// A line a program.
    pub(super) fn lines(&self) -> Vec<String> {
        let ended = |one: &ProgramLine| format!("{}: {}", one.name, runs_in_words(&one.runs));
        let mut lines: Vec<String> = self.programs.iter().map(ended).collect();
        let done = if self.dry_run {
            "none carried out (dry run)".to_owned()
        } else {
            format!("{} carried out", self.carried_out)
        };
        lines.push(format!(
            "{:.1} s under {}: {}, {done}",
            self.seconds,
            self.policy,
            counted(self.decided as usize, "decision")
        ));
        lines
    }
}

fn line(program: &Program) -> ProgramLine {
    let runs = program.runs.iter().map(|run: &Run| RunLine {
        seconds: round(run.seconds, 3),
        exit_code: run.status.code(),
        signal: run.status.signal(),
        ended_by_corun: run.ended_by_us,
    });
    ProgramLine { name: program.name.to_string(), runs: runs.collect() }
}

fn runs_in_words(runs: &[RunLine]) -> String {
    let Some(last) = runs.last() else { return "was not started".to_owned() };
    let how = match (last.ended_by_corun, last.exit_code, last.signal) {
        (true, ..) => "ended by corun".to_owned(),
        (false, Some(0), _) => "ended well".to_owned(),
        (false, Some(code), _) => format!("exit code {code}"),
        (false, None, Some(signal)) => format!("ended by signal {signal}"),
        (false, None, None) => "ended".to_owned(),
    };
    match runs {
        [one] => format!("{:.2} s, {how}", one.seconds),
        many => {
            let whole: Vec<f64> =
                many.iter().filter(|run| !run.ended_by_corun).map(|run| run.seconds).collect();
            let mean = whole.iter().sum::<f64>() / whole.len().max(1) as f64;
            format!("{} runs, {mean:.2} s on average, the last: {how}", many.len())
        }
    }
}
