//! Programs alone and in groups, by turns.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use crate::estimate::{Estimate, estimate};
use crate::once::{Run, RunError, bind, run};
use crate::plan::{Plan, Turn};
use crate::{Conditions, Subject};

/// What was measured.
#[derive(Debug, Default)]
pub struct Measured {
    /// Subjects alone, by index; `None` of one that was left out.
    pub solo: Vec<Option<MeasuredSolo>>,
    /// Groups in the order of the plan; `None` where a member was left out.
    pub groups: Vec<Option<MeasuredGroup>>,
    /// Who was left out, and why.
    pub left_out: Vec<LeftOut>,
}

/// A program alone.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredSolo {
    /// CPU seconds of a run.
    pub cpu_s: Estimate,
}

/// A group.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredGroup {
    /// Each member's slowdown: its CPU time beside the others by that alone in the same round.
    pub slowdowns: Vec<Estimate>,
}

/// A program that was left out.
#[derive(Debug)]
pub struct LeftOut {
    /// Its index.
    pub subject: usize,
    /// Why.
    pub why: RunError,
}

/// Measures a plan. `go_on` hears the share that is done, 0 to 1, and what comes next; where it says
/// no, the measurement stops.
///
/// # Errors
/// [`RunError::Stopped`] when it was stopped, [`RunError::System`] where the kernel refuses a CPU.
/// Programs that fail are left out and named.
pub fn measure(
    subjects: &[Subject],
    plan: &Plan,
    conditions: &Conditions,
    go_on: &(dyn Fn(f64, &str) -> bool + Sync),
) -> Result<Measured, RunError> {
    let mut rounds = Rounds {
        subjects,
        conditions,
        go_on,
        solo: vec![Vec::new(); subjects.len()],
        groups: plan.groups.iter().map(|group| vec![Vec::new(); group.len()]).collect(),
        left_out: Vec::new(),
    };
    // Once untimed: whose files are in memory then, and who does not work is known.
    for subject in 0..subjects.len() {
        rounds.solo(0.0, subject)?;
        rounds.solo[subject].clear();
    }
    for round in 0..plan.rounds {
        let turns = plan.turns(round, subjects.len());
        for (at, turn) in turns.iter().enumerate() {
            let done = (round as f64 + at as f64 / turns.len() as f64) / plan.rounds.max(1) as f64;
            match *turn {
                Turn::Solo(subject) => rounds.solo(done, subject)?,
                Turn::Group(group) => rounds.group(done, group, &plan.groups[group])?,
            }
        }
    }
    Ok(rounds.finish(plan))
}

struct Rounds<'a> {
    subjects: &'a [Subject],
    conditions: &'a Conditions,
    go_on: &'a (dyn Fn(f64, &str) -> bool + Sync),
    /// CPU seconds by subject and round.
    solo: Vec<Vec<f64>>,
    /// CPU seconds by group, member and round.
    groups: Vec<Vec<Vec<f64>>>,
    left_out: Vec<LeftOut>,
}

impl Rounds<'_> {
    fn is_left_out(&self, subject: usize) -> bool {
        self.left_out.iter().any(|one| one.subject == subject)
    }

    /// A program that fails is left out; anything else ends the measurement.
    fn leave_out(&mut self, subject: usize, why: RunError) -> Result<(), RunError> {
        match why {
            RunError::Stopped | RunError::System { .. } => Err(why),
            why => {
                if !self.is_left_out(subject) {
                    self.left_out.push(LeftOut { subject, why });
                }
                Ok(())
            }
        }
    }

    fn solo(&mut self, done: f64, subject: usize) -> Result<(), RunError> {
        if self.is_left_out(subject) {
            return Ok(());
        }
        let one = &self.subjects[subject];
        if !(self.go_on)(done, &one.name) {
            return Err(RunError::Stopped);
        }
        let go_on = self.go_on;
        let stop = || !go_on(done, &one.name);
        // A thread of its own, so that the caller's CPUs stay as they are.
        let conditions = self.conditions;
        let found = thread::scope(|scope| {
            let timed = || {
                bind(conditions.cpus[0])?;
                run(one, &conditions.folder, conditions.limit, &stop)
            };
            scope.spawn(timed).join().unwrap_or(Err(RunError::Stopped))
        });
        match found {
            Ok(run) => self.solo[subject].push(run.cpu_s),
            Err(why) => self.leave_out(subject, why)?,
        }
        Ok(())
    }

    fn group(&mut self, done: f64, at: usize, group: &[usize]) -> Result<(), RunError> {
        if group.iter().any(|&member| self.is_left_out(member)) {
            return Ok(());
        }
        let names: Vec<&str> =
            group.iter().map(|&member| self.subjects[member].name.as_str()).collect();
        let names = names.join(" + ");
        if !(self.go_on)(done, &names) {
            return Err(RunError::Stopped);
        }
        let go_on = self.go_on;
        let stop = || !go_on(done, &names);
        let members: Vec<&Subject> = group.iter().map(|&member| &self.subjects[member]).collect();
        match together(&members, self.conditions, &stop) {
            Ok(times) => {
                for (rounds, seconds) in self.groups[at].iter_mut().zip(times) {
                    rounds.push(seconds);
                }
                Ok(())
            }
            Err((member, why)) => self.leave_out(group[member], why),
        }
    }

    fn finish(self, plan: &Plan) -> Measured {
        let out: Vec<usize> = self.left_out.iter().map(|one| one.subject).collect();
        let solo = |(subject, times): (usize, &Vec<f64>)| {
            let cpu_s = estimate(times).filter(|_| !out.contains(&subject))?;
            Some(MeasuredSolo { cpu_s })
        };
        let group = |(members, times): (&Vec<usize>, &Vec<Vec<f64>>)| {
            if members.iter().any(|member| out.contains(member)) {
                return None;
            }
            let slowdowns = members.iter().zip(times).map(|(&member, beside)| {
                let ratios: Vec<f64> = beside
                    .iter()
                    .zip(&self.solo[member])
                    .map(|(with, alone)| with / alone)
                    .collect();
                estimate(&ratios)
            });
            Some(MeasuredGroup { slowdowns: slowdowns.collect::<Option<_>>()? })
        };
        Measured {
            solo: self.solo.iter().enumerate().map(solo).collect(),
            groups: plan.groups.iter().zip(&self.groups).map(group).collect(),
            left_out: self.left_out,
        }
    }
}

