//! What was done to the machine, written before it is done.
//!
//! A journal is a file of JSON lines: who writes it, then one line a plan. There is no fsync: the
//! kernel keeps what was written when corun is killed, and a reboot clears what was done.

mod folder;
mod inherited;
mod lines;
mod undo_state;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use corun_linux::procfs::Process;
use corun_linux::{DescriptorReserve, Roots, Task, if_there};
use corun_machine::CpuSet;
use serde::{Deserialize, Serialize};

use crate::act::{ActError, ApplyMode};
use crate::{Change, Reverted};

pub use folder::default_folder;
pub(crate) use folder::{JournalFolder, JournalName, lock};
pub(crate) use lines::{PlanLine, ReadJournal, VERSION, line_of, parse};
pub(crate) use undo_state::UndoState;

/// A journal is written anew when it has grown by so many bytes since it last was.
const GROWN_BYTES: u64 = 1 << 20;
/// Undoing a change opens a few files at a time. Counters, threads' files and connections may use all other descriptors.
const RESERVED_DESCRIPTORS: usize = 8;
/// The kernel's smallest page.
const PAGE_BYTES: usize = 4096;

/// The journal of this process.
#[derive(Debug)]
pub struct Journal {
    file: File,
    name: JournalName,
    folder: JournalFolder,
    header: Header,
    roots: Roots,
    undo_state: UndoState,
    length_bytes: u64,
    /// How many lines the file has.
    lines: u64,
    write_anew_at_bytes: u64,
    /// A line could be neither written whole nor taken back.
    broken: bool,
    /// For undoing, which opens files.
    reserve: DescriptorReserve,
}

/// The first line: whose journal it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// [`VERSION`].
    pub(crate) corun_journal: u32,
    pub(crate) pid: u32,
    pub(crate) start_ticks: u64,
    pub(crate) boot_id: String,
    /// When it was begun, since boot: journals are undone newest first.
    pub(crate) began_ns: u64,
    /// The process-id namespace in which `pid` and all threads are numbered.
    pub(crate) pid_namespace: Option<String>,
}

/// How undoing one change went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Restored {
    /// The change, from what was there before corun came to what corun left.
    pub change: Change,
    /// How it went; the text says why it still is as corun left it.
    pub outcome: Result<Reverted, String>,
}

/// Why there is no journal, or a plan is not in it. A plan that is not in the journal must not be
/// carried out.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file or folder is not as a journal's must be.
    #[error("{path}: {found}; {advice}", path = path.display())]
    NotSafe {
        /// The file or folder.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What to do.
        advice: String,
    },
    /// The kernel said no.
    #[error("{path}: {attempt}: {reason}", path = path.display())]
    Kernel {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        attempt: &'static str,
        /// The kernel's answer.
        reason: io::Error,
    },
}

impl JournalError {
    pub(crate) fn kernel(path: &Path, attempt: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |reason| Self::Kernel { path, attempt, reason }
    }
}

impl Header {
    /// This process's own.
    fn own(roots: &Roots) -> Result<Self, JournalError> {
        let pid = std::process::id();
        let path = roots.proc.join(format!("{pid}/stat"));
        let failed = JournalError::kernel(&path, "cannot tell when this process started");
        let stat = Process::new(roots, pid)
            .stat()
            .and_then(|stat| stat.ok_or_else(|| io::ErrorKind::NotFound.into()))
            .map_err(failed)?;
        Ok(Self {
            corun_journal: VERSION,
            pid,
            start_ticks: stat.start_ticks,
            boot_id: boot_id(roots)?,
            began_ns: since_boot_ns(),
            pid_namespace: pid_namespace(roots)?,
        })
    }
}

/// The kernel's name of this boot.
pub(crate) fn boot_id(roots: &Roots) -> Result<String, JournalError> {
    let path = roots.proc.join("sys/kernel/random/boot_id");
    let failed = JournalError::kernel(&path, "cannot tell this boot from others");
    Ok(std::fs::read_to_string(&path).map_err(failed)?.trim().to_owned())
}

fn since_boot_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let part = |value: i64| u64::try_from(value).unwrap_or_default();
    part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
}

/// The kernel's name of the namespace in which we see processes.
pub(crate) fn pid_namespace(roots: &Roots) -> Result<Option<String>, JournalError> {
    let path = roots.proc.join("self/ns/pid");
    let link = if_there(std::fs::read_link(&path));
    let link =
        link.map_err(JournalError::kernel(&path, "cannot tell this container from others"))?;
    Ok(link.map(|link| link.to_string_lossy().into_owned()))
}

