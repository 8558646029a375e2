//! The folder of journals, which only its owner may touch.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};

use super::JournalError;

const SUFFIX: &str = ".journal";

/// `/run/corun` for root, else `$XDG_RUNTIME_DIR/corun`, else `/tmp/corun-UID`.
pub fn default_folder() -> PathBuf {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return "/run/corun".into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(folder) if folder.is_absolute() => folder.join("corun"),
        _ => format!("/tmp/corun-{}", user.as_raw()).into(),
    }
}

/// A journal's file name: who writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JournalName {
    pub(crate) pid: u32,
    pub(crate) start_ticks: u64,
}

impl JournalName {
    /// None for files that are no journals.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (pid, start_ticks) = name.strip_suffix(SUFFIX)?.split_once('-')?;
        let parsed = Self { pid: pid.parse().ok()?, start_ticks: start_ticks.parse().ok()? };
        // No second spelling of one name.
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl fmt::Display for JournalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}{SUFFIX}", self.pid, self.start_ticks)
    }
}

/// The folder, held open: what is done in it is done there, wherever its path leads later.
#[derive(Debug)]
pub(crate) struct JournalFolder {
    folder: File,
    path: PathBuf,
}

impl JournalFolder {
    /// Opens the folder, and makes it where missing.
    pub(crate) fn create(path: &Path) -> Result<Self, JournalError> {
        match std::fs::DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(JournalError::kernel(path, "cannot be made")(error));
            }
            _ => {}
        }
        Self::open(path)?.ok_or_else(|| {
            JournalError::kernel(path, "cannot be opened")(io::ErrorKind::NotFound.into())
        })
    }

    /// Opens the folder; none where there is none.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, JournalError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(folder) => File::from(folder),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => {
                return Err(JournalError::NotSafe {
                    path: path.to_owned(),
                    found: "it is no folder, or a symbolic link".to_owned(),
                    advice: "name a folder of your own".to_owned(),
                });
            }
            Err(error) => return Err(JournalError::kernel(path, "cannot be opened")(error.into())),
        };
        let facts = folder.metadata().map_err(JournalError::kernel(path, "cannot be looked at"))?;
        check_owner(path, facts.uid())?;
        if facts.mode() & 0o077 != 0 {
            return Err(JournalError::NotSafe {
                path: path.to_owned(),
                found: format!("others may use it (mode {:03o})", facts.mode() & 0o777),
                advice: format!(
                    "name the folder of the journals; if this is it: chmod 700 {}",
                    path.display()
                ),
            });
        }
        Ok(Some(Self { folder, path: path.to_owned() }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a file that was not there, for appending.
    pub(crate) fn new_file(&self, name: &str) -> Result<File, JournalError> {
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::APPEND
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let made = rustix::fs::openat(&self.folder, name, flags, mode);
        made.map(File::from).map_err(|error| self.failed(name, "cannot be made", error))
    }

    /// Opens a file of ours for reading; none where it is gone.
    pub(crate) fn file(&self, name: &str) -> Result<Option<File>, JournalError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(&self.folder, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(self.failed(name, "cannot be opened", error)),
        };
        let path = self.path.join(name);
        let facts = file.metadata().map_err(JournalError::kernel(&path, "cannot be looked at"))?;
        check_owner(&path, facts.uid())?;
        if !facts.is_file() {
            return Err(JournalError::NotSafe {
                path,
                found: "it is no file".to_owned(),
                advice: "remove it".to_owned(),
            });
        }
        Ok(Some(file))
    }

    /// Names of what is in the folder, sorted.
    pub(crate) fn names(&self) -> Result<Vec<String>, JournalError> {
        let failed = |error: rustix::io::Errno| self.failed("", "cannot be listed", error);
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    /// Removes a file; one that is gone is no error.
    pub(crate) fn remove(&self, name: &str) -> Result<(), JournalError> {
        match rustix::fs::unlinkat(&self.folder, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(self.failed(name, "cannot be removed", error)),
        }
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), JournalError> {
        rustix::fs::renameat(&self.folder, from, &self.folder, to)
            .map_err(|error| self.failed(to, "cannot be replaced", error))
    }

    fn failed(&self, name: &str, attempt: &'static str, error: rustix::io::Errno) -> JournalError {
        JournalError::kernel(&self.path.join(name), attempt)(error.into())
    }
}

/// Attempts at a lock, and the time from one to the next.
const LOCK_ATTEMPTS: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Takes the lock of a journal: its writer holds it, or who undoes what is in it. So does a child that one of them has
/// forked, until it executes another program, which is waited for.
pub(crate) fn lock(file: &File, path: &Path) -> Result<(), JournalError> {
    for _ in 0..LOCK_ATTEMPTS {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::AGAIN) => std::thread::sleep(LOCK_PAUSE),
            Err(error) => return Err(JournalError::kernel(path, "cannot be locked")(error.into())),
        }
    }
    Err(JournalError::NotSafe {
        path: path.to_owned(),
        found: "another corun is working with it".to_owned(),
        advice: "try again when that has ended".to_owned(),
    })
}

/// Whoever can write a journal decides what is undone: it has to be us.
fn check_owner(path: &Path, owner: u32) -> Result<(), JournalError> {
    let user = rustix::process::geteuid().as_raw();
    if owner == user {
        return Ok(());
    }
    Err(JournalError::NotSafe {
        path: path.to_owned(),
        found: format!("it is user {owner}'s, and this is user {user}"),
        advice: "run corun as its owner, or name another folder".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn names_are_read_as_written() {
        let name = JournalName { pid: 12, start_ticks: 345 };
        assert_eq!(name.to_string(), "12-345.journal");
        assert_eq!(JournalName::parse("12-345.journal"), Some(name));
        for wrong in ["12-345", "12.journal", "+12-345.journal", "12-345.journal.new", "-.journal"]
        {
            assert_eq!(JournalName::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_folder_is_ours_alone_or_refused() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("corun");
        assert!(JournalFolder::open(&path).unwrap().is_none());
        JournalFolder::create(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
        let error = JournalFolder::create(&path).unwrap_err().to_string();
        assert!(error.contains("mode 750") && error.contains("chmod 700"), "{error}");
        let link = base.path().join("link");
        std::os::unix::fs::symlink(base.path(), &link).unwrap();
        let error = JournalFolder::create(&link).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
        assert!(JournalFolder::create(&base.path().join("none/corun")).is_err());
    }

    #[test]
    fn files_are_ours_and_no_links() {
        let base = tempfile::tempdir().unwrap();
        let folder = JournalFolder::create(&base.path().join("corun")).unwrap();
        folder.new_file("1-2.journal").unwrap();
        assert!(folder.new_file("1-2.journal").is_err());
        assert!(folder.file("1-2.journal").unwrap().is_some());
        assert!(folder.file("3-4.journal").unwrap().is_none());
        std::os::unix::fs::symlink("1-2.journal", folder.path().join("5-6.journal")).unwrap();
        assert!(folder.file("5-6.journal").is_err());
        std::fs::create_dir(folder.path().join("7-8.journal")).unwrap();
        assert!(folder.file("7-8.journal").unwrap_err().to_string().contains("no file"));
    }
}
