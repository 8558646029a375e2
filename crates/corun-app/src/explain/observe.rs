//! Collects the facts about a running program that any user can read from the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use anyhow::anyhow;
use corun_linux::cpu_quota::groups_of_version_2;
use corun_linux::pressure::{Pressure, Resource};
use corun_linux::procfs::{
    CpuUseSnapshot, Process, Stat, bytes_by_node, scheduler_counts, waited_for_cpu,
};
use corun_linux::{NoiseMeter, Roots, Task, TaskFacts, cgroup, facts, is_gone};
use corun_machine::{CpuId, CpuSet, Machine};

use super::facts::{
    CacheFacts, Competitor, CoreFacts, MemoryFacts, PressureFacts, ProgramFacts, ThreadTime,
    WakeupFacts,
};
use super::limits::LimitsAtStart;
use super::shares::{SchedulingPlace, may_give_nice, nice_facts};
use crate::{Error, Result};

/// All processes are looked at once in so many samples.
const SAMPLES_A_LOOK: u32 = 5;
/// Competitors that are told of, at most.
const MOST_COMPETITORS: usize = 5;
/// A competitor keeps so much of a CPU busy at least.
const LEAST_BUSY: f64 = 0.05;
/// Share of the time that an idle CPU is idle.
const IDLE: f64 = 0.5;
/// Share of the samples in which a thread was runnable that its waits must explain, else the samples count: a wait is
/// counted by the kernel when it is over.
const EXPLAINED: f64 = 0.8;

/// Watches a program's threads from its start on.
#[derive(Debug)]
pub struct ProgramObserver {
    roots: Roots,
    started: Instant,
    threads: Vec<WatchedThread>,
    pids: Vec<u32>,
    limits: LimitsAtStart,
    memory: Option<PressureAtStart>,
    io: Option<PressureAtStart>,
    /// Of each process.
    paging: BTreeMap<u32, Paging>,
    /// As last looked at, and what each used of each CPU up to then, in seconds.
    processes: CpuUseSnapshot,
    used: BTreeMap<(u32, CpuId), (Stat, f64)>,
    /// Samples until all processes are looked at again.
    until_look: u32,
    /// One a CPU that is on line.
    meters: Vec<(CpuId, NoiseMeter)>,
}

#[derive(Debug)]
struct WatchedThread {
    at_start: TaskFacts,
    waited_s: Option<f64>,
    /// How often it had been woken.
    woken: Option<u64>,
    /// Samples in which it was runnable, by CPU.
    runnable: BTreeMap<CpuId, u32>,
    /// Samples in which it was in uninterruptible sleep.
    blocked: u32,
    seen: u32,
}

impl ProgramObserver {
    /// Starts to watch these threads, which may have been found some time before; those that begin later are not seen.
    ///
    /// # Errors
    /// Where `/proc` cannot be read.
    pub fn start(roots: &Roots, machine: &Machine, threads: Vec<TaskFacts>) -> Result<Self> {
        let pids: BTreeSet<u32> = threads.iter().map(|one| one.task.pid).collect();
        let pids: Vec<u32> = pids.into_iter().collect();
        let first = pids.first().copied().unwrap_or(0);
        let group = groups_of_version_2(roots, first).into_iter().next();
        let processes = CpuUseSnapshot::take(roots, None).map_err(Error::failed)?;
        let online = corun_linux::sysfs::online_cpus(roots).unwrap_or_else(|_| machine.cpu_set());
        // A CPU on which only this process runs counts as busy, which costs a hint at most.
        let meters =
            online.iter().map(|cpu| (cpu, NoiseMeter::with_own(roots, CpuSet::from_iter([cpu]))));
        let watched = threads.into_iter().map(|found| WatchedThread {
            waited_s: waited_s(roots, found.task),
            woken: woken(roots, found.task),
            at_start: as_now(roots, found),
            runnable: BTreeMap::new(),
            blocked: 0,
            seen: 0,
        });
        let (limits, paging) = (LimitsAtStart::read(roots, first), paging(roots, &pids));
        let meters = meters.collect();
        // The clock starts with the threads' own.
        let started = Instant::now();
        Ok(Self {
            threads: watched.collect(),
            limits,
            memory: PressureAtStart::read(roots, group.as_deref(), Resource::Memory),
            io: PressureAtStart::read(roots, group.as_deref(), Resource::Io),
            paging,
            processes,
            used: BTreeMap::new(),
            until_look: SAMPLES_A_LOOK,
            meters,
            started,
            roots: roots.clone(),
            pids,
        })
    }

