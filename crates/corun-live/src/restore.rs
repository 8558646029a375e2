//! Undoing what a corun that is no more has left.

use std::collections::HashSet;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use corun_linux::Roots;
use corun_linux::procfs::Process;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Serialize;

use crate::act::{ApplyMode, ChangeTarget};
use crate::journal::{
    JournalFolder, JournalName, ReadJournal, boot_id, lock, parse, pid_namespace,
};
use crate::{JournalError, Restored, Reverted};

/// How long a corun that was asked to stop may take to undo what it did.
const STOPPING: Duration = Duration::from_secs(10);

/// Whose journals are restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those of processes that are no more.
    Dead,
    /// All: running ones are asked to stop first, with SIGTERM.
    All,
}

/// What became of one journal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RestoredJournal {
    /// Its file.
    pub file: PathBuf,
    /// The process that wrote it.
    pub pid: u32,
    /// What was found, and what was done about it.
    #[serde(rename = "fate")]
    pub outcome: RestoreOutcome,
    /// Its changes, newest first, and how undoing each went.
    pub changes: Vec<Restored>,
}

/// What a journal was found to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "fate", rename_all = "kebab-case")]
pub enum RestoreOutcome {
    /// Its writer is no more; it was undone and removed.
    Undone,
    /// Its writer is no more; something could not be undone, so it stays.
    Failed,
    /// Its writer was running, undid everything itself when asked, and ended.
    Stopped,
    /// From before the last reboot, which undid everything; it was removed.
    OtherBoot,
    /// Its writer is running and in charge; it was left as it is.
    Running,
    /// It could not be read or must not be used; it was left as it is.
    Left {
        /// Why, and what to do.
        why: String,
    },
}

impl RestoredJournal {
    /// Is something that corun did still in force?
    pub fn is_left(&self) -> bool {
        matches!(
            self.outcome,
            RestoreOutcome::Failed | RestoreOutcome::Running | RestoreOutcome::Left { .. }
        )
    }

    /// Is something of a corun that is no more left in force, or may it be? Until that is put right, what
    /// the machine shows must not be taken for what its users want.
    pub fn is_unresolved(&self) -> bool {
        matches!(self.outcome, RestoreOutcome::Failed | RestoreOutcome::Left { .. })
    }
}

/// Undoes what stands in the journals of a folder and removes those of which nothing is left.
///
/// # Errors
/// When the folder cannot be used at all; what is wrong with one journal stands in its outcome. A
/// folder that is not there holds no journal.
pub fn restore(
    folder: &Path,
    roots: &Roots,
    which: Which,
) -> Result<Vec<RestoredJournal>, JournalError> {
    each(folder, roots, which, ApplyMode::Apply)
}

/// What [`restore`] would do; nothing is changed, and no process is stopped.
///
/// # Errors
/// As [`restore`].
pub fn would_restore(
    folder: &Path,
    roots: &Roots,
    which: Which,
) -> Result<Vec<RestoredJournal>, JournalError> {
    each(folder, roots, which, ApplyMode::DryRun)
}

fn each(
    folder: &Path,
    roots: &Roots,
    which: Which,
    mode: ApplyMode,
) -> Result<Vec<RestoredJournal>, JournalError> {
    let Some(folder) = JournalFolder::open(folder)? else {
        return Ok(Vec::new());
    };
    let (boot_id, pid_namespace) = (boot_id(roots)?, pid_namespace(roots)?);
    let here = Here { roots, folder, boot_id, pid_namespace, mode };
    let mut journals = Vec::new();
    for name in here.folder.names()? {
        if let Some(name) = JournalName::parse(&name) {
            journals.push((name, here.read(&name)));
        } else if let Some(of) = name.strip_suffix(".new").and_then(JournalName::parse) {
            here.remove_unfinished(of, &name);
        }
    }
    // What a later corun found was left by the earlier one. One that cannot be read may be the latest.
    journals.sort_by_key(|(name, read)| std::cmp::Reverse((began_ns(read), *name)));
    let mut later = Later::default();
    let mut restored = Vec::new();
    for (name, read) in journals {
        if let Some(one) = here.one(name, read, which, &later) {
            later.add(&one);
            restored.push(one);
        }
    }
    Ok(restored)
}