impl Journal {
    /// Can a journal be kept in this folder, as far as can be told without making anything?
    ///
    /// # Errors
    /// When the folder is not ours alone, or is missing and there is no folder around it to make it in.
    pub fn check_folder(folder: &Path) -> Result<(), JournalError> {
        if JournalFolder::open(folder)?.is_none()
            && !folder
                .parent()
                .is_some_and(|around| around.as_os_str().is_empty() || around.is_dir())
        {
            return Err(JournalError::kernel(folder, "cannot be made")(
                io::ErrorKind::NotFound.into(),
            ));
        }
        Ok(())
    }

    /// Begins the journal of this process: `FOLDER/PID-STARTTICKS.journal`. The folder is made
    /// where missing.
    ///
    /// # Errors
    /// When the folder is not ours alone (owner, mode 0700, no symbolic link), cannot be written
    /// to, or already has this process's journal.
    pub fn create(folder: &Path, roots: &Roots) -> Result<Self, JournalError> {
        let header = Header::own(roots)?;
        let name = JournalName { pid: header.pid, start_ticks: header.start_ticks };
        let folder = JournalFolder::create(folder)?;
        let file = folder.new_file(&name.to_string())?;
        let mut journal = Self {
            file,
            name,
            folder,
            header,
            roots: roots.clone(),
            undo_state: UndoState::of_writer(&name),
            length_bytes: 0,
            lines: 0,
            write_anew_at_bytes: GROWN_BYTES,
            broken: false,
            reserve: DescriptorReserve::keep(RESERVED_DESCRIPTORS),
        };
        let header = journal.header.clone();
        let begun = lock(&journal.file, &journal.path()).and_then(|()| journal.append(&header));
        if let Err(error) = begun {
            // Nothing is done yet; what cannot be removed holds no plan.
            let _ = journal.folder.remove(&journal.name.to_string());
            return Err(error);
        }
        Ok(journal)
    }