    /// Looks at what each thread does at this moment, and now and then at all processes.
    pub fn sample(&mut self) {
        self.until_look -= 1;
        if self.until_look == 0 {
            self.until_look = SAMPLES_A_LOOK;
            self.look_at_all();
        }
        for thread in &mut self.threads {
            let Task { pid, tid, start_ticks } = thread.at_start.task;
            let Ok(Some(stat)) = Process::new(&self.roots, pid).thread_stat(tid) else { continue };
            if stat.start_ticks != start_ticks {
                continue;
            }
            thread.seen += 1;
            match stat.state {
                'R' => *thread.runnable.entry(CpuId(stat.cpu)).or_default() += 1,
                'D' => thread.blocked += 1,
                _ => {}
            }
        }
    }

    /// What a process used since the last look counts for the CPU where it is now: where it was in between the kernel
    /// does not tell.
    fn look_at_all(&mut self) {
        let Ok(now) = CpuUseSnapshot::take(&self.roots, None) else { return };
        for one in now.since(&self.processes).into_iter().filter(|one| one.cpu_ticks > 0) {
            let place = (one.process.pid, CpuId(one.process.cpu));
            let cpu_s = one.cpu_s();
            let used = self.used.entry(place).or_insert_with(|| (one.process.clone(), 0.0));
            *used = (one.process, used.1 + cpu_s);
        }
        self.processes = now;
    }

    /// The facts since the start. `program`: what it is called; `cache`: what is known of its use of caches.
    ///
    /// # Errors
    /// Where all its threads ended meanwhile.
    pub fn finish(
        mut self,
        machine: &Machine,
        program: String,
        cache: CacheFacts,
    ) -> Result<ProgramFacts> {
        // Takes its time, and comes before the clock is read.
        self.look_at_all();
        let interval_s = self.started.elapsed().as_secs_f64();
        self.finish_after(interval_s, machine, program, cache)
    }

    /// The facts of an interval that took so many seconds, whatever the clock says.
    pub(super) fn finish_after(
        self,
        interval_s: f64,
        machine: &Machine,
        program: String,
        cache: CacheFacts,
    ) -> Result<ProgramFacts> {
        let roots = &self.roots;
        let woken_per_s = self.woken().map(|woken| woken as f64 / interval_s.max(1e-9));
        let uses = self.threads.iter().filter_map(|thread| thread.time(roots, interval_s));
        let Sums { threads, mut time, mut on_cpu, may_run_on, same_cpus } = Sums::of(uses);
        let Some(may_run_on) = may_run_on else {
            return Err(Error::Failed(anyhow!("{program} ended while it was looked at")));
        };
        let total_s: f64 = on_cpu.values().sum();
        if total_s > 0.0 {
            on_cpu.values_mut().for_each(|seconds| *seconds /= total_s);
        }
        let first = self.pids.first().copied().unwrap_or(0);
        let (memory, memory_unseen) =
            match memory_facts(roots, machine, &self.pids, &on_cpu, &may_run_on) {
                Ok(memory) => (memory, None),
                Err(why) => (None, Some(why)),
            };
        let paged = self.paged();
        // That of the whole processes, of which not all threads may be followed.
        time.in_kernel_s = paged.system_s.min(time.on_cpu_s);
        let swapped = self.pids.iter().map(|&pid| Process::new(roots, pid).swapped_bytes());
        let barred_cpus = self.barred_cpus(&may_run_on);
        Ok(ProgramFacts {
            threads,
            interval_s,
            unit: unit_of(roots, first),
            nice: nice_facts(roots, first),
            place: SchedulingPlace::of_process(roots, first),
            time,
            stolen_share: self.stolen_share(&on_cpu),
            idle_cpus: self.idle_of(&barred_cpus),
            barred_cpus,
            competitors: self.competitors(&may_run_on, interval_s),
            quota: self.limits.quota(roots),
            memory_limit: self.limits.memory(roots),
            memory_pressure: self.lost_to(self.memory.as_ref(), Resource::Memory, interval_s),
            io_pressure: self.lost_to(self.io.as_ref(), Resource::Io, interval_s),
            major_faults_per_s: paged.major_faults as f64 / interval_s.max(1e-9),
            swapped_bytes: swapped.sum(),
            cores: core_facts(machine, &on_cpu),
            memory,
            memory_unseen,
            command: Process::new(roots, first).command_line(),
            command_folder: Process::new(roots, first)
                .working_folder()
                .filter(|folder| std::env::current_dir().is_ok_and(|own| own != *folder)),
            pids: self.pids,
            all_may_run_on_same: same_cpus,
            may_run_on,
            program,
            cache,
            wakeups: WakeupFacts { woken_per_s, ..WakeupFacts::default() },
        })
    }

