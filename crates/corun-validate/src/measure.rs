//! Programs alone and in groups, by turns.

use corun_calibrate::{FreeCore, Nearness, NeighbourUse};
use corun_metrics::median;
use serde::{Deserialize, Serialize};

use crate::cache_use::CacheUse;
use crate::estimate::{Estimate, estimate};
use crate::further::{further_rounds, is_enough};
use crate::native::Native;
use crate::once::RunError;
use crate::pace::Pace;
use crate::plan::{RoundPlan, Turn};
use crate::{Conditions, TimedProgram};

/// How often a program is run again at once where its core was not free.
const REPEATS: usize = 3;

/// Two runs had as much of the core where their additions a cycle differ by no more of a free core's.
const AS_MUCH: f64 = 0.07;

/// What was measured.
#[derive(Debug, Default)]
pub struct Measured {
    /// Whole first rounds, fewer than planned where the caller stopped it.
    pub rounds: usize,
    /// How much of its core a program had alone.
    pub core: CoreUse,
    /// The clock of the core meanwhile; `None` where nobody looked.
    pub clock: Option<ClockUse>,
    /// How often groups shared a cache.
    pub cache: CacheUse,
    /// What others outside left of the last cache while programs ran alone; `None` where nobody looked or it was not told.
    pub neighbours: Option<NeighbourUse>,
    /// Subjects alone, by index; `None` of one that was left out.
    pub solo: Vec<Option<MeasuredSolo>>,
    /// Groups in the order of the plan; `None` where a member was left out, or in no round the group shared a cache and it
    /// is known how fast the member is alone with as much of its core.
    pub groups: Vec<Option<MeasuredGroup>>,
    /// Who was left out, and why.
    pub left_out: Vec<LeftOut>,
}

/// How much of their core programs had while they ran alone.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CoreUse {
    /// The most additions a cycle that the core did, or did when it was calibrated.
    pub additions_per_cycle: f64,
    /// Timed runs alone, repeated ones included.
    pub runs: usize,
    /// Of these, runs in which the core did clearly fewer: another hardware thread of it was busy.
    pub shared_runs: usize,
    /// How many times as long a program takes by the first try of each round, whatever it had of the core, as on a core of its
    /// own: the median over programs. `None` where no program tells it.
    #[serde(default)]
    pub times_as_long: Option<f64>,
}

/// The clock of the core on which programs ran alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClockUse {
    /// Looks: one right after each timed run that had its core for itself.
    pub looks: usize,
    /// Median of these, in MHz.
    pub mhz: f64,
}

/// A program alone.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredSolo {
    /// CPU seconds of a run: of the rounds in which it had the core for itself, where there are any, and of the further
    /// ones alone where there are enough.
    pub cpu_s: Estimate,
    /// Had it?
    pub had_core: bool,
    /// It had not, in most rounds, and the figure is what its runs beside busy hardware threads tell of a core of its own.
    pub from_shared_runs: bool,
}

/// A group.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredGroup {
    /// Each member's slowdown: its CPU time beside the others by that alone in the same round with as much of the core, of
    /// the rounds in which the group shared a cache and that is known.
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
    let native = Native::new(subjects, conditions)?;
    let known =
        (Nearness::new(conditions.same_llc_ns), FreeCore::new(conditions.additions_per_cycle));
    let measured = measure_on(&native, &names, plan, known, go_on)?;
    Ok(Measured { neighbours: native.neighbours(), ..measured })
}

/// A program's run alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SoloRun {
    pub(crate) cpu_s: f64,
    /// Additions a cycle that the core did, the mean of looks before, during and after the run.
    pub(crate) additions_per_cycle: f64,
    /// The clock right after the run, when the core has been busy.
    pub(crate) clock_mhz: f64,
}