/// When a journal was begun; 0 where it does not tell.
fn began_ns(read: &Result<Option<ReadJournal>, String>) -> u64 {
    let Ok(read) = read else { return u64::MAX };
    let header = read.as_ref().and_then(|read| read.header.as_ref());
    header.map_or(0, |header| header.began_ns)
}

/// What later journals say that is still in force.
#[derive(Default)]
struct Later {
    targets: HashSet<ChangeTarget>,
    /// The file of one that does not tell all.
    unread: Option<PathBuf>,
}

impl Later {
    fn add(&mut self, journal: &RestoredJournal) {
        let changes = journal.changes.iter();
        match journal.outcome {
            RestoreOutcome::Left { .. } => self.unread = Some(journal.file.clone()),
            RestoreOutcome::Running => self.targets.extend(changes.map(|one| one.change.target())),
            RestoreOutcome::Failed => {
                let failed = changes.filter(|one| one.outcome.is_err());
                self.targets.extend(failed.map(|one| one.change.target()));
            }
            RestoreOutcome::Undone | RestoreOutcome::Stopped | RestoreOutcome::OtherBoot => {}
        }
    }

    /// What is not as an earlier corun left it was changed by others only where no later corun may have done it.
    fn judge(&self, one: &mut Restored) {
        let by_others = matches!(one.outcome, Ok(Reverted::ChangedByOthers { .. }));
        if by_others && (self.unread.is_some() || self.targets.contains(&one.change.target())) {
            let file = self.unread.as_ref().map(|file| format!(" ({})", file.display()));
            let file = file.unwrap_or_default();
            one.outcome = Err(format!(
                "a later corun may have changed it, whose journal{file} is still there"
            ));
        }
    }
}

/// What is the same for all journals of one call.
struct Here<'a> {
    roots: &'a Roots,
    folder: JournalFolder,
    boot_id: String,
    pid_namespace: Option<String>,
    mode: ApplyMode,
}

