//! Cgroups that hold their processes still: `cgroup.freeze` and `cgroup.events` of version 2, `freezer.state` and
//! `freezer.self_freezing` of version 1 (Linux, admin-guide/cgroup-v2 and admin-guide/cgroup-v1/freezer-subsystem).

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::procfs::Process;
use crate::{Roots, cgroup, files};

/// The groups by which a process can be frozen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Freezer {
    /// Those that there are, the innermost first in each hierarchy.
    groups: Vec<Group>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    path: String,
    folder: PathBuf,
    is_version_1: bool,
}

/// A group that was told to hold its processes still.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FrozenGroup {
    /// The group's path below the root of cgroups: `/system.slice/x.service`.
    pub group: String,
    /// The file by which the group is frozen and thawed.
    pub file: PathBuf,
    /// What is written to thaw the group: `0` or `THAWED`.
    pub thaw: &'static str,
    /// What is written to freeze the group: `1` or `FROZEN`.
    pub freeze: &'static str,
    /// May this user write to the file?
    pub may_be_thawed: bool,
}

impl Freezer {
    /// That of a process; none of its groups where the process is gone.
    pub fn of_process(roots: &Roots, pid: u32) -> Self {
        let text = Process::new(roots, pid).cgroups().unwrap_or_default();
        let mut groups = Vec::new();
        for line in cgroup::lines(&text) {
            let is_version_1 = line.controllers.split(',').any(|one| one == "freezer");
            let (places, file): (&[&str], &str) = match line.controllers {
                "" => (&["", "unified"], "cgroup.freeze"),
                _ if is_version_1 => (&["freezer"], "freezer.state"),
                _ => continue,
            };
            for group in Path::new(line.path).ancestors() {
                let below = group.strip_prefix("/").unwrap_or(group);
                let folders = places.iter().map(|place| roots.cgroup.join(place).join(below));
                // Roots have no such files: they cannot be frozen.
                let found = folders.into_iter().find(|folder| folder.join(file).exists());
                groups.extend(found.map(|folder| Group {
                    path: group.display().to_string(),
                    folder,
                    is_version_1,
                }));
            }
        }
        Self { groups }
    }

    /// Is the process held still now?
    pub fn is_frozen(&self) -> bool {
        self.groups.iter().any(|group| {
            if group.is_version_1 {
                let state = files::text(&group.folder.join("freezer.state"));
                return state.is_some_and(|state| state == "FROZEN");
            }
            let events = files::text(&group.folder.join("cgroup.events"));
            events.is_some_and(|events| events.lines().any(|line| line == "frozen 1"))
        })
    }

    /// The groups that were told to hold their processes still; each has to be thawed.
    pub fn frozen_groups(&self) -> Vec<FrozenGroup> {
        let is_told = |group: &&Group| {
            let name = if group.is_version_1 { "freezer.self_freezing" } else { "cgroup.freeze" };
            files::switch(&group.folder.join(name)) == Some(true)
        };
        let frozen = self.groups.iter().filter(is_told).map(|group| {
            let (name, thaw, freeze) = if group.is_version_1 {
                ("freezer.state", "THAWED", "FROZEN")
            } else {
                ("cgroup.freeze", "0", "1")
            };
            let file = group.folder.join(name);
            let may_be_thawed = files::writable(&file);
            FrozenGroup { group: group.path.clone(), file, thaw, freeze, may_be_thawed }
        });
        frozen.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup_tree::tree;

    fn told(freezer: &Freezer) -> Vec<(String, &'static str)> {
        freezer.frozen_groups().into_iter().map(|one| (one.group, one.thaw)).collect()
    }

    /// The inner group is frozen since the outer one is, and only that has to be thawed.
    #[test]
    fn a_group_of_version_2_is_frozen_by_the_one_above() {
        let (_folder, roots) = tree(
            "0::/a.slice/b.service\n",
            &[
                ("a.slice/b.service/cgroup.freeze", "0\n"),
                ("a.slice/b.service/cgroup.events", "populated 1\nfrozen 1\n"),
                ("a.slice/cgroup.freeze", "1\n"),
                ("a.slice/cgroup.events", "populated 1\nfrozen 1\n"),
            ],
        );
        let freezer = Freezer::of_process(&roots, 7);
        assert!(freezer.is_frozen());
        assert_eq!(told(&freezer), [("/a.slice".to_owned(), "0")]);
        assert_eq!(freezer.frozen_groups()[0].file, roots.cgroup.join("a.slice/cgroup.freeze"));
    }

    #[test]
    fn a_group_of_version_1_is_frozen_by_itself() {
        let (_folder, roots) = tree(
            "6:freezer:/box\n0::/\n",
            &[
                ("freezer/box/freezer.state", "FROZEN\n"),
                ("freezer/box/freezer.self_freezing", "1\n"),
            ],
        );
        let freezer = Freezer::of_process(&roots, 7);
        assert!(freezer.is_frozen());
        assert_eq!(told(&freezer), [("/box".to_owned(), "THAWED")]);
    }

    #[test]
    fn what_is_not_frozen_is_not() {
        let (_folder, roots) = tree(
            "6:freezer:/box\n0::/a\n",
            &[
                ("freezer/box/freezer.state", "THAWED\n"),
                ("a/cgroup.freeze", "0\n"),
                ("a/cgroup.events", "populated 1\nfrozen 0\n"),
            ],
        );
        for pid in [7, 8] {
            let freezer = Freezer::of_process(&roots, pid);
            assert!(!freezer.is_frozen() && told(&freezer).is_empty());
        }
    }
}
