//! LLC occupancy and memory traffic by resctrl monitoring group.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use corun_policy::{CounterKind, Nanoseconds};

use super::{Observed, Reading, Source, SourceError};
use crate::Roots;

const NAME: &str = "resctrl";

/// Reads what the hardware monitors for the resctrl groups that threads are in.
///
/// A group's figures are given to its threads only where the group is one thread's or one
/// process's among those watched: what several share cannot be told apart. Of a process's threads,
/// each gets its part by the CPU time it had.
#[derive(Debug)]
pub struct ResctrlMonitor {
    root: PathBuf,
    kinds: Vec<CounterKind>,
    traffic: BTreeMap<PathBuf, Traffic>,
    readings: u64,
}

/// A group's traffic when it was last read.
#[derive(Debug, Clone, PartialEq)]
struct Traffic {
    at: Nanoseconds,
    /// Bytes by cache; none where the file could not be read.
    bytes: BTreeMap<String, Option<u64>>,
    reading: u64,
}

/// What a group's files say.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct GroupReading {
    occupancy_bytes: Option<f64>,
    traffic_bytes_per_s: Option<f64>,
}

impl ResctrlMonitor {
    /// Makes ready to read the groups under a mounted resctrl.
    ///
    /// # Errors
    ///
    /// When resctrl is not mounted, or this machine monitors nothing.
    pub fn new(roots: &Roots) -> Result<Self, SourceError> {
        let failed = |what: &str, advice: &str, reason| SourceError {
            source_name: NAME,
            what: what.to_owned(),
            advice: Some(advice.to_owned()),
            reason,
        };
        let file = roots.resctrl.join("info/L3_MON/mon_features");
        let features = fs::read_to_string(&file).map_err(|error| {
            let mounted = roots.resctrl.join("schemata").exists();
            if mounted {
                let what = "this machine's resctrl monitors no cache (no info/L3_MON)";
                failed(what, "it needs a processor with CMT or MBM", Some(error))
            } else {
                let what = format!("resctrl is not mounted at {}", roots.resctrl.display());
                let advice = "mount it: mount -t resctrl resctrl /sys/fs/resctrl";
                failed(&what, advice, Some(error))
            }
        })?;
        let has = |feature: &str| features.lines().any(|line| line.trim() == feature);
        let kinds = [
            (CounterKind::LlcOccupancy, has("llc_occupancy")),
            (CounterKind::MemoryBytes, has("mbm_total_bytes")),
        ];
        let kinds: Vec<_> =
            kinds.into_iter().filter_map(|(kind, there)| there.then_some(kind)).collect();
        if kinds.is_empty() {
            let what = "this machine's resctrl monitors neither occupancy nor bandwidth";
            return Err(failed(what, "see info/L3_MON/mon_features", None));
        }
        let (root, traffic) = (roots.resctrl.clone(), BTreeMap::new());
        Ok(Self { root, kinds, traffic, readings: 0 })
    }

    fn group(&mut self, group: &Path, now: Nanoseconds) -> GroupReading {
        let mut occupancy = Some(0.0);
        let mut bytes = BTreeMap::new();
        for (cache, folder) in caches(&group.join("mon_data")) {
            // What one cache cannot tell leaves the sum unknown.
            let held = counter(&folder.join("llc_occupancy"));
            occupancy = occupancy.zip(held).map(|(sum, held)| sum + held as f64);
            bytes.insert(cache, counter(&folder.join("mbm_total_bytes")));
        }
        let occupancy_bytes = occupancy.filter(|_| !bytes.is_empty());
        let read = Traffic { at: now, bytes, reading: self.readings };
        let rate = self.traffic.get(group).and_then(|before| rate(before, &read));
        self.traffic.insert(group.to_owned(), read);
        GroupReading { occupancy_bytes, traffic_bytes_per_s: rate }
    }
}

