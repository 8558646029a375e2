//! The folder of the reports: made by whoever starts a recording, written to by the plug-ins.
//!
//! A recorded program may take another user's rights or another root folder. So that it can still be recorded, root's folder
//! lets everybody make files, in a folder whose name is a secret: the plug-ins get it by a variable of the environment, which
//! other users cannot read, and the programs do not see it.

use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, flock, fstat, openat, renameat, unlinkat,
};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, geteuid, getrlimit};
use tempfile::TempDir;

use crate::control::Control;
use crate::report::{CONTROL, Report};

/// How the folder's name begins.
const PREFIX: &str = "corun-trace-";

/// After this a folder is locked by whoever made it.
const SURELY_LOCKED: Duration = Duration::from_secs(60);

/// Users whose rights a program takes one after the other, each of whom needs files of its own.
const MOST_GENERATIONS: u32 = 99;

/// Descriptors from here up, or at the end of what is allowed, are in nobody's way.
const HIGH_DESCRIPTOR: u64 = 1000;

/// The folder as whoever starts a recording sees it; removed when this is dropped.
pub(crate) struct OwnReports {
    /// Locked as long as this process lives: by that others know a folder that somebody left.
    _lock: File,
    outer: TempDir,
    /// The name of the folder within it.
    pub(crate) key: String,
    pub(crate) control: Control,
}

impl OwnReports {
    /// Makes it, with the numbers that all processes share.
    pub(crate) fn create(duration: Option<Duration>) -> io::Result<Self> {
        // Nobody may look in while the key is made.
        let alone = Permissions::from_mode(0o700);
        let outer = tempfile::Builder::new().prefix(PREFIX).permissions(alone).tempdir()?;
        let lock = File::open(outer.path())?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        // Nobody but root can give a program another user's rights.
        let for_all = geteuid().is_root();
        let (outer_mode, inner_mode) = if for_all { (0o711, 0o1733) } else { (0o700, 0o700) };
        let mut key = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut key)?;
        let key = format!("{:032x}", u128::from_ne_bytes(key));
        let inner = outer.path().join(&key);
        fs::create_dir(&inner)?;
        let control = Control::create(&inner.join(CONTROL), duration)?;
        if for_all {
            fs::set_permissions(inner.join(CONTROL), Permissions::from_mode(0o666))?;
        }
        fs::set_permissions(&inner, Permissions::from_mode(inner_mode))?;
        fs::set_permissions(outer.path(), Permissions::from_mode(outer_mode))?;
        Ok(Self { _lock: lock, outer, key, control })
    }

    /// The folder whose name is no secret.
    pub(crate) fn outer(&self) -> &Path {
        self.outer.path()
    }

    /// The folder of the reports.
    pub(crate) fn inner(&self) -> PathBuf {
        self.outer.path().join(&self.key)
    }
}

