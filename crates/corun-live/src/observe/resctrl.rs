//! LLC occupancy and memory traffic by resctrl monitoring group.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use corun_linux::Roots;
use corun_linux::resctrl::{groups_by_task, monitors_task, occupancy_bytes, total_bytes_by_cache};
use corun_policy::{CounterKind, Nanoseconds, Scope};

use super::{Source, SourceError};
use crate::Threads;

const NAME: &str = "resctrl";

/// Reads what the hardware monitors for the resctrl groups that threads are in.
///
/// A group's figures are given to its threads only where the group is one thread's or one
/// process's among those watched: what several share cannot be told apart. Of a process's threads,
/// each gets its part by the CPU time it had.
#[derive(Debug)]
pub struct ResctrlMonitor {
    roots: Roots,
    kinds: Vec<CounterKind>,
    traffic: BTreeMap<PathBuf, Traffic>,
    readings: u64,
}

/// A group's traffic when it was last read whole.
#[derive(Debug, Clone, PartialEq)]
struct Traffic {
    at: Nanoseconds,
    /// Bytes by cache.
    bytes: BTreeMap<String, u64>,
    /// The reading in which the group was last needed.
    needed: u64,
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
        let (roots, traffic) = (roots.clone(), BTreeMap::new());
        Ok(Self { roots, kinds, traffic, readings: 0 })
    }

    /// The bytes that a group moved, and the time in which it did, since its traffic was last read whole;
    /// none where a cache cannot tell, and in the first reading after that: a counter that was given to
    /// another group meanwhile starts anew. The kernel itself sees to it that the hardware's narrow counters
    /// do not wrap; a count that falls all the same was set back (a group made anew under its name).
    fn traffic(&mut self, group: &Path, now: Nanoseconds) -> Option<(f64, Nanoseconds)> {
        let needed = self.readings;
        if let Some(known) = self.traffic.get_mut(group) {
            known.needed = needed;
        }
        let Some(bytes) = total_bytes_by_cache(group) else {
            self.traffic.remove(group);
            return None;
        };
        let read = Traffic { at: now, bytes, needed };
        let before = self.traffic.insert(group.to_owned(), read)?;
        let now_bytes = &self.traffic[group].bytes;
        if before.bytes.len() != now_bytes.len() {
            return None;
        }
        let mut sum = 0.0;
        for (cache, bytes) in now_bytes {
            sum += bytes.checked_sub(*before.bytes.get(cache)?)? as f64;
        }
        Some((sum, Nanoseconds(now.0.checked_sub(before.at.0)?)))
    }
}

impl Source for ResctrlMonitor {
    fn name(&self) -> &'static str {
        NAME
    }

    fn counters(&self) -> Vec<CounterKind> {
        self.kinds.clone()
    }

    fn count(&mut self, now: Nanoseconds, threads: &mut Threads) -> Result<(), SourceError> {
        self.readings += 1;
        let of_task = groups_by_task(&self.roots);
        let mut members: BTreeMap<&Path, Vec<usize>> = BTreeMap::new();
        for (index, (_, thread)) in threads.iter().enumerate() {
            if let Some(group) = of_task.get(&thread.task().tid) {
                members.entry(group).or_default().push(index);
            }
        }
        for (group, members) in members {
            // Who else is in the group shares its figures.
            let counted = of_task.values().filter(|&one| monitors_task(group, one)).count();
            let others = counted > members.len();
            let pid = |index: usize| threads.at(index).1.task().pid;
            if others || members.iter().any(|&index| pid(index) != pid(members[0])) {
                continue;
            }
            let Some(parts) = parts(&members, threads) else { continue };
            let occupancy = occupancy_bytes(group).map(|bytes| bytes as f64);
            let traffic = self.traffic(group, now);
            for (&index, part) in members.iter().zip(parts) {
                let (view, thread) = threads.at_mut(index);
                view.llc_occupancy_bytes = occupancy.map(|bytes| bytes * part);
                // What the group did before the thread was there is not the thread's.
                let traffic = traffic.filter(|_| thread.elapsed().0 > 0);
                if let Some((bytes, elapsed)) = traffic {
                    let counter = CounterKind::MemoryBytes;
                    view.counts.add(counter, bytes * part, elapsed, Scope::DemandAndPrefetch);
                }
            }
        }
        let readings = self.readings;
        self.traffic.retain(|_, traffic| traffic.needed == readings);
        Ok(())
    }
}

