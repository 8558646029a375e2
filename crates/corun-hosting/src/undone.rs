//! How undoing went: for people, thread by thread, and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::anyhow;
use corun_app::{Error, tell};
use corun_live::{Change, Restored, Reverted};
use serde::Serialize;

use corun_report::counted;

/// Most lines of one kind, and most processes in a line.
const MOST_LINES: usize = 50;

/// Is there something to say of a change? What corun itself took back while it ran is nothing that was given back.
pub fn is_telling(one: &Restored) -> bool {
    let is_as_before = matches!(one.outcome, Ok(Reverted::AsBefore | Reverted::Gone));
    !(is_as_before && one.change.leads_back())
}

/// How an undoing went, in a line.
pub fn in_a_line(undone: &[&Restored]) -> String {
    let undone: Vec<&Restored> = undone.iter().copied().filter(|one| is_telling(one)).collect();
    if undone.is_empty() {
        return "nothing to give back: what was changed was taken back already".to_owned();
    }
    let count = |of: fn(&Restored) -> bool| undone.iter().filter(|one| of(one)).count();
    let back = count(|one| matches!(one.outcome, Ok(Reverted::Done | Reverted::AsBefore)));
    let gone = count(|one| matches!(one.outcome, Ok(Reverted::Gone)));
    let others = count(|one| matches!(one.outcome, Ok(Reverted::ChangedByOthers { .. })));
    let unclear = count(|one| matches!(one.outcome, Ok(Reverted::Unclear { .. })));
    let failed = count(|one| one.outcome.is_err());
    let all = undone.len();
    if gone == all {
        return "nothing to give back: the threads or groups that were changed ended".to_owned();
    }
    let mut parts = vec![match all {
        1 if back == 1 => "the change is as before".to_owned(),
        _ if back == all => format!("all {all} changes are as before"),
        _ => format!("{back} of {} are as before", counted(all, "change")),
    }];
    let mut add = |count: usize, what: &str| {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    };
    add(gone, "of threads or groups that ended");
    add(others, "that somebody else changed since, left as found");
    add(unclear, "of which it cannot be told whose doing they are, left as found");
    add(failed, "that could not be undone (corun restore says why)");
    parts.join(", ")
}

/// Says on stderr how an undoing went; nothing where nothing was to be undone.
pub fn print(undone: &[Restored]) {
    if undone.is_empty() {
        return;
    }
    tell(in_a_line(&undone.iter().collect::<Vec<_>>()));
    let lines = given_back(undone).into_iter().chain(not_given_back(undone));
    lines.for_each(tell);
}

/// An error where a change could not be undone: it stays in the journal.
pub fn all_or_error(undone: &[Restored]) -> corun_app::Result {
    match undone.iter().any(|one| one.outcome.is_err()) {
        true => Err(Error::Failed(anyhow!("not all is undone: corun restore goes on with it"))),
        false => Ok(()),
    }
}

/// Is all as it was before corun came, as far as corun may and can see to it? What somebody else changed
/// since is theirs.
pub fn is_complete(undone: &[Restored]) -> bool {
    let complete = |one: &Restored| !matches!(one.outcome, Err(_) | Ok(Reverted::Unclear { .. }));
    undone.iter().all(complete)
}

/// What was given back, by thread; none where nothing was.
pub fn given_back(undone: &[Restored]) -> Option<String> {
    let mut threads: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut others = Vec::new();
    for one in undone {
        if !matches!(one.outcome, Ok(Reverted::Done | Reverted::AsBefore)) || !is_telling(one) {
            continue;
        }
        match thread_of(&one.change) {
            Some((pid, tid)) => threads.entry(pid).or_default().push(tid),
            None => others.push(one.change.to_string()),
        }
    }
    let processes = threads.into_iter().map(|(pid, mut tids)| {
        tids.sort_unstable();
        tids.dedup();
        match tids.as_slice() {
            [only] if *only == pid => format!("process {pid}"),
            _ => format!("process {pid} (threads {})", listed(&tids)),
        }
    });
    let all: Vec<String> = processes.chain(others).collect();
    let mut text = all.iter().take(MOST_LINES).cloned().collect::<Vec<_>>().join(", ");
    if all.len() > MOST_LINES {
        let _ = write!(text, " and {} more", all.len() - MOST_LINES);
    }
    (!text.is_empty()).then(|| format!("given back: {text}"))
}

/// What was not given back, a line each: what somebody else changed since, what cannot be told, and what
/// failed.
pub fn not_given_back(undone: &[Restored]) -> Vec<String> {
    let mut lines: Vec<String> = undone.iter().filter_map(left).collect();
    if lines.len() > MOST_LINES {
        let more = lines.len() - MOST_LINES;
        lines.truncate(MOST_LINES);
        lines.push(format!("and {more} more"));
    }
    lines
}

fn left(one: &Restored) -> Option<String> {
    let change = &one.change;
    Some(match &one.outcome {
        Ok(Reverted::ChangedByOthers { found }) => {
            format!("left, since somebody else set it to {}: {change}", found.trim())
        }
        Ok(Reverted::Unclear { why }) => format!("left, since it cannot be told: {change}: {why}"),
        Err(why) => format!("not undone: {change}: {why}"),
        Ok(_) => return None,
    })
}

