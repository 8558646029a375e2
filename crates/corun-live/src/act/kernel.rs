//! Where threads run, by corun's scheduler in the kernel (`sched_ext`).

mod groups;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use corun_linux::cgroup::version_2_folder;
use corun_linux::sysfs::online_cpus;
use corun_linux::{Roots, Task, is_gone};
use corun_machine::{CpuSet, Machine};
use corun_policy::{Action, ActionKind, Nanoseconds, ThreadView};
use corun_scx::{PlanError, SCHED_EXT, Scheduler, Stint, ThreadCounts, Wakeups, policy_of};

use super::{
    Actuator, ApplyMode, Change, PlacementActuator, Refusal, affinity, exchanged, managed,
};
use super::{still_there, touchable};
use crate::{ActError, ManagedThread, Reverted, SharedCounts, Threads};
use groups::KernelGroups;

/// `SCHED_RESET_ON_FORK`, a bit beside the policy: children begin with the default policy.
const RESET_ON_FORK: i32 = 0x4000_0000;
/// `SCHED_IDLE`: whoever asked for it wants to run when nobody else does.
const SCHED_IDLE: i32 = 5;

/// Prefers CPUs for threads: a thread that wakes takes an idle CPU of its set, waits there for a time, and then
/// runs elsewhere. What ends corun, be it a `kill -9`, ends the preference.
///
/// A cgroup of version 2 that is held in the place of its threads gets the CPUs that these were sent to, for all its threads,
/// also for those that are born before anybody looks again. Other cgroups, and threads of the policy `SCHED_IDLE`, are
/// placed as by [`PlacementActuator`]. So are all once the kernel detached the scheduler.
#[derive(Debug)]
pub struct KernelPlacement {
    roots: Roots,
    /// None once the kernel detached it.
    scheduler: Option<Scheduler>,
    /// How long a thread waits for its CPUs; none: for ever.
    spill_after: Option<Duration>,
    by_affinity: PlacementActuator,
    groups: KernelGroups,
    online: Option<CpuSet>,
    /// What was counted last of each thread.
    counts: SharedCounts,
    /// What was counted of threads that ended.
    ended: ThreadCounts,
    /// What brings threads that have no plan into the scheduler.
    welcomed: Vec<Change>,
    /// The program of each thread that there was, where it is counted who wakes whom.
    programs: BTreeMap<u32, Arc<str>>,
    /// Where somebody else put threads, as far as the scheduler knows it.
    put_by_others: BTreeMap<u32, CpuSet>,
}

impl KernelPlacement {
    /// With a scheduler that is in force. What that counts is put into `counts` once a tick.
    pub fn new(
        roots: &Roots,
        scheduler: Scheduler,
        spill_after: Option<Duration>,
        counts: SharedCounts,
    ) -> Self {
        Self {
            roots: roots.clone(),
            scheduler: Some(scheduler),
            spill_after,
            by_affinity: PlacementActuator::new(roots),
            groups: KernelGroups::default(),
            online: None,
            counts,
            ended: ThreadCounts::default(),
            welcomed: Vec::new(),
            programs: BTreeMap::new(),
            put_by_others: BTreeMap::new(),
        }
    }

    /// What brings the threads that no plan has named yet into the scheduler, with all CPUs that they may have: of
    /// others it does not know when they run.
    fn welcome(&self, threads: &Threads) -> Vec<Change> {
        let Ok(online) = online_cpus(&self.roots) else { return Vec::new() };
        let strangers = threads.iter().filter(|(_, thread)| {
            thread.preferred.is_none() && !thread.left_alone && self.takes(thread)
        });
        // Who may not be touched is refused again when a plan names it, and then told.
        let changes = strangers.filter_map(|(view, thread)| {
            self.prefer((view, thread), &thread.may_run_on, &online).ok()
        });
        changes.flatten().collect()
    }

