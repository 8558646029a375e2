//! Programs alone and in groups, by turns.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use corun_calibrate::additions_per_cycle;
use serde::{Deserialize, Serialize};

use crate::estimate::{Estimate, estimate};
use crate::once::{Run, RunError, bind, run};
use crate::plan::{RoundPlan, Turn};
use crate::{Conditions, TimedProgram};

/// Of the most additions a cycle that were seen, a core that no other thread uses does at least this
/// share: half busy siblings cost a tenth and more, and two looks at a free core differ by a hundredth.
const FREE_SHARE: f64 = 0.93;

/// How often a program is run again at once where its core was not free.
const REPEATS: usize = 3;

/// What was measured.
#[derive(Debug, Default)]
pub struct Measured {
    /// Whole rounds, fewer than planned where the caller stopped it.
    pub rounds: usize,
    /// How much of its core a program had alone.
    pub core: CoreUse,
    /// Subjects alone, by index; `None` of one that was left out.
    pub solo: Vec<Option<MeasuredSolo>>,
    /// Groups in the order of the plan; `None` where a member was left out.
    pub groups: Vec<Option<MeasuredGroup>>,
    /// Who was left out, and why.
    pub left_out: Vec<LeftOut>,
}

/// How much of their core programs had while they ran alone.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CoreUse {
    /// The most additions a cycle that the core did.
    pub additions_per_cycle: f64,
    /// Runs, repeated ones included.
    pub runs: usize,
    /// Of these, runs before or after which the core did clearly fewer: another hardware thread
    /// of it was busy.
    pub shared_runs: usize,
}

/// A program alone.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredSolo {
    /// CPU seconds of a run: of the rounds in which it had the core for itself, where there are any.
    pub cpu_s: Estimate,
    /// Had it?
    pub had_core: bool,
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
/// no, the measurement stops, and what the whole rounds before told is what was measured.
///
/// # Errors
/// [`RunError::Stopped`] when it was stopped in the first round, [`RunError::System`] where the kernel refuses a CPU.
/// Programs that fail are left out and named.
pub fn measure(
    subjects: &[TimedProgram],
    plan: &RoundPlan,
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
        core: CoreUse::default(),
    };
    // Once untimed: whose files are in memory then, and who does not work is known.
    for subject in 0..subjects.len() {
        rounds.once(0.0, subject)?;
    }
    for round in 0..plan.rounds {
        match rounds.round(plan, round) {
            Err(RunError::Stopped) if round > 0 => return Ok(rounds.finish(plan, round)),
            other => other?,
        }
    }
    Ok(rounds.finish(plan, plan.rounds))
}

/// A run, and how much of the core it had.
#[derive(Debug, Clone, Copy)]
struct Timed {
    cpu_s: f64,
    /// The fewer of those before and after it.
    additions_per_cycle: f64,
}

struct Rounds<'a> {
    subjects: &'a [TimedProgram],
    conditions: &'a Conditions,
    go_on: &'a (dyn Fn(f64, &str) -> bool + Sync),
    /// Runs by subject and round.
    solo: Vec<Vec<Timed>>,
    /// CPU seconds by group, member and round.
    groups: Vec<Vec<Vec<f64>>>,
    left_out: Vec<LeftOut>,
    core: CoreUse,
}

