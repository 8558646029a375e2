//! Programs alone and in groups, by turns.

use serde::{Deserialize, Serialize};

use crate::estimate::{Estimate, estimate};
use crate::further::{further_rounds, is_enough};
use crate::native::Native;
use crate::nearness::{CacheUse, is_near};
use crate::once::RunError;
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
    /// Whole first rounds, fewer than planned where the caller stopped it.
    pub rounds: usize,
    /// How much of its core a program had alone.
    pub core: CoreUse,
    /// How often groups shared a cache.
    pub cache: CacheUse,
    /// Subjects alone, by index; `None` of one that was left out.
    pub solo: Vec<Option<MeasuredSolo>>,
    /// Groups in the order of the plan; `None` where a member was left out, or in no round the group shared a cache and
    /// the member had its core for itself alone.
    pub groups: Vec<Option<MeasuredGroup>>,
    /// Who was left out, and why.
    pub left_out: Vec<LeftOut>,
}

/// How much of their core programs had while they ran alone.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CoreUse {
    /// The most additions a cycle that the core did.
    pub additions_per_cycle: f64,
    /// Timed runs alone, repeated ones included.
    pub runs: usize,
    /// Of these, runs before or after which the core did clearly fewer: another hardware thread
    /// of it was busy.
    pub shared_runs: usize,
}

/// A program alone.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredSolo {
    /// CPU seconds of a run: of the rounds in which it had the core for itself, where there are any, and of the further
    /// ones alone where there are enough.
    pub cpu_s: Estimate,
    /// Had it?
    pub had_core: bool,
}

/// A group.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredGroup {
    /// Each member's slowdown: its CPU time beside the others by that alone in the same round, of the rounds
    /// in which the group shared a cache and it had the core for itself alone.
    pub slowdowns: Vec<Estimate>,
    /// Further rounds, of which these slowdowns are; 0: they are of the first rounds.
    pub further_rounds: usize,
}

/// A program that was left out.
#[derive(Debug)]
pub struct LeftOut {
    /// Its index.
    pub subject: usize,
    /// Why.
    pub why: RunError,
}

/// Measures a plan: the first rounds, then those further ones that groups get. `go_on` hears the share that is done, 0 to 1, and what comes next; where it says
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
    let names: Vec<&str> = subjects.iter().map(|one| one.name.as_str()).collect();
    measure_on(&Native { subjects, conditions }, &names, plan, go_on)
}

/// A program's run alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SoloRun {
    pub(crate) cpu_s: f64,
    /// Additions a cycle that the core did, the fewer of those before and after the run.
    pub(crate) additions_per_cycle: f64,
}

/// A run of a group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupRun {
    /// CPU seconds by member.
    pub(crate) cpu_s: Vec<f64>,
    /// Nanoseconds of a transfer of a cache line between members' CPUs, the longer of those before and after the run.
    pub(crate) line_transfer_ns: f64,
}

/// What runs programs, by their indices.
pub(crate) trait Runner {
    /// Runs one alone. It is ended, with [`RunError::Stopped`], once `stop` says so.
    fn alone(&self, subject: usize, stop: &(dyn Fn() -> bool + Sync)) -> Result<SoloRun, RunError>;

