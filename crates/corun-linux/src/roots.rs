//! Where the kernel's file systems are.

use std::path::{Path, PathBuf};

/// The file systems through which the kernel is read and told; tests put folders of their own in
/// their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
    /// Where cgroups are mounted: `/sys/fs/cgroup`.
    pub cgroup: PathBuf,
    /// Where resctrl is mounted: `/sys/fs/resctrl`.
    pub resctrl: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
            sys: "/sys".into(),
            cgroup: "/sys/fs/cgroup".into(),
            resctrl: "/sys/fs/resctrl".into(),
        }
    }
}

impl Roots {
    /// Those of a captured tree: a folder with `proc/` and `sys/` in it.
    pub fn below(folder: &Path) -> Self {
        Self {
            proc: folder.join("proc"),
            sys: folder.join("sys"),
            cgroup: folder.join("sys/fs/cgroup"),
            resctrl: folder.join("sys/fs/resctrl"),
        }
    }

    /// Are they those of this machine? Else nothing may be tried with system calls.
    pub fn are_here(&self) -> bool {
        *self == Self::default()
    }
}