    /// A thread that somebody else moved may run on none of its plan's CPUs: the scheduler would take it for one whose CPUs
    /// are off line. Its new CPUs become its plan.
    fn follow_others(&mut self, threads: &Threads) {
        let Some(scheduler) = &mut self.scheduler else { return };
        self.put_by_others.retain(|tid, _| scheduler.has_plan(*tid));
        for (_, thread) in threads.iter().filter(|(_, thread)| thread.left_alone) {
            let (tid, cpus) = (thread.task().tid, &thread.facts.affinity);
            if !scheduler.has_plan(tid) || self.put_by_others.get(&tid) == Some(cpus) {
                continue;
            }
            // Where there is no room for one more set, idle CPUs take the thread.
            let plan = corun_scx::Plan { cpus, spill_after: self.spill_after };
            if scheduler.plan(tid, plan).is_ok() {
                self.put_by_others.insert(tid, cpus.clone());
            }
        }
    }

    /// Who woke whom, by programs, in words; none where that is not counted.
    fn wakers_in_words(&self) -> Option<String> {
        const SHOWN: usize = 8;
        let scheduler = self.scheduler.as_ref().filter(|one| one.options().counts_wakers)?;
        let wakeups = match scheduler.wakeups() {
            Ok(wakeups) => wakeups,
            Err(why) => return Some(format!("who wakes whom cannot be read: {why}")),
        };
        let pairs = by_program(&wakeups, &self.programs);
        if pairs.is_empty() {
            return Some("no thread woke another".to_owned());
        }
        let woke = |(waker, wakee, count): &(&str, &str, u64)| {
            format!("{waker} woke {wakee} {count} times")
        };
        let mut words: Vec<String> = pairs.iter().take(SHOWN).map(woke).collect();
        if pairs.len() > SHOWN {
            words.push(format!("and {} more pairs", pairs.len() - SHOWN));
        }
        Some(words.join(", "))
    }

    /// Reads the counts of all threads, and who woke whom where that is counted.
    fn count(&mut self) {
        let Some(scheduler) = &self.scheduler else { return };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for tid in scheduler.threads() {
            if let Ok(Some(counted)) = scheduler.counts(tid) {
                counts.threads.insert(tid, counted);
            }
        }
        if scheduler.options().counts_wakers
            && let Ok(wakeups) = scheduler.wakeups()
        {
            counts.wakeups = wakeups;
        }
    }

    /// Threads of cgroups that have a plan and that came from elsewhere are brought into the scheduler; those that are in it
    /// are counted.
    fn join_groups(&mut self, threads: &Threads) -> Vec<Change> {
        let Some(scheduler) = &mut self.scheduler else { return Vec::new() };
        let mut joined = Vec::new();
        for (_, thread) in threads.iter() {
            let tid = thread.task().tid;
            if !self.groups.has(thread) || thread.left_alone || scheduler.has_plan(tid) {
                continue;
            }
            if policy_of(tid).is_ok_and(is_ours) {
                scheduler.found(tid);
            } else if may_take(thread) {
                joined.extend(policy_change(thread).ok().flatten());
            }
        }
        joined
    }

    /// Is the thread the scheduler's by itself, or may it be?
    fn takes(&self, thread: &ManagedThread) -> bool {
        self.scheduler.is_some() && thread.group.is_none() && may_take(thread)
    }

    /// The changes that have a thread run on what it may have of the CPUs asked for: in the scheduler, by its cgroup there,
    /// or as by [`PlacementActuator`].
    fn place(
        &mut self,
        thread: (&ThreadView, &ManagedThread),
        asked: &CpuSet,
        threads: &Threads,
        online: &CpuSet,
    ) -> Result<Vec<Change>, Refusal> {
        if self.takes(thread.1) {
            return self.prefer(thread, asked, online);
        }
        let group = thread.1.group.as_ref().filter(|_| self.scheduler.is_some());
        let group = group.and_then(|one| Some((one, version_2_folder(&self.roots, &one.name)?)));
        let Some(group) = group else {
            return Ok(self
                .by_affinity
                .place(thread, asked, threads, online)?
                .into_iter()
                .collect());
        };
        if !may_take(thread.1) {
            return Ok(affinity::hold(thread, asked, online)?.into_iter().collect());
        }
        touchable(&self.roots, &thread.1.task()).map_err(|error| Refusal(error.to_string()))?;
        let held = self.groups.hold(thread, group, asked, threads, online)?;
        Ok(held.into_iter().chain(policy_change(thread.1)?).collect())
    }

