//! The best that a mix could have: placements held throughout, and bounds on sharing the cores out over time.

use std::sync::Arc;

use corun_app::{Error, Result};
use corun_model::LoadedProgram;
use corun_profile::Method;
use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};

use super::big_little::{BigLittle, Member, MixFigures};
use super::calibration::together;
use super::mixes::SOLO_S;
use crate::harness::StudyInputs;
use crate::held_placements::{all_held, best_of, placements};

/// The best for a mix.
pub(super) struct MixBest {
    /// Of all placements that differ, held throughout and simulated, the one of the least unfairness.
    pub(super) fairest: MixFigures,
    /// The one of the highest ASP.
    pub(super) fastest: MixFigures,
    /// The highest ASP that time shares have by the model where all programs are equally slow. NaN where there are none,
    /// and of programs of several threads; so are the two that follow.
    pub(super) asp_all_alike: f64,
    /// The same where unfairness is at most that of CAMPS.
    pub(super) asp_as_fair_as_camps: f64,
    /// The same whatever the unfairness.
    pub(super) asp_at_most: f64,
}

impl MixBest {
    /// `camps`: what the policy made of the mix.
    pub(super) fn of(
        inputs: &StudyInputs,
        machine: &BigLittle,
        mix: &[Member],
        camps: &MixFigures,
    ) -> Result<Self> {
        let apps = machine.apps(inputs, mix, inputs.length_s(SOLO_S))?;
        let kinds = kinds(mix);
        let experiment = machine.experiment(&apps, Method::Restart3, 1);
        let figures: Vec<MixFigures> = all_held(inputs, &experiment, &kinds)?
            .iter()
            .map(|held| machine.figures(&apps, &held.result))
            .collect();
        let none = || Error::input("a program got nothing done");
        let fairest = best_of(&figures, |one| -one.unfairness).ok_or_else(none)?.clone();
        let fastest = best_of(&figures, |one| one.asp).ok_or_else(none)?.clone();
        let programs: Vec<Arc<LoadedProgram>> = apps.into_iter().map(|app| app.program).collect();
        let shares = TimeShares::new(machine, &programs, &kinds);
        // A program of several threads ends with its last thread: the mean of their speeds is not its speed.
        let has_one_thread_each = kinds.len() == programs.len();
        let asp = |unfairness| {
            let found = shares.highest_asp(unfairness).filter(|_| has_one_thread_each);
            found.unwrap_or(f64::NAN)
        };
        Ok(Self {
            fairest,
            fastest,
            asp_all_alike: asp(1.0),
            asp_as_fair_as_camps: asp(camps.unfairness.max(1.0)),
            asp_at_most: asp(f64::INFINITY),
        })
    }
}

/// The program of each thread, by its place in the mix.
fn kinds(mix: &[Member]) -> Vec<usize> {
    let threads = |(place, member): (usize, &Member)| std::iter::repeat_n(place, member.1 as usize);
    mix.iter().enumerate().flat_map(threads).collect()
}

/// How fast programs are in each placement, between which a policy may share the time out.
struct TimeShares {
    /// By placement and program: the mean speed of its threads over that of a thread alone on a big core.
    speeds: Vec<Vec<f64>>,
    /// By program: time alone on a small core over time alone on a big one.
    factors: Vec<f64>,
}