/// Each member's part of what they did together; none where nobody knows.
fn parts(members: &[usize], threads: &Threads) -> Option<Vec<f64>> {
    if members.len() == 1 {
        return Some(vec![1.0]);
    }
    let shares: Option<Vec<f64>> =
        members.iter().map(|&index| threads.at(index).1.cpu_share()).collect();
    let shares = shares?;
    let sum: f64 = shares.iter().sum();
    let even = 1.0 / members.len() as f64;
    Some(shares.iter().map(|share| if sum > 0.0 { share / sum } else { even }).collect())
}

#[cfg(test)]
mod tests {
    use corun_linux::Task;
    use corun_policy::Counts;
    use tempfile::TempDir;

    use super::*;
    use crate::backend::fixture;

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

    const SECOND: u64 = 1_000_000_000;

    /// Tells of a tick: each thread's occupancy and memory traffic a second since the tick before.
    fn tick(
        source: &mut ResctrlMonitor,
        threads: &mut Threads,
        seconds: u64,
    ) -> Vec<(Option<f64>, Option<f64>)> {
        let before: Vec<Counts> = threads.views().iter().map(|view| view.counts).collect();
        for (index, share) in [0.5, 0.9, 0.1, 1.0, 1.0].into_iter().enumerate() {
            fixture::ran(threads, index, share, 1.0);
        }
        source.count(Nanoseconds(seconds * SECOND), threads).unwrap();
        let found = threads.views().iter().zip(before).map(|(view, before)| {
            (view.llc_occupancy_bytes, view.counts.since(&before).memory_bytes_per_s)
        });
        found.collect()
    }

    fn threads() -> Threads {
        let mut threads = Threads::new(0);
        for (pid, tid) in [(5, 5), (6, 6), (6, 7), (8, 8), (10, 10)] {
            fixture::insert(&mut threads, tid.into(), Task { pid, tid, start_ticks: 1 }, "p");
        }
        threads
    }

    #[test]
    fn groups_of_one_program_are_read_and_shared_groups_are_not() {
        let (folder, roots) = mounted();
        let mut source = ResctrlMonitor::new(&roots).unwrap();
        assert_eq!(source.counters(), [CounterKind::LlcOccupancy, CounterKind::MemoryBytes]);
        let unknown = (None, None);
        let mut threads = threads();
        let first = tick(&mut source, &mut threads, 0);
        assert_eq!(
            first,
            [(Some(20.0), None), (Some(180.0), None), (Some(20.0), None), unknown, unknown]
        );
        traffic(&folder, "part/mon_groups/one/", 30, 40);
        let second = tick(&mut source, &mut threads, 2);
        assert_eq!(second[0], (Some(60.0), Some(30.0)));
        assert_eq!(second[1], (Some(180.0), Some(0.0)));
        assert_eq!((second[3], second[4]), (unknown, unknown));
    }

    #[test]
    fn what_the_hardware_cannot_tell_is_unknown() {
        let (folder, roots) = mounted();
        let mut source = ResctrlMonitor::new(&roots).unwrap();
        let mut threads = threads();
        let mut read = |seconds| tick(&mut source, &mut threads, seconds)[0];
        read(0);
        let data = "part/mon_groups/one/mon_data/mon_L3_01";
        write(&folder, &format!("{data}/llc_occupancy"), "Unavailable\n");
        write(&folder, &format!("{data}/mbm_total_bytes"), "Error\n");
        assert_eq!(read(1), (None, None));
        // Back again: known only once there are two readings.
        traffic(&folder, "part/mon_groups/one/", 5, 70);
        assert_eq!(read(2), (Some(10.0), None));
        traffic(&folder, "part/mon_groups/one/", 5, 90);
        assert_eq!(read(3), (Some(10.0), Some(40.0)));
        // A count that fell was set back.
        traffic(&folder, "part/mon_groups/one/", 5, 1);
        assert_eq!(read(4).1, None);
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