    /// The changes that have a thread run on what it may have of the CPUs asked for.
    fn prefer(
        &self,
        (view, thread): (&ThreadView, &ManagedThread),
        asked: &CpuSet,
        online: &CpuSet,
    ) -> Result<Vec<Change>, Refusal> {
        let task = thread.task();
        touchable(&self.roots, &task).map_err(|error| Refusal(error.to_string()))?;
        let after = asked.intersection(&thread.may_run_on).intersection(online);
        if after.is_empty() {
            return Err(none_there((view, thread), asked));
        }
        let before = thread.allowed.clone();
        let mut changes = Vec::new();
        if thread.preferred.as_ref().is_none_or(|preferred| *preferred != after) {
            changes.push(Change::Prefer { task, before, after });
        }
        changes.extend(policy_change(thread)?);
        Ok(changes)
    }
}

impl Actuator for KernelPlacement {
    fn name(&self) -> &'static str {
        "sched-ext"
    }

    fn kinds(&self) -> Vec<ActionKind> {
        vec![ActionKind::Place]
    }

    fn begin_plan(&mut self) {
        self.online = online_cpus(&self.roots).ok();
        self.by_affinity.begin_plan();
        self.groups.begin_plan();
    }

    fn prepare(
        &mut self,
        action: &Action,
        machine: &Machine,
        threads: &Threads,
        now: Nanoseconds,
    ) -> Result<Vec<Change>, Refusal> {
        let online = self.online.clone().or_else(|| online_cpus(&self.roots).ok());
        let online = online.unwrap_or_else(|| machine.cpu_set());
        match action {
            Action::Allow { thread, cpus } => {
                self.place(managed(threads, *thread)?, cpus, threads, &online)
            }
            Action::Swap { first, second } => {
                let (first, second) = (managed(threads, *first)?, managed(threads, *second)?);
                let held = (&first.1.allowed, &second.1.allowed);
                let exchanged = exchanged((first.1, held.0), (second.1, held.1));
                let Some([to_first, to_second]) = exchanged else { return Ok(Vec::new()) };
                let mut changes = self.place(first, &to_first, threads, &online)?;
                changes.extend(self.place(second, &to_second, threads, &online)?);
                Ok(changes)
            }
            _ => self.by_affinity.prepare(action, machine, threads, now),
        }
    }

    fn make(&mut self, change: &Change) -> Option<Result<(), ActError>> {
        let (task, after) = match change {
            Change::Prefer { task, after, .. } => (task, after),
            Change::PreferGroup { group, folder, after, .. } => {
                let plan = corun_scx::Plan { cpus: after, spill_after: self.spill_after };
                let scheduler = self.scheduler.as_mut()?;
                return Some(self.groups.plan(&self.roots, scheduler, (group, folder), plan));
            }
            Change::SchedulingPolicy { task, after, .. } if is_ours(*after) => {
                // In the scheduler's class a thread runs when no other wants its CPU: for that it gets a set of CPUs.
                let has_plan = self.scheduler.as_ref().is_some_and(|one| {
                    one.has_plan(task.tid) || self.groups.covers(&self.roots, one, task)
                });
                let why = || io::Error::other("it has no CPUs in corun's scheduler in the kernel");
                return (!has_plan).then(|| Err(failed(task, why())));
            }
            _ => return None,
        };
        let scheduler = self.scheduler.as_mut()?;
        if let Err(error) = touchable(&self.roots, task) {
            return Some(Err(error));
        }
        let plan = corun_scx::Plan { cpus: after, spill_after: self.spill_after };
        Some(scheduler.plan(task.tid, plan).map_err(|error| match error {
            PlanError::Gone => ActError::Gone { what: format!("thread {task}") },
            other => plan_failed(&format!("thread {task}"), after, other),
        }))
    }

    fn held(&mut self, task: &Task) -> Option<CpuSet> {
        let scheduler = self.scheduler.as_mut()?;
        let is_ours = policy_of(task.tid).is_ok_and(is_ours);
        if is_ours { scheduler.found(task.tid) } else { None }
    }

    fn stints(&mut self) -> io::Result<Vec<Stint>> {
        self.scheduler.as_ref().map_or_else(|| Ok(Vec::new()), Scheduler::take_stints)
    }

    fn told(&mut self) -> Option<String> {
        self.count();
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = counts.threads.values().fold(self.ended, |sum, one| sum.plus(one));
        drop(counts);
        let longest_ms = sum.longest_wait.as_secs_f64() * 1e3;
        (sum.switches > 0).then(|| {
            format!(
                "in the kernel: {} switches to threads and {} wake-ups; an idle CPU of their set took \
                 {} at once, {} were queued, {} spilled, the longest wait was {longest_ms:.1} ms",
                sum.switches, sum.wakeups, sum.took_idle, sum.queued, sum.spilled
            ) + &self.wakers_in_words().map(|words| format!("; {words}")).unwrap_or_default()
        })
    }

    fn scanned(&mut self, threads: &Threads) -> Option<String> {
        let scheduler = self.scheduler.as_mut()?;
        if let Some(why) = scheduler.ended() {
            self.scheduler = None;
            // From here on nobody counts who is in the kernel's own scheduler.
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let all = std::mem::take(&mut *counts);
            self.ended = all.threads.values().fold(self.ended, |sum, one| sum.plus(one));
            return Some(format!(
                "the kernel detached corun's scheduler ({why}); from now on threads are placed by \
                 their affinities"
            ));
        }
        if scheduler.options().counts_wakers {
            let now = threads.iter().map(|(view, one)| (one.task().tid, &*view.program));
            self.programs.extend(now.map(|(tid, program)| (tid, Arc::from(program))));
        }
        let here: BTreeSet<u32> = threads.iter().map(|(_, thread)| thread.task().tid).collect();
        let gone: Vec<u32> = scheduler.threads().filter(|tid| !here.contains(tid)).collect();
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for tid in gone {
            scheduler.forget(tid);
            if let Some(counts) = counts.threads.remove(&tid) {
                self.ended = self.ended.plus(&counts);
            }
        }
        drop(counts);
        self.groups.forget_empty(scheduler, threads);
        self.follow_others(threads);
        let joined = self.join_groups(threads);
        self.count();
        // Of threads that are not in it the scheduler knows nothing.
        let options = self.scheduler.as_ref().map(Scheduler::options).unwrap_or_default();
        let is_for_all = options.keeps_stints || options.counts_wakers;
        self.welcomed = if is_for_all { self.welcome(threads) } else { Vec::new() };
        self.welcomed.extend(joined);
        None
    }

    fn due(&mut self, _now: Nanoseconds) -> Vec<Change> {
        std::mem::take(&mut self.welcomed)
    }
}

