//! Pods' monitoring groups in a resctrl that the running kernel mounts: the tests' own file system, which keeps and
//! refuses what the kernel does.

use std::path::Path;
use std::process::{Child, Command};

use corun_fleet::{PodGroups, PodMonitor};
use corun_linux::Roots;

use crate::kernel::Kernel;
use crate::mounted::Mounted;

const UIDS: [&str; 2] = ["0a1b2c3d-1111", "0a1b2c3d-2222"];

/// Programs whose threads can be put into groups; they end with the test.
struct Sleepers(Vec<Child>);

impl Sleepers {
    fn new(count: usize) -> Self {
        let start = |_| Command::new("sleep").arg("60").spawn().unwrap();
        Self((0..count).map(start).collect())
    }

    fn threads(&self) -> Vec<u32> {
        self.0.iter().map(Child::id).collect()
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for one in &mut self.0 {
            let _ = one.kill();
            let _ = one.wait();
        }
    }
}

/// A list of threads as the kernel writes it.
fn list(threads: &[u32]) -> String {
    let mut threads = threads.to_vec();
    threads.sort_unstable();
    threads.iter().map(|one| format!("{one}\n")).collect()
}

/// The group of a pod, with a thread in a container's group below it.
fn pod(cgroup: &Path, uid: &str, threads: &str) {
    let folder = cgroup.join(format!("kubepods/burstable/pod{uid}/container"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("cgroup.threads"), threads).unwrap();
}

#[test]
fn each_pod_has_a_group_while_it_runs() {
    let sleepers = Sleepers::new(4);
    let threads = sleepers.threads();
    let (first_pods, second_pods) = (list(&threads[..2]), list(&threads[2..3]));
    // A thread holds 4 MiB in each of the two caches, and has moved 100 MB in each.
    let counted = Box::new(|threads: &std::collections::BTreeSet<u32>, _| {
        (threads.len() as u64 * (4 << 20), threads.len() as u64 * 100_000_000)
    });
    let Some(mounted) = Mounted::new(Kernel::new(&threads, counted)) else { return };
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots { resctrl: mounted.path().to_owned(), ..Roots::below(folder.path()) };
    pod(&roots.cgroup, UIDS[0], &first_pods);
    pod(&roots.cgroup, UIDS[1], &second_pods);
    let group = |uid: &str| roots.resctrl.join(format!("mon_groups/corun-pod-{uid}"));
    let tasks = |uid: &str| std::fs::read_to_string(group(uid).join("tasks")).unwrap();
    // What an agent before this one left, and a group of somebody else's.
    std::fs::create_dir(group("0a1b2c3d-9999")).unwrap();
    std::fs::create_dir(roots.resctrl.join("mon_groups/theirs")).unwrap();

    let mut monitor = PodMonitor::new(&roots).unwrap();
    assert!(!group("0a1b2c3d-9999").exists() && roots.resctrl.join("mon_groups/theirs").exists());
    let (first, outcome) = monitor.look(&UIDS, &PodGroups::find(&roots), 0.0);
    outcome.unwrap();
    assert_eq!((tasks(UIDS[0]), tasks(UIDS[1])), (first_pods, second_pods));
    assert_eq!((first[UIDS[0]].llc_mib, first[UIDS[0]].mb_per_s), (Some(16.0), None));
    let (second, outcome) = monitor.look(&UIDS, &PodGroups::find(&roots), 10.0);
    outcome.unwrap();
    assert_eq!(second[UIDS[1]].mb_per_s, Some(0.0));

    // Somebody gives a thread a part of the cache: it keeps that, and the pod's figures are not known any more.
    std::fs::create_dir(roots.resctrl.join("gold")).unwrap();
    std::fs::write(roots.resctrl.join("gold/tasks"), list(&threads[..1])).unwrap();
    let (third, outcome) = monitor.look(&UIDS, &PodGroups::find(&roots), 20.0);
    outcome.unwrap();
    assert_eq!(third.keys().collect::<Vec<_>>(), [UIDS[1]]);
    let gold = std::fs::read_to_string(roots.resctrl.join("gold/tasks")).unwrap();
    assert_eq!(gold, list(&threads[..1]));

    // A pod is gone; then the agent is.
    let (fourth, outcome) = monitor.look(&UIDS[1..], &PodGroups::find(&roots), 30.0);
    outcome.unwrap();
    assert_eq!(fourth.len(), 1);
    assert!(!group(UIDS[0]).exists() && group(UIDS[1]).exists());
    drop(monitor);
    assert!(!group(UIDS[1]).exists() && roots.resctrl.join("mon_groups/theirs").exists());
}

#[test]
fn without_a_monitor_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    assert!(PodMonitor::new(&Roots::below(folder.path())).is_err());
}

/// The hardware counts a limited number of groups.
#[test]
fn pods_beyond_what_the_hardware_counts_are_told() {
    let sleepers = Sleepers::new(2);
    let threads = sleepers.threads();
    let mut kernel = Kernel::new(&threads, Box::new(|_, _| (0, 0)));
    // The root's, and one more.
    kernel.num_rmids = 2;
    let Some(mounted) = Mounted::new(kernel) else { return };
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots { resctrl: mounted.path().to_owned(), ..Roots::below(folder.path()) };
    pod(&roots.cgroup, UIDS[0], &list(&threads[..1]));
    pod(&roots.cgroup, UIDS[1], &list(&threads[1..]));
    let mut monitor = PodMonitor::new(&roots).unwrap();
    let (found, outcome) = monitor.look(&UIDS, &PodGroups::find(&roots), 0.0);
    assert!(outcome.is_err());
    assert_eq!(found.keys().collect::<Vec<_>>(), [UIDS[0]]);
}