    /// How often its threads were woken since the start; none where nobody counts it.
    fn woken(&self) -> Option<u64> {
        let since =
            |one: &WatchedThread| woken(&self.roots, one.at_start.task)?.checked_sub(one.woken?);
        self.threads.iter().filter_map(since).reduce(|sum, one| sum + one)
    }

    /// What the processes did since the start.
    fn paged(&self) -> Paging {
        let mut all = Paging::default();
        for (pid, now) in paging(&self.roots, &self.pids) {
            let Some(before) = self.paging.get(&pid) else { continue };
            all.major_faults += now.major_faults.saturating_sub(before.major_faults);
            all.system_s += (now.system_s - before.system_s).max(0.0);
        }
        all
    }

    fn stolen_share(&self, on_cpu: &BTreeMap<CpuId, f64>) -> f64 {
        let stolen = self.meters.iter().filter_map(|(cpu, meter)| {
            on_cpu.get(cpu).map(|share| share * meter.noise().stolen_share)
        });
        stolen.sum()
    }

    /// CPUs on which the program may not run, though its cgroup would let it.
    fn barred_cpus(&self, may_run_on: &CpuSet) -> CpuSet {
        let task = self.threads.first().map(|one| one.at_start.task);
        let limit = task.and_then(|task| cgroup::cpu_limit(&self.roots, &task).ok().flatten());
        let is_reachable = |cpu: CpuId| {
            !may_run_on.contains(cpu) && limit.as_ref().is_none_or(|limit| limit.contains(cpu))
        };
        self.meters.iter().map(|(cpu, _)| *cpu).filter(|&cpu| is_reachable(cpu)).collect()
    }

    /// Those of these CPUs that have time to spare.
    fn idle_of(&self, cpus: &CpuSet) -> CpuSet {
        let idle = self.meters.iter().filter(|(cpu, meter)| {
            let noise = meter.noise();
            cpus.contains(*cpu) && noise.others_share + noise.stolen_share <= 1.0 - IDLE
        });
        idle.map(|(cpu, _)| *cpu).collect()
    }

    fn competitors(&self, may_run_on: &CpuSet, interval_s: f64) -> Vec<Competitor> {
        let own = std::process::id();
        let mut by_pid: BTreeMap<u32, (&Stat, f64)> = BTreeMap::new();
        for (&(pid, cpu), (process, cpu_s)) in &self.used {
            if pid != own && !self.pids.contains(&pid) && may_run_on.contains(cpu) {
                by_pid.entry(pid).or_insert((process, 0.0)).1 += cpu_s;
            }
        }
        let of = |(pid, (process, cpu_s)): (u32, (&Stat, f64))| Competitor {
            pid,
            name: process.name.clone(),
            cpus_busy: cpu_s / interval_s.max(1e-9),
            nice: process.nice,
            may_be_given_back: may_give_nice(&self.roots, pid, process.nice),
            is_weighed: !process.is_real_time(),
            threads: process.threads,
            place: SchedulingPlace::of_process(&self.roots, pid),
        };
        let mut found: Vec<Competitor> = by_pid.into_iter().map(of).collect();
        found.retain(|one| one.cpus_busy >= LEAST_BUSY);
        found.sort_by(|one, other| other.cpus_busy.total_cmp(&one.cpus_busy));
        found.truncate(MOST_COMPETITORS);
        found
    }