impl Source for ResctrlMonitor {
    fn name(&self) -> &'static str {
        NAME
    }

    fn counters(&self) -> Vec<CounterKind> {
        self.kinds.clone()
    }

    fn read(
        &mut self,
        now: Nanoseconds,
        threads: &[Observed],
        readings: &mut [Reading],
    ) -> Result<(), SourceError> {
        self.readings += 1;
        let of_task = groups_by_task(&self.root);
        let mut members: BTreeMap<&Path, Vec<usize>> = BTreeMap::new();
        for (index, thread) in threads.iter().enumerate() {
            if let Some(group) = of_task.get(&thread.task.tid) {
                members.entry(group).or_default().push(index);
            }
        }
        for (group, members) in members {
            // Who else is in the group shares its figures.
            let counted = of_task.values().filter(|&one| counts_in(one, group)).count();
            let others = counted > members.len();
            let process = threads[members[0]].task.pid;
            if others || members.iter().any(|&index| threads[index].task.pid != process) {
                continue;
            }
            let Some(parts) = parts(&members, threads) else { continue };
            let figures = self.group(group, now);
            for (&index, part) in members.iter().zip(parts) {
                let reading = &mut readings[index];
                let occupancy = figures.occupancy_bytes.map(|bytes| bytes * part);
                let traffic = figures.traffic_bytes_per_s.map(|rate| rate * part);
                reading.llc_occupancy_bytes = occupancy.or(reading.llc_occupancy_bytes);
                let counters = &mut reading.counters;
                counters.memory_bytes_per_s = traffic.or(counters.memory_bytes_per_s);
            }
        }
        let readings = self.readings;
        self.traffic.retain(|_, traffic| traffic.reading == readings);
        Ok(())
    }
}

/// Is a task of one group counted in another's files? A control group's have its monitoring
/// groups' in them.
fn counts_in(one: &Path, group: &Path) -> bool {
    one == group || one.parent() == Some(group.join("mon_groups").as_path())
}

/// Each member's part of what they did together; none where nobody knows.
fn parts(members: &[usize], threads: &[Observed]) -> Option<Vec<f64>> {
    if members.len() == 1 {
        return Some(vec![1.0]);
    }
    let shares: Option<Vec<f64>> = members.iter().map(|&index| threads[index].cpu_share).collect();
    let shares = shares?;
    let sum: f64 = shares.iter().sum();
    let even = 1.0 / members.len() as f64;
    Some(shares.iter().map(|share| if sum > 0.0 { share / sum } else { even }).collect())
}

/// The group whose files count a task: its monitoring group, else its control group.
fn groups_by_task(root: &Path) -> BTreeMap<u32, PathBuf> {
    let mut groups = BTreeMap::new();
    let controls = folders(root).filter(|folder| folder.join("tasks").exists());
    for control in controls.chain([root.to_owned()]) {
        note_tasks(&control, &mut groups);
        for monitor in folders(&control.join("mon_groups")) {
            // After the control group, whose list names these tasks, too.
            note_tasks(&monitor, &mut groups);
        }
    }
    groups
}

fn note_tasks(group: &Path, groups: &mut BTreeMap<u32, PathBuf>) {
    let tasks = fs::read_to_string(group.join("tasks")).unwrap_or_default();
    for task in tasks.lines().filter_map(|line| line.trim().parse().ok()) {
        groups.insert(task, group.to_owned());
    }
}

fn folders(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
}

/// The folders of the LLCs: `mon_L3_00`, `mon_L3_01`.
fn caches(mon_data: &Path) -> Vec<(String, PathBuf)> {
    let named = folders(mon_data).filter_map(|folder| {
        let name = folder.file_name()?.to_str()?.to_owned();
        name.starts_with("mon_L3_").then_some((name, folder))
    });
    named.collect()
}

/// A file's number; none where it says `Unavailable` or `Error`, or is not there.
fn counter(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let number = text.trim().parse().ok();
    if number.is_none() {
        let found = text.trim();
        tracing::debug!(file = %file.display(), found, "resctrl has no figure");
    }
    number
}

/// Bytes a second between two readings; none where a cache could not tell in both. The kernel
/// itself sees to it that the hardware's narrow counters do not wrap; a count that falls all the
/// same was set back (a group made anew under its name, a counter assigned again), and says
/// nothing of the interval.
fn rate(before: &Traffic, now: &Traffic) -> Option<f64> {
    let seconds = now.at.0.checked_sub(before.at.0).filter(|&ns| ns > 0)? as f64 * 1e-9;
    if now.bytes.is_empty() || before.bytes.len() != now.bytes.len() {
        return None;
    }
    let mut sum = 0.0;
    for (cache, bytes) in &now.bytes {
        let earlier = before.bytes.get(cache)?.as_ref()?;
        sum += bytes.as_ref()?.checked_sub(*earlier)? as f64;
    }
    Some(sum / seconds)
}

#[cfg(test)]
mod tests {
    use corun_machine::CpuId;
    use corun_policy::{ThreadId, ThreadState};
    use tempfile::TempDir;

    use super::*;
    use crate::Task;