    /// Where the journal is.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(self.name.to_string())
    }

    /// Writes a plan's changes, in one system call, before any of them is made.
    ///
    /// # Errors
    /// When the line is not in the file, such as on a full disk or after the file was removed: the
    /// plan must not be carried out. What was written earlier still is.
    pub fn write(&mut self, changes: &[Change]) -> Result<(), JournalError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.check()?;
        if self.length_bytes >= self.write_anew_at_bytes
            && let Err(error) = self.write_anew()
        {
            tracing::warn!(%error, "the journal stays long");
            self.write_anew_at_bytes = self.length_bytes + GROWN_BYTES;
        }
        let line = self.undo_state.plan_line(&self.roots, changes)?;
        self.append(&line)?;
        self.undo_state.add_line(line, false);
        Ok(())
    }

    /// Takes over a thread that is seen for the first time, if it began where its parent was held:
    /// the answer is where it could have run but for that, and undoing lets it go there. None for
    /// all others, whose affinity is their own.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn adopt(
        &mut self,
        task: &Task,
        affinity: &CpuSet,
    ) -> Result<Option<CpuSet>, JournalError> {
        let path = self.roots.proc.join(format!("{}/stat", task.pid));
        let read = self.undo_state.inherited(&self.roots, task, affinity);
        let read = read.map_err(JournalError::kernel(&path, "cannot tell who started it"))?;
        let Some(before) = read else { return Ok(None) };
        let (task, after) = (*task, affinity.clone());
        self.write(&[Change::Affinity { task, before: before.clone(), after }])?;
        Ok(Some(before))
    }

    /// Undoes all that the journal says, newest first, and removes the file if nothing failed.
    /// What failed stays in the journal, for [`crate::restore`].
    pub fn undo(&mut self, roots: &Roots) -> Vec<Restored> {
        self.reserve.release();
        let restored = self.undo_state.undo(roots, ApplyMode::Apply);
        if restored.iter().all(|one| one.outcome.is_ok())
            && let Err(error) = self.folder.remove(&self.name.to_string())
        {
            // What users set from now on must not be taken for what is undone here.
            self.broken = true;
            match self.file.set_len(0) {
                Ok(()) => tracing::warn!(%error, "all is undone, and the journal is empty"),
                Err(_) => {
                    tracing::error!(%error, "all is undone, and the journal has to be removed")
                }
            }
        }
        restored
    }

    /// Is the file that is written still the one that restoring will find? What is done under a journal
    /// that cannot be found would stay after a kill.
    ///
    /// # Errors
    /// When the folder was moved, mounted over or deleted, or the file was, and when the file's last line is
    /// broken.
    pub fn check(&self) -> Result<(), JournalError> {
        let path = self.path();
        let not_safe = |found: &str, advice: &str| JournalError::NotSafe {
            path: path.clone(),
            found: found.to_owned(),
            advice: advice.to_owned(),
        };
        if self.broken {
            let advice = "make room on its file system and start again";
            return Err(not_safe("its last line is broken", advice));
        }
        let own =
            self.file.metadata().map_err(JournalError::kernel(&path, "cannot be looked at"))?;
        let advice = "what was done until now is undone; start corun again";
        match std::fs::symlink_metadata(&path) {
            Ok(found) if (found.dev(), found.ino()) == (own.dev(), own.ino()) => Ok(()),
            Ok(_) => Err(not_safe("another file stands in the journal's place", advice)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && own.nlink() == 0 => {
                Err(not_safe("it was removed", advice))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(not_safe("its folder was moved, or another was mounted over it", advice))
            }
            Err(error) => Err(JournalError::kernel(&path, "cannot be looked at")(error)),
        }
    }

    /// Adds a line; on failure the file is as before.
    fn append(&mut self, value: &impl Serialize) -> Result<(), JournalError> {
        let line = on_one_page(line_of(self.lines + 1, value), self.length_bytes);
        let done = match self.file.write(&line) {
            Ok(written) if written == line.len() => Ok(()),
            // The rest would not fit either, and two calls are not one.
            Ok(_) => Err(io::ErrorKind::StorageFull.into()),
            Err(reason) => Err(reason),
        };
        match done {
            Ok(()) => {
                self.length_bytes += line.len() as u64;
                self.lines += 1;
                Ok(())
            }
            Err(reason) => {
                self.broken = self.file.set_len(self.length_bytes).is_err();
                Err(JournalError::kernel(&self.path(), "cannot be written to")(reason))
            }
        }
    }

    /// Writes a shorter journal that undoes the same, beside the old one, and puts it in its place.
    fn write_anew(&mut self) -> Result<(), JournalError> {
        self.undo_state.forget_ended(&self.roots);
        let mut text = line_of(1, &self.header);
        let mut lines = 1;
        for line in self.undo_state.shortest_lines() {
            lines += 1;
            text.extend(line_of(lines, &line));
        }
        let beside = format!("{}.new", self.name);
        // One may be left over from an attempt on a full disk.
        let _ = self.folder.remove(&beside);
        let mut file = self.folder.new_file(&beside)?;
        let path = self.folder.path().join(&beside);
        let done = file
            .write_all(&text)
            .map_err(JournalError::kernel(&path, "cannot be written"))
            .and_then(|()| lock(&file, &path))
            .and_then(|()| self.folder.rename(&beside, &self.name.to_string()));
        if let Err(error) = done {
            let _ = self.folder.remove(&beside);
            return Err(error);
        }
        self.file = file;
        self.lines = lines;
        self.length_bytes = text.len() as u64;
        self.write_anew_at_bytes = self.length_bytes * 2 + GROWN_BYTES;
        Ok(())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Closing alone does not: a child that has not come to execute its program yet has the file open, too.
        let _ = rustix::fs::flock(&self.file, rustix::fs::FlockOperation::Unlock);
    }
}

/// A line, after as many spaces as it takes to begin it on a page of its own where it would cross into one.
/// The kernel may cut a write between two pages when its writer is killed: a cut in the spaces, or after the
/// first change, tells that the plan was not carried out; one before that does not.
fn on_one_page(mut line: Vec<u8>, at_bytes: u64) -> Vec<u8> {
    let room = PAGE_BYTES - (at_bytes % PAGE_BYTES as u64) as usize;
    if line.len() > room && room < PAGE_BYTES {
        line.splice(..0, std::iter::repeat_n(b' ', room));
    }
    line
}

/// An outcome in words, where it is a failure.
pub(crate) fn in_words(outcome: Result<Reverted, ActError>) -> Result<Reverted, String> {
    outcome.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
