//! `corun restore`: undoing what a killed corun left.

use std::path::PathBuf;

use anyhow::anyhow;
use corun_hosting::undone::{is_telling, outcome};
use corun_live::{RestoreOutcome, RestoredJournal, Which, restore, would_restore};
use serde::Serialize;

use super::journals::{JournalPart, JournalRow, columns, folders, listed, of_all};
use crate::cli::{RestoreArgs, TableFormat};
use crate::failure::{Failure, Outcome};
use corun_report::{counted, json, print};

pub(super) fn run(arguments: &RestoreArgs) -> Outcome<String> {
    let folders = folders(&arguments.journals)?;
    let which = if arguments.all { Which::All } else { Which::Dead };
    let work = if arguments.dry_run { would_restore } else { restore };
    let journals = of_all(&folders, which, work, "cannot restore")?;
    let text = match arguments.format {
        TableFormat::Table => in_words(&folders, &journals, arguments.dry_run),
        TableFormat::Json => json(&Document::new(&folders, &journals, arguments.dry_run))?,
        TableFormat::Csv => columns(&rows(&journals, arguments.dry_run), "outcome").csv()?,
    };
    let left = journals.iter().filter(|journal| journal.is_left()).count();
    if left == 0 || arguments.dry_run {
        return Ok(text);
    }
    // What was done has to be told, also when not all was.
    print(&text)?;
    let (journals, are) = (counted(left, "journal"), if left == 1 { "is" } else { "are" });
    Err(Failure::Failed(anyhow!("{journals} {are} left in {}", listed(&folders))))
}

fn in_words(folders: &[PathBuf], journals: &[RestoredJournal], dry_run: bool) -> String {
    if journals.is_empty() {
        return format!("nothing to restore: no journal in {}\n", listed(folders));
    }
    columns(&rows(journals, dry_run), "outcome").table()
}

/// A row a change, and one a journal that is more than its changes.
fn rows(journals: &[RestoredJournal], dry_run: bool) -> Vec<JournalRow> {
    let mut rows = Vec::new();
    for journal in journals {
        let mut row = |what: String, outcome: String| rows.push((journal.pid, what, outcome));
        if let Some(outcome) = journal_outcome(journal, dry_run) {
            row("its journal".to_owned(), outcome);
        }
        // A running corun is in charge: what undoing would do to its changes is no outcome.
        if journal.outcome != RestoreOutcome::Running {
            let telling = journal.changes.iter().filter(|one| is_telling(one));
            telling.for_each(|one| row(one.change.to_string(), outcome(one, dry_run)));
        }
    }
    rows
}

/// What became of the journal, where its changes do not say it all.
fn journal_outcome(journal: &RestoredJournal, dry_run: bool) -> Option<String> {
    let removed = if dry_run { "would be removed" } else { "removed" };
    Some(match &journal.outcome {
        RestoreOutcome::Undone if journal.changes.is_empty() => format!("empty, {removed}"),
        RestoreOutcome::Undone if !journal.changes.iter().any(is_telling) => {
            format!("its corun had taken back all that it did; {removed}")
        }
        RestoreOutcome::Undone => return None,
        RestoreOutcome::Failed => {
            "left: not all could be undone; run corun restore again".to_owned()
        }
        RestoreOutcome::Stopped if dry_run => {
            "its corun runs, and would be asked to stop".to_owned()
        }
        RestoreOutcome::Stopped => "its corun stopped when asked, and undid what it did".to_owned(),
        RestoreOutcome::OtherBoot => {
            format!("from before the last reboot, which undid it; {removed}")
        }
        RestoreOutcome::Running => {
            "left: its corun runs and is in charge; --all stops it first".to_owned()
        }
        RestoreOutcome::Left { why } => format!("left: {why}"),
    })
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    folders: Vec<String>,
    dry_run: bool,
    left: usize,
    journals: Vec<JournalPart<'a>>,
}

impl<'a> Document<'a> {
    fn new(folders: &[PathBuf], journals: &'a [RestoredJournal], dry_run: bool) -> Self {
        let journals: Vec<JournalPart<'_>> = journals.iter().map(JournalPart::new).collect();
        Self {
            folders: folders.iter().map(|folder| folder.display().to_string()).collect(),
            dry_run,
            left: journals.iter().filter(|journal| journal.left).count(),
            journals,
        }
    }
}

#[cfg(test)]
mod tests {
    use corun_live::{Change, Restored, Reverted};

    use super::*;

    #[test]
    fn what_a_killed_corun_had_taken_back_itself_is_no_row() {
        let task = corun_linux::Task { pid: 3, tid: 3, start_ticks: 1 };
        let root = PathBuf::new();
        let change = Change::ResctrlTask { task, before: root.clone(), after: root };
        let back = Restored { change, outcome: Ok(Reverted::AsBefore) };
        let change = Change::Nice { task, before: 0, after: 5 };
        let other = Restored { change, outcome: Ok(Reverted::Done) };
        let journal = |changes| RestoredJournal {
            file: PathBuf::from("1-1.journal"),
            pid: 1,
            outcome: RestoreOutcome::Undone,
            changes,
        };
        let both = journal(vec![back.clone(), other]);
        let [row] = &rows(&[both], false)[..] else { panic!() };
        assert_eq!((row.1.as_str(), row.2.as_str()), ("nice value of thread 3: 0 to 5", "undone"));
        let [row] = &rows(&[journal(vec![back])], false)[..] else { panic!() };
        assert_eq!(row.2, "its corun had taken back all that it did; removed");
    }

    #[test]
    fn what_a_dry_run_leaves_is_not_said_to_be_removed() {
        for outcome in [RestoreOutcome::Undone, RestoreOutcome::OtherBoot] {
            let file = PathBuf::from("1-1.journal");
            let journal = RestoredJournal { file, pid: 1, outcome, changes: Vec::new() };
            let said = |dry_run| journal_outcome(&journal, dry_run).unwrap();
            assert!(said(true).ends_with(" would be removed"), "{}", said(true));
            assert!(said(false).ends_with("removed") && !said(false).contains("would"));
        }
    }
}
