//! `linux-sched-cache`: the kernel's own rule for last-level caches (CONFIG_SCHED_CACHE), which brings the threads
//! of a process together and does not look at contention.
//!
//! After Linux 7.3, `kernel/sched/fair.c`: `task_cache_work` chooses a process's preferred LLC, `invalid_llc_nr`
//! says which processes have none, `can_migrate_llc` which threads go there and which may leave.
//!
//! Beyond the kernel's rule, processes whose threads wake each other often can count as one: they share data as the
//! threads of a process do. Who wakes whom is known where corun's scheduler in the kernel counts it.

use std::collections::{BTreeMap, BTreeSet};

use corun_machine::{CpuSet, Machine};

use super::wake_partners::Partners;

use crate::{
    Action, ActionKind, Build, BuildOptions, Interval, LiveForm, Nanoseconds, Needs, Parameter,
    ParameterKind, Plan, Policy, PolicyEntry, ProcessId, ThreadId, ThreadState, ThreadView, View,
};

/// `EPOCH_PERIOD`: run times count half after each.
const EPOCH: Nanoseconds = Nanoseconds(10_000_000);
/// `EPOCH_LLC_AFFINITY_TIMEOUT`: a process that did not run for so many epochs has no preferred LLC.
const TIMEOUT_EPOCHS: u64 = 5;
/// What is left of a CPU's utilization after an epoch: half after 32 ms (`kernel/sched/pelt.c`).
const UTILIZATION_KEPT: f64 = 0.805_245;

const OVERAGGREGATION_PCT: Parameter = Parameter {
    name: "overaggr-pct",
    kind: ParameterKind::Number,
    default: 50.0,
    min: 1.0,
    max: 100.0,
    summary: "percent of an LLC's CPUs below which threads are brought there (llc_overaggr_pct)",
};
const IMBALANCE_PCT: Parameter = Parameter {
    name: "imb-pct",
    kind: ParameterKind::Number,
    default: 20.0,
    min: 0.0,
    max: 100.0,
    summary: "percent by which one LLC may be busier than the other (llc_imb_pct)",
};

const WAKES_TOGETHER: Parameter = Parameter {
    name: "wakes-together",
    kind: ParameterKind::Number,
    default: 0.0,
    min: 0.0,
    max: 1e9,
    summary: "wake-ups a second between two processes from which they count as one; 0: never, as in the kernel",
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "linux-sched-cache",
    summary: "brings the threads of a process to one LLC, as Linux 7.3 does; blind to contention",
    source: "Linux 7.3, kernel/sched/fair.c (CONFIG_SCHED_CACHE): task_cache_work, can_migrate_llc",
    parameters: &[OVERAGGREGATION_PCT, IMBALANCE_PCT, WAKES_TOGETHER],
    build: Build::Policy(|options: &BuildOptions| {
        Box::new(LinuxSchedCache {
            overaggregation_pct: options.value(&OVERAGGREGATION_PCT),
            imbalance_pct: options.value(&IMBALANCE_PCT),
            partners: Partners::new(options.value(&WAKES_TOGETHER)),
            ..LinuxSchedCache::default()
        })
    }),
    live: LiveForm::AS_LIVE,
};

#[derive(Default)]
struct LinuxSchedCache {
    overaggregation_pct: f64,
    imbalance_pct: f64,
    epoch: u64,
    /// Of each CPU by its index: run time of all threads, counted half after each epoch, in nanoseconds.
    run_ns: Vec<f64>,
    threads: BTreeMap<ThreadId, Tracked>,
    /// By process, of processes that count as one by the first of these.
    processes: BTreeMap<ProcessId, Group>,
    partners: Partners,
}

/// A thread, as the rule follows it.
#[derive(Debug, Clone, Copy, Default)]
struct Tracked {
    /// Its time on CPUs at the last look, in nanoseconds.
    cpu_time_ns: f64,
    /// Share of a CPU that it takes, 0 to 1.
    utilization: f64,
    /// Is it held on its process's preferred LLC?
    is_held: bool,
}

