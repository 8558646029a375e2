//! What policies decided, in words, for tables and documents.

use corun_app::tell;
use corun_live::{Decision, Host, Tick, Verdict};
use corun_policy::{Action, ThreadView};
use corun_report::round;
use serde::{Serialize, Serializer};

/// A decision in words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DecisionLine {
    /// Seconds since the host began.
    #[serde(serialize_with = "to_milliseconds")]
    pub at_s: f64,
    /// The policy that decided.
    pub policy: String,
    /// `proposed` or `refused`.
    pub verdict: &'static str,
    /// The program of the first thread that the action is about; empty where it is about none.
    pub program: String,
    /// What was decided.
    pub action: String,
    /// The policy's, or why it was refused.
    pub reason: String,
}

fn to_milliseconds<S: Serializer>(at_s: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(round(*at_s, 3))
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

    /// Was it refused, or did it fail?
    pub fn is_refused(&self) -> bool {
        self.verdict == "refused"
    }

    /// `dio would: sort on CPU 2`.
    pub fn would(&self) -> String {
        let would = if self.is_refused() { "cannot" } else { "would" };
        format!("{} {would}: {}", self.policy, self.action)
    }

    /// A line for people.
    pub fn text(&self) -> String {
        format!("{:.1} s: {} ({})", self.at_s, self.would(), self.reason)
    }
}

/// Picks of a tick's lines the new ones: what could not be done is told once while it stays the same, also within a tick, in
/// which a policy may answer each program that comes by the same plan.
#[derive(Debug)]
pub struct ToldOnce<K> {
    /// What could not be done in the last tick.
    stuck: Vec<K>,
}

impl<K> Default for ToldOnce<K> {
    fn default() -> Self {
        Self { stuck: Vec::new() }
    }
}

impl<K: PartialEq> ToldOnce<K> {
    /// Of all lines of a tick the new ones. `key`: what two lines must have in common to be the same, none where a line tells
    /// what was done.
    pub fn news<T>(
        &mut self,
        lines: impl IntoIterator<Item = T>,
        key: impl Fn(&T) -> Option<K>,
    ) -> Vec<T> {
        let before = std::mem::take(&mut self.stuck);
        let is_new = |line: &T| match key(line) {
            None => true,
            Some(key) if self.stuck.contains(&key) => false,
            Some(key) => {
                let is_new = !before.contains(&key);
                self.stuck.push(key);
                is_new
            }
        };
        lines.into_iter().filter(is_new).collect()
    }
}

/// Tells what is new in each tick: what is refused again and again, once.
#[derive(Debug, Default)]
pub struct NewDecisions {
    told: ToldOnce<(String, String)>,
}

impl NewDecisions {
    /// What a tick decided.
    pub fn news(&mut self, host: &Host, tick: &Tick) -> Vec<DecisionLine> {
        let lines = tick.decisions.iter().filter_map(|one| DecisionLine::new(host, one));
        let key = |line: &DecisionLine| {
            line.is_refused().then(|| (line.action.clone(), line.reason.clone()))
        };
        self.told.news(lines, key)
    }
}

/// Tells what happens on stderr, each thing once while it stays the same.
#[derive(Debug, Default)]
pub struct DecisionPrinter {
    told: ToldOnce<String>,
}

impl DecisionPrinter {
    /// A tick's news.
    pub fn tick(&mut self, host: &Host, tick: &Tick) {
        for moved in &tick.left_alone {
            tell(format_args!("left alone from now on: {moved}"));
        }
        let lines = tick.decisions.iter().filter_map(|one| {
            let line = decision_in_words(host, one)?;
            let is_stuck = matches!(one.verdict, Verdict::Refused(_) | Verdict::Failed(_));
            Some((line, is_stuck, Some(one)))
        });
        let unread = tick.unread.iter().map(|line| (line.clone(), true, None));
        type Line<'a> = (String, bool, Option<&'a Decision>);
        let key = |(line, is_stuck, _): &Line<'_>| is_stuck.then(|| line.clone());
        for (line, _, decision) in self.told.news(lines.chain(unread), key) {
            let named = |one: &Decision| decision_as(one, action_by_process(host, &one.action));
            let line = decision.and_then(named).unwrap_or(line);
            tell(format_args!("{:.1} s: {line}", tick.now.as_secs_f64()));
        }
    }
}

/// A decision for people; none when nothing had to be done.
pub fn decision_in_words(host: &Host, decision: &Decision) -> Option<String> {
    decision_as(decision, action_in_words(host, &decision.action))
}

/// `action`: its words.
fn decision_as(decision: &Decision, action: String) -> Option<String> {
    let Decision { policy, reason, .. } = decision;
    match &decision.verdict {
        Verdict::AsAsked => None,
        Verdict::Done(_) => Some(format!("{policy}: {action} ({reason})")),
        Verdict::Proposed(_) => Some(format!("{policy} would: {action} ({reason})")),
        Verdict::Refused(why) => Some(format!("{policy}: {action}: not done: {why}")),
        Verdict::Failed(why) => Some(format!("{policy}: {action}: failed: {why}")),
    }
}

/// An action with the names of the programs that it is about.
pub fn action_in_words(host: &Host, action: &Action) -> String {
    action.in_words(&|id| {
        let thread = host.views().iter().find(|thread| thread.id == id);
        thread.map_or_else(|| format!("thread {}", id.0), |thread| thread.program.clone())
    })
}

/// As [`action_in_words`], and of a program of several processes with the thread and its process: `services (nginx 1234)`.
pub fn action_by_process(host: &Host, action: &Action) -> String {
    action.in_words(&|id| {
        let Some(one) = host.threads().find(|one| one.view.id == id) else {
            return format!("thread {}", id.0);
        };
        let (program, process) = (&one.view.program, one.view.process);
        let is_other = |other: &ThreadView| other.program == *program && other.process != process;
        match host.views().iter().any(is_other) {
            true => format!("{program} ({} {})", one.thread.facts.name, one.thread.facts.task.pid),
            false => program.clone(),
        }
    })
}

/// The program of the first thread that an action is about; empty where it is about none.
pub fn program_of(host: &Host, action: &Action) -> String {
    let thread = match action {
        Action::Allow { thread, .. }
        | Action::MovePages { thread, .. }
        | Action::SetWeight { thread, .. } => Some(*thread),
        Action::Swap { first, .. } => Some(*first),
        Action::CapBandwidth { threads, .. } | Action::OrderSlots { threads, .. } => {
            threads.first().copied()
        }
        Action::Partition { parts, .. } => {
            parts.iter().find_map(|part| part.threads.first().copied())
        }
        Action::IdleCpu { .. } => None,
    };
    let found = host.views().iter().find(|one| Some(one.id) == thread);
    found.map(|one| one.program.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_done_is_told_once_while_it_stays_the_same() {
        let mut told = ToldOnce::default();
        let mut tick = |lines: &[(&'static str, bool)]| -> Vec<&'static str> {
            let key = |(line, is_stuck): &(&'static str, bool)| is_stuck.then_some(*line);
            told.news(lines.to_vec(), key).into_iter().map(|(line, _)| line).collect()
        };
        let refused = [("a", true), ("b", true), ("a", true), ("done", false), ("done", false)];
        assert_eq!(tick(&refused), ["a", "b", "done", "done"]);
        assert_eq!(tick(&[("b", true), ("b", true), ("c", true)]), ["c"]);
        // What was not refused for a tick is news again.
        assert_eq!(tick(&[("a", true)]), ["a"]);
    }
}