/// How often threads of one program woke threads of another, most often first. What woke a thread and has no program
/// here, such as an interrupt or a thread of somebody else, is "others".
fn by_program<'a>(
    wakeups: &[Wakeups],
    programs: &'a BTreeMap<u32, Arc<str>>,
) -> Vec<(&'a str, &'a str, u64)> {
    let program = |tid: u32| programs.get(&tid).map_or("others", |program| &**program);
    let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for one in wakeups {
        *sums.entry((program(one.waker), program(one.wakee))).or_default() += one.count;
    }
    let mut pairs: Vec<_> =
        sums.into_iter().map(|((waker, wakee), count)| (waker, wakee, count)).collect();
    pairs.sort_by_key(|&(waker, wakee, count)| (Reverse(count), waker, wakee));
    pairs
}

/// Is a policy that of corun's scheduler?
fn is_ours(policy: i32) -> bool {
    policy & !RESET_ON_FORK == SCHED_EXT
}

/// May a thread be brought into the scheduler?
fn may_take(thread: &ManagedThread) -> bool {
    let policy = policy_of(thread.task().tid).map(|policy| policy & !RESET_ON_FORK);
    policy.is_ok_and(|policy| policy != SCHED_IDLE)
}

/// The change that brings a thread into the scheduler's class; none where it is there.
fn policy_change(thread: &ManagedThread) -> Result<Option<Change>, Refusal> {
    let task = thread.task();
    let before = policy_of(task.tid).map_err(|error| Refusal(error.to_string()))?;
    let after = SCHED_EXT | before & RESET_ON_FORK;
    Ok((!is_ours(before)).then_some(Change::SchedulingPolicy { task, before, after }))
}

