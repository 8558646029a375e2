//! What policies decided, in words, for tables and documents.

use corun_live::{Decision, Host, Tick, Verdict};
use serde::Serialize;

use super::hosting::{action_in_words, program_of};
use corun_report::round;

/// A decision in words.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DecisionLine {
    pub(super) at_s: f64,
    pub(super) policy: String,
    /// `proposed` or `refused`.
    pub(super) verdict: &'static str,
    pub(super) program: String,
    pub(super) action: String,
    /// The policy's, or why it was refused.
    pub(super) reason: String,
}

impl DecisionLine {
    /// None where all was as asked already.
    fn new(host: &Host, decision: &Decision) -> Option<Self> {
        let (verdict, reason) = match &decision.verdict {
            Verdict::AsAsked => return None,
            Verdict::Done(_) | Verdict::Proposed(_) => ("proposed", &decision.reason),
            Verdict::Refused(refusal) => ("refused", &refusal.0),
            Verdict::Failed(why) => ("refused", why),
        };
        Some(Self {
            at_s: decision.at.as_secs_f64(),
            policy: decision.policy.clone(),
            verdict,
            program: program_of(host, &decision.action),
            action: action_in_words(host, &decision.action),
            reason: reason.clone(),
        })
    }

    pub(super) fn is_refused(&self) -> bool {
        self.verdict == "refused"
    }

    /// `dio would: sort on CPU 2`.
    pub(super) fn would(&self) -> String {
        let would = if self.is_refused() { "cannot" } else { "would" };
        format!("{} {would}: {}", self.policy, self.action)
    }

    /// A line for people.
    pub(super) fn text(&self) -> String {
        format!("{:.1} s: {} ({})", self.at_s, self.would(), self.reason)
    }
}

/// Tells what is new in each tick: what is refused again and again, once.
#[derive(Debug, Default)]
pub(super) struct Decided {
    stuck: Vec<(String, String)>,
}

impl Decided {
    /// What a tick decided.
    pub(super) fn news(&mut self, host: &Host, tick: &Tick) -> Vec<DecisionLine> {
        let lines = tick.decisions.iter().filter_map(|one| DecisionLine::new(host, one));
        let lines: Vec<DecisionLine> = lines.collect();
        let of = |line: &DecisionLine| (line.action.clone(), line.reason.clone());
        let stuck = lines.iter().filter(|line| line.is_refused()).map(of).collect();
        let before = std::mem::replace(&mut self.stuck, stuck);
        lines
            .into_iter()
            .filter(|line| !(line.is_refused() && before.contains(&of(line))))
            .collect()
    }
}

/// A decision in a document.
#[derive(Debug, Serialize)]
pub(super) struct DecisionEntry<'a> {
    pub(super) at_s: f64,
    pub(super) policy: &'a str,
    pub(super) verdict: &'static str,
    pub(super) program: &'a str,
    pub(super) action: &'a str,
    pub(super) reason: &'a str,
}

impl<'a> From<&'a DecisionLine> for DecisionEntry<'a> {
    fn from(one: &'a DecisionLine) -> Self {
        Self {
            at_s: round(one.at_s, 3),
            policy: &one.policy,
            verdict: one.verdict,
            program: &one.program,
            action: &one.action,
            reason: &one.reason,
        }
    }
}