impl TimeShares {
    /// By the model, each program's phases as one.
    fn new(machine: &BigLittle, programs: &[Arc<LoadedProgram>], kinds: &[usize]) -> Self {
        let alone: Vec<f64> = programs
            .iter()
            .map(|one| machine.model.solo(one, LoadedProgram::WHOLE, machine.big).instructions_per_s)
            .collect();
        let in_placement = |cpus: &Vec<usize>| -> Vec<f64> {
            let running: Vec<(&LoadedProgram, usize)> =
                kinds.iter().zip(cpus).map(|(&kind, &cpu)| (&*programs[kind], cpu)).collect();
            let out = together(machine, &running);
            let of = |program: usize| {
                let threads = kinds.iter().zip(&out).filter(|(kind, _)| **kind == program);
                let speeds: Vec<f64> =
                    threads.map(|(_, one)| one.instructions_per_s / alone[program]).collect();
                super::mean(&speeds)
            };
            (0..programs.len()).map(of).collect()
        };
        let placements = placements(machine.model.machine(), kinds);
        let factor = |one: &Arc<LoadedProgram>| {
            machine.alone_s(one, machine.small) / machine.alone_s(one, machine.big)
        };
        Self {
            speeds: placements.iter().map(in_placement).collect(),
            factors: programs.iter().map(factor).collect(),
        }
    }

    /// The highest sum over programs of time alone on a small core / time - 1 where no program is more than
    /// `unfairness` times as slow as another. None where no shares keep to that.
    fn highest_asp(&self, unfairness: f64) -> Option<f64> {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let gain = |speeds: &Vec<f64>| -> f64 {
            speeds.iter().zip(&self.factors).map(|(speed, factor)| speed * factor).sum()
        };
        let shares: Vec<Variable> =
            self.speeds.iter().map(|speeds| problem.add_var(gain(speeds), (0.0, 1.0))).collect();
        let slowest = problem.add_var(0.0, (0.0, f64::INFINITY));
        let all: Vec<(Variable, f64)> = shares.iter().map(|&share| (share, 1.0)).collect();
        problem.add_constraint(all, ComparisonOp::Eq, 1.0);
        for program in 0..self.factors.len() {
            let speed: Vec<(Variable, f64)> =
                shares.iter().zip(&self.speeds).map(|(&share, of)| (share, of[program])).collect();
            let beside = |limit: f64| [&speed[..], &[(slowest, -limit)]].concat();
            problem.add_constraint(beside(1.0), ComparisonOp::Ge, 0.0);
            if unfairness.is_finite() {
                problem.add_constraint(beside(unfairness), ComparisonOp::Le, 0.0);
            }
        }
        let solution = problem.solve().ok()?.into_solution().ok()?;
        Some(solution.objective() - self.factors.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two programs and one big core. The first is twice as fast there, the second four times; alone on small cores
    /// their speeds are 1/2 and 1/4.
    fn two() -> TimeShares {
        TimeShares { speeds: vec![vec![1.0, 0.25], vec![0.5, 1.0]], factors: vec![2.0, 4.0] }
    }

    /// The second always on the big core: 0.5 x 2 + 1 x 4 - 2 = 3, at an unfairness of 2. Equally slow with share x of
    /// the first placement: 1 x + 0.5 (1 - x) = 0.25 x + (1 - x), x = 0.4, both at a speed of 0.7: 0.7 x 6 - 2 = 2.2.
    #[test]
    fn time_shares_are_worked_by_hand() {
        let shares = two();
        let is = |unfairness: f64, asp: f64| {
            let found = shares.highest_asp(unfairness).unwrap();
            assert!((found - asp).abs() < 1e-9, "{unfairness}: {found}, not {asp}");
        };
        is(f64::INFINITY, 3.0);
        is(2.0, 3.0);
        is(1.0, 2.2);
        assert!(shares.highest_asp(1.2).unwrap() > 2.2);
    }

    /// A program that is slow wherever it is cannot be made as fast as another.
    #[test]
    fn what_no_shares_keep_to_has_no_bound() {
        let shares = TimeShares { speeds: vec![vec![1.0, 0.5]], factors: vec![1.0, 1.0] };
        assert_eq!(shares.highest_asp(1.5), None);
        assert!(shares.highest_asp(2.0).is_some());
    }

    #[test]
    fn threads_know_their_programs() {
        assert_eq!(kinds(&[("art", 1), ("semphy", 3), ("gzip", 1)]), [0, 1, 1, 1, 2]);
    }
}