fn thread_of(change: &Change) -> Option<(u32, u32)> {
    match change {
        Change::Affinity { task, .. }
        | Change::Prefer { task, .. }
        | Change::SchedulingPolicy { task, .. }
        | Change::Nice { task, .. }
        | Change::ResctrlTask { task, .. }
        | Change::Pages { task, .. } => Some((task.pid, task.tid)),
        Change::PreferGroup { .. }
        | Change::Cpuset { .. }
        | Change::ResctrlGroup { .. }
        | Change::ResctrlSchemata { .. }
        | Change::SchedCache { .. } => None,
    }
}

/// Ascending numbers, with ranges.
fn listed(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let shown = ranges.iter().take(MOST_LINES).map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if ranges.len() > MOST_LINES {
        text.push_str(", ..");
    }
    text
}

/// How undoing one change went, or would go.
pub fn outcome(one: &Restored, dry_run: bool) -> String {
    match &one.outcome {
        Ok(Reverted::Done) if dry_run => "would be undone".to_owned(),
        Ok(Reverted::Done) => "undone".to_owned(),
        Ok(Reverted::AsBefore) => "was as before already".to_owned(),
        Ok(Reverted::Gone) => "it is no more".to_owned(),
        Ok(Reverted::ChangedByOthers { found }) => {
            format!("left as found: somebody else set it to {}", found.trim())
        }
        Ok(Reverted::Unclear { why }) => format!("left as found: {why}"),
        Err(why) => format!("failed: {why}"),
    }
}

/// A change and how undoing it went, as JSON.
#[derive(Debug, Serialize)]
pub struct ChangePart<'a> {
    change: &'a Change,
    #[serde(flatten)]
    outcome: OutcomePart<'a>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum OutcomePart<'a> {
    Known(&'a Reverted),
    Failed { outcome: &'static str, why: &'a str },
}

impl<'a> ChangePart<'a> {
    /// Of a change that was undone, or would be.
    pub fn new(one: &'a Restored) -> Self {
        Self {
            change: &one.change,
            outcome: match &one.outcome {
                Ok(reverted) => OutcomePart::Known(reverted),
                Err(why) => OutcomePart::Failed { outcome: "failed", why },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restored(pid: u32, tid: u32, outcome: Result<Reverted, String>) -> Restored {
        let task = corun_linux::Task { pid, tid, start_ticks: 1 };
        Restored { change: Change::Nice { task, before: 0, after: 5 }, outcome }
    }

    #[test]
    fn each_thread_is_in_one_of_the_texts() {
        let found = "7".to_owned();
        let all = [
            restored(3, 3, Ok(Reverted::Done)),
            restored(9, 12, Ok(Reverted::Done)),
            restored(9, 11, Ok(Reverted::AsBefore)),
            restored(9, 9, Ok(Reverted::Done)),
            restored(4, 4, Ok(Reverted::Gone)),
            restored(5, 5, Ok(Reverted::ChangedByOthers { found })),
            restored(6, 6, Ok(Reverted::Unclear { why: "who knows".to_owned() })),
            restored(7, 8, Err("no".to_owned())),
        ];
        let given = given_back(&all).unwrap();
        assert_eq!(given, "given back: process 3, process 9 (threads 9, 11-12)");
        let left = not_given_back(&all);
        assert_eq!(left.len(), 3);
        assert!(left[0].contains("somebody else set it to 7: nice value of thread 5"), "{left:?}");
        assert!(left[1].contains("cannot be told: nice value of thread 6"), "{left:?}");
        assert!(left[2].contains("not undone: nice value of thread 8 of 7"), "{left:?}");
        assert!(!is_complete(&all) && is_complete(&all[..6]));
        let line = in_a_line(&all.iter().collect::<Vec<_>>());
        assert!(line.starts_with("4 of 8 changes are as before, 1 of threads"), "{line}");
        let line = |some: &[Restored]| in_a_line(&some.iter().collect::<Vec<_>>());
        assert_eq!(line(&all[..4]), "all 4 changes are as before");
        assert_eq!(line(&all[..1]), "the change is as before");
        let ended = "nothing to give back: the threads or groups that were changed ended";
        assert_eq!(line(&all[4..5]), ended);
    }

    #[test]
    fn what_was_taken_back_meanwhile_is_not_given_back() {
        let task = corun_linux::Task { pid: 3, tid: 3, start_ticks: 1 };
        let root = std::path::PathBuf::new();
        let change = Change::ResctrlTask { task, before: root.clone(), after: root };
        let back = Restored { change, outcome: Ok(Reverted::AsBefore) };
        assert_eq!(given_back(std::slice::from_ref(&back)), None);
        assert!(
            in_a_line(&[&back]).starts_with("nothing to give back: what was changed was taken")
        );
        let other = restored(4, 4, Ok(Reverted::Done));
        assert_eq!(in_a_line(&[&back, &other]), "the change is as before");
        // What cannot be told or undone is told all the same.
        let unclear = Restored { outcome: Err("who knows".to_owned()), ..back };
        assert_eq!(not_given_back(&[unclear]).len(), 1);
    }

    #[test]
    fn long_lists_are_cut() {
        let all: Vec<Restored> =
            (0..200).map(|one| restored(2 * one, 2 * one, Err("no".to_owned()))).collect();
        assert_eq!(not_given_back(&all).len(), MOST_LINES + 1);
    }
}