    /// Are all processes of the group the program's? None of those below it are looked at: a group with processes has
    /// none below that get memory of their own.
    fn is_alone_in(&self, group: &std::path::Path) -> bool {
        let members = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        let mut members = members.lines().filter_map(|line| line.parse().ok()).peekable();
        members.peek().is_some() && members.all(|pid: u32| self.pids.contains(&pid))
    }

    fn lost_to(
        &self,
        before: Option<&PressureAtStart>,
        resource: Resource,
        interval_s: f64,
    ) -> Option<PressureFacts> {
        let before = before?;
        let group = before.group.as_deref();
        let now = match group {
            Some(group) => Pressure::of_group(group, resource)?,
            None => Pressure::of_machine(&self.roots, resource)?,
        };
        let share = |before: std::time::Duration, now: std::time::Duration| {
            (now.saturating_sub(before).as_secs_f64() / interval_s.max(1e-9)).min(1.0)
        };
        let below_root = |group: &std::path::Path| {
            let path = group.strip_prefix(&self.roots.cgroup).unwrap_or(group);
            format!("/{}", path.display())
        };
        Some(PressureFacts {
            group: group.map(below_root),
            is_of_program_alone: group.is_some_and(|group| self.is_alone_in(group)),
            some_share: share(before.total.some, now.some),
            full_share: share(before.total.full, now.full),
        })
    }
}

/// What a thread did.
struct ThreadUse {
    now: TaskFacts,
    time: ThreadTime,
    on_cpu: BTreeMap<CpuId, f64>,
}

/// What all threads did together.
struct Sums {
    threads: usize,
    time: ThreadTime,
    /// Seconds on each CPU.
    on_cpu: BTreeMap<CpuId, f64>,
    /// The CPUs on which they may run, each on all of them or some; none without threads.
    may_run_on: Option<CpuSet>,
    /// May each of them run on all of those CPUs?
    same_cpus: bool,
}

impl Sums {
    fn of(uses: impl Iterator<Item = ThreadUse>) -> Self {
        let time = ThreadTime { waiting_s: Some(0.0), ..ThreadTime::default() };
        let mut sums =
            Self { threads: 0, time, on_cpu: BTreeMap::new(), may_run_on: None, same_cpus: true };
        for one in uses {
            sums.threads += 1;
            let time = &mut sums.time;
            time.on_cpu_s += one.time.on_cpu_s;
            time.blocked_s += one.time.blocked_s;
            time.asleep_s += one.time.asleep_s;
            time.waiting_s = time.waiting_s.zip(one.time.waiting_s).map(|(sum, one)| sum + one);
            time.waiting_is_sampled |= one.time.waiting_is_sampled;
            for (cpu, seconds) in one.on_cpu {
                *sums.on_cpu.entry(cpu).or_default() += seconds;
            }
            let before = sums.may_run_on.as_ref();
            sums.same_cpus &= before.is_none_or(|before| *before == one.now.affinity);
            sums.may_run_on = Some(match sums.may_run_on {
                None => one.now.affinity,
                Some(all) => all.union(&one.now.affinity),
            });
        }
        sums
    }
}

