//! The weights by which the kernel shares CPUs among cgroups: `cpu.weight` of version 2, `cpu.shares` of version 1 (Linux,
//! admin-guide/cgroup-v2 and scheduler/sched-design-CFS).

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::procfs::Process;
use crate::{Roots, cgroup, files};

/// The weight of a group that nobody gave one, in version 2.
const DEFAULT_WEIGHT: f64 = 100.0;
/// The same in version 1.
const DEFAULT_SHARES: f64 = 1024.0;

/// Where version 1 has the controller of CPU time, below the root of cgroups.
const PLACES_OF_VERSION_1: [&str; 2] = ["cpu", "cpu,cpuacct"];
/// Where the groups of version 2 are, below the root of cgroups.
const PLACES_OF_VERSION_2: [&str; 2] = ["", "unified"];

/// A cgroup by which CPUs are shared, or could be.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuGroup {
    /// The group's path below the root of cgroups: `/system.slice/x.service`.
    pub path: String,
    /// The file that sets the weight, which is not there where no weight is in force.
    pub file: PathBuf,
    /// Are CPUs shared by the group's weight, among it and the groups beside it? Else its threads count as the parent's.
    pub is_weighed: bool,
    /// Could it get a weight? In version 2 the controller of CPU time is there, and may not be passed on to this group.
    pub may_be_weighed: bool,
    /// The weight on the scale of version 2, where 100 is the default; none where it cannot be read.
    pub weight: Option<f64>,
}

impl CpuGroup {
    /// A weight as the group's file takes it.
    pub fn in_file(&self, weight: f64) -> String {
        let is_version_2 = self.file.ends_with("cpu.weight");
        let scale = if is_version_2 { 1.0 } else { DEFAULT_SHARES / DEFAULT_WEIGHT };
        format!("{:.0}", (weight * scale).max(1.0))
    }
}

/// The groups that a process is in, the outermost first; none where the process is gone or the kernel has no cgroups. The
/// root is none of them, since there is nothing beside it.
pub fn groups(roots: &Roots, pid: u32) -> Vec<CpuGroup> {
    let Some(text) = Process::new(roots, pid).cgroups() else { return Vec::new() };
    let lines: Vec<_> = cgroup::lines(&text).collect();
    let is_of_cpu = |controllers: &str| controllers.split(',').any(|one| one == "cpu");
    // The controller is in one hierarchy.
    if let Some(line) = lines.iter().find(|line| is_of_cpu(line.controllers)) {
        return below_root(line.path).map(|group| of_version_1(roots, &group)).collect();
    }
    let Some(line) = lines.iter().find(|line| line.controllers.is_empty()) else {
        return Vec::new();
    };
    let root = PLACES_OF_VERSION_2.map(|place| roots.cgroup.join(place)).into_iter();
    let Some(root) = root.into_iter().find(|root| root.join("cgroup.controllers").is_file()) else {
        return Vec::new();
    };
    // The root of a container's view may be a group like any other.
    let outermost = of_version_2(&root, Path::new("/"));
    let is_inside = outermost.is_weighed;
    let inner = below_root(line.path).map(|group| of_version_2(&root, &group));
    Some(outermost).filter(|_| is_inside).into_iter().chain(inner).collect()
}

/// The groups of a path, the outermost first, without the root.
fn below_root(path: &str) -> impl Iterator<Item = PathBuf> {
    let groups = Path::new(path).ancestors().filter(|group| *group != Path::new("/"));
    let mut groups: Vec<PathBuf> = groups.map(Path::to_owned).collect();
    groups.reverse();
    groups.into_iter()
}

fn folder_of(root: &Path, group: &Path) -> PathBuf {
    root.join(group.strip_prefix("/").unwrap_or(group))
}