impl Here<'_> {
    /// None where the journal went away meanwhile.
    fn one(
        &self,
        name: JournalName,
        read: Result<Option<ReadJournal>, String>,
        which: Which,
        later: &Later,
    ) -> Option<RestoredJournal> {
        let file = self.folder.path().join(name.to_string());
        let journal = |outcome, changes| {
            Some(RestoredJournal { file: file.clone(), pid: name.pid, outcome, changes })
        };
        let left = |why: String| journal(RestoreOutcome::Left { why }, Vec::new());
        let read = match read {
            Ok(Some(read)) => read,
            Ok(None) => return None,
            Err(why) => return left(why),
        };
        if read.header.as_ref().is_some_and(|header| header.boot_id != self.boot_id) {
            return match self.remove(&name) {
                Ok(()) => journal(RestoreOutcome::OtherBoot, Vec::new()),
                Err(error) => left(error.to_string()),
            };
        }
        let namespace = read.header.as_ref().and_then(|header| header.pid_namespace.clone());
        if namespace.is_some() && namespace != self.pid_namespace {
            return left("its processes are in another container; run corun restore there".into());
        }
        if self.runs(&name) {
            return match which {
                Which::Dead => journal(
                    RestoreOutcome::Running,
                    read.undo_state.undo(self.roots, ApplyMode::DryRun),
                ),
                Which::All if self.mode == ApplyMode::DryRun => journal(
                    RestoreOutcome::Stopped,
                    read.undo_state.undo(self.roots, ApplyMode::DryRun),
                ),
                Which::All => match self.stop(&name) {
                    // It may have been killed before it was through.
                    Ok(()) => self
                        .one(name, self.read(&name), Which::Dead, later)
                        .or_else(|| journal(RestoreOutcome::Stopped, Vec::new())),
                    Err(why) => left(why),
                },
            };
        }
        match self.undo(&name, later) {
            Ok(Some((outcome, changes))) => journal(outcome, changes),
            Ok(None) => None,
            Err(why) => left(why),
        }
    }

    /// Undoes the journal of a process that is no more.
    fn undo(
        &self,
        name: &JournalName,
        later: &Later,
    ) -> Result<Option<(RestoreOutcome, Vec<Restored>)>, String> {
        let path = self.folder.path().join(name.to_string());
        let words = |error: JournalError| error.to_string();
        let Some(file) = self.folder.file(&name.to_string()).map_err(words)? else {
            return Ok(None);
        };
        lock(&file, &path).map_err(words)?;
        // Another restore may have been through between our opening it and our lock.
        if file.metadata().map_err(|error| error.to_string())?.nlink() == 0 {
            return Ok(None);
        }
        let Some(read) = self.read(name)? else { return Ok(None) };
        // While the changes of the other lines are still made.
        let damage = read.broken.clone().or_else(|| self.cut_plan(&read));
        let mut changes = read.undo_state.undo(self.roots, self.mode);
        changes.iter_mut().for_each(|one| later.judge(one));
        if let Some(damage) = damage {
            let why = match self.mode {
                ApplyMode::Apply => format!(
                    "{damage}; what all other lines say is undone. Compare the affinities of what corun \
                     scheduled with what they should be (taskset -p), then remove {}",
                    path.display()
                ),
                ApplyMode::DryRun => format!(
                    "{damage}; corun restore would undo what all other lines say, and leave the journal"
                ),
            };
            return Ok(Some((RestoreOutcome::Left { why }, changes)));
        }
        if changes.iter().any(|change| change.outcome.is_err()) {
            return Ok(Some((RestoreOutcome::Failed, changes)));
        }
        self.remove(name).map_err(words)?;
        Ok(Some((RestoreOutcome::Undone, changes)))
    }

    /// What is wrong where the last line has no end. Nothing is where the plan was surely not carried out:
    /// corun makes a plan's changes in order, once the line is written.
    fn cut_plan(&self, read: &ReadJournal) -> Option<String> {
        let cut = read.cut.as_ref()?;
        let first = cut.first.as_ref().map(|first| first.would_revert(self.roots));
        match first {
            Some(Ok(Reverted::AsBefore)) => None,
            _ => Some(format!("line {} is cut short, and may have been carried out", cut.number)),
        }
    }

    fn remove(&self, name: &JournalName) -> Result<(), JournalError> {
        match self.mode {
            ApplyMode::Apply => self.folder.remove(&name.to_string()),
            ApplyMode::DryRun => Ok(()),
        }
    }

    /// A journal that was being written anew when its writer died; the old one is whole.
    fn remove_unfinished(&self, of: JournalName, file_name: &str) {
        if self.mode == ApplyMode::Apply && !self.runs(&of) {
            // It stands in nobody's way.
            let _ = self.folder.remove(file_name);
        }
    }

    /// Does the process that writes this journal run?
    fn runs(&self, name: &JournalName) -> bool {
        let stat = Process::new(self.roots, name.pid).stat();
        match stat {
            Ok(stat) => {
                stat.is_some_and(|stat| stat.start_ticks == name.start_ticks && !stat.is_over())
            }
            // What cannot be told must not be taken for dead.
            Err(_) => true,
        }
    }

    /// Asks a running corun to stop, and waits until it is no more.
    fn stop(&self, name: &JournalName) -> Result<(), String> {
        let pid = name.pid;
        if pid == std::process::id() {
            return Err("it is this process's own".to_owned());
        }
        let cannot = |error: rustix::io::Errno| format!("process {pid} cannot be stopped: {error}");
        let raw = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
        let raw = raw.ok_or_else(|| format!("there can be no process {pid}"))?;
        let process = match pidfd_open(raw, PidfdFlags::empty()) {
            Err(rustix::io::Errno::SRCH) => return Ok(()),
            other => other.map_err(cannot)?,
        };
        // The descriptor names one process for good; is it the one that was meant?
        if !self.runs(name) {
            return Ok(());
        }
        match pidfd_send_signal(&process, Signal::TERM) {
            Err(rustix::io::Errno::SRCH) => return Ok(()),
            other => other.map_err(cannot)?,
        }
        let until = Instant::now() + STOPPING;
        while self.runs(name) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let seconds = STOPPING.as_secs();
                return Err(format!("process {pid} did not stop within {seconds} s of SIGTERM"));
            }
            let wait =
                left.try_into().map_err(|_| "the time to wait is out of range".to_owned())?;
            match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(cannot(error)),
            }
        }
        Ok(())
    }

    /// None where the journal is gone.
    fn read(&self, name: &JournalName) -> Result<Option<ReadJournal>, String> {
        let words = |error: JournalError| error.to_string();
        let Some(mut file) = self.folder.file(&name.to_string()).map_err(words)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| format!("cannot be read: {error}"))?;
        parse(&bytes, name).map(Some)
    }
}

#[cfg(test)]
#[path = "restore_tests.rs"]
mod tests;