/// A process's `struct sched_cache_group`.
#[derive(Debug, Clone, Default)]
struct Group {
    /// Of each CPU by its index, as [`LinuxSchedCache::run_ns`].
    run_ns: Vec<f64>,
    preferred: Option<usize>,
    /// `nr_running_avg`.
    running: i64,
    ran_in: u64,
}

/// What `can_migrate_llc` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Migration {
    Forbidden,
    ForTheCache,
    /// As the load balancer wants.
    Unrestricted,
}

/// The index of the LLC of each CPU, by the CPU's index.
fn llc_by_cpu(machine: &Machine) -> Vec<usize> {
    let mut of = vec![0; machine.cpus().len()];
    for (index, llc) in machine.llcs().iter().enumerate() {
        for cpu in llc.cpus.iter().filter_map(|cpu| machine.cpu_index(cpu)) {
            of[cpu] = index;
        }
    }
    of
}

fn hardware_threads(machine: &Machine) -> usize {
    machine.cores().iter().map(|core| core.cpus.iter().count()).max().unwrap_or(1)
}

impl Group {
    /// Has the process too few or too many threads for a preferred LLC (`invalid_llc_nr`)? More run than fit
    /// into four fifths of the LLC (`fits_capacity`).
    fn is_invalid(&self, threads: usize, per_core: usize, llc_cpus: usize) -> bool {
        threads <= 1 || self.running as usize * per_core * 1280 >= llc_cpus * 1024
    }

    /// One look of `task_cache_work`. `running`: how many of its threads run now.
    fn look(&mut self, all_run_ns: &[f64], llc_of: &[usize], llc_cpus: &[usize], running: usize) {
        let mut share = vec![0.0; llc_cpus.len()];
        for (cpu, &llc) in llc_of.iter().enumerate() {
            share[llc] += self.run_ns[cpu] / (all_run_ns[cpu] + 1.0);
        }
        let now = self.preferred.map_or(0.0, |llc| share[llc]);
        let most = (0..share.len()).rev().max_by(|&a, &b| share[a].total_cmp(&share[b]));
        // Twice as much as at the old one: the preferred LLC shall not change often.
        if let Some(most) = most.filter(|&most| share[most] > 2.0 * now) {
            self.preferred = Some(most);
        }
        // `update_avg_scale`, in whole numbers as there.
        let cpus = llc_cpus[self.preferred.unwrap_or(0)] as i64;
        self.running += (running as i64 - self.running) / (cpus / 4).clamp(2, 8);
    }
}

impl LinuxSchedCache {
    /// Brings run times and utilization up to now.
    fn count(&mut self, view: &View<'_>, cpus: usize) {
        let epoch = view.now.0 / EPOCH.0;
        let epochs = i32::try_from(epoch - self.epoch.min(epoch)).unwrap_or(i32::MAX);
        self.epoch = epoch;
        let (kept, used) = (0.5f64.powi(epochs), UTILIZATION_KEPT.powi(epochs));
        self.run_ns.resize(cpus, 0.0);
        self.run_ns.iter_mut().for_each(|run| *run *= kept);
        for group in self.processes.values_mut() {
            group.run_ns.iter_mut().for_each(|run| *run *= kept);
        }
        for thread in view.threads {
            let process = self.partners.of(thread.process);
            let group = self.processes.entry(process).or_default();
            group.run_ns.resize(cpus, 0.0);
            let total = thread.counts.cpu_time.map_or(0.0, |time| time.total);
            let tracked = self.threads.entry(thread.id).or_default();
            let ran = (total - tracked.cpu_time_ns).max(0.0);
            tracked.cpu_time_ns = total;
            if epochs > 0 {
                let share = (ran / (f64::from(epochs) * EPOCH.0 as f64)).min(1.0);
                tracked.utilization = tracked.utilization * used + share * (1.0 - used);
            }
            let cpu = thread.cpu.and_then(|cpu| view.machine.cpu_index(cpu));
            if let Some(cpu) = cpu.filter(|_| ran > 0.0) {
                self.run_ns[cpu] += ran;
                group.run_ns[cpu] += ran;
                group.ran_in = epoch;
            }
        }
    }