/// Every group of the hierarchy has a weight, also one whose files are outside of this view.
fn of_version_1(roots: &Roots, group: &Path) -> CpuGroup {
    let files = PLACES_OF_VERSION_1
        .map(|place| folder_of(&roots.cgroup.join(place), group).join("cpu.shares"));
    let [first, _] = &files;
    let file = files.iter().find(|file| file.is_file());
    let shares = file.and_then(|file| files::number::<f64>(file));
    CpuGroup {
        path: group.display().to_string(),
        file: file.unwrap_or(first).clone(),
        is_weighed: true,
        may_be_weighed: file.is_some(),
        weight: shares.map(|shares| shares * DEFAULT_WEIGHT / DEFAULT_SHARES),
    }
}

fn of_version_2(root: &Path, group: &Path) -> CpuGroup {
    let folder = folder_of(root, group);
    let file = folder.join("cpu.weight");
    let weight = files::number(&file);
    let controllers = folder.parent().and_then(|one| files::text(&one.join("cgroup.controllers")));
    let has_controller = |text: String| text.split_ascii_whitespace().any(|one| one == "cpu");
    CpuGroup {
        path: group.display().to_string(),
        is_weighed: weight.is_some(),
        may_be_weighed: weight.is_some() || controllers.is_some_and(has_controller),
        weight,
        file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup_tree::tree;

    /// What matters of each group: its path, its weight, whether it is weighed and whether it may be.
    fn found(roots: &Roots) -> Vec<(String, Option<f64>, bool, bool)> {
        let of = |one: CpuGroup| (one.path, one.weight, one.is_weighed, one.may_be_weighed);
        groups(roots, 7).into_iter().map(of).collect()
    }

    /// The controller is passed on to the slice and not to its units.
    #[test]
    fn groups_of_version_2_are_weighed_where_the_controller_is_passed_on() {
        let (_folder, roots) = tree(
            "0::/a.slice/b.service\n",
            &[
                ("cgroup.controllers", "cpuset cpu io memory\n"),
                ("a.slice/cpu.weight", "200\n"),
                ("a.slice/cgroup.controllers", "cpu memory\n"),
                ("a.slice/b.service/cgroup.controllers", "memory\n"),
            ],
        );
        let expected = [
            ("/a.slice".to_owned(), Some(200.0), true, true),
            ("/a.slice/b.service".to_owned(), None, false, true),
        ];
        assert_eq!(found(&roots), expected);
        let groups = groups(&roots, 7);
        assert_eq!(groups[0].file, roots.cgroup.join("a.slice/cpu.weight"));
        assert_eq!(groups[0].in_file(10.0), "10");
        assert_eq!(super::groups(&roots, 8), []);
    }

    #[test]
    fn where_the_controller_is_missing_no_group_can_be_weighed() {
        let (_folder, roots) =
            tree("0::/a.slice\n", &[("cgroup.controllers", "cpuset memory\n"), ("a.slice/x", "")]);
        assert_eq!(found(&roots), [("/a.slice".to_owned(), None, false, false)]);
    }

    /// What a container takes for the root has a weight, which the real root has not.
    #[test]
    fn the_root_of_a_container_s_view_is_a_group() {
        let (_folder, roots) =
            tree("0::/\n", &[("cgroup.controllers", "cpu memory\n"), ("cpu.weight", "79\n")]);
        assert_eq!(found(&roots), [("/".to_owned(), Some(79.0), true, true)]);
    }

    #[test]
    fn groups_of_version_1_have_shares() {
        let (_folder, roots) = tree(
            "4:memory:/m\n3:cpu,cpuacct:/x/y\n0::/z\n",
            &[("cpu,cpuacct/x/cpu.shares", "2048\n"), ("unified/cgroup.controllers", "\n")],
        );
        let expected =
            [("/x".to_owned(), Some(200.0), true, true), ("/x/y".to_owned(), None, true, false)];
        assert_eq!(found(&roots), expected);
        let groups = groups(&roots, 7);
        assert_eq!(groups[0].file, roots.cgroup.join("cpu,cpuacct/x/cpu.shares"));
        assert_eq!(groups[0].in_file(10.0), "102");
        let (_folder, roots) = tree("1:cpu:/\n0::/\n", &[]);
        assert_eq!(found(&roots), []);
    }
}