/// Removes what recordings left whose process was killed.
pub(crate) fn remove_leftovers(temporary: &Path) {
    let Ok(entries) = fs::read_dir(temporary) else { return };
    let named = entries
        .flatten()
        .filter(|one| one.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)));
    for path in named.map(|one| one.path()) {
        if let Ok(Some(_lock)) = lock_leftover(&path) {
            // Somebody else may remove it at the same time.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Locks a folder of this user that nobody uses; `None` where it may be in use.
fn lock_leftover(path: &Path) -> io::Result<Option<File>> {
    let found = fs::symlink_metadata(path)?;
    // Whoever makes one now has not locked it yet.
    let is_old = found.modified()?.elapsed().is_ok_and(|age| age >= SURELY_LOCKED);
    if !found.is_dir() || found.uid() != geteuid().as_raw() || !is_old {
        return Ok(None);
    }
    let folder = File::open(path)?;
    if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    // What the program started may run on, and write.
    Ok((!processes().into_iter().any(|process| names_folder(process, path))).then_some(folder))
}

/// The numbers of all processes.
pub(crate) fn processes() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Has a process this folder in its command line, as all have whose reports go there?
pub(crate) fn names_folder(process: i32, folder: &Path) -> bool {
    let folder = folder.as_os_str().as_bytes();
    fs::read(format!("/proc/{process}/cmdline"))
        .is_ok_and(|line| line.windows(folder.len()).any(|part| part == folder))
}

/// The variable that holds the key of a folder: one for each, as a recorded program may record others.
pub(crate) fn key_variable(outer: &Path) -> String {
    outer.file_name().unwrap_or_default().to_string_lossy().replace('-', "_")
}

/// The folder of the reports as a plug-in sees it.
pub(crate) struct ReportFolder {
    path: PathBuf,
    id: (u64, u64),
    /// Stays what it was where the path leads elsewhere, as after chroot, unless the program closes it.
    handle: Option<OwnedFd>,
}

impl ReportFolder {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let folder = open_folder(path)?;
        let id = id_of(&folder)?;
        let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let high = most.saturating_sub(16).min(HIGH_DESCRIPTOR);
        // Programs count on the lowest free number.
        let handle = (high >= 64).then(|| fcntl_dupfd_cloexec(&folder, high as i32).ok()).flatten();
        Ok(Self { path: path.to_owned(), id, handle })
    }

    /// Writes a report, whole or not at all. `generation` counts the users who wrote this program's reports: none may replace
    /// what another wrote.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn write(&self, report: &Report, generation: &mut u32) -> io::Result<()> {
        let text = toml::to_string(report).map_err(io::Error::other)?;
        let opened;
        let folder = match open_folder(&self.path) {
            Ok(found) if id_of(&found)? == self.id => {
                opened = found;
                &opened
            }
            other => {
                let handle = self.handle.as_ref().filter(|one| {
                    // The program may have closed it, and opened something else.
                    id_of(one).is_ok_and(|id| id == self.id)
                });
                let other = other.err().unwrap_or_else(|| io::ErrorKind::NotFound.into());
                handle.ok_or(other)?
            }
        };
        loop {
            let written = write_into(folder, &report.name(*generation), text.as_bytes());
            match written {
                Err(error)
                    if error.kind() == io::ErrorKind::PermissionDenied
                        && *generation < MOST_GENERATIONS
                        && report.is_there(folder, *generation) =>
                {
                    *generation += 1;
                }
                other => return other,
            }
        }
    }
}

fn write_into(folder: &OwnedFd, name: &str, bytes: &[u8]) -> io::Result<()> {
    let fresh = Path::new(name).with_extension("new");
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    let mut file = File::from(openat(folder, &fresh, flags, mode)?);
    let written = file.write_all(bytes);
    let renamed = written.and_then(|()| Ok(renameat(folder, &fresh, folder, name)?));
    renamed.inspect_err(|_| {
        let _ = unlinkat(folder, &fresh, AtFlags::empty());
    })
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

fn id_of(file: &OwnedFd) -> io::Result<(u64, u64)> {
    let found = fstat(file)?;
    Ok((found.st_dev, found.st_ino))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_a_killed_recording_left_is_removed_and_nothing_else() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = |name: &str, seconds: u64| {
            let path = temporary.path().join(name);
            fs::create_dir_all(path.join("key")).unwrap();
            let then = SystemTime::now() - Duration::from_secs(seconds);
            File::open(&path).unwrap().set_modified(then).unwrap();
            path
        };
        let left = folder("corun-trace-left", 100);
        let kept = [folder("corun-trace-new", 1), folder("other", 100)];
        let locked = folder("corun-trace-locked", 100);
        let lock = File::open(&locked).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        let named = folder("corun-trace-named", 100);
        let script = "read line # ".to_owned() + &named.display().to_string();
        let mut process = std::process::Command::new("sh");
        let process = process.args(["-c", &script]).stdin(std::process::Stdio::piped());
        let mut process = process.spawn().unwrap();
        // The child of a fork has its parent's command line until it executes.
        while !names_folder(process.id() as i32, &named) {
            std::thread::yield_now();
        }
        remove_leftovers(temporary.path());
        assert!(!left.exists() && locked.exists() && named.exists());
        assert!(kept.iter().all(|path| path.exists()));
        drop(process.stdin.take());
        process.wait().unwrap();
        drop(lock);
        remove_leftovers(temporary.path());
        assert!(!locked.exists() && !named.exists());
    }
}
