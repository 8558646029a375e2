//! The groups that processes are in, of version 1 and 2.

use std::io;
use std::path::Path;

use corun_machine::CpuSet;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use serde::{Deserialize, Serialize};

use crate::{Roots, Task, if_there};

/// A line of `/proc/PID/cgroup`: a process's group in one hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CgroupLine<'a> {
    /// The hierarchy's controllers, parted by commas; none in version 2.
    pub controllers: &'a str,
    /// The group's path: `/system.slice/x.service`.
    pub path: &'a str,
}

impl CgroupLine<'_> {
    /// Does this group say where its threads may run? That is version 2's, or that of version 1's hierarchy
    /// with cpuset.
    pub(crate) fn governs_cpus(&self) -> bool {
        let mut controllers = self.controllers.split(',');
        self.controllers.is_empty() || controllers.any(|one| one == "cpuset")
    }

    /// Is it a group that systemd made for a unit?
    pub fn is_systemds(&self) -> bool {
        self.controllers.is_empty() || self.controllers == "name=systemd"
    }
}

/// The lines of `/proc/PID/cgroup`; what is none is left out.
pub fn lines(text: &str) -> impl Iterator<Item = CgroupLine<'_>> {
    text.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        Some(CgroupLine { controllers, path })
    })
}

/// The path of the group that governs a thread's CPUs; none where no group does.
///
/// # Errors
/// The kernel's answer.
pub fn of_thread(roots: &Roots, task: &Task) -> io::Result<Option<String>> {
    let path = roots.proc.join(format!("{}/task/{}/cgroup", task.pid, task.tid));
    let text = std::fs::read_to_string(path)?;
    // Where both versions are in use, version 1's line with cpusets comes before version 2's.
    let governs = lines(&text).find(CgroupLine::governs_cpus);
    Ok(governs.map(|line| line.path.to_owned()))
}

/// Where the groups of version 2, of both versions side by side, and of version 1's cpuset are, below the
/// root of cgroups.
pub const PLACES: [&str; 3] = ["", "unified", "cpuset"];

/// The CPUs to which cgroups limit a thread, as far as they are on line; none where no group does.
///
/// # Errors
/// The kernel's answer.
pub fn cpu_limit(roots: &Roots, task: &Task) -> io::Result<Option<CpuSet>> {
    let path = of_thread(roots, task)?.unwrap_or_default();
    // Below a group without a cpuset of its own, the next group above it that has one counts.
    let above = Path::new(path.trim_start_matches('/')).ancestors();
    let folders = above.flat_map(|path| PLACES.map(|place| roots.cgroup.join(place).join(path)));
    for folder in folders {
        let list = if_there(std::fs::metadata(folder.join("cpuset.cpus")))?;
        if list.is_some_and(|list| list.is_file()) {
            return usable_cpus(&folder);
        }
    }
    Ok(None)
}

/// Which folder this is: one that was removed and made again is another, though its path is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FolderIdentity {
    /// The inode's number. cgroup file systems count up and use no number twice.
    pub inode: u64,
    /// When it was made, in nanoseconds since 1970, where the file system tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_ns: Option<i64>,
}

impl FolderIdentity {
    /// That of the folder at a path now.
    ///
    /// # Errors
    /// The kernel's answer: there is no such folder.
    pub fn of(folder: &Path) -> io::Result<Self> {
        let facts = statx(CWD, folder, AtFlags::empty(), StatxFlags::INO | StatxFlags::BTIME)?;
        let tells = facts.stx_mask & StatxFlags::BTIME.bits() != 0;
        let since_1970 = facts.stx_btime.tv_sec.checked_mul(1_000_000_000).filter(|_| tells);
        let made_ns = since_1970.map(|ns| ns.saturating_add(facts.stx_btime.tv_nsec.into()));
        Ok(Self { inode: facts.stx_ino, made_ns })
    }
}

/// The folder of a group of version 2, by its path; none where there is none, and where groups are of version 1. The number
/// of its inode is the kernel's number of the group.
pub fn version_2_folder(roots: &Roots, path: &str) -> Option<FolderIdentity> {
    /// The kind of file system that groups of version 2 are (`CGROUP2_SUPER_MAGIC` of linux/magic.h).
    const VERSION_2: u64 = 0x6367_7270;
    let folder = roots.cgroup.join(path.trim_start_matches('/'));
    let kind = rustix::fs::statfs(&folder).ok()?.f_type;
    (kind as u64 == VERSION_2).then(|| FolderIdentity::of(&folder).ok()).flatten()
}

/// The numbers of the threads in the group of a folder; none where it has no such list.
///
/// # Errors
/// The kernel's answer, where it has the list and the list cannot be read.
pub fn threads(folder: &Path) -> io::Result<Option<Vec<u32>>> {
    for name in ["cgroup.threads", "tasks"] {
        if let Some(text) = if_there(std::fs::read_to_string(folder.join(name)))? {
            return Ok(Some(text.lines().filter_map(|line| line.trim().parse().ok()).collect()));
        }
    }
    Ok(None)
}

/// The CPUs that the group of a folder may use: what the groups above allow counts; where that is not told,
/// the group's own list. None where there is no list, or an empty one.
///
/// # Errors
/// The kernel's answer, where it has a list and the list cannot be read.
pub fn usable_cpus(folder: &Path) -> io::Result<Option<CpuSet>> {
    for name in ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"] {
        let text = if_there(std::fs::read_to_string(folder.join(name)))?;
        let cpus = text.and_then(|text| text.parse::<CpuSet>().ok());
        if cpus.as_ref().is_some_and(|cpus| !cpus.is_empty()) {
            return Ok(cpus);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group's folder elsewhere says nothing of a group of the kernel's.
    #[test]
    fn a_folder_that_is_no_group_has_no_number_of_one() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::below(folder.path());
        std::fs::create_dir_all(roots.cgroup.join("a")).unwrap();
        assert_eq!(version_2_folder(&roots, "/a"), None);
        assert_eq!(version_2_folder(&roots, "/b"), None);
    }

    #[test]
    fn lines_of_both_versions_are_told_apart() {
        let text = "0::/a/b\n7:cpuset,cpu:/x:y\n3:memory:/x\n1:name=systemd:/u.service\nnonsense\n";
        let found: Vec<_> =
            lines(text).map(|one| (one.path, one.governs_cpus(), one.is_systemds())).collect();
        let expected = [
            ("/a/b", true, true),
            ("/x:y", true, false),
            ("/x", false, false),
            ("/u.service", false, true),
        ];
        assert_eq!(found, expected);
    }
}
