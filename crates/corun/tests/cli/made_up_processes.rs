//! Pods' groups and processes as the kernel would show them, in a folder.

use std::path::Path;

/// Kubernetes' number of a pod.
pub(super) fn uid(number: u32) -> String {
    format!("0a1b2c3d-{number}")
}

/// The group of a pod has had so much CPU time.
pub(super) fn has_run(root: &Path, number: u32, cpu_s: u64) {
    let group = root.join(format!("sys/fs/cgroup/kubepods/pod{}", uid(number)));
    std::fs::create_dir_all(&group).unwrap();
    std::fs::write(group.join("cpu.stat"), format!("usage_usec {}\n", cpu_s * 1_000_000)).unwrap();
}

/// A process of one thread in the group of a pod, on a CPU for all of `cpu_s` seconds.
pub(super) fn process(root: &Path, number: u32, cpu: u32, cpu_s: u64) {
    let pid = 100 + number;
    let folder = root.join(format!("proc/{pid}"));
    let thread = folder.join(format!("task/{pid}"));
    std::fs::create_dir_all(&thread).unwrap();
    let group = format!("0::/kubepods/pod{}\n", uid(number));
    std::fs::write(folder.join("cgroup"), group).unwrap();
    std::fs::write(folder.join("cmdline"), "x\0").unwrap();
    let status = "Name:\tx\nUid:\t0\t0\t0\t0\nCpus_allowed_list:\t0-7\n";
    let stat = format!(
        "{pid} (x) R 1 1 1 0 -1 4194304 1 0 0 0 70 30 0 0 20 0 1 0 70 3133440 408 18446744073709551615 1 1 1 0 0 0 \
         0 0 0 0 0 0 17 {cpu} 0 0 0 0 0 1 1 1 1 1 1 1 0\n"
    );
    for folder in [&folder, &thread] {
        std::fs::write(folder.join("stat"), &stat).unwrap();
        std::fs::write(folder.join("status"), status).unwrap();
        let schedstat = format!("{} 7 3\n", cpu_s * 1_000_000_000);
        std::fs::write(folder.join("schedstat"), schedstat).unwrap();
    }
}
