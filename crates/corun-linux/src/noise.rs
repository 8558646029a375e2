//! Who else used the machine while something was measured: `/proc/stat`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use corun_machine::{CpuId, CpuSet};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::Roots;

/// CPU time of the machine up to now, as the kernel tells it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct CpuTime {
    /// In use, by anybody, in seconds.
    busy_s: f64,
    /// Given to other virtual machines by the host, in seconds.
    stolen_s: f64,
}

/// The share of time that something else used or took.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Noise {
    /// CPU time of other processes and of the kernel, of all CPU time that there was: 0 to 1.
    pub others_share: f64,
    /// CPU time that the host gave to others, of all CPU time that there was: 0 to 1.
    pub stolen_share: f64,
}

/// Watches the CPUs of a measurement from its start on.
#[derive(Debug)]
pub struct NoiseMeter {
    file: PathBuf,
    cpus: CpuSet,
    start: Instant,
    /// Does this process's own time not count?
    leaves_out_own: bool,
    own_s: f64,
    total: Option<CpuTime>,
}

impl NoiseMeter {
    /// From now on.
    pub fn new(roots: &Roots, cpus: CpuSet) -> Self {
        Self::of(roots.proc.join("stat"), cpus, true)
    }

    /// The same, and this process counts among the others: for a part of the machine, since the kernel does not tell how
    /// much of this process's time was there.
    pub fn with_own(roots: &Roots, cpus: CpuSet) -> Self {
        Self::of(roots.proc.join("stat"), cpus, false)
    }

    fn of(file: PathBuf, cpus: CpuSet, leaves_out_own: bool) -> Self {
        let total = cpu_time(&file, &cpus);
        let own_s = if leaves_out_own { own_cpu_s() } else { 0.0 };
        Self { file, cpus, start: Instant::now(), leaves_out_own, own_s, total }
    }

    /// As it would begin now.
    fn anew(&self) -> Self {
        Self::of(self.file.clone(), self.cpus.clone(), self.leaves_out_own)
    }

    /// What [`Self::noise_if_told`] says, and from now on what comes after that. The kernel is asked once for both.
    pub fn lap(&mut self) -> Option<Noise> {
        let now = self.anew();
        let noise = self.noise_at(&now);
        *self = now;
        noise
    }

    /// What others than this process and its children that have ended did since the start; nothing
    /// where the kernel does not tell.
    pub fn noise(&self) -> Noise {
        self.noise_if_told().unwrap_or_default()
    }

    /// The same; none where the kernel does not tell.
    pub fn noise_if_told(&self) -> Option<Noise> {
        self.noise_at(&self.anew())
    }

    fn noise_at(&self, now: &Self) -> Option<Noise> {
        let own_s = now.own_s - self.own_s;
        let passed = now.start.duration_since(self.start);
        let there_was_s = passed.as_secs_f64() * self.cpus.len() as f64;
        Some(shares(self.total?, now.total?, own_s, there_was_s))
    }
}

fn shares(before: CpuTime, now: CpuTime, own_s: f64, there_was_s: f64) -> Noise {
    let share = |seconds: f64| (seconds / there_was_s.max(1e-9)).clamp(0.0, 1.0);
    Noise {
        others_share: share(now.busy_s - before.busy_s - own_s),
        stolen_share: share(now.stolen_s - before.stolen_s),
    }
}

/// CPU time of this process and of its children that were waited for.
fn own_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let own_s = time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    own_s + children_ticks(&stat) / rustix::param::clock_ticks_per_second() as f64
}

/// `cutime` and `cstime` of a line of `/proc/PID/stat` (proc(5)): fields 16 and 17, and the name that may
/// hold spaces is the second.
fn children_ticks(stat: &str) -> f64 {
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    fields.split_whitespace().skip(13).take(2).filter_map(|word| word.parse::<f64>().ok()).sum()
}

fn cpu_time(file: &Path, cpus: &CpuSet) -> Option<CpuTime> {
    let text = fs::read_to_string(file).ok()?;
    parse(&text, cpus, rustix::param::clock_ticks_per_second() as f64)
}