fn none_there((view, thread): (&ThreadView, &ManagedThread), asked: &CpuSet) -> Refusal {
    let (task, may) = (thread.task(), &thread.may_run_on);
    Refusal(format!(
        "thread {task} ({}) may run on CPUs {may}, and none of {asked} is on line and among them",
        view.program
    ))
}

fn plan_failed(what: &str, cpus: &CpuSet, reason: PlanError) -> ActError {
    ActError::Kernel {
        what: format!("preferring CPUs {cpus} for {what}"),
        reason: io::Error::other(reason),
        advice: None,
    }
}

/// Why a preference cannot be set by anybody but the actuator that has the scheduler.
pub(super) fn not_in_force(what: &str) -> ActError {
    ActError::Kernel {
        what: format!("preferring CPUs for {what}"),
        reason: io::ErrorKind::Unsupported.into(),
        advice: Some("corun's scheduler in the kernel is not in force".to_owned()),
    }
}

/// The policy of a thread that is born to one of this policy: whoever resets policies at fork hands the reset on to
/// nobody.
pub(crate) fn inherited_policy(of_maker: i32) -> i32 {
    of_maker & !RESET_ON_FORK
}

/// Sets a thread's scheduling policy, if it is the thread that was meant and its policy is as it was.
pub(super) fn set_policy(
    roots: &Roots,
    task: &Task,
    before: i32,
    after: i32,
) -> Result<(), ActError> {
    touchable(roots, task)?;
    let found = policy_of(task.tid).map_err(|reason| failed(task, reason))?;
    if found != before {
        return Err(ActError::ChangedByOthers {
            what: format!("the scheduling policy of thread {task}"),
            found: policy_name(found),
            expected: policy_name(before),
        });
    }
    corun_scx::set_policy(task.tid, after).map_err(|reason| failed(task, reason))
}

/// Sets a thread's scheduling policy back, if it is as we set it.
pub(super) fn revert_policy(
    roots: &Roots,
    task: &Task,
    before: i32,
    after: i32,
    mode: ApplyMode,
) -> Result<Reverted, ActError> {
    still_there(roots, task)?;
    let found = policy_of(task.tid).map_err(|reason| failed(task, reason))?;
    if found == before {
        return Ok(Reverted::AsBefore);
    }
    if found != after {
        return Ok(Reverted::ChangedByOthers { found: policy_name(found) });
    }
    if mode == ApplyMode::Apply {
        corun_scx::set_policy(task.tid, before).map_err(|reason| failed(task, reason))?;
    }
    Ok(Reverted::Done)
}

fn failed(task: &Task, reason: io::Error) -> ActError {
    if is_gone(&reason) {
        return ActError::Gone { what: format!("thread {task}") };
    }
    let advice = (reason.raw_os_error() == Some(libc::EPERM))
        .then(|| "run corun as the thread's user or with CAP_SYS_NICE".to_owned());
    ActError::Kernel { what: format!("the scheduling policy of thread {task}"), reason, advice }
}

