//! `corun verify`: is the machine as corun found it?

use std::path::PathBuf;

use anyhow::anyhow;
use corun_live::{RestoreOutcome, Restored, RestoredJournal, Reverted, Which, would_restore};
use serde::Serialize;

use super::journals::{JournalPart, JournalRow, columns, folders, listed, of_all};
use crate::cli::{TableFormat, VerifyArgs};
use crate::failure::{Failure, Outcome};
use corun_report::{counted, json, print};

pub(super) fn run(arguments: &VerifyArgs) -> Outcome<String> {
    let folders = folders(&arguments.journals)?;
    let journals = of_all(&folders, Which::Dead, would_restore, "cannot tell")?;
    let differences = differences(&journals);
    let text = match arguments.format {
        TableFormat::Table => in_words(&folders, &journals, &differences),
        TableFormat::Json => json(&Document::new(&folders, &journals, differences.len()))?,
        TableFormat::Csv => columns(&differences, "now").csv()?,
    };
    if differences.is_empty() {
        return Ok(text);
    }
    print(&text)?;
    let count = counted(differences.len(), "difference");
    Err(Failure::Failed(anyhow!("{count} from how corun found the machine")))
}

/// A row for each thing that is not, or may not be, as corun found it.
fn differences(journals: &[RestoredJournal]) -> Vec<JournalRow> {
    let mut rows = Vec::new();
    for journal in journals {
        let mut row = |what: String, now: String| rows.push((journal.pid, what, now));
        if let RestoreOutcome::Left { why } = &journal.outcome {
            row(
                format!("the journal {}", journal.file.display()),
                format!("cannot be told: {why}"),
            );
        }
        for one in &journal.changes {
            if let Some(now) = difference(one, &journal.outcome) {
                row(one.change.to_string(), now);
            }
        }
    }
    rows
}

fn difference(one: &Restored, outcome: &RestoreOutcome) -> Option<String> {
    Some(match (&one.outcome, outcome) {
        (Ok(Reverted::Done), RestoreOutcome::Running) => "held by a corun that runs".to_owned(),
        (Ok(Reverted::Done), _) => "left by a corun that is no more: corun restore".to_owned(),
        (Ok(Reverted::ChangedByOthers { found }), _) => {
            format!("somebody else set it to {}", found.trim())
        }
        (Ok(Reverted::Unclear { why }), _) => format!("cannot be told: {why}"),
        (Err(why), _) => format!("cannot be told: {why}"),
        (Ok(Reverted::AsBefore | Reverted::Gone), _) => return None,
    })
}

fn in_words(folders: &[PathBuf], journals: &[RestoredJournal], rows: &[JournalRow]) -> String {
    if rows.is_empty() {
        let read = counted(journals.len(), "journal");
        return format!("as corun found it: {read} in {}\n", listed(folders));
    }
    columns(rows, "now").table()
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    folders: Vec<String>,
    as_found: bool,
    differences: usize,
    journals: Vec<JournalPart<'a>>,
}

impl<'a> Document<'a> {
    fn new(folders: &[PathBuf], journals: &'a [RestoredJournal], differences: usize) -> Self {
        Self {
            folders: folders.iter().map(|folder| folder.display().to_string()).collect(),
            as_found: differences == 0,
            differences,
            journals: journals.iter().map(JournalPart::new).collect(),
        }
    }
}