impl WatchedThread {
    /// None where the thread ended.
    fn time(&self, roots: &Roots, interval_s: f64) -> Option<ThreadUse> {
        let Task { pid, tid, start_ticks } = self.at_start.task;
        let now = facts(roots, pid, tid).ok().filter(|now| now.task.start_ticks == start_ticks)?;
        let on_cpu_s = now.cpu_ns.saturating_sub(self.at_start.cpu_ns) as f64 * 1e-9;
        let share = |count: u32| f64::from(count) / f64::from(self.seen.max(1));
        let runnable_s = share(self.runnable.values().sum()) * interval_s;
        let blocked_s = (share(self.blocked) * interval_s).min((interval_s - on_cpu_s).max(0.0));
        let counted_s = waited_s(roots, self.at_start.task).zip(self.waited_s);
        let counted_s = counted_s.map(|(now, before)| (now - before).max(0.0));
        let is_sampled =
            counted_s.is_some_and(|counted_s| on_cpu_s + counted_s < EXPLAINED * runnable_s);
        let waiting_s =
            counted_s.map(|counted_s| if is_sampled { runnable_s - on_cpu_s } else { counted_s });
        // A wait may have begun before the start.
        let waiting_s =
            waiting_s.map(|wait| wait.min((interval_s - on_cpu_s - blocked_s).max(0.0)));
        let asleep_s = (interval_s - on_cpu_s - blocked_s - waiting_s.unwrap_or(0.0)).max(0.0);
        let runs: u32 = self.runnable.values().sum();
        let on_cpu = if runs == 0 {
            BTreeMap::from([(now.cpu, on_cpu_s)])
        } else {
            let part = |count: u32| on_cpu_s * f64::from(count) / f64::from(runs);
            self.runnable.iter().map(|(&cpu, &count)| (cpu, part(count))).collect()
        };
        Some(ThreadUse {
            now,
            time: ThreadTime {
                on_cpu_s,
                waiting_s,
                waiting_is_sampled: is_sampled,
                blocked_s,
                asleep_s,
                ..ThreadTime::default()
            },
            on_cpu,
        })
    }
}

/// What was found of a thread, as it is now.
fn as_now(roots: &Roots, found: TaskFacts) -> TaskFacts {
    let now = facts(roots, found.task.pid, found.task.tid).ok();
    now.filter(|now| now.task == found.task).unwrap_or(found)
}

/// Each voluntary switch is taken for the wake-up that ends the sleep.
fn woken(roots: &Roots, task: Task) -> Option<u64> {
    scheduler_counts(roots, task.pid, task.tid).map(|counts| counts.wakeups)
}

fn waited_s(roots: &Roots, task: Task) -> Option<f64> {
    waited_for_cpu(roots, task.pid, task.tid).map(|waited| waited.as_secs_f64())
}

/// Time lost up to the start: of the program's cgroup where that has a figure, else of the machine.
#[derive(Debug)]
struct PressureAtStart {
    group: Option<std::path::PathBuf>,
    total: Pressure,
}

impl PressureAtStart {
    fn read(roots: &Roots, group: Option<&std::path::Path>, resource: Resource) -> Option<Self> {
        let of_group = group.and_then(|group| {
            let total = Pressure::of_group(group, resource)?;
            Some(Self { group: Some(group.to_owned()), total })
        });
        let of_machine =
            || Some(Self { group: None, total: Pressure::of_machine(roots, resource)? });
        of_group.or_else(of_machine)
    }
}

/// What a process did since it began, all its threads together.
#[derive(Debug, Clone, Copy, Default)]
struct Paging {
    major_faults: u64,
    system_s: f64,
}

fn paging(roots: &Roots, pids: &[u32]) -> BTreeMap<u32, Paging> {
    let of = |&pid: &u32| {
        let stat = Process::new(roots, pid).stat_of_all_threads().ok()??;
        Some((pid, Paging { major_faults: stat.major_faults, system_s: stat.system_s() }))
    };
    pids.iter().filter_map(of).collect()
}

/// The unit of the system that a process is in.
fn unit_of(roots: &Roots, pid: u32) -> Option<String> {
    let text = Process::new(roots, pid).cgroups()?;
    let line = cgroup::lines(&text).find(|line| line.is_systemds() && line.path != "/")?;
    let below = line.path.strip_prefix("/system.slice/")?;
    let unit = below.split('/').find(|name| name.ends_with(".service") || name.ends_with(".scope"));
    unit.map(str::to_owned)
}

/// None where all cores are as fast.
fn core_facts(machine: &Machine, on_cpu: &BTreeMap<CpuId, f64>) -> Option<CoreFacts> {
    let capacity = |index: usize| machine.core_types()[machine.cpus()[index].core_type].capacity;
    let all = machine.cpus();
    let fastest = (0..all.len()).map(capacity).fold(0.0, f64::max);
    let is_fast = |index: usize| capacity(index) >= fastest * 0.999;
    if (0..all.len()).all(is_fast) {
        return None;
    }
    let ran = on_cpu.iter().filter_map(|(&cpu, &share)| Some((machine.cpu_index(cpu)?, share)));
    let ran: Vec<(usize, f64)> = ran.collect();
    Some(CoreFacts {
        speed: ran.iter().map(|(cpu, share)| share * capacity(*cpu) / fastest).sum(),
        slow_share: ran.iter().filter(|(cpu, _)| !is_fast(*cpu)).map(|(_, share)| share).sum(),
        fast_cpus: (0..all.len())
            .filter(|&index| is_fast(index))
            .map(|index| all[index].id)
            .collect(),
    })
}

