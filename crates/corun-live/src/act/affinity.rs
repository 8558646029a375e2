//! Where threads may run.

use std::io;

use corun_linux::procfs::Process;
use corun_linux::sysfs::{self, online_cpus};
use corun_linux::{Roots, Task, affinity, cgroup, if_there, is_gone};
use corun_machine::CpuSet;
use corun_policy::ThreadView;

use super::still_there::HeldNumber;
use super::syscalls::set_affinity;
use super::{ApplyMode, Change, Refusal, still_there, touchable};
use crate::{ActError, ManagedThread, Reverted};

/// The change that holds a thread on what it may have of the CPUs asked for; none where it is held
/// so already.
pub(super) fn hold(
    (view, thread): (&ThreadView, &ManagedThread),
    asked: &CpuSet,
    online: &CpuSet,
) -> Result<Option<Change>, Refusal> {
    let allowed = asked.intersection(&thread.may_run_on);
    if allowed.is_empty() {
        let (task, may) = (thread.task(), &thread.may_run_on);
        return Err(Refusal(format!(
            "thread {task} ({}) may run on CPUs {may} only, not on {asked}",
            view.program
        )));
    }
    let after = allowed.intersection(online);
    if after.is_empty() {
        return Err(Refusal(format!(
            "thread {} ({}): none of CPUs {allowed} is on line",
            thread.task(),
            view.program
        )));
    }
    let before = thread.allowed.clone();
    let differs = after != before.intersection(online);
    Ok(differs.then_some(Change::Affinity { task: thread.task(), before, after }))
}

/// Sets a thread's affinity, if it is the thread that was meant and its affinity is as it was.
pub(super) fn apply(
    roots: &Roots,
    task: &Task,
    before: &CpuSet,
    after: &CpuSet,
) -> Result<(), ActError> {
    let number = HeldNumber::of(roots, task);
    touchable(roots, task)?;
    let what = || format!("the affinity of thread {task}");
    let changed = |found: CpuSet| ActError::ChangedByOthers {
        what: what(),
        found: found.to_string(),
        expected: before.to_string(),
    };
    if let Some(found) = other_than(roots, task, before)? {
        return Err(changed(found));
    }
    let found = allowed(roots, task)?;
    set(&number, task, after)?;
    let granted = other_than(roots, task, after);
    if let Ok(None) = granted {
        return Ok(());
    }
    // A cpuset may have been narrowed meanwhile. What we did not ask for must not stay: nobody
    // could tell later that it was ours. Nor must what cannot be read again, of which the caller hears that it failed.
    set(&number, task, &found)?;
    let Some(granted) = granted? else { return Ok(()) };
    Err(ActError::Kernel {
        what: format!("{} could not be {after}", what()),
        reason: io::Error::from_raw_os_error(libc::EINVAL),
        advice: Some(format!("the kernel grants CPUs {granted} only; it is {before} again")),
    })
}

/// Sets a thread's affinity back, if it is as we set it.
///
/// Since Linux 6.2 the kernel keeps what was asked for apart from what the cpuset leaves of it. Therefore
/// `before` is set also where both are the same now: the cpuset may be widened later.
pub(super) fn revert(
    roots: &Roots,
    task: &Task,
    before: &CpuSet,
    after: &CpuSet,
    mode: ApplyMode,
) -> Result<Reverted, ActError> {
    let number = HeldNumber::of(roots, task);
    still_there(roots, task)?;
    let found = allowed(roots, task)?;
    let limit = if_there(cgroup::cpu_limit(roots, task));
    let limit =
        limit.map_err(|reason| failed("reading the CPUs that limit", task, reason))?.flatten();
    let is = |asked: &CpuSet| found == *asked || found == within(asked, limit.as_ref());
    let (is_before, is_after) = (is(before), is(after));
    let all = sysfs::possible_cpus(roots);
    let all = all.map_err(|reason| failed("reading all CPUs for", task, reason))?;
    let asks_for_all = || all.as_ref().is_some_and(|all| all.is_subset(before));
    if mode == ApplyMode::Apply {
        if is_after {
            set(&number, task, before)?;
        } else if is_before && asks_for_all() {
            // Where nothing was asked for, asking for all changes nothing: what we once asked for may
            // linger. Where it may not be set, it never was by us.
            let _ = set(&number, task, before);
        }
    }
    Ok(match (is_before, is_after) {
        (true, _) => Reverted::AsBefore,
        (false, true) => Reverted::Done,
        (false, false) => Reverted::ChangedByOthers { found: found.to_string() },
    })
}

