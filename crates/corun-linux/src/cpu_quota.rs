//! The CPU time that a cgroup may use, and how long it was held back for it: `cpu.max` and `cpu.stat` of version 2,
//! `cpu.cfs_quota_us`, `cpu.cfs_period_us` and `cpu.stat` of version 1 (Linux, admin-guide/cgroup-v2 and
//! scheduler/sched-bwc).

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::procfs::Process;
use crate::{Roots, cgroup, files};

/// A group with a quota, and what the quota has done since the group was made.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuQuota {
    /// The group's path below the root of cgroups: `/system.slice/x.service`.
    pub group: String,
    /// The file that sets the quota.
    pub file: PathBuf,
    /// The most CPUs that the group's threads use together, on average over a period.
    pub cpus: f64,
    /// The period, in microseconds.
    pub period_us: f64,
    /// Periods in which the group wanted to run.
    pub periods: u64,
    /// Periods of these in which the group was held back.
    pub throttled_periods: u64,
    /// How long its CPUs were held back, all of them together.
    pub throttled: Duration,
}

/// Where version 1 has the controller of CPU time, below the root of cgroups.
const PLACES_OF_VERSION_1: [&str; 2] = ["cpu", "cpu,cpuacct"];

/// The quotas that hold for a process: those of its group and of the groups above, the innermost first. None where no
/// group has one, or the process is gone.
pub fn quotas(roots: &Roots, pid: u32) -> Vec<CpuQuota> {
    let text = Process::new(roots, pid).cgroups();
    text.map_or_else(Vec::new, |text| quotas_of(roots, &text))
}

/// As [`quotas`], by the lines of `/proc/PID/cgroup`.
pub(crate) fn quotas_of(roots: &Roots, lines: &str) -> Vec<CpuQuota> {
    let mut found = Vec::new();
    for line in cgroup::lines(lines) {
        let places: &[&str] = match line.controllers {
            "" => &["", "unified"],
            other if other.split(',').any(|one| one == "cpu") => &PLACES_OF_VERSION_1,
            _ => continue,
        };
        for group in Path::new(line.path).ancestors() {
            let below = group.strip_prefix("/").unwrap_or(group);
            let folders = places.iter().map(|place| roots.cgroup.join(place).join(below));
            found.extend(folders.filter_map(|folder| quota(&folder, group)).next());
        }
    }
    found
}

/// The folders of a process's group of version 2 and of those above, but for the root, the innermost first.
pub fn groups_of_version_2(roots: &Roots, pid: u32) -> Vec<PathBuf> {
    let Some(text) = Process::new(roots, pid).cgroups() else { return Vec::new() };
    let Some(own) = cgroup::lines(&text).find(|line| line.controllers.is_empty()) else {
        return Vec::new();
    };
    let groups = Path::new(own.path).ancestors().filter(|group| *group != Path::new("/"));
    let below = groups.filter_map(|group| group.strip_prefix("/").ok());
    below
        .filter_map(|group| {
            let mut folders =
                ["", "unified"].map(|place| roots.cgroup.join(place).join(group)).into_iter();
            folders.find(|folder| folder.is_dir())
        })
        .collect()
}

fn quota(folder: &Path, group: &Path) -> Option<CpuQuota> {
    let of_version_2 = folder.join("cpu.max");
    let (file, quota_us, period_us): (PathBuf, f64, f64) = match files::text(&of_version_2) {
        Some(max) => {
            let (quota, period) = max.split_once(' ')?;
            (of_version_2, quota.parse().ok()?, period.parse().ok()?)
        }
        None => {
            let file = folder.join("cpu.cfs_quota_us");
            let quota = files::number(&file)?;
            (file, quota, files::number(&folder.join("cpu.cfs_period_us"))?)
        }
    };
    let cpus = quota_us / period_us;
    // -1 stands for no quota in version 1, `max` in version 2.
    if !(cpus > 0.0 && cpus.is_finite()) {
        return None;
    }
    let stat = files::text(&folder.join("cpu.stat"))?;
    let field = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse::<u64>().ok()
    };
    let throttled = match field("throttled_usec") {
        Some(us) => Duration::from_micros(us),
        None => Duration::from_nanos(field("throttled_time")?),
    };
    Some(CpuQuota {
        group: group.display().to_string(),
        file,
        cpus,
        period_us,
        periods: field("nr_periods")?,
        throttled_periods: field("nr_throttled")?,
        throttled,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup_tree::tree;

    #[test]
    fn quotas_of_version_2_hold_from_the_inside_out() {
        let (_folder, roots) = tree(
            "0::/a.slice/b.service\n",
            &[
                ("a.slice/b.service/cpu.max", "max 100000\n"),
                ("a.slice/cpu.max", "50000 100000\n"),
                (
                    "a.slice/cpu.stat",
                    "usage_usec 9\nnr_periods 40\nnr_throttled 30\nthrottled_usec 2500\n",
                ),
            ],
        );
        let expected = CpuQuota {
            group: "/a.slice".to_owned(),
            file: roots.cgroup.join("a.slice/cpu.max"),
            cpus: 0.5,
            period_us: 100_000.0,
            periods: 40,
            throttled_periods: 30,
            throttled: Duration::from_micros(2500),
        };
        assert_eq!(quotas(&roots, 7), [expected]);
        assert_eq!(quotas(&roots, 8), []);
        let groups = groups_of_version_2(&roots, 7);
        let expected = ["a.slice/b.service", "a.slice"].map(|group| roots.cgroup.join(group));
        assert_eq!(groups, expected);
    }

    #[test]
    fn quotas_of_version_1_are_in_the_hierarchy_of_cpu_time() {
        let (_folder, roots) = tree(
            "4:memory:/m\n3:cpu,cpuacct:/x\n0::/\n",
            &[
                ("cpu,cpuacct/x/cpu.cfs_quota_us", "20000\n"),
                ("cpu,cpuacct/x/cpu.cfs_period_us", "10000\n"),
                ("cpu,cpuacct/x/cpu.stat", "nr_periods 4\nnr_throttled 3\nthrottled_time 7000\n"),
                ("cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
                ("cpu,cpuacct/cpu.cfs_period_us", "10000\n"),
            ],
        );
        let found = quotas(&roots, 7);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].group.as_str(), found[0].cpus), ("/x", 2.0));
        assert_eq!(found[0].file, roots.cgroup.join("cpu,cpuacct/x/cpu.cfs_quota_us"));
        assert_eq!(found[0].throttled, Duration::from_micros(7));
    }
}
