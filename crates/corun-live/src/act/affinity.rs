//! Where threads may run.

use corun_linux::sysfs::online_cpus;
use corun_linux::{Roots, Task, affinity, is_gone};
use corun_machine::CpuSet;
use corun_policy::ThreadView;

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
    Ok((after != before).then_some(Change::Affinity { task: thread.task(), before, after }))
}

/// Sets a thread's affinity, if it is the thread that was meant and its affinity is as it was.
pub(super) fn apply(
    roots: &Roots,
    task: &Task,
    before: &CpuSet,
    after: &CpuSet,
) -> Result<(), ActError> {
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
    set(task, after)?;
    let Some(granted) = other_than(roots, task, after)? else {
        return Ok(());
    };
    // A cpuset may have been narrowed meanwhile. What we did not ask for must not stay: nobody
    // could tell later that it was ours.
    set(task, before)?;
    Err(ActError::Kernel {
        what: format!("{} could not be {after}", what()),
        reason: std::io::Error::from_raw_os_error(libc::EINVAL),
        advice: Some(format!("the kernel grants CPUs {granted} only; it is {before} again")),
    })
}

/// Sets a thread's affinity back, if it is as we set it.
pub(super) fn revert(
    roots: &Roots,
    task: &Task,
    before: &CpuSet,
    after: &CpuSet,
    mode: ApplyMode,
) -> Result<Reverted, ActError> {
    still_there(roots, task)?;
    if other_than(roots, task, before)?.is_none() {
        return Ok(Reverted::AsBefore);
    }
    if let Some(found) = other_than(roots, task, after)? {
        return Ok(Reverted::ChangedByOthers { found: found.to_string() });
    }
    if mode == ApplyMode::Apply {
        set(task, before)?;
    }
    Ok(Reverted::Done)
}

/// The thread's affinity where it is another than `expected`, as far as CPUs are on line.
fn other_than(roots: &Roots, task: &Task, expected: &CpuSet) -> Result<Option<CpuSet>, ActError> {
    // The kernel leaves out CPUs that are off line; whoever wrote `expected` may not have.
    let found = present(task)?;
    if &found == expected {
        return Ok(None);
    }
    let same = online_cpus(roots).is_ok_and(|online| expected.intersection(&online) == found);
    Ok((!same).then_some(found))
}

fn present(task: &Task) -> Result<CpuSet, ActError> {
    affinity(task.tid).map_err(|reason| failed("reading", task, reason))
}

fn set(task: &Task, cpus: &CpuSet) -> Result<(), ActError> {
    let attempt = || format!("setting to {cpus}");
    set_affinity(task.tid, cpus).map_err(|reason| failed(&attempt(), task, reason))
}

fn failed(attempt: &str, task: &Task, reason: std::io::Error) -> ActError {
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
