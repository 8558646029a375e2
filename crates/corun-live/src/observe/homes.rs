//! Where processes' memory lies, for policies that place them near it.

use std::collections::BTreeMap;
use std::sync::Arc;

use corun_linux::procfs::bytes_by_node;
use corun_linux::{Roots, Task};
use corun_machine::Machine;
use corun_policy::{CounterKind, Nanoseconds};

use super::{Source, SourceError};
use crate::Threads;

/// A process's memory is looked at again after so many readings: the kernel walks its page tables
/// for it.
const LOOK_AGAIN: u64 = 8;

/// Gives the share of each process's memory on each node ([`corun_policy::ThreadView::pages_by_node`]), out of
/// `/proc/PID/numa_maps`.
pub struct MemoryByNode {
    roots: Roots,
    machine: Arc<Machine>,
    /// By process: its number and when it started.
    processes: BTreeMap<(u32, u64), Found>,
    readings: u64,
}

struct Found {
    /// In the order of the machine's nodes; empty where the kernel does not say.
    shares: Vec<f64>,
    /// The reading in which it was last looked at, and last needed.
    looked: u64,
    needed: u64,
}

impl MemoryByNode {
    /// For a machine's nodes. None where there is only one, and nothing to be said.
    pub fn new(roots: &Roots, machine: Arc<Machine>) -> Option<Self> {
        let several = machine.nodes().len() > 1;
        let roots = roots.clone();
        several.then(|| Self { roots, machine, processes: BTreeMap::new(), readings: 0 })
    }

    fn shares(&self, task: &Task) -> Vec<f64> {
        // Another user's memory cannot be looked at without privileges: unknown.
        let Ok(bytes) = bytes_by_node(&self.roots, task.pid) else { return Vec::new() };
        let nodes = self.machine.nodes().iter();
        let of: Vec<f64> = nodes
            .map(|node| bytes.get(&node.os_index).map_or(0.0, |&bytes| bytes as f64))
            .collect();
        let sum: f64 = of.iter().sum();
        if sum > 0.0 { of.iter().map(|bytes| bytes / sum).collect() } else { Vec::new() }
    }
}

impl Source for MemoryByNode {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn counters(&self) -> Vec<CounterKind> {
        Vec::new()
    }

    fn count(&mut self, _now: Nanoseconds, threads: &mut Threads) -> Result<(), SourceError> {
        self.readings += 1;
        let now = self.readings;
        for (view, thread) in threads.iter_mut() {
            let task = thread.task();
            // A process's threads have one memory; its first to be asked about tells it apart.
            let key = (task.pid, task.start_ticks);
            let fresh = self.processes.get(&key).filter(|one| now < one.looked + LOOK_AGAIN);
            if fresh.is_none() {
                let shares = self.shares(&task);
                self.processes.insert(key, Found { shares, looked: now, needed: now });
            }
            if let Some(found) = self.processes.get_mut(&key) {
                found.needed = now;
                view.pages_by_node.clone_from(&found.shares);
            }
        }
        self.processes.retain(|_, found| found.needed == now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use corun_machine::preset;

    use super::*;
    use crate::backend::fixture;

    #[test]
    fn memory_is_counted_in_bytes_by_node() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("7");
        std::fs::create_dir(&process).unwrap();
        let maps = "1000-9000 rw-p 00000000 00:00 0\n40000000-40400000 rw-p 00000000 00:00 0\n";
        std::fs::write(process.join("maps"), maps).unwrap();
        // Six small pages on node 0, one of 2 MiB on node 1.
        let numa = "1000 default anon=6 N0=6 kernelpagesize_kB=4\n\
                    40000000 default huge N1=1 kernelpagesize_kB=2048\n";
        std::fs::write(process.join("numa_maps"), numa).unwrap();
        let roots = Roots { proc: folder.path().to_owned(), ..Roots::default() };
        let two = Arc::new(preset("xeon-e5520").unwrap());
        let mut source = MemoryByNode::new(&roots, two).unwrap();
        let mut threads = Threads::new(0);
        for pid in [7, 8] {
            fixture::insert(&mut threads, pid.into(), Task { pid, tid: pid, start_ticks: 1 }, "p");
        }
        source.count(Nanoseconds(0), &mut threads).unwrap();
        let here = 6.0 * 4096.0 / (6.0 * 4096.0 + 2097152.0);
        assert_eq!(threads.views()[0].pages_by_node, [here, 1.0 - here]);
        assert!(threads.views()[1].pages_by_node.is_empty(), "a process that is not there");
        let one = Arc::new(preset("xeon-x5365").unwrap());
        assert!(MemoryByNode::new(&roots, one).is_none());
    }
}