impl Rounds<'_> {
    fn round(&mut self, plan: &RoundPlan, round: usize) -> Result<(), RunError> {
        let turns = plan.turns(round, self.subjects.len());
        for (at, turn) in turns.iter().enumerate() {
            let done = (round as f64 + at as f64 / turns.len() as f64) / plan.rounds.max(1) as f64;
            match *turn {
                Turn::Solo(subject) => self.solo(done, subject)?,
                Turn::ProgramGroup(group) => self.group(done, group, &plan.groups[group])?,
            }
        }
        Ok(())
    }

    fn is_free(&self, run: &Timed) -> bool {
        run.additions_per_cycle >= FREE_SHARE * self.core.additions_per_cycle
    }

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

    /// Times a program alone, again where something else used its core; the run with most of it counts.
    fn solo(&mut self, done: f64, subject: usize) -> Result<(), RunError> {
        let mut best: Option<Timed> = None;
        for _ in 0..=REPEATS {
            let Some(run) = self.once(done, subject)? else { return Ok(()) };
            let most = self.core.additions_per_cycle.max(run.additions_per_cycle);
            self.core.additions_per_cycle = most;
            self.core.runs += 1;
            if best.is_none_or(|best| best.additions_per_cycle < run.additions_per_cycle) {
                best = Some(run);
            }
            if self.is_free(&run) {
                break;
            }
            self.core.shared_runs += 1;
        }
        self.solo[subject].extend(best);
        Ok(())
    }

    /// Runs a program alone; none where it is left out.
    fn once(&mut self, done: f64, subject: usize) -> Result<Option<Timed>, RunError> {
        if self.is_left_out(subject) {
            return Ok(None);
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
                let before = additions_per_cycle();
                let run = run(one, &conditions.folder, conditions.limit, &stop)?;
                let additions_per_cycle = before.min(additions_per_cycle());
                Ok(Timed { cpu_s: run.cpu_s, additions_per_cycle })
            };
            scope.spawn(timed).join().unwrap_or(Err(RunError::Stopped))
        });
        match found {
            Ok(run) => Ok(Some(run)),
            Err(why) => self.leave_out(subject, why).map(|()| None),
        }
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
        let members: Vec<&TimedProgram> =
            group.iter().map(|&member| &self.subjects[member]).collect();
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

    fn finish(mut self, plan: &RoundPlan, rounds: usize) -> Measured {
        // What a round that was not ended has left would be paired with nothing.
        self.solo.iter_mut().for_each(|runs| runs.truncate(rounds));
        self.groups.iter_mut().flatten().for_each(|runs| runs.truncate(rounds));
        let out: Vec<usize> = self.left_out.iter().map(|one| one.subject).collect();
        let solo = |(subject, runs): (usize, &Vec<Timed>)| {
            let free: Vec<f64> =
                runs.iter().filter(|run| self.is_free(run)).map(|run| run.cpu_s).collect();
            let all: Vec<f64> = runs.iter().map(|run| run.cpu_s).collect();
            let had_core = !free.is_empty();
            let cpu_s = estimate(if had_core { &free } else { &all });
            let cpu_s = cpu_s.filter(|_| !out.contains(&subject))?;
            Some(MeasuredSolo { cpu_s, had_core })
        };
        let group = |(members, times): (&Vec<usize>, &Vec<Vec<f64>>)| {
            if members.iter().any(|member| out.contains(member)) {
                return None;
            }
            let slowdowns = members.iter().zip(times).map(|(&member, beside)| {
                let alone = self.solo[member].iter().map(|run| run.cpu_s);
                let ratios: Vec<f64> =
                    beside.iter().zip(alone).map(|(with, alone)| with / alone).collect();
                estimate(&ratios)
            });
            Some(MeasuredGroup { slowdowns: slowdowns.collect::<Option<_>>()? })
        };
        Measured {
            rounds,
            core: self.core,
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
    members: &[&TimedProgram],
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

    fn subject(name: &str, script: &str) -> TimedProgram {
        TimedProgram {
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
        let plan =
            RoundPlan { rounds: 3, groups: vec![vec![0, 2], vec![0, 1], vec![2, 2]], seed: 1 };
        let found = measure(&subjects, &plan, &conditions(2), &|_, _| true).unwrap();
        let rounds = |at: usize| found.solo[at].as_ref().map(|solo| solo.cpu_s.rounds);
        // Fewer than three where something else used the core.
        assert!([rounds(0), rounds(2)].iter().all(|some| matches!(some, Some(1..=3))));
        assert_eq!(rounds(1), None);
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
        let plan = RoundPlan { rounds: 1, ..RoundPlan::default() };
        let found = measure(&subjects, &plan, &conditions(1), &|_, _| false);
        assert!(matches!(found, Err(RunError::Stopped)), "{found:?}");
    }

    #[test]
    fn whole_rounds_before_a_stop_are_kept() {
        let subjects = [subject("one", WORK), subject("two", WORK)];
        let plan = RoundPlan { rounds: 4, groups: vec![vec![0, 1]], seed: 1 };
        // In the third of four rounds.
        let found = measure(&subjects, &plan, &conditions(2), &|done, _| done < 0.6).unwrap();
        assert_eq!(found.rounds, 2);
        for solo in &found.solo {
            assert!((1..=2).contains(&solo.as_ref().unwrap().cpu_s.rounds));
        }
        assert_eq!(found.groups[0].as_ref().unwrap().slowdowns[0].rounds, 2);
        assert!(found.core.runs >= 4 && found.core.shared_runs <= found.core.runs);
    }

    /// Of three rounds the core was free in two: the time of the third does not count.
    #[test]
    fn rounds_with_a_busy_sibling_do_not_count_where_others_have_none() {
        let run = |cpu_s, additions_per_cycle| Timed { cpu_s, additions_per_cycle };
        let all_shared = vec![run(2.0, 2.7), run(2.2, 2.5)];
        let rounds = Rounds {
            subjects: &[],
            conditions: &conditions(1),
            go_on: &|_, _| true,
            solo: vec![vec![run(1.0, 4.0), run(1.9, 2.6), run(1.1, 3.8)], all_shared],
            groups: Vec::new(),
            left_out: Vec::new(),
            core: CoreUse { additions_per_cycle: 4.0, runs: 5, shared_runs: 3 },
        };
        let found = rounds.finish(&RoundPlan { rounds: 3, ..RoundPlan::default() }, 3);
        let solo = |at: usize| found.solo[at].clone().unwrap();
        assert_eq!((solo(0).cpu_s.median, solo(0).cpu_s.rounds, solo(0).had_core), (1.05, 2, true));
        assert_eq!((solo(1).cpu_s.median, solo(1).cpu_s.rounds, solo(1).had_core), (2.1, 2, false));
    }
}
