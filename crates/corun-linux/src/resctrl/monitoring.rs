//! What the hardware monitors of groups.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::tasks;
use crate::Roots;

/// The group whose files count a task: its monitoring group, else its control group.
pub fn groups_by_task(roots: &Roots) -> BTreeMap<u32, PathBuf> {
    let mut groups = BTreeMap::new();
    let root = &roots.resctrl;
    let controls = folders(root).filter(|folder| folder.join("tasks").exists());
    for control in controls.chain([root.clone()]) {
        note_tasks(&control, &mut groups);
        for monitor in folders(&control.join("mon_groups")) {
            // After the control group, whose list names these tasks, too.
            note_tasks(&monitor, &mut groups);
        }
    }
    groups
}

/// Do a group's files count the tasks that are in another? Those of a control group have its monitoring
/// groups' in them.
pub fn monitors_task(group: &Path, of_task: &Path) -> bool {
    of_task == group || of_task.parent() == Some(group.join("mon_groups").as_path())
}

/// Bytes of the LLCs that hold the lines of the group of a folder; none where a cache cannot tell.
pub fn occupancy_bytes(group: &Path) -> Option<u64> {
    by_cache(group, "llc_occupancy").map(|held| held.values().sum())
}

/// Bytes that the group of a folder moved from and to memory, by cache, since it was made; none where a cache
/// cannot tell.
pub fn total_bytes_by_cache(group: &Path) -> Option<BTreeMap<String, u64>> {
    by_cache(group, "mbm_total_bytes")
}

/// What a file says of each LLC (`mon_L3_00`, `mon_L3_01`); none where one cannot tell, or there is none.
fn by_cache(group: &Path, file: &str) -> Option<BTreeMap<String, u64>> {
    let named = folders(&group.join("mon_data")).filter_map(|folder| {
        let name = folder.file_name()?.to_str()?.to_owned();
        name.starts_with("mon_L3_").then_some((name, folder))
    });
    let numbers = named.map(|(name, folder)| Some((name, counter(&folder.join(file))?)));
    numbers.collect::<Option<BTreeMap<_, _>>>().filter(|found| !found.is_empty())
}

/// A file's number; none where it says `Unavailable` or `Error`, or is not there.
fn counter(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let number = text.trim().parse().ok();
    if number.is_none() {
        let found = text.trim();
        tracing::debug!(file = %file.display(), found, "resctrl has no figure");
    }
    number
}

fn note_tasks(group: &Path, groups: &mut BTreeMap<u32, PathBuf>) {
    groups
        .extend(tasks(group).unwrap_or_default().into_iter().map(|task| (task, group.to_owned())));
}

fn folders(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
}