/// What the kernel makes of an affinity that is asked for, where cgroups limit the thread.
fn within(asked: &CpuSet, limit: Option<&CpuSet>) -> CpuSet {
    let Some(limit) = limit else { return asked.clone() };
    let both = asked.intersection(limit);
    if both.is_empty() { limit.clone() } else { both }
}

/// What a thread may use that corun has not touched, as it has to be asked for to get it again: its
/// affinity, CPUs that are off line included, or all CPUs that there can be where nobody ever set an
/// affinity. None where `seen`, which was read before, shows that the affinity was changed since.
///
/// The kernel does not show whether an affinity was set. A thread that may use all that its cgroup may use
/// is taken for one without.
///
/// # Errors
/// When it cannot be read, for another reason than that the thread ended.
pub(crate) fn asked_for(roots: &Roots, task: &Task, seen: &CpuSet) -> io::Result<Option<CpuSet>> {
    let found = Process::new(roots, task.pid).thread_allowed_cpus(task.tid)?;
    let online = if_there(online_cpus(roots))?;
    let limit = if_there(cgroup::cpu_limit(roots, task))?;
    let (Some(found), Some(online), Some(limit)) = (found, online, limit) else { return Ok(None) };
    if found.intersection(&online) != seen.intersection(&online) {
        return Ok(None);
    }
    Ok(Some(match limit.is_some_and(|limit| limit.is_subset(&found)) {
        true => sysfs::possible_cpus(roots)?.map_or(found.clone(), |all| found.union(&all)),
        false => found,
    }))
}

/// The thread's affinity where it is another than `expected`, as far as CPUs are on line.
pub(crate) fn other_than(
    roots: &Roots,
    task: &Task,
    expected: &CpuSet,
) -> Result<Option<CpuSet>, ActError> {
    // The kernel leaves out CPUs that are off line; whoever wrote `expected` may not have.
    let found = affinity(task.tid).map_err(|reason| failed("reading", task, reason))?;
    if &found == expected {
        return Ok(None);
    }
    let online = if_there(online_cpus(roots));
    let online =
        online.map_err(|reason| failed("reading which CPUs are on line for", task, reason))?;
    let same = online.is_some_and(|online| expected.intersection(&online) == found);
    Ok((!same).then_some(found))
}

/// The CPUs that a thread may use, those that are off line included.
fn allowed(roots: &Roots, task: &Task) -> Result<CpuSet, ActError> {
    let read = Process::new(roots, task.pid).thread_allowed_cpus(task.tid);
    let read = read.and_then(|found| found.ok_or_else(|| io::ErrorKind::NotFound.into()));
    read.map_err(|reason| failed("reading", task, reason))
}

fn set(number: &HeldNumber<'_>, task: &Task, cpus: &CpuSet) -> Result<(), ActError> {
    let attempt = || format!("setting to {cpus}");
    set_affinity(task.tid, cpus).map_err(|reason| failed(&attempt(), task, reason))?;
    number.was_of(task, cpus)
}

fn failed(attempt: &str, task: &Task, reason: io::Error) -> ActError {
    if is_gone(&reason) {
        return ActError::Gone { what: format!("thread {task}") };
    }
    let advice = match reason.raw_os_error() {
        Some(libc::EPERM) => Some("run corun as the thread's user or with CAP_SYS_NICE".to_owned()),
        Some(libc::EINVAL) => {
            Some("none of these CPUs is on line and in the thread's cpuset".to_owned())
        }
        _ => None,
    };
    ActError::Kernel { what: format!("{attempt} the affinity of thread {task}"), reason, advice }
}

#[cfg(test)]
#[path = "affinity_tests.rs"]
mod tests;