/// Runs members at once, each on its CPU and again and again, until each has run once from beginning
/// to end beside all others. By member: the mean CPU seconds of such runs. An error comes with the
/// member it is of.
fn together(
    members: &[&Subject],
    conditions: &Conditions,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<f64>, (usize, RunError)> {
    let begin = Barrier::new(members.len());
    let enough = AtomicBool::new(false);
    let done: Mutex<Vec<Vec<f64>>> = Mutex::new(vec![Vec::new(); members.len()]);
    let again_and_again = |place: usize| -> Result<(), RunError> {
        let bound = bind(conditions.cpus[place]);
        begin.wait();
        bound?;
        let ends = || enough.load(Ordering::Relaxed) || stop();
        loop {
            let found = run(members[place], &conditions.folder, conditions.limit, &ends);
            let Run { cpu_s, .. } = match found {
                Err(RunError::Stopped) if enough.load(Ordering::Relaxed) => return Ok(()),
                Err(why) => {
                    // The others need not go on.
                    enough.store(true, Ordering::Relaxed);
                    return Err(why);
                }
                Ok(run) => run,
            };
            if enough.load(Ordering::Relaxed) {
                return Ok(());
            }
            let mut all = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            all[place].push(cpu_s);
            if all.iter().all(|runs| !runs.is_empty()) {
                enough.store(true, Ordering::Relaxed);
                return Ok(());
            }
        }
    };
    let ends: Vec<Result<(), RunError>> = thread::scope(|scope| {
        let again_and_again = &again_and_again;
        let threads: Vec<_> =
            (0..members.len()).map(|place| scope.spawn(move || again_and_again(place))).collect();
        threads.into_iter().map(|one| one.join().unwrap_or(Err(RunError::Stopped))).collect()
    });
    // A failure of a program says more than that the others were stopped for it.
    let mut failures: Vec<(usize, RunError)> = ends
        .into_iter()
        .enumerate()
        .filter_map(|(place, end)| end.err().map(|why| (place, why)))
        .collect();
    failures.sort_by_key(|(_, why)| matches!(why, RunError::Stopped));
    if let Some(first) = failures.into_iter().next() {
        return Err(first);
    }
    let all = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(all.iter().map(|runs| runs.iter().sum::<f64>() / runs.len() as f64).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn subject(name: &str, script: &str) -> Subject {
        Subject {
            name: name.to_owned(),
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            good_codes: Vec::new(),
        }
    }

    /// CPUs that this process may use: at least one, given again where there are not enough.
    fn conditions(members: usize) -> Conditions {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let cpus: Vec<u32> = (0..rustix::thread::CpuSet::MAX_CPU)
            .filter(|&cpu| allowed.is_set(cpu))
            .map(|cpu| cpu as u32)
            .collect();
        Conditions {
            folder: std::env::temp_dir(),
            cpus: cpus.into_iter().cycle().take(members).collect(),
            limit: Duration::from_secs(60),
        }
    }

    const WORK: &str = "i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done";

    #[test]
    fn all_run_alone_and_together_but_those_that_fail() {
        let subjects = [subject("one", WORK), subject("bad", "exit 3"), subject("two", WORK)];
        let plan = Plan { rounds: 3, groups: vec![vec![0, 2], vec![0, 1], vec![2, 2]], seed: 1 };
        let found = measure(&subjects, &plan, &conditions(2), &|_, _| true).unwrap();
        let rounds = |at: usize| found.solo[at].as_ref().map(|solo| solo.cpu_s.rounds);
        assert_eq!([rounds(0), rounds(1), rounds(2)], [Some(3), None, Some(3)]);
        let members = |at: usize| found.groups[at].as_ref().map(|group| group.slowdowns.len());
        assert_eq!([members(0), members(1), members(2)], [Some(2), None, Some(2)]);
        assert_eq!(found.left_out.len(), 1);
        assert_eq!(found.left_out[0].subject, 1);
        assert_eq!(found.left_out[0].why.to_string(), "it ended with exit code 3");
        let slowdown = found.groups[0].as_ref().unwrap().slowdowns[0];
        assert!(slowdown.median > 0.0 && slowdown.rounds == 3);
    }

    #[test]
    fn the_caller_stops_it() {
        let subjects = [subject("one", "sleep 1000")];
        let plan = Plan { rounds: 1, ..Plan::default() };
        let found = measure(&subjects, &plan, &conditions(1), &|_, _| false);
        assert!(matches!(found, Err(RunError::Stopped)), "{found:?}");
    }
}
