//! The pods' groups as the kubelet made them, and how many CPUs each pod keeps busy.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use corun_linux::{Roots, cgroup, workload};

/// Where hierarchies with the pods' groups are below the root of cgroups: version 2, both versions side by side, and
/// version 1's that count CPU time.
const HIERARCHIES: [&str; 5] = ["", "unified", "cpuacct", "cpu,cpuacct", "cpu"];
/// Folders that the kubelet has between the root and a pod's own: at most `kubelet`, `kubepods` and the class.
const MOST_LEVELS: usize = 4;
/// Load is the mean over the last so many seconds.
const WINDOW_S: f64 = 60.0;
/// And is not told before so many have been seen.
const LEAST_S: f64 = 20.0;

/// The groups of a node's pods, by the pods' numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodGroups(BTreeMap<String, PodGroup>);

#[derive(Debug, Clone, PartialEq)]
struct PodGroup {
    /// Its path as `/proc/PID/cgroup` has it.
    path: String,
    /// Its folders, one in each hierarchy that has it.
    folders: Vec<PathBuf>,
}

impl PodGroups {
    /// Those that there are now.
    pub fn find(roots: &Roots) -> Self {
        let mut own = Self::default();
        for hierarchy in HIERARCHIES {
            let root = roots.cgroup.join(hierarchy);
            own.look_into(&root, &root, MOST_LEVELS);
        }
        own
    }