/// A run of a group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupRun {
    /// CPU seconds by member.
    pub(crate) cpu_s: Vec<f64>,
    /// Additions a cycle that each member's core did, as of [`SoloRun`]; none where another member ran on it.
    pub(crate) additions_per_cycle: Vec<Option<f64>>,
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
    (nearness, core): (Nearness, FreeCore),
    go_on: &(dyn Fn(f64, &str) -> bool + Sync),
) -> Result<Measured, RunError> {
    let mut rounds = Rounds {
        runner,
        names,
        go_on,
        first: Runs::none(names.len(), plan),
        further: Runs::none(names.len(), plan),
        left_out: Vec::new(),
        has_ended: vec![false; names.len()],
        late_s: vec![None; names.len()],
        core,
        timed: vec![Vec::new(); names.len()],
        first_tries_s: vec![Vec::new(); names.len()],
        nearness,
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

/// What rounds gave, the first or the further ones. None for a run that reached its time limit, and for one of a program that is left out.
struct Runs {
    /// Runs by subject and round.
    solo: Vec<Vec<Option<SoloRun>>>,
    /// Runs by group and round.
    groups: Vec<Vec<Option<GroupRun>>>,
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
    /// Whether a subject has run to its end alone.
    has_ended: Vec<bool>,
    /// The time limit, in seconds, that a subject has reached in a run after it had ended once.
    late_s: Vec<Option<f64>>,
    core: FreeCore,
    /// Each timed run alone by subject, repeated ones included.
    timed: Vec<Vec<SoloRun>>,
    /// CPU seconds of the first try of each round by subject.
    first_tries_s: Vec<Vec<f64>>,
    nearness: Nearness,
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
                    runs(self).solo[subject].push(run);
                }
                Turn::Group(group) => {
                    let run = self.group(done(at), &plan.groups[group])?;
                    runs(self).groups[group].push(run);
                }
            }
        }
        Ok(())
    }

    /// Had a run its core for itself, as far as is known by now?
    fn is_free(&self, additions_per_cycle: f64) -> bool {
        self.core.is_free(additions_per_cycle)
    }

    /// Did a group share a cache, as far as is known by now?
    fn is_together(&self, run: &GroupRun) -> bool {
        self.nearness.is_near(run.line_transfer_ns)
    }

    fn is_left_out(&self, subject: usize) -> bool {
        self.left_out.iter().any(|one| one.subject == subject)
    }

    /// A program that fails is left out; anything else ends the measurement. One that reaches its time limit after it
    /// has ended once loses that run alone: the machine was slow, or its company.
    fn lose_run(&mut self, subject: usize, why: RunError) -> Result<(), RunError> {
        match why {
            RunError::Stopped | RunError::System { .. } => Err(why),
            RunError::Limit(limit_s) if self.has_ended[subject] => {
                self.late_s[subject] = Some(limit_s);
                Ok(())
            }
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
        for again in 0..=REPEATS {
            let Some(run) = self.once(done, subject)? else { break };
            self.timed[subject].push(run);
            if again == 0 {
                self.first_tries_s[subject].push(run.cpu_s);
            }
            if best.is_none_or(|best| best.additions_per_cycle < run.additions_per_cycle) {
                best = Some(run);
            }
            if self.is_free(run.additions_per_cycle) {
                break;
            }
        }
        Ok(best)
    }

    /// Runs a program alone; none where it is left out or reaches its time limit.
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
                self.has_ended[subject] = true;
                self.core.learn(run.additions_per_cycle);
                Ok(Some(run))
            }
            Err(why) => self.lose_run(subject, why).map(|()| None),
        }
    }

    /// Times a group, again where its CPUs did not share a cache; the run in which they were nearest counts. None where a
    /// member is left out or reaches its time limit.
    fn group(&mut self, done: f64, group: &[usize]) -> Result<Option<GroupRun>, RunError> {
        let mut best: Option<GroupRun> = None;
        for _ in 0..=REPEATS {
            let Some(run) = self.once_together(done, group)? else { break };
            self.transfers_ns.push(run.line_transfer_ns);
            self.nearness.learn(run.line_transfer_ns);
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
            Err((member, why)) => self.lose_run(group[member], why).map(|()| None),
        }
    }

    /// A subject's time alone by such rounds: of those in which it had the core for itself, or of all.
    fn time_alone(&self, runs: &Runs, subject: usize, free_alone: bool) -> Option<Estimate> {
        let counts = |run: &&SoloRun| !free_alone || self.is_free(run.additions_per_cycle);
        let of = runs.solo[subject].iter().flatten().filter(counts);
        estimate(&of.map(|run| run.cpu_s).collect::<Vec<f64>>())
    }

    /// How a program's speed goes with what it has of the core, by all runs alone so far.
    fn pace(&self, subject: usize) -> Option<Pace> {
        Pace::of(self.timed[subject].iter(), self.core.additions_per_cycle())
    }

    /// The slowdowns of a group by member, in such rounds in which the group shared a cache and that are known to tell them;
    /// none where a member is left out.
    fn slowdowns(&self, runs: &Runs, plan: &RoundPlan, group: usize) -> Option<Vec<Vec<f64>>> {
        let members = &plan.groups[group];
        if members.iter().any(|&member| self.is_left_out(member)) {
            return None;
        }
        let slowdowns = members.iter().enumerate().map(|(place, &member)| {
            let pace = self.pace(member);
            let rounds = runs.groups[group].iter().zip(&runs.solo[member]);
            let ended = rounds.filter_map(|(beside, alone)| beside.as_ref().zip(alone.as_ref()));
            let near = ended.filter(|(beside, _)| self.is_together(beside));
            let slowdown = |(beside, alone): (&GroupRun, &SoloRun)| {
                let with_core = beside.additions_per_cycle[place];
                let ratio = self.speed_ratio(pace.as_ref(), with_core, alone)?;
                Some(beside.cpu_s[place] / alone.cpu_s * ratio)
            };
            near.filter_map(slowdown).collect()
        });
        Some(slowdowns.collect())
    }

    /// How many times as fast as in a run alone a program would have been alone with what it had of the core in a run of a
    /// group: `beside`, in additions a cycle. None where that is not known.
    fn speed_ratio(
        &self,
        pace: Option<&Pace>,
        beside: Option<f64>,
        alone: &SoloRun,
    ) -> Option<f64> {
        let Some(beside) = beside else {
            return self.is_free(alone.additions_per_cycle).then_some(1.0);
        };
        let share = |additions: f64| additions / self.core.additions_per_cycle();
        let (beside, alone) = (share(beside), share(alone.additions_per_cycle));
        if (beside - alone).abs() <= AS_MUCH {
            return Some(1.0);
        }
        pace?.ratio(beside, alone)
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
        let all = self.time_alone(&self.first, subject, false)?;
        let first = self.time_alone(&self.first, subject, true);
        if first.is_none_or(|free| 2 * free.rounds < all.rounds)
            && let Some(cpu_s) = self.pace(subject).and_then(|pace| pace.on_a_free_core())
        {
            return Some(MeasuredSolo { cpu_s, had_core: first.is_some(), from_shared_runs: true });
        }
        let Some(first) = first else {
            return Some(MeasuredSolo { cpu_s: all, had_core: false, from_shared_runs: false });
        };
        let further = self.time_alone(&self.further, subject, true);
        let further = further.filter(|&further| is_enough(&[further], &[first]));
        let cpu_s = further.unwrap_or(first);
        Some(MeasuredSolo { cpu_s, had_core: true, from_shared_runs: false })
    }

    fn measured_group(&self, plan: &RoundPlan, group: usize) -> Option<MeasuredGroup> {
        let first = self.estimates(&self.first, plan, group)?;
        let further = self.estimates(&self.further, plan, group);
        let run = self.further.groups[group].iter().flatten().count();
        Some(match further.filter(|further| is_enough(further, &first)) {
            Some(slowdowns) => MeasuredGroup { slowdowns, further_rounds: run },
            None => MeasuredGroup { slowdowns: first, further_rounds: 0 },
        })
    }

    fn times_as_long(&self, solo: &[Option<MeasuredSolo>]) -> Option<f64> {
        let of_free_core = |solo: &&MeasuredSolo| solo.had_core || solo.from_shared_runs;
        let ratios = self.first_tries_s.iter().zip(solo).filter_map(|(tries_s, solo)| {
            Some(median(tries_s)? / solo.as_ref().filter(of_free_core)?.cpu_s.median)
        });
        median(&ratios.collect::<Vec<f64>>())
    }

    fn finish(mut self, plan: &RoundPlan, rounds: usize) -> Measured {
        let solo: Vec<_> =
            (0..self.names.len()).map(|subject| self.measured_solo(subject)).collect();
        for (subject, limit_s) in std::mem::take(&mut self.late_s).into_iter().enumerate() {
            if let (Some(limit_s), None, false) =
                (limit_s, &solo[subject], self.is_left_out(subject))
            {
                self.left_out.push(LeftOut { subject, why: RunError::Limit(limit_s) });
            }
        }
        let timed: Vec<&SoloRun> = self.timed.iter().flatten().collect();
        let free = timed.iter().filter(|run| self.is_free(run.additions_per_cycle));
        let clocks_mhz: Vec<f64> = free.map(|run| run.clock_mhz).collect();
        Measured {
            rounds,
            core: CoreUse {
                additions_per_cycle: self.core.additions_per_cycle(),
                runs: timed.len(),
                shared_runs: timed.len() - clocks_mhz.len(),
                times_as_long: self.times_as_long(&solo),
            },
            clock: median(&clocks_mhz).map(|mhz| ClockUse { looks: clocks_mhz.len(), mhz }),
            cache: CacheUse::of(&self.transfers_ns, self.nearness),
            neighbours: None,
            solo,
            groups: (0..plan.groups.len()).map(|group| self.measured_group(plan, group)).collect(),
            left_out: self.left_out,
        }
    }
}

#[cfg(test)]
mod tests;
