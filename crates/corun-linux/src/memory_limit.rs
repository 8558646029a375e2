//! The memory that a cgroup may use, and how often the limit was reached: `memory.max`, `memory.high`, `memory.current` and
//! `memory.events` of version 2, `memory.limit_in_bytes`, `memory.usage_in_bytes` and `memory.failcnt` of version 1 (Linux,
//! admin-guide/cgroup-v2 and admin-guide/cgroup-v1/memory).

use std::path::{Path, PathBuf};

use crate::procfs::Process;
use crate::{Roots, cgroup, files};

/// A group with a limit of memory, and what the limit has done since the group was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The group's path below the root of cgroups: `/system.slice/x.service`.
    pub group: String,
    /// The file that sets the limit.
    pub file: PathBuf,
    /// The most that the group's processes use together, in bytes.
    pub bytes: u64,
    /// What they use now, files in the page cache included, in bytes.
    pub used_bytes: u64,
    /// How often the group wanted more than the limit, and had to give up pages for it. Version 2 before Linux 5.2 also counts
    /// how often the groups below reached limits of their own.
    pub times_reached: u64,
}

/// Version 1 has the largest number of pages where there is no limit: anything from 2^60 bytes on is none.
const NO_LIMIT: u64 = 1 << 60;

/// The limits that hold for a process: those of its group and of the groups above, the innermost first. None where no group
/// has one, or the process is gone.
pub fn limits(roots: &Roots, pid: u32) -> Vec<MemoryLimit> {
    let text = Process::new(roots, pid).cgroups().unwrap_or_default();
    let mut found = Vec::new();
    for line in cgroup::lines(&text) {
        let is_version_1 = line.controllers.split(',').any(|one| one == "memory");
        let places: &[&str] = match line.controllers {
            "" => &["", "unified"],
            _ if is_version_1 => &["memory"],
            _ => continue,
        };
        for group in Path::new(line.path).ancestors() {
            let below = group.strip_prefix("/").unwrap_or(group);
            let folders = places.iter().map(|place| roots.cgroup.join(place).join(below));
            let read = if is_version_1 { of_version_1 } else { of_version_2 };
            found.extend(folders.flat_map(|folder| read(&folder, group)));
        }
    }
    found
}

fn of_version_1(folder: &Path, group: &Path) -> Vec<MemoryLimit> {
    let limit = || {
        let file = folder.join("memory.limit_in_bytes");
        Some(MemoryLimit {
            group: group.display().to_string(),
            bytes: files::number(&file).filter(|&bytes| bytes < NO_LIMIT)?,
            file,
            used_bytes: files::number(&folder.join("memory.usage_in_bytes"))?,
            times_reached: files::number(&folder.join("memory.failcnt"))?,
        })
    };
    limit().into_iter().collect()
}

/// Above `memory.high` a group is slowed down and gives up pages; `memory.max` it never exceeds.
fn of_version_2(folder: &Path, group: &Path) -> Vec<MemoryLimit> {
    let events = ["memory.events.local", "memory.events"];
    let events = events.into_iter().find_map(|name| files::text(&folder.join(name)));
    let limit = |name: &str| {
        let file = folder.join(format!("memory.{name}"));
        let of = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
        Some(MemoryLimit {
            group: group.display().to_string(),
            // `max` stands for no limit.
            bytes: files::number(&file)?,
            file,
            used_bytes: files::number(&folder.join("memory.current"))?,
            times_reached: events.as_ref()?.lines().find_map(of)?,
        })
    };
    ["high", "max"].into_iter().filter_map(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup_tree::tree;

    #[test]
    fn limits_of_version_2_hold_from_the_inside_out() {
        let (_folder, roots) = tree(
            "0::/a.slice/b.service\n",
            &[
                ("a.slice/b.service/memory.high", "1000\n"),
                ("a.slice/b.service/memory.max", "max\n"),
                ("a.slice/b.service/memory.current", "999\n"),
                ("a.slice/b.service/memory.events", "low 1\nhigh 70\nmax 0\noom 0\n"),
                ("a.slice/b.service/memory.events.local", "low 0\nhigh 7\nmax 0\noom 0\n"),
                ("a.slice/memory.high", "max\n"),
                ("a.slice/memory.max", "4096\n"),
                ("a.slice/memory.current", "4095\n"),
                ("a.slice/memory.events", "low 0\nhigh 0\nmax 3\noom 0\n"),
            ],
        );
        let limit = |group: &str, file: &str, bytes, used_bytes, times_reached| MemoryLimit {
            group: group.to_owned(),
            file: roots.cgroup.join(file),
            bytes,
            used_bytes,
            times_reached,
        };
        let expected = [
            limit("/a.slice/b.service", "a.slice/b.service/memory.high", 1000, 999, 7),
            limit("/a.slice", "a.slice/memory.max", 4096, 4095, 3),
        ];
        assert_eq!(limits(&roots, 7), expected);
        assert_eq!(limits(&roots, 8), []);
    }

    #[test]
    fn limits_of_version_1_are_in_the_hierarchy_of_memory() {
        let (_folder, roots) = tree(
            "4:memory:/m/n\n3:cpu,cpuacct:/x\n0::/\n",
            &[
                ("memory/m/n/memory.limit_in_bytes", "4096\n"),
                ("memory/m/n/memory.usage_in_bytes", "4096\n"),
                ("memory/m/n/memory.failcnt", "12\n"),
                ("memory/m/memory.limit_in_bytes", "9223372036854771712\n"),
                ("memory/m/memory.usage_in_bytes", "4096\n"),
                ("memory/m/memory.failcnt", "0\n"),
            ],
        );
        let found = limits(&roots, 7);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].group.as_str(), found[0].bytes), ("/m/n", 4096));
        assert_eq!((found[0].used_bytes, found[0].times_reached), (4096, 12));
        assert_eq!(found[0].file, roots.cgroup.join("memory/m/n/memory.limit_in_bytes"));
    }
}
