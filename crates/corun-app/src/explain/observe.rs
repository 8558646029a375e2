//! Collects the facts about a running program that any user can read from the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use anyhow::anyhow;
use corun_linux::cpu_quota::groups_of_version_2;
use corun_linux::pressure::{Pressure, Resource};
use corun_linux::procfs::{CpuUseSnapshot, Process, Stat, bytes_by_node};
use corun_linux::{NoiseMeter, Roots, TaskFacts, cgroup, is_gone};
use corun_machine::{CpuId, CpuSet, Machine};

use super::facts::{
    CacheFacts, Competitor, CoreFacts, MemoryFacts, PressureFacts, ProgramFacts, WakeupFacts,
};
use super::limits::LimitsAtStart;
use super::shares::{SchedulingPlace, may_give_nice, nice_facts};
use super::standstill::StandstillWatch;
use super::threads::{Sums, TRACED, WatchedThread};
use crate::{Error, Result};

/// All processes are looked at once in so many samples.
const SAMPLES_A_LOOK: u32 = 5;
/// Competitors that are told of, at most.
const MOST_COMPETITORS: usize = 5;
/// A competitor keeps so much of a CPU busy at least.
const LEAST_BUSY: f64 = 0.05;
/// Share of the time that an idle CPU is idle.
const IDLE: f64 = 0.5;
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
    standstill: StandstillWatch,
    /// As last looked at, and what each used of each CPU up to then, in seconds.
    processes: CpuUseSnapshot,
    used: BTreeMap<(u32, CpuId), (Stat, f64)>,
    /// Samples until all processes are looked at again.
    until_look: u32,
    /// One a CPU that is on line.
    meters: Vec<(CpuId, NoiseMeter)>,
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
        let watched = threads.into_iter().map(|found| WatchedThread::start(roots, found));
        let standstill = StandstillWatch::start(roots, &pids);
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
            standstill,
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
        let frozen = self.standstill.frozen();
        for thread in &mut self.threads {
            let task = thread.at_start.task;
            let stat = Process::new(&self.roots, task.pid).thread_stat(task.tid);
            let Ok(Some(stat)) = stat else { continue };
            if stat.start_ticks != task.start_ticks {
                continue;
            }
            thread.sample(&stat, frozen.contains(&task.pid));
            if stat.state == TRACED {
                self.standstill.traced(&self.roots, task);
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
            standstill: self.standstill.found(),
            wakeups: WakeupFacts { woken_per_s, ..WakeupFacts::default() },
        })
    }

    /// How often its threads were woken since the start; none where nobody counts it.
    fn woken(&self) -> Option<u64> {
        let since = |one: &WatchedThread| one.woken_since(&self.roots);
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
