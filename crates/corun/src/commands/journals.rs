//! Where journals are looked for, and what was found in them as JSON.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use corun_daemon::{Config, DEFAULT_PATH};
use corun_hosting::undone::ChangePart;
use corun_linux::Roots;
use corun_live::{JournalError, RestoreOutcome, RestoredJournal, Which, default_folder};
use corun_report::Columns;
use serde::Serialize;

use crate::cli::JournalArgs;
use crate::failure::{Failure, Outcome};

/// The folders that were asked for. Without a word: the user's own, and for root also the one of the
/// daemon's configuration, where there is one.
///
/// # Errors
/// When a folder is named that is not there, and when a configuration does not say where its journals are.
pub(super) fn folders(arguments: &JournalArgs) -> Outcome<Vec<PathBuf>> {
    if let Some(folder) = &arguments.folder {
        if !folder.exists() {
            let message = format!("there is no folder {}", folder.display());
            return Err(Failure::input(message).hint("--config FILE, which says where it is"));
        }
        return Ok(vec![folder.clone()]);
    }
    if let Some(config) = &arguments.config {
        return Ok(vec![Config::journals_of(config)?]);
    }
    let mut folders = vec![default_folder()];
    if rustix::process::geteuid().is_root() && Path::new(DEFAULT_PATH).exists() {
        let configured = Config::journals_of(Path::new(DEFAULT_PATH))?;
        if !folders.contains(&configured) {
            folders.push(configured);
        }
    }
    Ok(folders)
}

/// Works on the journals of all folders.
///
/// # Errors
/// When a folder cannot be used.
pub(super) fn of_all(
    folders: &[PathBuf],
    which: Which,
    work: impl Fn(&Path, &Roots, Which) -> Result<Vec<RestoredJournal>, JournalError>,
    cannot: &'static str,
) -> Outcome<Vec<RestoredJournal>> {
    let mut journals = Vec::new();
    for folder in folders {
        let found = work(folder, &Roots::default(), which);
        journals.extend(found.map_err(|error| Failure::Failed(anyhow!(error).context(cannot)))?);
    }
    Ok(journals)
}

/// Folders in words.
pub(super) fn listed(folders: &[PathBuf]) -> String {
    let shown = folders.iter().map(|folder| match folder.exists() {
        true => folder.display().to_string(),
        false => format!("{} (there is no such folder)", folder.display()),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// What is said of journals: process, what, and what became of it.
pub(super) type JournalRow = (u32, String, String);

/// The columns of such rows; `last`: the head of the last.
pub(super) fn columns<'r>(rows: &'r [JournalRow], last: &str) -> Columns<'r, JournalRow> {
    let columns = Columns::of(rows).right("process", |row| row.0).left("what", |row| row.1.clone());
    columns.left(last, |row| row.2.clone())
}

/// A journal, as JSON.
#[derive(Debug, Serialize)]
pub(super) struct JournalPart<'a> {
    file: String,
    pid: u32,
    #[serde(flatten)]
    outcome: &'a RestoreOutcome,
    pub(super) left: bool,
    changes: Vec<ChangePart<'a>>,
}

impl<'a> JournalPart<'a> {
    pub(super) fn new(journal: &'a RestoredJournal) -> Self {
        Self {
            file: journal.file.display().to_string(),
            pid: journal.pid,
            outcome: &journal.outcome,
            left: journal.is_left(),
            changes: journal.changes.iter().map(ChangePart::new).collect(),
        }
    }
}