    /// Chooses each process's preferred LLC.
    fn prefer(&mut self, view: &View<'_>, llc_of: &[usize], llc_cpus: &[usize]) {
        let per_core = hardware_threads(view.machine);
        let mut threads: BTreeMap<ProcessId, (usize, usize)> = BTreeMap::new();
        for thread in view.threads {
            let (all, running) = threads.entry(self.partners.of(thread.process)).or_default();
            *all += 1;
            *running += usize::from(thread.state == ThreadState::Running);
        }
        self.processes.retain(|process, _| threads.contains_key(process));
        for (process, group) in &mut self.processes {
            let (all, running) = threads[process];
            let cpus = llc_cpus[group.preferred.unwrap_or(0)];
            let is_idle = self.epoch - group.ran_in > TIMEOUT_EPOCHS;
            if is_idle || group.is_invalid(all, per_core, cpus) {
                group.preferred = None;
            } else {
                group.look(&self.run_ns, llc_of, llc_cpus, running);
            }
        }
    }

    /// May a thread of this utilization go from one LLC to another (`can_migrate_llc`)? Utilizations and
    /// capacities are in CPUs, the thread's among those of `from`.
    fn may_migrate(
        &self,
        (used, cpus): (&[f64], &[usize]),
        (from, to): (usize, usize),
        thread: f64,
        is_to_preferred: bool,
        per_core: usize,
    ) -> Migration {
        let pct = self.overaggregation_pct * if per_core == 1 { 1.5 } else { 1.0 };
        let fits = |used: f64, llc: usize| used * 100.0 < cpus[llc] as f64 * pct;
        let is_greater = |one: f64, other: f64| one * 100.0 > other * (100.0 + self.imbalance_pct);
        let (source, target) = ((used[from] - thread).max(0.0), used[to] + thread);
        if !fits(target, to) && !fits(source, from) {
            return Migration::Unrestricted;
        }
        let is_forbidden = match is_to_preferred {
            true => !fits(target, to) && is_greater(target, source),
            false => fits(source, from) || !is_greater(source, target),
        };
        if is_forbidden { Migration::Forbidden } else { Migration::ForTheCache }
    }

    /// Is a thread to be on its preferred LLC until the next look?
    fn is_to_be_held(
        &self,
        (used, cpus): (&[f64], &[usize]),
        (at, preferred): (usize, usize),
        thread: f64,
        per_core: usize,
    ) -> bool {
        if at != preferred {
            let answer = self.may_migrate((used, cpus), (at, preferred), thread, true, per_core);
            return answer == Migration::ForTheCache;
        }
        // The load balancer would take it to where there is most room.
        let room = |llc: usize| cpus[llc] as f64 - used[llc];
        let others = (0..cpus.len()).filter(|&llc| llc != preferred);
        let Some(other) = others.max_by(|&a, &b| room(a).total_cmp(&room(b))) else { return false };
        let answer = self.may_migrate((used, cpus), (preferred, other), thread, false, per_core);
        answer == Migration::Forbidden
    }
}

impl Policy for LinuxSchedCache {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn needs(&self) -> Needs {
        Needs {
            interval: Interval::Time(EPOCH),
            controls: vec![ActionKind::Place],
            ..Needs::default()
        }
    }

