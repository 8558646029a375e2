//! What this process may use of the machine: in a container, a cpuset or a job it is less than there is.

use std::fmt;

use corun_machine::CpuSet;
use serde::Serialize;

use crate::cpu_quota::quotas_of;
use crate::procfs::Process;
use crate::sysfs::online_cpus;
use crate::{Roots, cgroup, files};

/// What this process may use of what there is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reach {
    /// CPUs that it may run on.
    pub cpus: CpuSet,
    /// CPUs that are on line.
    pub of_cpus: CpuSet,
    /// NUMA nodes that it may take memory from, by the kernel's numbers; none where the kernel does not say.
    pub nodes: Option<CpuSet>,
    /// NUMA nodes that are on line; likewise.
    pub of_nodes: Option<CpuSet>,
    /// CPU time that its cgroups allow, in CPUs; none without a limit.
    pub cpu_time: Option<f64>,
    /// Its cgroup; none in the root of all.
    pub cgroup: Option<String>,
    /// The Slurm job that it belongs to.
    pub slurm_job: Option<String>,
}

impl Reach {
    /// What the kernel says of this process; none where it does not.
    pub fn of_self(roots: &Roots) -> Option<Self> {
        let process = Process::of_self(roots);
        let of_cpus = online_cpus(roots).ok()?;
        let nodes = files::text(&roots.sys.join("devices/system/node/online"));
        let text = process.cgroups();
        let own = text.as_deref().and_then(|text| {
            cgroup::lines(text).find(|line| line.governs_cpus()).map(|line| line.path)
        });
        let job = std::env::var("SLURM_JOB_ID").ok().filter(|_| roots.are_here());
        Some(Self {
            cpus: process.allowed_cpus()?.intersection(&of_cpus),
            of_cpus,
            nodes: process.allowed_nodes(),
            of_nodes: nodes.and_then(|text| text.parse().ok()),
            cpu_time: text.as_deref().and_then(|text| cpu_time(roots, text)),
            cgroup: own.filter(|path| *path != "/").map(str::to_owned),
            slurm_job: job.filter(|job| job.bytes().all(|byte| byte.is_ascii_digit())),
        })
    }

    /// May it use less than there is?
    pub fn is_limited(&self) -> bool {
        let fewer_nodes = |(some, all): (&CpuSet, &CpuSet)| !all.is_subset(some);
        !self.of_cpus.is_subset(&self.cpus)
            || self.nodes.as_ref().zip(self.of_nodes.as_ref()).is_some_and(fewer_nodes)
            || self.cpu_time.is_some_and(|cpus| cpus < self.cpus.len() as f64)
    }
}

/// The least CPU time that its cgroups of these lines allow, in CPUs.
fn cpu_time(roots: &Roots, lines: &str) -> Option<f64> {
    quotas_of(roots, lines).iter().map(|quota| quota.cpus).min_by(f64::total_cmp)
}

/// `CPUs 0-1 of 0-7, memory of nodes 0 of 0-1, CPU time of 1.5 CPUs (cgroup /a, Slurm job 7)`; nodes where not all
/// may be used, CPU time where it is limited.
impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.cpus.in_words(), self.of_cpus)?;
        if let (Some(nodes), Some(all)) = (&self.nodes, &self.of_nodes)
            && !all.is_subset(nodes)
        {
            write!(f, ", memory of nodes {} of {all}", nodes.intersection(all))?;
        }
        if let Some(cpus) = self.cpu_time {
            write!(f, ", CPU time of {cpus:.1} CPUs")?;
        }
        let cgroup = self.cgroup.as_ref().map(|path| format!("cgroup {path}"));
        let job = self.slurm_job.as_ref().map(|job| format!("Slurm job {job}"));
        let holders: Vec<String> = cgroup.into_iter().chain(job).collect();
        if holders.is_empty() { Ok(()) } else { write!(f, " ({})", holders.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let folder = tempfile::tempdir().unwrap();
        let whole = [
            ("sys/devices/system/cpu/online", "0-7\n"),
            ("sys/devices/system/node/online", "0-1\n"),
            ("proc/self/status", "Cpus_allowed_list:\t0-63\nMems_allowed_list:\t0-1\n"),
            ("proc/self/cgroup", "0::/\n"),
        ];
        for (path, text) in whole.iter().chain(files) {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let roots = Roots::below(folder.path());
        (folder, roots)
    }

    #[test]
    fn a_process_that_may_use_all_is_not_limited() {
        let (_folder, roots) = machine(&[("sys/fs/cgroup/cpu.max", "max 100000\n")]);
        let reach = Reach::of_self(&roots).unwrap();
        assert!(!reach.is_limited());
        assert_eq!(reach.to_string(), "CPUs 0-7 of 0-7");
    }

    #[test]
    fn a_container_is_told_from_the_machine() {
        let (_folder, roots) = machine(&[
            ("proc/self/status", "Cpus_allowed_list:\t2-3\nMems_allowed_list:\t0\n"),
            ("proc/self/cgroup", "0::/box/inner\n"),
            ("sys/fs/cgroup/box/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/box/cpu.stat", "nr_periods 9\nnr_throttled 0\nthrottled_usec 0\n"),
            ("sys/fs/cgroup/box/inner/cpu.max", "max 100000\n"),
        ]);
        let reach = Reach::of_self(&roots).unwrap();
        assert!(reach.is_limited());
        let text =
            "CPUs 2-3 of 0-7, memory of nodes 0 of 0-1, CPU time of 1.5 CPUs (cgroup /box/inner)";
        assert_eq!(reach.to_string(), text);
    }

    /// As in most containers with cgroups of version 1: the controllers are in hierarchies of their own.
    #[test]
    fn version_1_limits_time_as_well() {
        for hierarchies in ["7:cpuset,cpu:/job\n", "7:cpuset:/\n6:cpu,cpuacct:/job\n0::/\n"] {
            let (_folder, roots) = machine(&[
                ("proc/self/cgroup", hierarchies),
                ("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "50000\n"),
                ("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n"),
                (
                    "sys/fs/cgroup/cpu/job/cpu.stat",
                    "nr_periods 9\nnr_throttled 0\nthrottled_time 0\n",
                ),
            ]);
            let reach = Reach::of_self(&roots).unwrap();
            assert!(reach.is_limited());
            assert_eq!(reach.cpu_time, Some(0.5), "{hierarchies}");
        }
    }
}