/// A scheduling policy as `linux/sched.h` has it.
pub(super) fn policy_name(policy: i32) -> String {
    match policy & !RESET_ON_FORK {
        0 => "SCHED_OTHER".to_owned(),
        3 => "SCHED_BATCH".to_owned(),
        SCHED_IDLE => "SCHED_IDLE".to_owned(),
        SCHED_EXT => "SCHED_EXT".to_owned(),
        other => format!("policy {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::sleeper::Sleeper;

    /// SCHED_BATCH stands in for SCHED_EXT, which older kernels do not know.
    #[test]
    fn a_policy_is_set_and_set_back_where_nobody_else_changed_it() {
        const BATCH: i32 = 3;
        let (roots, sleeper) = (Roots::default(), Sleeper::new());
        let task = sleeper.task;
        let change = Change::SchedulingPolicy { task, before: 0, after: BATCH };
        change.apply(&roots).unwrap();
        assert_eq!(policy_of(task.tid).unwrap(), BATCH);
        assert!(matches!(change.apply(&roots), Err(ActError::ChangedByOthers { .. })));
        assert_eq!(change.would_revert(&roots).unwrap(), Reverted::Done);
        assert_eq!(change.revert(&roots).unwrap(), Reverted::Done);
        assert_eq!(policy_of(task.tid).unwrap(), 0);
        assert_eq!(change.revert(&roots).unwrap(), Reverted::AsBefore);
        let shown = change.to_string();
        assert!(shown.ends_with("SCHED_OTHER to SCHED_BATCH"), "{shown}");
    }

    /// Only who may raise priorities can take the reset away again: giving it to a child would be for good.
    #[test]
    fn a_reset_at_fork_is_not_inherited() {
        assert_eq!(inherited_policy(3 | RESET_ON_FORK), 3);
        assert_eq!(inherited_policy(SCHED_IDLE), SCHED_IDLE);
    }

    /// A plan for which the kernel has no room, or that came after the kernel detached the scheduler.
    #[test]
    fn a_thread_without_a_plan_is_not_brought_into_the_schedulers_class() {
        let (roots, sleeper) = (Roots::default(), Sleeper::new());
        let mut placement = KernelPlacement {
            roots: roots.clone(),
            scheduler: None,
            spill_after: None,
            by_affinity: PlacementActuator::new(&roots),
            groups: KernelGroups::default(),
            online: None,
            counts: SharedCounts::default(),
            ended: ThreadCounts::default(),
            welcomed: Vec::new(),
            programs: BTreeMap::new(),
            put_by_others: BTreeMap::new(),
        };
        let mut made = |before, after| {
            placement.make(&Change::SchedulingPolicy { task: sleeper.task, before, after })
        };
        assert!(matches!(made(0, SCHED_EXT), Some(Err(ActError::Kernel { .. }))));
        assert!(matches!(made(0, SCHED_EXT | RESET_ON_FORK), Some(Err(_))));
        // Back to what it was it may always go.
        assert!(made(SCHED_EXT, 0).is_none());
    }

    #[test]
    fn wake_ups_are_summed_by_programs() {
        let programs = [(1, "a"), (2, "a"), (3, "b")].map(|(tid, name)| (tid, Arc::from(name)));
        let woke = |waker, wakee, count| Wakeups { waker, wakee, count };
        let wakeups = [woke(1, 3, 5), woke(2, 3, 6), woke(3, 1, 11), woke(9, 2, 40), woke(1, 2, 1)];
        let programs = BTreeMap::from(programs);
        let expected = [("others", "a", 40), ("a", "b", 11), ("b", "a", 11), ("a", "a", 1)];
        assert_eq!(by_program(&wakeups, &programs), expected);
    }

    #[test]
    fn what_the_kernel_gives_back_is_in_no_journal() {
        let sleeper = Sleeper::new();
        let (before, after) = (sleeper.found.clone(), sleeper.found.clone());
        let change = Change::Prefer { task: sleeper.task, before, after };
        assert!(!change.outlives_corun());
        assert!(matches!(change.apply(&Roots::default()), Err(ActError::Kernel { .. })));
        assert_eq!(change.revert(&Roots::default()).unwrap(), Reverted::AsBefore);
    }
}