/// The sum over the CPUs' lines of `/proc/stat` (proc(5)): user, nice, system, idle, iowait, irq,
/// softirq, steal, in ticks. The time of guests is in user and nice already.
fn parse(text: &str, cpus: &CpuSet, ticks_per_s: f64) -> Option<CpuTime> {
    let mut sum = CpuTime::default();
    let mut found = false;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let number = words.next().and_then(|word| word.strip_prefix("cpu")?.parse().ok());
        if !number.is_some_and(|number| cpus.contains(CpuId(number))) {
            continue;
        }
        let ticks: Vec<f64> = words.map_while(|word| word.parse().ok()).collect();
        let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks[..] else {
            return None;
        };
        sum.busy_s += (user + nice + system + irq + softirq) / ticks_per_s;
        sum.stolen_s += steal / ticks_per_s;
        found = true;
    }
    found.then_some(sum)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const STAT: &str = "cpu  900 0 90 9000 9 0 9 99 0 0\n\
        cpu0 100 10 50 1000 7 1 2 30 0 0\ncpu1 300 0 100 1000 7 3 4 70 0 0\n\
        cpu10 1 1 1 1 1 1 1 1 0 0\nintr 5\n";

    #[test]
    fn the_lines_of_the_cpus_are_added() {
        let both = parse(STAT, &"0-1".parse().unwrap(), 100.0).unwrap();
        assert_eq!(both, CpuTime { busy_s: 5.7, stolen_s: 1.0 });
        let one = parse(STAT, &"1".parse().unwrap(), 100.0).unwrap();
        assert_eq!(one, CpuTime { busy_s: 4.07, stolen_s: 0.7 });
        assert_eq!(parse(STAT, &"5".parse().unwrap(), 100.0), None);
        assert_eq!(parse("cpu0 1 2 3\n", &"0".parse().unwrap(), 100.0), None);
        assert_eq!(parse("", &"0".parse().unwrap(), 100.0), None);
    }

    #[test]
    fn a_lap_begins_where_the_last_one_ended() {
        let folder = tempfile::tempdir().unwrap();
        let write = |busy: u32| {
            std::fs::write(folder.path().join("stat"), format!("cpu0 {busy} 0 0 0 0 0 0 0 0 0\n"))
                .unwrap();
        };
        let roots = Roots { proc: folder.path().to_owned(), ..Roots::default() };
        write(0);
        let mut meter = NoiseMeter::new(&roots, "0".parse().unwrap());
        // Far more than this test's own time and than there was.
        write(1_000_000);
        assert_eq!(meter.lap().unwrap().others_share, 1.0);
        assert_eq!(meter.lap().unwrap().others_share, 0.0);
        std::fs::remove_file(folder.path().join("stat")).unwrap();
        assert_eq!(meter.lap(), None);
        assert_eq!(meter.lap(), None);
    }

    /// A process that computes on one CPU says nothing of another one.
    #[test]
    fn of_a_part_of_the_machine_nothing_is_taken_off() {
        let meter = NoiseMeter::with_own(&Roots::default(), "0".parse().unwrap());
        let meter = NoiseMeter { total: Some(CpuTime::default()), ..meter };
        // Whatever the process used by now.
        let total = Some(CpuTime { busy_s: 6.0, stolen_s: 0.0 });
        let now =
            NoiseMeter { start: meter.start + Duration::from_secs(10), total, ..meter.anew() };
        assert_eq!(meter.noise_at(&now), Some(Noise { others_share: 0.6, stolen_share: 0.0 }));
    }

    #[test]
    fn children_are_ours() {
        let line = "7 (a b) c) R 1 7 7 0 -1 4194560 5 6 0 0 11 12 130 17 20 0 1 0 900 1 1";
        assert_eq!(children_ticks(line), 147.0);
        assert_eq!(children_ticks(""), 0.0);
    }

    #[test]
    fn what_is_not_ours_is_the_others() {
        let before = CpuTime { busy_s: 10.0, stolen_s: 1.0 };
        let now = CpuTime { busy_s: 16.0, stolen_s: 2.0 };
        // Two CPUs for 10 s: 20 s, of which others had 6 - 4 and the host took 1.
        let noise = shares(before, now, 4.0, 20.0);
        assert_eq!(noise, Noise { others_share: 0.1, stolen_share: 0.05 });
        // Ticks are coarse: less than nothing is nothing.
        assert_eq!(shares(before, before, 1.0, 20.0), Noise::default());
    }
}