    /// Runs members at once until each has run once beside all others. An error comes with the place in the group of the member it is of.
    fn together(
        &self,
        members: &[usize],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<GroupRun, (usize, RunError)>;
}

pub(crate) fn measure_on(
    runner: &dyn Runner,
    names: &[&str],
    plan: &RoundPlan,
    go_on: &(dyn Fn(f64, &str) -> bool + Sync),
) -> Result<Measured, RunError> {
    let mut rounds = Rounds {
        runner,
        names,
        go_on,
        first: Runs::none(names.len(), plan),
        further: Runs::none(names.len(), plan),
        left_out: Vec::new(),
        additions_per_cycle: 0.0,
        timed: Vec::new(),
        least_transfer_ns: f64::INFINITY,
        transfers_ns: Vec::new(),
    };
    // Once untimed: whose files are in memory then, who does not work is known, and so is most likely what
    // a free core does.
    for subject in 0..names.len() {
        rounds.once(0.0, subject)?;
    }
    let whole = rounds.first_rounds(plan)?;
    // Who was stopped in the first rounds runs nothing more.
    if whole == plan.rounds {
        rounds.further_rounds(plan)?;
    }
    Ok(rounds.finish(plan, whole))
}

/// What rounds gave, the first or the further ones.
struct Runs {
    /// Runs by subject and round.
    solo: Vec<Vec<SoloRun>>,
    /// Runs by group and round.
    groups: Vec<Vec<GroupRun>>,
}

impl Runs {
    fn none(subjects: usize, plan: &RoundPlan) -> Self {
        Self { solo: vec![Vec::new(); subjects], groups: vec![Vec::new(); plan.groups.len()] }
    }

    /// What a round that was not ended has left would be paired with nothing.
    fn truncate(&mut self, rounds: usize) {
        self.solo.iter_mut().for_each(|runs| runs.truncate(rounds));
        self.groups.iter_mut().for_each(|runs| runs.truncate(rounds));
    }
}

struct Rounds<'a> {
    runner: &'a dyn Runner,
    names: &'a [&'a str],
    go_on: &'a (dyn Fn(f64, &str) -> bool + Sync),
    first: Runs,
    further: Runs,
    left_out: Vec<LeftOut>,
    /// The most that the core did so far.
    additions_per_cycle: f64,
    /// Additions a cycle of each timed run, repeated ones included.
    timed: Vec<f64>,
    /// The fastest transfer of a cache line so far, in ns.
    least_transfer_ns: f64,
    /// Transfers, in ns, of each timed run of a group, repeated ones included.
    transfers_ns: Vec<f64>,
}