    fn write(folder: &TempDir, file: &str, text: &str) {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Two LLCs; task 5 in a monitoring group below the group of 10, 6 and 7 of one process in a
    /// control group, 8 and 9 in the root's.
    fn mounted() -> (TempDir, Roots) {
        let folder = tempfile::tempdir().unwrap();
        let features = "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes\n";
        write(&folder, "info/L3_MON/mon_features", features);
        write(&folder, "tasks", "8\n9\n");
        write(&folder, "pair/tasks", "6\n7\n");
        write(&folder, "part/tasks", "10\n5\n");
        write(&folder, "part/mon_groups/one/tasks", "5\n");
        for (group, scale) in
            [("", 1), ("part/", 1000), ("pair/", 100), ("part/mon_groups/one/", 10)]
        {
            traffic(&folder, group, scale, scale);
        }
        let roots = Roots { resctrl: folder.path().to_owned(), ..Roots::default() };
        (folder, roots)
    }

    fn traffic(folder: &TempDir, group: &str, occupancy: u64, bytes: u64) {
        for cache in ["mon_L3_00", "mon_L3_01"] {
            let data = format!("{group}mon_data/{cache}");
            write(folder, &format!("{data}/llc_occupancy"), &format!("{occupancy}\n"));
            write(folder, &format!("{data}/mbm_total_bytes"), &format!("{bytes}\n"));
        }
    }

    fn thread(pid: u32, tid: u32, cpu_share: f64) -> Observed {
        Observed {
            id: ThreadId(tid.into()),
            task: Task { pid, tid, start_ticks: 1 },
            program: "p".into(),
            cpu: CpuId(0),
            state: ThreadState::Running,
            cpu_share: Some(cpu_share),
        }
    }

    fn read(source: &mut ResctrlMonitor, ns: u64) -> Vec<(Option<f64>, Option<f64>)> {
        let threads = [
            thread(5, 5, 0.5),
            thread(6, 6, 0.9),
            thread(6, 7, 0.1),
            thread(8, 8, 1.0),
            thread(10, 10, 1.0),
        ];
        let mut readings = vec![Reading::default(); 5];
        source.read(Nanoseconds(ns), &threads, &mut readings).unwrap();
        let figures = readings
            .iter()
            .map(|reading| (reading.llc_occupancy_bytes, reading.counters.memory_bytes_per_s));
        figures.collect()
    }

    #[test]
    fn groups_of_one_program_are_read_and_shared_groups_are_not() {
        let (folder, roots) = mounted();
        let mut source = ResctrlMonitor::new(&roots).unwrap();
        assert_eq!(source.counters(), [CounterKind::LlcOccupancy, CounterKind::MemoryBytes]);
        let unknown = (None, None);
        let first = read(&mut source, 0);
        assert_eq!(
            first,
            [(Some(20.0), None), (Some(180.0), None), (Some(20.0), None), unknown, unknown]
        );
        traffic(&folder, "part/mon_groups/one/", 30, 40);
        let second = read(&mut source, 2_000_000_000);
        assert_eq!(second[0], (Some(60.0), Some(30.0)));
        assert_eq!(second[1], (Some(180.0), Some(0.0)));
        assert_eq!((second[3], second[4]), (unknown, unknown));
    }

    #[test]
    fn what_the_hardware_cannot_tell_is_unknown() {
        let (folder, roots) = mounted();
        let mut source = ResctrlMonitor::new(&roots).unwrap();
        read(&mut source, 0);
        let data = "part/mon_groups/one/mon_data/mon_L3_01";
        write(&folder, &format!("{data}/llc_occupancy"), "Unavailable\n");
        write(&folder, &format!("{data}/mbm_total_bytes"), "Error\n");
        assert_eq!(read(&mut source, 1_000_000_000)[0], (None, None));
        // Back again: known only once there are two readings.
        traffic(&folder, "part/mon_groups/one/", 5, 70);
        assert_eq!(read(&mut source, 2_000_000_000)[0], (Some(10.0), None));
        traffic(&folder, "part/mon_groups/one/", 5, 90);
        assert_eq!(read(&mut source, 3_000_000_000)[0], (Some(10.0), Some(40.0)));
        // A count that fell was set back.
        traffic(&folder, "part/mon_groups/one/", 5, 1);
        assert_eq!(read(&mut source, 4_000_000_000)[0].1, None);
    }

    #[test]
    fn a_machine_without_monitoring_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots { resctrl: folder.path().to_owned(), ..Roots::default() };
        let fails = || ResctrlMonitor::new(&roots).unwrap_err().to_string();
        assert!(fails().contains("is not mounted"), "{}", fails());
        write(&folder, "schemata", "L3:0=ff\n");
        assert!(fails().contains("monitors no cache"), "{}", fails());
    }
}