    fn look_into(&mut self, root: &Path, folder: &Path, levels: usize) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.filter(|one| one.file_type().is_ok_and(|kind| kind.is_dir())) {
            let (path, name) = (entry.path(), entry.file_name());
            let Some(name) = name.to_str() else { continue };
            if let Some(uid) = workload::pod_uid(name) {
                let Ok(below) = path.strip_prefix(root) else { continue };
                let first = || PodGroup { path: format!("/{}", below.display()), folders: vec![] };
                self.0.entry(uid).or_insert_with(first).folders.push(path);
            } else if levels > 0 && is_kubelets(name) {
                self.look_into(root, &path, levels - 1);
            }
        }
    }

    /// The path of a pod's group, as `/proc/PID/cgroup` has it.
    pub fn path(&self, uid: &str) -> Option<&str> {
        self.0.get(uid).map(|one| one.path.as_str())
    }

    /// The threads of a pod and of the containers in it.
    pub(crate) fn threads(&self, uid: &str) -> Vec<u32> {
        let mut found = Vec::new();
        let mut folders = self.0.get(uid).map(|one| one.folders.clone()).unwrap_or_default();
        while let Some(folder) = folders.pop() {
            found.extend(cgroup::threads(&folder).ok().flatten().unwrap_or_default());
            let below = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            let below = below.filter(|one| one.file_type().is_ok_and(|kind| kind.is_dir()));
            folders.extend(below.map(|one| one.path()));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The numbers of the pods that have a group.
    pub(crate) fn uids(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Seconds of CPU time that a pod has had.
    fn cpu_s(&self, uid: &str) -> Option<f64> {
        self.0.get(uid)?.folders.iter().find_map(|folder| cpu_s(folder))
    }
}

/// A folder that the kubelet puts pods' groups into, by either of its drivers.
fn is_kubelets(name: &str) -> bool {
    let name = name.strip_suffix(".slice").unwrap_or(name);
    ["kubepods", "kubelet"].iter().any(|start| name.starts_with(start))
        || ["burstable", "besteffort"].contains(&name)
}

/// Seconds of CPU time that a group has had: `usage_usec` of version 2, nanoseconds of version 1.
fn cpu_s(folder: &Path) -> Option<f64> {
    if let Ok(text) = std::fs::read_to_string(folder.join("cpuacct.usage")) {
        return text.trim().parse::<u64>().ok().map(|ns| ns as f64 / 1e9);
    }
    let text = std::fs::read_to_string(folder.join("cpu.stat")).ok()?;
    let us = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    us.trim().parse::<u64>().ok().map(|us| us as f64 / 1e6)
}

/// How many CPUs each pod keeps busy, by looks at the CPU time that it has had.
#[derive(Debug, Clone, Default)]
pub struct PodLoads {
    /// When each look was, in seconds, and the CPU time of each pod then.
    looks: VecDeque<(f64, BTreeMap<String, f64>)>,
}

impl PodLoads {
    /// Looks now, at `now_s` of a clock that does not jump. Gives CPUs by pod, in the mean over the last minute, of
    /// the pods that have been there for 20 s.
    pub fn look(&mut self, groups: &PodGroups, now_s: f64) -> BTreeMap<String, f64> {
        let times = groups.uids().filter_map(|uid| Some((uid.to_owned(), groups.cpu_s(uid)?)));
        self.looks.push_back((now_s, times.collect()));
        while self.looks.len() > 2 && self.looks[1].0 <= now_s - WINDOW_S {
            self.looks.pop_front();
        }
        self.since(LEAST_S)
    }

    /// CPUs by pod between the first look that had it and the last, where they are `least_s` apart.
    fn since(&self, least_s: f64) -> BTreeMap<String, f64> {
        let Some((now_s, last)) = self.looks.back() else { return BTreeMap::new() };
        let cpus = |(uid, cpu_s): (&String, &f64)| {
            let (then_s, before) = self.looks.iter().find_map(|(at_s, looks)| {
                Some((at_s, looks.get(uid)?)).filter(|(_, before)| *before <= cpu_s)
            })?;
            let wall_s = now_s - then_s;
            (wall_s >= least_s && wall_s > 0.0).then(|| (uid.clone(), (cpu_s - before) / wall_s))
        };
        last.iter().filter_map(cpus).collect()
    }

    /// Looks twice, `seconds` apart. For a single report.
    pub fn measure(roots: &Roots, seconds: f64) -> BTreeMap<String, f64> {
        let (mut own, began) = (Self::default(), std::time::Instant::now());
        own.look(&PodGroups::find(roots), 0.0);
        std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
        own.look(&PodGroups::find(roots), began.elapsed().as_secs_f64());
        own.since(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEMD: &str =
        "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_1111.slice";
    const CGROUPFS: &str = "kubepods/besteffort/pod0a1b2c3d-2222";
    const GUARANTEED: &str =
        "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod0a1b2c3d_3333.slice";

    fn write(root: &Path, group: &str, file: &str, text: &str) {
        std::fs::create_dir_all(root.join(group)).unwrap();
        std::fs::write(root.join(group).join(file), text).unwrap();
    }

    #[test]
    fn groups_of_both_drivers_and_versions_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::below(folder.path());
        for group in [SYSTEMD, "system.slice/pod.service", "user.slice/kubepods/pod0a1b2c3d-9999"] {
            write(&roots.cgroup, group, "cpu.stat", "usage_usec 5000000\nuser_usec 1\n");
        }
        write(&roots.cgroup, GUARANTEED, "cgroup.threads", "7\n9\n");
        write(&roots.cgroup, &format!("{GUARANTEED}/cri-x.scope"), "cgroup.threads", "8\n");
        write(&roots.cgroup.join("cpuacct"), CGROUPFS, "cpuacct.usage", "3000000000\n");
        let groups = PodGroups::find(&roots);
        let uids: Vec<&str> = groups.uids().collect();
        assert_eq!(uids, ["0a1b2c3d-1111", "0a1b2c3d-2222", "0a1b2c3d-3333"]);
        assert_eq!(groups.path("0a1b2c3d-1111").unwrap(), format!("/{SYSTEMD}"));
        assert_eq!(groups.path("0a1b2c3d-2222").unwrap(), format!("/{CGROUPFS}"));
        assert_eq!(groups.threads("0a1b2c3d-3333"), [7, 8, 9]);
        assert_eq!(groups.cpu_s("0a1b2c3d-1111"), Some(5.0));
        assert_eq!(groups.cpu_s("0a1b2c3d-2222"), Some(3.0));
    }

    /// 1.5 CPUs, then none: the mean of a minute follows, and nothing is said before 20 s.
    #[test]
    fn load_is_the_mean_of_the_last_minute() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::below(folder.path());
        let mut loads = PodLoads::default();
        let mut at = |now_s: u32, cpu_s: f64| {
            let text = format!("usage_usec {}\n", (cpu_s * 1e6) as u64);
            write(&roots.cgroup, SYSTEMD, "cpu.stat", &text);
            loads.look(&PodGroups::find(&roots), f64::from(now_s)).get("0a1b2c3d-1111").copied()
        };
        assert_eq!((at(0, 100.0), at(10, 115.0)), (None, None));
        assert_eq!(at(20, 130.0), Some(1.5));
        assert_eq!(at(60, 190.0), Some(1.5));
        assert_eq!(at(90, 190.0), Some((190.0 - 130.0) / 70.0));
        assert_eq!(at(160, 190.0), Some(0.0));
        // Its CPU time starts anew: the group was removed and made again.
        assert_eq!(at(170, 1.0), None);
        assert_eq!(at(200, 31.0), Some(1.0));
    }
}
