//! Groups: which there are, and who is in them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::Schemata;
use crate::{Roots, is_gone};

/// A control group as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroup {
    /// What it may use.
    pub schemata: Schemata,
    /// The numbers of its threads.
    pub tasks: Vec<u32>,
}

/// All control groups by their path below resctrl's root; the root's own is empty.
///
/// # Errors
/// The kernel's answer; [`io::ErrorKind::InvalidData`] where a schemata is not as the kernel documents it.
pub fn control_groups(roots: &Roots) -> io::Result<BTreeMap<PathBuf, ControlGroup>> {
    let mut groups = BTreeMap::new();
    groups.insert(PathBuf::new(), group(&roots.resctrl)?);
    for entry in std::fs::read_dir(&roots.resctrl)? {
        let entry = entry?;
        let name = PathBuf::from(entry.file_name());
        let kernels = ["info", "mon_groups", "mon_data"].map(Path::new).contains(&name.as_path());
        if kernels || !entry.file_type()?.is_dir() {
            continue;
        }
        match group(&entry.path()) {
            Ok(group) => drop(groups.insert(name, group)),
            // Removed meanwhile, or of a kind whose schemata cannot be read.
            Err(error) if is_gone(&error) || is_removed(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(groups)
}

fn group(folder: &Path) -> io::Result<ControlGroup> {
    let schemata = std::fs::read_to_string(folder.join("schemata"))?;
    let schemata =
        schemata.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(ControlGroup { schemata, tasks: tasks(folder)? })
}

/// The numbers of the threads in the group of a folder.
///
/// # Errors
/// The kernel's answer.
pub fn tasks(folder: &Path) -> io::Result<Vec<u32>> {
    let text = std::fs::read_to_string(folder.join("tasks"))?;
    Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
}

/// The kernel's answer to using a group that is being removed.
pub fn is_removed(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENODEV)
}

/// What resctrl adds to its last answer.
pub fn last_status(roots: &Roots) -> Option<String> {
    let text = std::fs::read_to_string(roots.resctrl.join("info/last_cmd_status")).ok()?;
    let text = text.trim();
    (!text.is_empty() && text != "ok").then(|| format!("resctrl says: {text}"))
}
