//! Files that are whole or not there.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use corun_app::{Error, Result};

/// Writes a file beside its place and moves it there once it is whole.
///
/// # Errors
/// When the folder cannot be written to; nothing is left behind then.
pub fn write_file(path: &Path, content: &[u8]) -> Result {
    corun_profile::write_atomically(path, content)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

/// The folders that files would be written to, checked before long work is done, and that no file would take the place of
/// another one.
///
/// # Errors
/// As [`check_target`], and bad input where two are the same file.
pub fn check_targets<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result {
    let mut known: Vec<PathBuf> = Vec::new();
    for path in paths {
        check_target(path)?;
        let file = resolved(path);
        let is_replaced = file.is_file() || !file.exists();
        if is_replaced && known.contains(&file) {
            let path = path.display();
            return Err(Error::input(format!("{path}: found for two outputs, expected two files")));
        }
        known.push(file);
    }
    Ok(())
}

/// A path without links, also of a file that is not there yet.
fn resolved(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let in_folder = || {
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(in_folder).unwrap_or_else(|| path.to_owned())
}

/// The folder that a file would be written to, checked before long work is done.
///
/// # Errors
/// Bad input when it does not exist or the path is a folder; a failure when nothing can be written
/// there.
pub fn check_target(path: &Path) -> Result {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if path.is_dir() {
        return Err(Error::input(format!("{} is a folder: expected a file", path.display())));
    }
    match folder {
        Some(folder) if !folder.is_dir() => {
            Err(Error::input(format!("{}: there is no such folder", folder.display())))
        }
        _ => Ok(corun_profile::check_writable(path)
            .with_context(|| format!("cannot write {}", path.display()))?),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_missing_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none/report.html");
        let failure = write_file(&path, b"x").unwrap_err();
        assert!(failure.report().contains("none/report.html"), "{}", failure.report());
    }

    #[test]
    fn a_target_needs_a_folder_that_exists() {
        assert!(check_target(Path::new("report.html")).is_ok());
        assert!(check_target(Path::new("/nowhere/at/all/report.html")).is_err());
        assert!(check_target(Path::new("/")).is_err());
    }

    #[test]
    fn two_outputs_need_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("in")).unwrap();
        std::os::unix::fs::symlink(at("in"), at("link")).unwrap();
        let check = |one: &str, other: &str| check_targets(&[at(one), at(other)]);
        assert!(check("a", "b").is_ok());
        for (one, other) in [("a", "a"), ("in/a", "link/a"), ("a", "in/../a")] {
            let error = check(one, other).unwrap_err().to_string();
            assert!(error.contains("found for two outputs"), "{error}");
        }
        std::fs::write(at("in/a"), "old").unwrap();
        std::os::unix::fs::symlink(at("in/a"), at("b")).unwrap();
        assert!(check("in/a", "b").is_err(), "the link's file is replaced");
        let device = PathBuf::from("/dev/null");
        assert!(check_targets(&[device.clone(), device]).is_ok(), "nothing is replaced");
    }
}
