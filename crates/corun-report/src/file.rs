//! Files that are whole or not there.

use std::path::Path;

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
}