    fn hears_wakers(&self) -> bool {
        self.partners.from_per_s > 0.0
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        let llc_of = llc_by_cpu(view.machine);
        let llcs: Vec<&CpuSet> = view.machine.llcs().iter().map(|llc| &llc.cpus).collect();
        let cpus: Vec<usize> = llcs.iter().map(|llc| llc.iter().count()).collect();
        self.partners.look(view, view.now.0 / EPOCH.0 - self.epoch.min(view.now.0 / EPOCH.0));
        self.count(view, llc_of.len());
        self.prefer(view, &llc_of, &cpus);
        let at = |thread: &ThreadView| {
            let cpu = thread.cpu.and_then(|cpu| view.machine.cpu_index(cpu))?;
            Some(llc_of[cpu])
        };
        let mut used = vec![0.0; llcs.len()];
        for thread in view.threads {
            if let Some(llc) = at(thread) {
                used[llc] += self.threads[&thread.id].utilization;
            }
        }
        let per_core = hardware_threads(view.machine);
        let mut plan = Plan::none();
        let present: BTreeSet<ThreadId> = view.threads.iter().map(|thread| thread.id).collect();
        self.threads.retain(|id, _| present.contains(id));
        for thread in view.threads {
            let Tracked { utilization, is_held, .. } = self.threads[&thread.id];
            let process = self.partners.of(thread.process);
            let preferred = self.processes[&process].preferred;
            let wanted = preferred.zip(at(thread)).filter(|&(preferred, at)| {
                !thread.may_run_on.is_disjoint(llcs[preferred])
                    && self.is_to_be_held((&used, &cpus), (at, preferred), utilization, per_core)
            });
            let (set, reason) = match wanted {
                Some((preferred, at)) => {
                    used[at] -= utilization;
                    used[preferred] += utilization;
                    let set = thread.may_run_on.intersection(llcs[preferred]);
                    let others = self.partners.others(process);
                    (set, format!("{}: to {others}, on LLC {preferred}", thread.program))
                }
                None if is_held => {
                    (thread.may_run_on.clone(), format!("{}: left to the balancer", thread.program))
                }
                None => continue,
            };
            let tracked = self.threads.entry(thread.id).or_default();
            tracked.is_held = wanted.is_some();
            if set != thread.allowed {
                plan.push(Action::Allow { thread: thread.id, cpus: set }, reason);
            }
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use corun_machine::CpuId;

    use super::*;
    use crate::{build, fixture};

    /// Threads of one process on these CPUs, each of which ran all the time until `looks` epochs.
    struct Host {
        machine: Machine,
        threads: Vec<ThreadView>,
        policy: Box<dyn Policy>,
        looks: u64,
    }

    impl Host {
        fn new(machine: Machine, cpus: &[u32]) -> Self {
            let mut threads = fixture::threads(&machine, &vec![None; cpus.len()]);
            for (thread, &cpu) in threads.iter_mut().zip(cpus) {
                thread.process = ProcessId(0);
                thread.cpu = Some(CpuId(cpu));
                thread.state = ThreadState::Running;
            }
            let policy = build(ENTRY.name, &BuildOptions::default()).unwrap();
            Self { machine, threads, policy, looks: 0 }
        }

        /// Lets everybody run for an epoch and carries out what is decided.
        fn look(&mut self) -> Vec<(usize, CpuSet)> {
            self.looks += 1;
            let ran = (self.looks * EPOCH.0) as f64;
            for thread in &mut self.threads {
                thread.counts.cpu_time = Some(crate::Count::new(ran, Nanoseconds(ran as u64)));
            }
            let now = Nanoseconds(self.looks * EPOCH.0);
            let view = View { machine: &self.machine, threads: &self.threads, now };
            let plan = self.policy.decide(&view);
            let mut done = Vec::new();
            for step in plan.steps {
                let Action::Allow { thread, cpus } = step.action else { panic!("{step:?}") };
                let index = thread.0 as usize;
                self.threads[index].allowed.clone_from(&cpus);
                done.push((index, cpus));
            }
            done
        }
    }

    /// Two LLCs of eight cores, three threads of a process: two run on LLC 0 and one on LLC 1. There is no preferred
    /// LLC to begin with, and LLC 0 has the larger share of run time.
    #[test]
    fn threads_of_a_process_come_together_where_most_of_them_ran() {
        let mut host = Host::new(fixture::tree(1, 2, 8), &[0, 1, 8]);
        let llc: CpuSet = "0-7".parse().unwrap();
        assert_eq!(host.look(), [(0, llc.clone()), (1, llc.clone()), (2, llc)]);
        host.threads[2].cpu = Some(CpuId(2));
        for _ in 0..10 {
            assert_eq!(host.look(), []);
        }
    }

    /// A recording may say any time: after half a year and more the run times of before count nothing.
    #[test]
    fn a_look_after_years_begins_anew() {
        let mut host = Host::new(fixture::tree(1, 2, 8), &[0, 1, 8]);
        host.looks = 3 << 31;
        assert_eq!(host.look().len(), 3);
    }

    /// Two processes of a thread each, on two LLCs. They wake each other 2000 times a second, and count as one from 1000
    /// on; one that the kernel would leave where it is comes to the other.
    #[test]
    fn processes_that_wake_each_other_come_together_where_that_is_asked_for() {
        for (asked, expected) in [(0.0, 0), (1000.0, 2)] {
            let mut host = Host::new(fixture::tree(1, 2, 8), &[0, 8]);
            let parameters = [("wakes-together".to_owned(), asked)].into();
            let options = BuildOptions { parameters, ..BuildOptions::default() };
            host.policy = build(ENTRY.name, &options).unwrap();
            assert_eq!(host.policy.hears_wakers(), asked > 0.0);
            host.threads[1].process = ProcessId(1);
            let mut steps = Vec::new();
            for look in 0..10 {
                let waker = crate::Waker { thread: ThreadId(0), count: 20 * look };
                host.threads[1].woken_by = vec![waker];
                steps.extend(host.look());
            }
            assert_eq!(steps.len(), expected, "{steps:?}");
            assert!(steps.windows(2).all(|two| two[0].1 == two[1].1), "{steps:?}");
        }
    }

    #[test]
    fn a_process_of_one_thread_has_no_preferred_llc() {
        let mut host = Host::new(fixture::tree(1, 2, 8), &[0, 8]);
        host.threads[1].process = ProcessId(1);
        for _ in 0..20 {
            assert_eq!(host.look(), []);
        }
    }

    /// More than four fifths of an LLC of two run: they are let go, once the average of those that run says so.
    #[test]
    fn a_process_that_fills_an_llc_is_left_to_the_balancer() {
        let mut host = Host::new(fixture::tree(1, 2, 2), &[0, 1, 2, 3]);
        let steps: Vec<_> = (0..20).flat_map(|_| host.look()).collect();
        let all: CpuSet = "0-3".parse().unwrap();
        assert!(steps.iter().all(|(_, cpus)| *cpus == all || cpus.iter().count() == 2));
        assert!(host.threads.iter().all(|thread| thread.allowed == all), "{steps:?}");
    }

    /// The tables in the comment on `can_migrate_llc`, for an LLC of ten CPUs with hardware threads, of which the
    /// thread takes none: rows are the LLC that it is on, columns the other, in tenths.
    #[test]
    fn threads_move_by_the_kernels_tables() {
        use Migration::{ForTheCache as Y, Forbidden as N, Unrestricted as G};
        let policy = LinuxSchedCache {
            overaggregation_pct: 50.0,
            imbalance_pct: 20.0,
            ..LinuxSchedCache::default()
        };
        let answers = |is_to_preferred: bool| -> Vec<Vec<Migration>> {
            let row = |from: f64| {
                let answer = |to: f64| {
                    let used = [from, to];
                    policy.may_migrate((&used, &[10, 10]), (0, 1), 0.0, is_to_preferred, 2)
                };
                [3.0, 4.0, 4.99, 6.0].map(answer).to_vec()
            };
            [3.0, 4.0, 5.0, 6.0].map(row).to_vec()
        };
        // The kernel's comment says Y from 40 to 60 percent, its code N: 60 is more than 40 and a fifth.
        let there = vec![vec![Y, Y, Y, N], vec![Y, Y, Y, N], vec![Y, Y, Y, G], vec![Y, Y, Y, G]];
        assert_eq!(answers(true), there);
        // The comment says N from 50 percent to less, the code Y: 50 is not below the half.
        let back = vec![vec![N, N, N, N], vec![N, N, N, N], vec![Y, Y, N, G], vec![Y, Y, Y, G]];
        assert_eq!(answers(false), back);
    }

    #[test]
    fn nobody_is_sent_where_the_user_does_not_allow() {
        let mut host = Host::new(fixture::tree(1, 2, 8), &[0, 1, 8]);
        host.threads[2].may_run_on = "8-15".parse().unwrap();
        host.threads[2].allowed = "8-15".parse().unwrap();
        let steps = host.look();
        assert!(steps.iter().all(|(thread, _)| *thread != 2), "{steps:?}");
    }
}
