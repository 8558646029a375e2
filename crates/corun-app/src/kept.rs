//! Where what was computed is kept for the next process.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Keeps replays of programs in the user's cache folder ([`corun_model::keep_replays_in`]): `$CORUN_CACHE_DIR`, or nowhere
/// where that is empty; where it is not set `corun` under `$XDG_CACHE_HOME` or `~/.cache`.
pub fn keep_replays() {
    if let Some(folder) = folder(|name| std::env::var_os(name), is_own) {
        corun_model::keep_replays_in(&folder);
    }
}

fn folder(
    variable: impl Fn(&str) -> Option<OsString>,
    is_own: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    if let Some(chosen) = variable("CORUN_CACHE_DIR") {
        return absolute(chosen);
    }
    let own_home = || variable("HOME").and_then(absolute).filter(|home| is_own(home));
    let caches = variable("XDG_CACHE_HOME").and_then(absolute);
    Some(caches.or_else(|| own_home().map(|home| home.join(".cache")))?.join("corun"))
}

/// Is it this user's? What root writes into another's home the other cannot replace.
fn is_own(folder: &Path) -> bool {
    let owner = |path: &Path| std::fs::metadata(path).map(|found| found.uid()).ok();
    owner(folder).is_some() && owner(folder) == owner(Path::new("/proc/self"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_the_one_named_or_that_of_the_users_caches() {
        let with = |set: &[(&str, &str)], is_own: bool| {
            let variable =
                |name: &str| set.iter().find(|one| one.0 == name).map(|one| OsString::from(one.1));
            folder(variable, |_| is_own).map(|path| path.display().to_string())
        };
        let home = ("HOME", "/home/a");
        let expected = |path: &str| Some(path.to_owned());
        assert_eq!(with(&[home], true), expected("/home/a/.cache/corun"));
        assert_eq!(with(&[home], false), None, "another's home");
        assert_eq!(with(&[home, ("XDG_CACHE_HOME", "/c")], false), expected("/c/corun"));
        assert_eq!(with(&[home, ("XDG_CACHE_HOME", "c")], true), expected("/home/a/.cache/corun"));
        assert_eq!(with(&[home, ("CORUN_CACHE_DIR", "/d")], true), expected("/d"));
        assert_eq!(with(&[home, ("CORUN_CACHE_DIR", "")], true), None);
        assert_eq!(with(&[], true), None);
    }
}