/// None on one node, and for a program whose memory all fits in each LLC under which it ran: it comes from afar once.
///
/// # Errors
/// Why the kernel does not tell where the memory is.
fn memory_facts(
    roots: &Roots,
    machine: &Machine,
    pids: &[u32],
    on_cpu: &BTreeMap<CpuId, f64>,
    may_run_on: &CpuSet,
) -> std::result::Result<Option<MemoryFacts>, String> {
    let nodes = machine.nodes();
    if nodes.len() < 2 {
        return Ok(None);
    }
    let mut bytes = vec![0.0; nodes.len()];
    for &pid in pids {
        let by_node = match bytes_by_node(roots, pid) {
            // What ended meanwhile has no memory.
            Err(error) if is_gone(&error) => continue,
            read => read.map_err(|error| error.to_string())?,
        };
        for (node, of_node) in by_node {
            if let Some(index) = nodes.iter().position(|one| one.os_index == node) {
                bytes[index] += of_node as f64;
            }
        }
    }
    let total: f64 = bytes.iter().sum();
    let mut ran = vec![0.0; nodes.len()];
    for (&cpu, share) in on_cpu {
        if let Some(index) = machine.cpu_index(cpu) {
            ran[machine.cpus()[index].node] += share;
        }
    }
    let llc_bytes = |&cpu: &CpuId| {
        let cache = machine.llcs()[machine.cpus()[machine.cpu_index(cpu)?].llc].cache;
        Some(cache.map_or(0.0, |cache| cache.size_bytes as f64))
    };
    let least_cache = on_cpu.keys().filter_map(llc_bytes).fold(f64::INFINITY, f64::min);
    if total <= least_cache || ran.iter().sum::<f64>() == 0.0 {
        return Ok(None);
    }
    let largest = |values: &[f64]| {
        (0..values.len()).rev().max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap_or(0)
    };
    let (home, at) = (largest(&bytes), largest(&ran));
    let (mut far_share, mut far_time) = (0.0, 0.0);
    for (from, share) in ran.iter().enumerate() {
        for to in (0..nodes.len()).filter(|&to| to != from) {
            let part = share * bytes[to] / total;
            far_share += part;
            far_time += part * machine.latency_ratio(from, to);
        }
    }
    Ok(Some(MemoryFacts {
        home_node: nodes[home].os_index,
        home_share: bytes[home] / total,
        ran_on_node: nodes[at].os_index,
        far_share,
        latency_ratio: if far_share > 0.0 { far_time / far_share } else { 1.0 },
        may_run_at_home: !nodes[home].cpus.is_disjoint(may_run_on),
        home_cpus: nodes[home].cpus.clone(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads, each held on a CPU of its own: the program runs on both CPUs.
    #[test]
    fn a_program_runs_where_any_of_its_threads_may() {
        let of = |cpu: u32| {
            let own = std::process::id();
            let mut now = facts(&Roots::default(), own, own).unwrap();
            now.affinity = CpuSet::from_iter([CpuId(cpu)]);
            let time = ThreadTime { on_cpu_s: 1.0, waiting_s: Some(0.5), ..ThreadTime::default() };
            ThreadUse { now, time, on_cpu: BTreeMap::from([(CpuId(cpu), 1.0)]) }
        };
        let sums = Sums::of([of(0), of(1)].into_iter());
        assert_eq!(sums.may_run_on, Some("0-1".parse().unwrap()));
        assert_eq!((sums.threads, sums.time.waiting_s), (2, Some(1.0)));
        assert_eq!(sums.on_cpu.len(), 2);
        assert_eq!(Sums::of(std::iter::empty()).may_run_on, None);
    }
}
