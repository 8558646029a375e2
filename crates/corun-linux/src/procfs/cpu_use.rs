//! Which processes use the CPUs: a look at all of them, and what came between two looks.

use std::collections::BTreeMap;
use std::io;

use super::process::{Process, pids};
use super::stat::Stat;
use crate::Roots;

/// All processes of a moment, by their numbers; threads of the kernel are none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuUseSnapshot {
    processes: BTreeMap<u32, Stat>,
}

/// What a process used between two moments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuUse {
    /// The process at the later moment.
    pub process: Stat,
    /// Time on CPUs of all its threads since the earlier one, in clock ticks.
    pub cpu_ticks: u64,
}

impl CpuUse {
    /// The same time in seconds.
    pub fn cpu_s(&self) -> f64 {
        self.cpu_ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    }
}

impl CpuUseSnapshot {
    /// The processes of this moment, of one user (a number) or of all. What ends meanwhile or may not be looked into
    /// is not among them.
    ///
    /// # Errors
    /// When the kernel's list cannot be read.
    pub fn take(roots: &Roots, user: Option<u32>) -> io::Result<Self> {
        let mut processes = BTreeMap::new();
        for pid in pids(roots)? {
            let process = Process::new(roots, pid);
            let is_meant = user.is_none_or(|user| process.effective_user() == Some(user));
            if let (true, Ok(Some(stat))) = (is_meant, process.stat_of_all_threads())
                && !stat.is_kernel_thread()
                && !stat.is_over()
            {
                processes.insert(pid, stat);
            }
        }
        Ok(Self { processes })
    }

    /// What each process used since an earlier moment, the busiest first, equally busy ones by number. All of what a
    /// new process used counts.
    pub fn since(&self, earlier: &Self) -> Vec<CpuUse> {
        let used = |stat: &Stat| {
            let before = earlier.processes.get(&stat.pid);
            let before = before.filter(|before| before.start_ticks == stat.start_ticks);
            stat.cpu_ticks.saturating_sub(before.map_or(0, |before| before.cpu_ticks))
        };
        let of = |stat: &Stat| CpuUse { process: stat.clone(), cpu_ticks: used(stat) };
        let mut uses: Vec<CpuUse> = self.processes.values().map(of).collect();
        uses.sort_by_key(|one| std::cmp::Reverse(one.cpu_ticks));
        uses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Process 7 used 30 ticks, 8 is another process by now that used 5, 9 used nothing, 2 is the kernel's.
    #[test]
    fn the_busiest_come_first_and_a_number_used_again_starts_anew() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots { proc: folder.path().to_owned(), ..Roots::default() };
        let write = |pid: u32, flags: u32, ticks: u64, start: u64| {
            let own = folder.path().join(pid.to_string());
            std::fs::create_dir_all(&own).unwrap();
            let line = format!(
                "{pid} (p{pid}) R 1 2 3 0 -1 {flags} 100 0 0 0 {ticks} 0 0 0 20 0 8 0 {start} 3133440 408 \
                 18446744073709551615 1 1 1 1 1 0 0 0 0 0 0 0 17 1 0 0 0 0 0 1 1 1 1 1 1 1 0\n"
            );
            std::fs::write(own.join("stat"), line).unwrap();
            std::fs::write(own.join("status"), format!("Uid:\t0\t{}\t0\t0\n", pid % 2)).unwrap();
        };
        write(7, 0, 100, 1);
        write(8, 0, 50, 1);
        write(9, 0, 4, 1);
        write(2, 0x0020_0000, 9, 1);
        let earlier = CpuUseSnapshot::take(&roots, None).unwrap();
        write(7, 0, 130, 1);
        write(8, 0, 5, 2);
        let later = CpuUseSnapshot::take(&roots, None).unwrap();
        let found = later.since(&earlier);
        let found: Vec<(u32, u64)> =
            found.iter().map(|one| (one.process.pid, one.cpu_ticks)).collect();
        assert_eq!(found, [(7, 30), (8, 5), (9, 0)]);
        let odd = CpuUseSnapshot::take(&roots, Some(1)).unwrap().since(&CpuUseSnapshot::default());
        assert_eq!(odd.iter().map(|one| one.process.pid).collect::<Vec<_>>(), [7, 9]);
    }
}
