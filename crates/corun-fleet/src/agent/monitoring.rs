//! Monitoring groups of resctrl, one for each pod: how much of the last-level caches it holds, and its memory traffic.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use corun_linux::resctrl::{groups_by_task, is_removed, occupancy_bytes, total_bytes_by_cache};
use corun_linux::{Roots, if_there};

use super::PodGroups;

/// What the names of the agent's own groups begin with; it makes and removes no others.
const OURS: &str = "corun-pod-";

/// What a pod's group says.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CacheUse {
    /// MiB of the last-level caches that hold the pod's lines.
    pub llc_mib: Option<f64>,
    /// Memory traffic since the look before.
    pub mb_per_s: Option<f64>,
}

/// Makes a monitoring group for each pod, reads it, and removes it when the pod is gone.
///
/// Only threads in resctrl's root group are put into a pod's: a thread in a control group has a part of the cache that
/// somebody gave it, and would lose it.
#[derive(Debug)]
pub struct PodMonitor {
    roots: Roots,
    traffic: BTreeMap<String, (f64, u64)>,
}

impl PodMonitor {
    /// Ready to monitor; groups that an agent before this one left behind are removed.
    ///
    /// # Errors
    /// Resctrl is not mounted, or this machine monitors no cache.
    pub fn new(roots: &Roots) -> io::Result<Self> {
        std::fs::metadata(roots.resctrl.join("info/L3_MON"))?;
        let own = Self { roots: roots.clone(), traffic: BTreeMap::new() };
        own.remove_all_but(&BTreeSet::new())?;
        Ok(own)
    }

    fn folder(&self) -> PathBuf {
        self.roots.resctrl.join("mon_groups")
    }

    /// Looks at these pods now, at `now_s` of a clock that does not jump. What a group cannot tell is absent.
    ///
    /// # Errors
    /// A group cannot be made, filled or removed, such as when the hardware has no number left for one. What was
    /// possible is done.
    pub fn look(
        &mut self,
        pods: &[&str],
        groups: &PodGroups,
        now_s: f64,
    ) -> (BTreeMap<String, CacheUse>, io::Result<()>) {
        let mut outcome = self.remove_all_but(&pods.iter().copied().collect());
        self.traffic.retain(|uid, _| pods.contains(&uid.as_str()));
        let of_task = groups_by_task(&self.roots);
        let mut found = BTreeMap::new();
        for uid in pods {
            let folder = self.folder().join(format!("{OURS}{uid}"));
            let threads = groups.threads(uid);
            if threads.is_empty() {
                continue;
            }
            if let Err(error) = made(&folder).and_then(|()| {
                let loose =
                    threads.iter().filter(|one| of_task.get(one) == Some(&self.roots.resctrl));
                loose.copied().try_for_each(|thread| filled(&folder, thread))
            }) {
                outcome = outcome.and(Err(error));
                continue;
            }
            // What part of its threads does is not what the pod does.
            let all_here = threads.iter().all(|one| {
                of_task
                    .get(one)
                    .is_none_or(|group| *group == folder || *group == self.roots.resctrl)
            });
            if !all_here {
                self.traffic.remove(*uid);
                continue;
            }
            let bytes =
                total_bytes_by_cache(&folder).map(|by_cache| by_cache.values().sum::<u64>());
            let before = match bytes {
                Some(bytes) => self.traffic.insert((*uid).to_owned(), (now_s, bytes)),
                None => self.traffic.remove(*uid),
            };
            let mb_per_s = before.zip(bytes).and_then(|((then_s, before), bytes)| {
                let more = bytes.checked_sub(before)?;
                (now_s > then_s).then(|| more as f64 / 1e6 / (now_s - then_s))
            });
            let llc_mib = occupancy_bytes(&folder).map(|bytes| bytes as f64 / f64::from(1 << 20));
            found.insert((*uid).to_owned(), CacheUse { llc_mib, mb_per_s });
        }
        (found, outcome)
    }

    fn remove_all_but(&self, kept: &BTreeSet<&str>) -> io::Result<()> {
        let Some(entries) = if_there(std::fs::read_dir(self.folder()))? else { return Ok(()) };
        let mut outcome = Ok(());
        for entry in entries.flatten() {
            let name = entry.file_name();
            let uid = name.to_str().and_then(|name| name.strip_prefix(OURS));
            if uid.is_some_and(|uid| !kept.contains(uid)) {
                // Its threads are the root group's again.
                let removed = std::fs::remove_dir(entry.path());
                outcome = outcome.and(if_there(removed).map(drop));
            }
        }
        outcome
    }
}

impl Drop for PodMonitor {
    fn drop(&mut self) {
        // The next agent removes what is left.
        let _ = self.remove_all_but(&BTreeSet::new());
    }
}

fn made(folder: &std::path::Path) -> io::Result<()> {
    match std::fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Puts a thread into a group. One that has ended meanwhile is no error.
fn filled(folder: &std::path::Path, thread: u32) -> io::Result<()> {
    use std::io::Write as _;
    let mut file = std::fs::File::options().append(true).open(folder.join("tasks"))?;
    match file.write_all(format!("{thread}\n").as_bytes()) {
        // ESRCH: no such thread.
        Err(error) if error.raw_os_error() == Some(3) || is_removed(&error) => Ok(()),
        other => other,
    }
}