impl Rounds<'_> {
    /// Everything, round after round. Answers the whole rounds.
    fn first_rounds(&mut self, plan: &RoundPlan) -> Result<usize, RunError> {
        let subjects: Vec<usize> = (0..self.names.len()).collect();
        let groups: Vec<usize> = (0..plan.groups.len()).collect();
        // Further rounds may follow, as many as these or more: nobody knows yet.
        let share = if plan.most_further >= plan.rounds { 0.5 } else { 1.0 };
        for round in 0..plan.rounds {
            let turns = plan.turns(round, &subjects, &groups);
            let done = |at: usize| {
                share * (round as f64 + at as f64 / turns.len() as f64) / plan.rounds as f64
            };
            let ran = self.round(plan, &turns, &done, |rounds| &mut rounds.first);
            match ran {
                Err(RunError::Stopped) if round > 0 => {
                    self.first.truncate(round);
                    return Ok(round);
                }
                other => other?,
            }
        }
        Ok(plan.rounds)
    }

    /// Groups that the first rounds chose, and their members alone.
    fn further_rounds(&mut self, plan: &RoundPlan) -> Result<(), RunError> {
        let of_group = |at: usize| {
            let slowdowns = self.slowdowns(&self.first, plan, at);
            slowdowns.map_or(0, |first| further_rounds(&first, plan.most_further))
        };
        let wanted: Vec<usize> = (0..plan.groups.len()).map(of_group).collect();
        let (all, mut ran): (usize, usize) = (wanted.iter().sum(), 0);
        for round in 0..wanted.iter().copied().max().unwrap_or(0) {
            let groups: Vec<usize> = (0..wanted.len()).filter(|&at| wanted[at] > round).collect();
            let mut members: Vec<usize> =
                groups.iter().flat_map(|&at| plan.groups[at].iter().copied()).collect();
            members.sort_unstable();
            members.dedup();
            let turns = plan.turns(plan.rounds + round, &members, &groups);
            let done = |at: usize| {
                let of_round = at as f64 / turns.len() as f64 * groups.len() as f64;
                0.5 + 0.5 * (ran as f64 + of_round) / all as f64
            };
            match self.round(plan, &turns, &done, |rounds| &mut rounds.further) {
                Err(RunError::Stopped) => {
                    self.further.truncate(round);
                    return Ok(());
                }
                other => other?,
            }
            ran += groups.len();
        }
        Ok(())
    }

    /// One round. `runs` says where its figures go.
    fn round(
        &mut self,
        plan: &RoundPlan,
        turns: &[Turn],
        done: &dyn Fn(usize) -> f64,
        runs: fn(&mut Self) -> &mut Runs,
    ) -> Result<(), RunError> {
        for (at, turn) in turns.iter().enumerate() {
            match *turn {
                Turn::Solo(subject) => {
                    let run = self.solo(done(at), subject)?;
                    runs(self).solo[subject].extend(run);
                }
                Turn::Group(group) => {
                    let run = self.group(done(at), &plan.groups[group])?;
                    runs(self).groups[group].extend(run);
                }
            }
        }
        Ok(())
    }

    /// Had a run its core for itself, as far as is known by now?
    fn is_free(&self, additions_per_cycle: f64) -> bool {
        additions_per_cycle >= FREE_SHARE * self.additions_per_cycle
    }

    /// Did a group share a cache, as far as is known by now?
    fn is_together(&self, run: &GroupRun) -> bool {
        is_near(run.line_transfer_ns, self.least_transfer_ns)
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
    fn solo(&mut self, done: f64, subject: usize) -> Result<Option<SoloRun>, RunError> {
        let mut best: Option<SoloRun> = None;
        for _ in 0..=REPEATS {
            let Some(run) = self.once(done, subject)? else { return Ok(None) };
            self.timed.push(run.additions_per_cycle);
            if best.is_none_or(|best| best.additions_per_cycle < run.additions_per_cycle) {
                best = Some(run);
            }
            if self.is_free(run.additions_per_cycle) {
                break;
            }
        }
        Ok(best)
    }

    /// Runs a program alone; none where it is left out.
    fn once(&mut self, done: f64, subject: usize) -> Result<Option<SoloRun>, RunError> {
        if self.is_left_out(subject) {
            return Ok(None);
        }
        let (go_on, name) = (self.go_on, self.names[subject]);
        if !go_on(done, name) {
            return Err(RunError::Stopped);
        }
        match self.runner.alone(subject, &|| !go_on(done, name)) {
            Ok(run) => {
                self.additions_per_cycle = self.additions_per_cycle.max(run.additions_per_cycle);
                Ok(Some(run))
            }
            Err(why) => self.leave_out(subject, why).map(|()| None),
        }
    }

    /// Times a group, again where its CPUs did not share a cache; the run in which they were nearest counts. None where a
    /// member is left out.
    fn group(&mut self, done: f64, group: &[usize]) -> Result<Option<GroupRun>, RunError> {
        let mut best: Option<GroupRun> = None;
        for _ in 0..=REPEATS {
            let Some(run) = self.once_together(done, group)? else { return Ok(None) };
            self.transfers_ns.push(run.line_transfer_ns);
            self.least_transfer_ns = self.least_transfer_ns.min(run.line_transfer_ns);
            let is_near = self.is_together(&run);
            if best.as_ref().is_none_or(|best| run.line_transfer_ns < best.line_transfer_ns) {
                best = Some(run);
            }
            if is_near {
                break;
            }
        }
        Ok(best)
    }

    fn once_together(&mut self, done: f64, group: &[usize]) -> Result<Option<GroupRun>, RunError> {
        if group.iter().any(|&member| self.is_left_out(member)) {
            return Ok(None);
        }
        let names: Vec<&str> = group.iter().map(|&member| self.names[member]).collect();
        let names = names.join(" + ");
        let go_on = self.go_on;
        if !go_on(done, &names) {
            return Err(RunError::Stopped);
        }
        match self.runner.together(group, &|| !go_on(done, &names)) {
            Ok(run) => Ok(Some(run)),
            Err((member, why)) => self.leave_out(group[member], why).map(|()| None),
        }
    }

    /// A subject's time alone by such rounds: of those in which it had the core for itself, or of all.
    fn time_alone(&self, runs: &Runs, subject: usize, free_alone: bool) -> Option<Estimate> {
        let counts = |run: &&SoloRun| !free_alone || self.is_free(run.additions_per_cycle);
        let of = runs.solo[subject].iter().filter(counts);
        estimate(&of.map(|run| run.cpu_s).collect::<Vec<f64>>())
    }

    /// The slowdowns of a group by member, in such rounds in which the group shared a cache and the member had the core
    /// for itself alone; none where a member is left out.
    fn slowdowns(&self, runs: &Runs, plan: &RoundPlan, group: usize) -> Option<Vec<Vec<f64>>> {
        let members = &plan.groups[group];
        if members.iter().any(|&member| self.is_left_out(member)) {
            return None;
        }
        let slowdowns = members.iter().enumerate().map(|(place, &member)| {
            let rounds = runs.groups[group].iter().zip(&runs.solo[member]);
            let counts = rounds.filter(|(beside, alone)| {
                self.is_together(beside) && self.is_free(alone.additions_per_cycle)
            });
            counts.map(|(beside, alone)| beside.cpu_s[place] / alone.cpu_s).collect()
        });
        Some(slowdowns.collect())
    }

    /// Each member's slowdown; none where a member has none in such rounds.
    fn estimates(&self, runs: &Runs, plan: &RoundPlan, group: usize) -> Option<Vec<Estimate>> {
        let slowdowns = self.slowdowns(runs, plan, group)?;
        slowdowns.iter().map(|slowdowns| estimate(slowdowns)).collect()
    }

    fn measured_solo(&self, subject: usize) -> Option<MeasuredSolo> {
        if self.is_left_out(subject) {
            return None;
        }
        let Some(first) = self.time_alone(&self.first, subject, true) else {
            let cpu_s = self.time_alone(&self.first, subject, false)?;
            return Some(MeasuredSolo { cpu_s, had_core: false });
        };
        let further = self.time_alone(&self.further, subject, true);
        let further = further.filter(|&further| is_enough(&[further], &[first]));
        Some(MeasuredSolo { cpu_s: further.unwrap_or(first), had_core: true })
    }

    fn measured_group(&self, plan: &RoundPlan, group: usize) -> Option<MeasuredGroup> {
        let first = self.estimates(&self.first, plan, group)?;
        let further = self.estimates(&self.further, plan, group);
        let run = self.further.groups[group].len();
        Some(match further.filter(|further| is_enough(further, &first)) {
            Some(slowdowns) => MeasuredGroup { slowdowns, further_rounds: run },
            None => MeasuredGroup { slowdowns: first, further_rounds: 0 },
        })
    }

    fn finish(self, plan: &RoundPlan, rounds: usize) -> Measured {
        Measured {
            rounds,
            core: CoreUse {
                additions_per_cycle: self.additions_per_cycle,
                runs: self.timed.len(),
                shared_runs: self.timed.iter().filter(|&&run| !self.is_free(run)).count(),
            },
            cache: CacheUse::of(&self.transfers_ns),
            solo: (0..self.names.len()).map(|subject| self.measured_solo(subject)).collect(),
            groups: (0..plan.groups.len()).map(|group| self.measured_group(plan, group)).collect(),
            left_out: self.left_out,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use super::*;

    /// A machine on which each run of a program alone takes what was written down: seconds and additions a
    /// cycle, the untimed run first. A program of which nothing was written down fails. Groups take two
    /// seconds a member.
    struct Modelled {
        runs: Vec<RefCell<VecDeque<(f64, f64)>>>,
        /// Of the first runs of groups; later ones take 40 ns.
        transfers_ns: RefCell<VecDeque<f64>>,
    }

    impl Modelled {
        fn of<const N: usize>(runs: [&[(f64, f64)]; N]) -> Self {
            let of_program = |runs: &[(f64, f64)]| RefCell::new(runs.iter().copied().collect());
            Self { runs: runs.map(of_program).into(), transfers_ns: RefCell::default() }
        }

        fn measured(&self, rounds: usize, groups: Vec<Vec<usize>>) -> Measured {
            let names = vec!["one"; self.runs.len()];
            let plan = RoundPlan { rounds, groups, seed: 1, ..RoundPlan::default() };
            let found = measure_on(self, &names, &plan, &|_, _| true).unwrap();
            assert!(self.runs.iter().all(|left| left.borrow().is_empty()), "all were run");
            found
        }
    }

    impl Runner for Modelled {
        fn alone(
            &self,
            subject: usize,
            _: &(dyn Fn() -> bool + Sync),
        ) -> Result<SoloRun, RunError> {
            let next = self.runs[subject].borrow_mut().pop_front();
            let (cpu_s, additions_per_cycle) = next.ok_or(RunError::Code(3))?;
            Ok(SoloRun { cpu_s, additions_per_cycle })
        }

        fn together(
            &self,
            members: &[usize],
            _: &(dyn Fn() -> bool + Sync),
        ) -> Result<GroupRun, (usize, RunError)> {
            let next = self.transfers_ns.borrow_mut().pop_front();
            Ok(GroupRun { cpu_s: vec![2.0; members.len()], line_transfer_ns: next.unwrap_or(40.0) })
        }
    }

    const FREE: (f64, f64) = (1.0, 4.0);

    #[test]
    fn all_run_alone_and_together_but_those_that_fail() {
        let found = Modelled::of([&[FREE; 4], &[], &[FREE; 4]])
            .measured(3, vec![vec![0, 2], vec![0, 1], vec![2, 2]]);
        let rounds = |at: usize| found.solo[at].as_ref().map(|solo| solo.cpu_s.rounds);
        assert_eq!([rounds(0), rounds(1), rounds(2)], [Some(3), None, Some(3)]);
        let slowdowns = |at: usize| {
            let group = found.groups[at].as_ref()?;
            Some(group.slowdowns.iter().map(|one| (one.median, one.rounds)).collect())
        };
        let doubled = Some(vec![(2.0, 3), (2.0, 3)]);
        assert_eq!([slowdowns(0), slowdowns(1), slowdowns(2)], [doubled.clone(), None, doubled]);
        assert_eq!(found.left_out.len(), 1);
        assert_eq!(found.left_out[0].subject, 1);
        assert_eq!(found.left_out[0].why.to_string(), "it ended with exit code 3");
    }

    #[test]
    fn whole_rounds_before_a_stop_are_kept() {
        let machine = Modelled::of([&[FREE; 5], &[FREE; 5]]);
        let plan =
            RoundPlan { rounds: 4, groups: vec![vec![0, 1]], seed: 1, ..RoundPlan::default() };
        // In the third of four rounds.
        let found = measure_on(&machine, &["one", "two"], &plan, &|done, _| done < 0.6).unwrap();
        assert_eq!(found.rounds, 2);
        assert!(found.solo.iter().all(|solo| solo.as_ref().unwrap().cpu_s.rounds == 2));
        assert_eq!(found.groups[0].as_ref().unwrap().slowdowns[0].rounds, 2);
        // None is told of less than a round.
        let machine = Modelled::of([&[FREE; 5], &[FREE; 5]]);
        let stopped = measure_on(&machine, &["one", "two"], &plan, &|done, _| done < 0.1);
        assert!(matches!(stopped, Err(RunError::Stopped)), "{stopped:?}");
    }

    /// A program whose core is shared in the second of three rounds, again and again.
    const SHARED_ONCE: [(f64, f64); 7] =
        [(9.0, 4.0), (1.0, 4.0), (1.9, 2.6), (2.0, 2.5), (2.0, 2.5), (2.0, 2.5), (1.1, 3.8)];

    #[test]
    fn rounds_with_a_busy_sibling_do_not_count_where_others_have_none() {
        let found = Modelled::of([&SHARED_ONCE]).measured(3, Vec::new());
        let solo = found.solo[0].clone().unwrap();
        assert_eq!((solo.cpu_s.median, solo.cpu_s.rounds, solo.had_core), (1.05, 2, true));
        // Two free runs, and one with its three repetitions.
        let core = CoreUse { additions_per_cycle: 4.0, runs: 6, shared_runs: 4 };
        assert_eq!(found.core, core);
    }

    /// What the untimed runs saw of a free core is known to the first timed one: a program whose core is
    /// always shared is repeated in each round, and counts as shared.
    #[test]
    fn the_untimed_runs_tell_what_a_free_core_does() {
        let shared = [(2.0, 2.5); 5];
        let once_free = [FREE; 2];
        let found = Modelled::of([&shared, &once_free]).measured(1, Vec::new());
        let had_core = |at: usize| found.solo[at].as_ref().unwrap().had_core;
        assert_eq!([had_core(0), had_core(1)], [false, true]);
        assert_eq!((found.core.runs, found.core.shared_runs), (5, 4));
    }

    /// A run that was taken for free is counted as shared when a later one shows what a free core does.
    #[test]
    fn shared_runs_are_counted_at_the_end() {
        let found = Modelled::of([&[(2.0, 2.5), (2.0, 2.5), (1.0, 4.0)]]).measured(2, Vec::new());
        assert_eq!((found.core.runs, found.core.shared_runs), (2, 1));
        assert_eq!(found.solo[0].as_ref().unwrap().cpu_s.median, 1.0);
    }

    /// Beside another it always takes 2 s. Against the rounds in which its core was free that is twice its
    /// time alone; against the shared one it would be no slowdown at all.
    #[test]
    fn slowdowns_are_against_free_runs_alone() {
        let always_free = [FREE; 4];
        let found = Modelled::of([&SHARED_ONCE, &always_free]).measured(3, vec![vec![0, 1]]);
        let slowdowns = &found.groups[0].as_ref().unwrap().slowdowns;
        assert_eq!((slowdowns[0].low, slowdowns[0].high, slowdowns[0].rounds), (2.0 / 1.1, 2.0, 2));
        assert_eq!((slowdowns[1].median, slowdowns[1].rounds), (2.0, 3));
        // Who never had a free core alone has no slowdown that one could tell.
        let shared = [(2.0, 2.5); 5];
        let found = Modelled::of([&shared, &always_free[..2]]).measured(1, vec![vec![0, 1]]);
        assert_eq!(found.groups, [None]);
        assert!(found.left_out.is_empty());
    }

    /// A group whose CPUs do not share a cache is run again, three times at most, and that round does not count if they never
    /// do.
    #[test]
    fn groups_count_where_they_share_a_cache() {
        let machine = Modelled::of([&[FREE; 4], &[FREE; 4]]);
        // The second round's fourth try is the nearest and still apart; the third round's second is near.
        machine.transfers_ns.borrow_mut().extend([41.0, 210.0, 205.0, 220.0, 190.0, 200.0, 60.0]);
        let found = machine.measured(3, vec![vec![0, 1]]);
        assert_eq!(found.groups[0].as_ref().unwrap().slowdowns[0].rounds, 2);
        let cache = CacheUse { line_transfer_ns: 41.0, runs: 7, apart_runs: 5 };
        assert_eq!(found.cache, cache);
    }
}
