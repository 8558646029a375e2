//! Weights of threads, as the kernel knows them: nice values.

use std::collections::BTreeMap;

use corun_linux::procfs::{Process, Stat};
use corun_linux::{Roots, Task, is_gone};
use corun_machine::Machine;
use corun_policy::{Action, ActionKind, Nanoseconds};
use rustix::process::{Pid, setpriority_process};

use super::{Actuator, ApplyMode, Change, Refusal, managed, still_there, touchable};
use crate::{ActError, Reverted, Threads};

/// The kernel's weights of nice -20 to 19 (`sched_prio_to_weight`); that of 0 is 1024.
const WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];
/// `CAP_SYS_NICE`, as a bit of the line `CapEff` in `/proc/PID/status`.
const MAY_RENICE: u64 = 1 << 23;

/// Gives threads the nice value that comes nearest to a weight, for a while or for good.
///
/// Lowering a nice value needs CAP_SYS_NICE or a limit of the thread's own (`ulimit -e`). What could
/// not be undone for want of them is refused.
#[derive(Debug)]
pub struct Nice {
    roots: Roots,
    expiring: BTreeMap<Task, Expiring>,
}

#[derive(Debug)]
struct Expiring {
    before: i32,
    set: i32,
    until: Nanoseconds,
}

impl Nice {
    /// For the machine whose file systems are there.
    pub fn new(roots: &Roots) -> Self {
        Self { roots: roots.clone(), expiring: BTreeMap::new() }
    }

    /// The lowest nice value that this process may give a thread.
    fn lowest(&self, task: &Task) -> i32 {
        let own = Process::of_self(&self.roots).capabilities();
        if own.is_some_and(|held| held & MAY_RENICE != 0) {
            return -20;
        }
        Process::new(&self.roots, task.pid).lowest_nice().unwrap_or(20)
    }
}

/// The nice value whose weight is nearest by ratio.
fn nice_of(weight: f64) -> Option<i32> {
    if !(weight.is_finite() && weight > 0.0) {
        return None;
    }
    let apart =
        |nice: i32| (f64::from(WEIGHTS[(nice + 20) as usize]) / (weight * 1024.0)).ln().abs();
    (-20..20).min_by(|&one, &other| apart(one).total_cmp(&apart(other)))
}

impl Actuator for Nice {
    fn name(&self) -> &'static str {
        "nice"
    }

    fn kinds(&self) -> Vec<ActionKind> {
        vec![ActionKind::SetWeight]
    }

    fn prepare(
        &mut self,
        action: &Action,
        _machine: &Machine,
        threads: &Threads,
        _now: Nanoseconds,
    ) -> Result<Vec<Change>, Refusal> {
        let Action::SetWeight { thread, weight, until } = action else {
            return Err(Refusal::not_by(self.name()));
        };
        let task = managed(threads, *thread)?.1.task();
        let before =
            touchable(&self.roots, &task).map_err(|error| Refusal(error.to_string()))?.nice;
        let after = nice_of(*weight)
            .ok_or_else(|| Refusal(format!("{weight} is no weight: expected a number above 0")))?;
        let lowest = self.lowest(&task);
        if before != after && before.min(after) < lowest {
            return Err(Refusal(format!(
                "nice {before} to {after} of thread {task} could not be made or undone: without \
                 CAP_SYS_NICE or `ulimit -e` the lowest nice value is {lowest}"
            )));
        }
        let known = self.expiring.remove(&task);
        if let Some(until) = *until {
            let before = known.map_or(before, |known| known.before);
            self.expiring.insert(task, Expiring { before, set: after, until });
        }
        Ok((before != after).then_some(Change::Nice { task, before, after }).into_iter().collect())
    }

    fn due(&mut self, now: Nanoseconds) -> Vec<Change> {
        let due = |expiring: &Expiring| expiring.until <= now;
        let tasks: Vec<Task> =
            self.expiring.iter().filter(|(_, one)| due(one)).map(|(task, _)| *task).collect();
        let back = |task: Task| {
            let Expiring { before, set, .. } = self.expiring.remove(&task)?;
            (before != set).then_some(Change::Nice { task, before: set, after: before })
        };
        tasks.into_iter().filter_map(back).collect()
    }
}

/// Sets a thread's nice value, if it is the thread that was meant and its value is as it was.
pub(super) fn apply(roots: &Roots, task: &Task, before: i32, after: i32) -> Result<(), ActError> {
    let found = touchable(roots, task)?.nice;
    if found != before {
        return Err(ActError::ChangedByOthers {
            what: format!("the nice value of thread {task}"),
            found: found.to_string(),
            expected: before.to_string(),
        });
    }
    set(task, after)
}

/// Sets a thread's nice value back, if it is as we set it.
pub(super) fn revert(
    roots: &Roots,
    task: &Task,
    before: i32,
    after: i32,
    mode: ApplyMode,
) -> Result<Reverted, ActError> {
    let Stat { nice: found, .. } = still_there(roots, task)?;
    if found == before {
        return Ok(Reverted::AsBefore);
    }
    if found != after {
        return Ok(Reverted::ChangedByOthers { found: found.to_string() });
    }
    if mode == ApplyMode::Apply {
        set(task, before)?;
    }
    Ok(Reverted::Done)
}

fn set(task: &Task, nice: i32) -> Result<(), ActError> {
    let thread = i32::try_from(task.tid).ok().and_then(Pid::from_raw);
    setpriority_process(thread, nice).map_err(|error| {
        let reason = std::io::Error::from(error);
        if is_gone(&reason) {
            return ActError::Gone { what: format!("thread {task}") };
        }
        let advice = "lowering it needs CAP_SYS_NICE or `ulimit -e`".to_owned();
        let what = format!("setting the nice value of thread {task} to {nice}");
        ActError::Kernel { what, reason, advice: Some(advice) }
    })
}

#[cfg(test)]
#[path = "nice_tests.rs"]
mod tests;
