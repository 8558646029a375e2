//! The daemon's log: what happens, in few enough lines to be kept.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use corun_live::{Decision, Host, Restored, Tick, Verdict};
use corun_policy::Action;
use tracing::{error, info, warn};

use crate::config::LogFormat;
use crate::no_plan::NoPlan;
use corun_hosting::{ToldOnce, action_by_process, action_in_words, program_of, undone};
use corun_report::counted;
use corun_serve::{Done, Undone};

/// Lines about threads that may come at once.
const BURST: f64 = 100.0;
/// Lines about threads a second in the long run: 43,200 a day.
const LINES_PER_S: f64 = 0.5;
/// Seconds between two summaries of what was left out.
const SUMMARY_EVERY_S: f64 = 60.0;
/// Things done for a viewer that are said one by one.
const ORDERED: usize = 20;
/// Programs that a summary names.
const NAMED: usize = 5;

/// Sets how lines are written.
pub(crate) fn log_as(format: LogFormat) {
    // A log that nobody reads any more ends nothing: with internal errors the subscriber would panic.
    let lines = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_target(false)
        .log_internal_errors(false);
    // One is set already where the daemon runs inside a test.
    let _ = match format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
}

/// Says how many threads of a program there are at the start.
pub(crate) fn who_is_there(host: &Host, target: usize, program: &str) {
    let threads = host.threads().filter(|one| one.thread.target == target).count();
    match threads {
        0 => info!(program, "no process belongs to it yet"),
        _ => info!(program, threads, "looked after"),
    }
}

/// Says why nothing is planned, and what one can do.
pub(crate) fn nothing_is_planned(reason: NoPlan) {
    let (what, why) = (reason.what(), reason.why());
    warn!(reason = reason.label(), help = reason.help(), "{what}: {why}");
}

/// Says how the undoing went.
pub(crate) fn log_undone(undone: &[Restored]) {
    if let Some(line) = undone::given_back(undone) {
        info!("{line}");
    }
    undone::not_given_back(undone).iter().for_each(|line| warn!("{line}"));
    match undone::is_complete(undone) {
        true => info!(changes = undone.len(), "everything is undone"),
        false => error!(changes = undone.len(), "not everything is undone"),
    }
}

/// Says what came of an order of a viewer.
pub(crate) fn what_was_ordered(answer: &Result<Done, Undone>) {
    match answer {
        Ok(Done { done, not_done, .. }) => {
            done.iter().take(ORDERED).for_each(|line| info!("ordered by a viewer: {line}"));
            if done.len() > ORDERED {
                info!("ordered by a viewer: {} things more", done.len() - ORDERED);
            }
            let not_done = not_done.iter().take(ORDERED);
            not_done.for_each(|line| warn!("ordered by a viewer, not done: {line}"));
        }
        Err(why) => warn!("an order of a viewer was not carried out: {why}"),
    }
}

/// Writes what each tick did.
#[derive(Debug, Default)]
pub(crate) struct TickLog {
    budget: Budget,
    /// Lines of what was refused or failed.
    stuck: ToldOnce<String>,
    unread: ToldOnce<String>,
    /// The actions of that round where all of them were refused, and why.
    refused: Vec<(Action, String)>,
}

impl TickLog {
    /// What is refused is logged once while it stays so.
    pub(crate) fn tick(&mut self, host: &Host, tick: &Tick) {
        let now_s = tick.now.as_secs_f64();
        for moved in &tick.left_alone {
            if self.budget.may(now_s, "left alone", "") {
                warn!("left alone from now on: {moved}");
            }
        }
        for what in self.unread.news(&tick.unread, |what| Some((*what).clone())) {
            if self.budget.may(now_s, "not read", "") {
                warn!("{what}");
            }
        }
        // A policy may ask for hundreds of steps again and again: all was said when it did so first.
        if !tick.decisions.is_empty() && self.were_refused(&tick.decisions) {
            self.summarise(now_s);
            return;
        }
        let lines = tick.decisions.iter().filter_map(|one| line(host, one));
        let key = |line: &Line| line.is_stuck.then(|| line.text.clone());
        for Line { kind, is_stuck, decision, .. } in self.stuck.news(lines, key) {
            let program = program_of(host, &decision.action);
            if !self.budget.may(now_s, kind, &program) {
                continue;
            }
            let (policy, reason) = (&decision.policy, &decision.reason);
            let text = line_as(decision, action_by_process(host, &decision.action));
            let Some((_, text, _)) = text else { continue };
            match is_stuck {
                false => info!(policy, program, reason, "{text}"),
                true => warn!(policy, program, reason, "{text}"),
            }
        }
        let refused = |one: &Decision| match &one.verdict {
            Verdict::Refused(why) => Some((one.action.clone(), why.0.clone())),
            _ => None,
        };
        let refused: Option<Vec<_>> = tick.decisions.iter().map(refused).collect();
        self.refused = refused.unwrap_or_default();
        self.summarise(now_s);
    }

    /// Are these the refusals of the last round, one and all?
    fn were_refused(&self, decisions: &[Decision]) -> bool {
        let is_same = |(one, (action, before)): (&Decision, &(Action, String))| {
            one.action == *action
                && matches!(&one.verdict, Verdict::Refused(why) if why.0 == *before)
        };
        decisions.len() == self.refused.len() && decisions.iter().zip(&self.refused).all(is_same)
    }

    fn summarise(&mut self, now_s: f64) {
        if let Some(line) = self.budget.summary(now_s) {
            warn!("{line}");
        }
    }

