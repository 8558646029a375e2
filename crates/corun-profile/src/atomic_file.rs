//! Writing a file whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a file so that other programs, and whoever comes after an interruption, see either the
/// old content or the whole new one: a temporary file beside it, made durable, then renamed over
/// it. Ctrl-C leaves the named file as it was. A link stays, and the file it leads to is replaced;
/// into a device or a pipe, which nothing may replace, the bytes go as they are.
///
/// # Errors
/// Whatever the operating system says when the folder is missing or cannot be written.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if is_special(path) {
        return fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let path = behind_links(path);
    let mut file = temporary_file(folder_of(&path))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

/// Whether [`write_atomically`] could begin to write there, to be asked before long work.
///
/// # Errors
/// Whatever the operating system says when the folder is missing or cannot be written.
pub fn check_writable(path: &Path) -> io::Result<()> {
    if is_special(path) {
        return Ok(());
    }
    temporary_file(folder_of(&behind_links(path))).map(drop)
}

/// Is something there that nothing may replace: a device, a pipe, a socket?
pub fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// The path of the file that a link leads to; else the path itself.
pub fn behind_links(path: &Path) -> PathBuf {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => fs::canonicalize(path).unwrap_or_else(|_| path.into()),
        _ => path.into(),
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A temporary file with the permissions of an ordinary one, which the umask narrows: the library's own default is for
/// the owner alone. Opened here, since the library's errors name the temporary file, which nobody asked for.
fn temporary_file(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o666);
    tempfile::Builder::new().prefix(".corun-").make_in(folder, |path| options.open(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_the_systems_own() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let error = write_atomically(&folder.path().join("file/a"), b"x").unwrap_err();
        assert_eq!(error.to_string(), "Not a directory (os error 20)");
        assert!(std::error::Error::source(&error).is_none());
    }

    #[test]
    fn replaces_the_file_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        write_atomically(&path, b"first").unwrap();
        write_atomically(&path, b"second").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"second");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_its_target_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        fs::write(&target, "first").unwrap();
        std::os::unix::fs::symlink("target", &link).unwrap();
        write_atomically(&link, b"second").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"second");
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_written_to_and_not_replaced() {
        use std::io::Read as _;
        use std::os::unix::fs::FileTypeExt as _;
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || {
                let mut text = String::new();
                fs::File::open(pipe).unwrap().read_to_string(&mut text).unwrap();
                text
            }
        });
        check_writable(&pipe).unwrap();
        write_atomically(&pipe, b"through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    }

    #[test]
    fn what_can_be_written_is_known_before() {
        let folder = tempfile::tempdir().unwrap();
        check_writable(&folder.path().join("a")).unwrap();
        assert!(check_writable(&folder.path().join("missing/a")).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_failed_write_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        std::fs::create_dir_all(taken.join("inside")).unwrap();
        assert!(write_atomically(&taken, b"x").is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_atomically(&folder.path().join("missing/a"), b"x").is_err());
    }
}