    /// What was left out and not yet summarised.
    pub(crate) fn finish(&mut self) {
        if let Some(line) = self.budget.rest() {
            warn!("{line}");
        }
    }
}

/// A decision as it is logged.
struct Line<'a> {
    /// By which lines are counted that are left out.
    kind: &'static str,
    /// Its words without processes, so that what is refused to all of a program is one line.
    text: String,
    /// Was it not done?
    is_stuck: bool,
    decision: &'a Decision,
}

/// None where all was as asked already.
fn line<'a>(host: &Host, decision: &'a Decision) -> Option<Line<'a>> {
    let (kind, text, is_stuck) = line_as(decision, action_in_words(host, &decision.action))?;
    Some(Line { kind, text, is_stuck, decision })
}

/// Its kind, its text and whether it was not done. `action`: its words.
fn line_as(decision: &Decision, action: String) -> Option<(&'static str, String, bool)> {
    Some(match &decision.verdict {
        Verdict::AsAsked => return None,
        Verdict::Done(_) => ("done", action, false),
        Verdict::Proposed(_) => ("proposed", format!("would do: {action}"), false),
        Verdict::Refused(why) => ("refused", format!("{action}: not done: {}", why.0), true),
        Verdict::Failed(why) => ("failed", format!("{action}: not done: {why}"), true),
    })
}

/// Allows so many lines, and counts those that it does not allow. Programs whose threads live for milliseconds
/// would fill a disk.
#[derive(Debug)]
struct Budget {
    left: f64,
    at_s: f64,
    summarised_s: f64,
    /// By kind and program.
    withheld: BTreeMap<(&'static str, String), u64>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: BURST, at_s: 0.0, summarised_s: 0.0, withheld: BTreeMap::new() }
    }
}

impl Budget {
    /// May a line of this kind be written? `now_s` never goes back.
    fn may(&mut self, now_s: f64, kind: &'static str, program: &str) -> bool {
        self.left = (self.left + (now_s - self.at_s) * LINES_PER_S).min(BURST);
        self.at_s = now_s;
        if self.left >= 1.0 {
            self.left -= 1.0;
            return true;
        }
        *self.withheld.entry((kind, program.to_owned())).or_default() += 1;
        false
    }

    /// What was left out, once a minute; none where nothing was.
    fn summary(&mut self, now_s: f64) -> Option<String> {
        if self.withheld.is_empty() {
            self.summarised_s = now_s;
            return None;
        }
        if now_s < self.summarised_s + SUMMARY_EVERY_S {
            return None;
        }
        self.summarised_s = now_s;
        self.rest()
    }

    fn rest(&mut self) -> Option<String> {
        let withheld = std::mem::take(&mut self.withheld);
        let all: u64 = withheld.values().sum();
        if all == 0 {
            return None;
        }
        let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
        let mut programs: BTreeMap<String, u64> = BTreeMap::new();
        for ((kind, program), lines) in withheld {
            *kinds.entry(kind).or_default() += lines;
            if !program.is_empty() {
                *programs.entry(program).or_default() += lines;
            }
        }
        let kinds: Vec<String> =
            kinds.iter().map(|(kind, lines)| format!("{lines} {kind}")).collect();
        let mut programs: Vec<(String, u64)> = programs.into_iter().collect();
        programs.sort_by_key(|(_, lines)| std::cmp::Reverse(*lines));
        let more = programs.len().saturating_sub(NAMED);
        let mut named: Vec<String> =
            programs.iter().take(NAMED).map(|(name, lines)| format!("{name} {lines}")).collect();
        if more > 0 {
            named.push(format!("{} more", counted(more, "program")));
        }
        let by = if named.is_empty() { String::new() } else { format!("; {}", named.join(", ")) };
        let lines = counted(all as usize, "line");
        Some(format!("{lines} left out, to keep the log small: {}{by}", kinds.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 256 threads of a moment each wrote 18,000 lines in 8 s.
    #[test]
    fn a_storm_of_lines_is_a_hundred_and_a_summary() {
        let mut budget = Budget::default();
        let mut lines = 0;
        let mut summaries = Vec::new();
        for tick in 0..80 {
            let now_s = f64::from(tick) * 0.1;
            lines += (0..224).filter(|_| budget.may(now_s, "done", "storm")).count();
            lines += usize::from(budget.may(now_s, "refused", "other"));
            summaries.extend(budget.summary(now_s));
        }
        assert_eq!(summaries, [""; 0]);
        // 100 at once and one each 2 s.
        assert_eq!(lines, 103);
        let first = budget.summary(60.0).unwrap();
        let left_out = 80 * 225 - 103;
        assert!(first.starts_with(&format!("{left_out} lines left out")), "{first}");
        assert!(
            first.contains("done, 80 refused; storm ") && first.ends_with("other 80"),
            "{first}"
        );
        assert_eq!((budget.summary(121.0), budget.rest()), (None, None));
    }

    #[test]
    fn a_day_of_soak_is_43200_lines_and_1440_summaries() {
        let mut budget = Budget::default();
        let (mut lines, mut summaries) = (0, 0);
        for second in 0..86_400 {
            let now_s = f64::from(second);
            let program = format!("p{}", second % 50);
            lines += (0..30).filter(|_| budget.may(now_s, "done", &program)).count();
            let summary = budget.summary(now_s);
            if let Some(line) = &summary {
                assert!(line.contains("45 programs more") && line.len() < 200, "{line}");
            }
            summaries += usize::from(summary.is_some());
        }
        assert!((43_200..43_400).contains(&lines), "{lines}");
        assert!((1400..=1440).contains(&summaries), "{summaries}");
    }
}
