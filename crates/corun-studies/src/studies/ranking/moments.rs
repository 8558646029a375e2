//! The best placement of each moment: what following programs' phases could be worth.

use std::sync::Arc;

use corun_app::Result;
use corun_model::{LoadedProgram, Model};
use corun_optimal::{Goal, Objective, PlacementProblem, SearchLimits};
use rand::seq::SliceRandom;
use rand::{RngExt as _, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// Moments that are drawn for a mix. Where programs have no more combinations of phases than that, all are looked at.
const MOST_MOMENTS: usize = 16;

/// Means over moments of a mix.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Moments {
    /// Of the mean slowdown in the placement that is held.
    pub(super) held: f64,
    /// Of the least mean slowdown of any placement in the phases of the moment; a bound from below where the search
    /// ended before its proof.
    pub(super) best: f64,
    /// Is the least of each moment proven?
    pub(super) is_proven: bool,
}

impl Moments {
    /// The best placements of all moments over the one that is held, at most 1.
    pub(super) fn best_over_held(&self) -> f64 {
        self.best / self.held
    }

    /// The model's slowdowns at moments of a mix: in a placement that is held (the CPU of each program) and in the best one
    /// of the moment.
    pub(super) fn of(
        model: &Model,
        programs: &[Arc<LoadedProgram>],
        held: &[usize],
        seed: u64,
        limits: &SearchLimits<'_>,
    ) -> Result<Self> {
        let mut found = Self { held: 0.0, best: 0.0, is_proven: true };
        for (phases, weight) in drawn(model, programs, held, seed) {
            let problem = PlacementProblem::new(model, programs)?.with_phases(phases)?;
            let placer = problem.placer()?.with_starts(&[held.to_vec()])?;
            let here = corun_metrics::mean_slowdown(&placer.evaluate(held)?).unwrap_or(f64::NAN);
            let best = placer.solve(Objective::MeanSlowdown, Goal::Best, limits);
            found.held += weight * here;
            // With too many programs for a bound: nobody is faster than alone.
            found.best += weight * best.bound.unwrap_or(1.0);
            found.is_proven &= best.proven;
        }
        Ok(found)
    }
}

/// A program's share of its time alone in each phase, on a CPU.
fn time_shares(model: &Model, program: &LoadedProgram, cpu: usize) -> Vec<f64> {
    let seconds = |(phase, of): (usize, &corun_model::LoadedPhase)| {
        of.instructions / model.solo(program, phase, cpu).instructions_per_s
    };
    let each: Vec<f64> = program.phases.iter().enumerate().map(seconds).collect();
    let whole: f64 = each.iter().sum();
    each.into_iter().map(|one| one / whole).collect()
}

/// Moments as the phases that programs are in, with weights that sum to 1. Programs are in their phases independently, each
/// by its time alone. Drawn moments share each program's time evenly among them (a Latin hypercube).
fn drawn(
    model: &Model,
    programs: &[Arc<LoadedProgram>],
    cpus: &[usize],
    seed: u64,
) -> Vec<(Vec<usize>, f64)> {
    let shares: Vec<Vec<f64>> =
        programs.iter().zip(cpus).map(|(one, &cpu)| time_shares(model, one, cpu)).collect();
    let combinations = shares.iter().try_fold(1_usize, |all, one| all.checked_mul(one.len()));
    if combinations.is_some_and(|all| all <= MOST_MOMENTS) {
        return all(&shares);
    }
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut moments = vec![(Vec::with_capacity(shares.len()), 1.0 / MOST_MOMENTS as f64); MOST_MOMENTS];
    for shares in &shares {
        let mut parts: Vec<usize> = (0..MOST_MOMENTS).collect();
        parts.shuffle(&mut random);
        for ((phases, _), part) in moments.iter_mut().zip(parts) {
            let at = (part as f64 + random.random::<f64>()) / MOST_MOMENTS as f64;
            phases.push(phase_at(shares, at));
        }
    }
    moments
}

/// The phase at a share of a program's time, its phases one after the other.
fn phase_at(shares: &[f64], at: f64) -> usize {
    let mut end = 0.0;
    let phase = shares.iter().position(|share| {
        end += share;
        at < end
    });
    phase.unwrap_or(shares.len() - 1)
}

/// Every combination of phases with its share of time.
fn all(shares: &[Vec<f64>]) -> Vec<(Vec<usize>, f64)> {
    let mut found = vec![(Vec::new(), 1.0)];
    for shares in shares {
        let with = |(phases, weight): &(Vec<usize>, f64)| {
            let (phases, weight) = (phases.clone(), *weight);
            let one = move |(phase, share): (usize, &f64)| {
                let phases = phases.iter().copied().chain([phase]).collect();
                (phases, weight * share)
            };
            shares.iter().enumerate().map(one).collect::<Vec<_>>()
        };
        found = found.iter().flat_map(with).collect();
    }
    found
}

#[cfg(test)]
mod tests {
    use corun_profile::Library;

    use super::*;
    use crate::simulate::model_of;

    fn load(model: &Model, names: &[&str]) -> Vec<Arc<LoadedProgram>> {
        let shipped = Library::shipped().unwrap();
        names.iter().map(|name| Arc::new(model.load(shipped.get(name).unwrap()).unwrap())).collect()
    }

    /// Four programs on two LLCs of two cores each: the best of each moment is the least of all placements, tried one by one.
    #[test]
    fn the_best_of_each_moment_is_the_one_of_all_placements() {
        let model = model_of("xeon-x5365-2llc").unwrap();
        let programs = load(&model, &["bzip2", "numpy", "sort", "gzip"]);
        let held = [0, 1, 2, 3];
        let limits = SearchLimits::default();
        let found = Moments::of(&model, &programs, &held, 7, &limits).unwrap();
        let (mut best, mut of_held) = (0.0, 0.0);
        for (phases, weight) in drawn(&model, &programs, &held, 7) {
            let problem =
                PlacementProblem::new(&model, &programs).unwrap().with_phases(phases).unwrap();
            let placer = problem.placer().unwrap();
            let mean = |cpus: &[usize]| {
                corun_metrics::mean_slowdown(&placer.evaluate(cpus).unwrap()).unwrap()
            };
            let all = (0..256_usize).map(|code| (0..4).map(|place| code >> (2 * place) & 3).collect());
            let differ = |cpus: &Vec<usize>| (1..4).all(|place| !cpus[..place].contains(&cpus[place]));
            best += weight * all.filter(differ).map(|cpus| mean(&cpus)).fold(f64::INFINITY, f64::min);
            of_held += weight * mean(&held);
        }
        assert!(found.is_proven);
        assert!((found.best / best - 1.0).abs() < 1e-9 && (found.held / of_held - 1.0).abs() < 1e-9);
        assert!(found.best_over_held() <= 1.0);
    }

    /// Programs that each have one phase have one moment, in which the placement that is held is as good as the best.
    #[test]
    fn without_phases_there_is_one_moment() {
        let model = model_of("xeon-x5365-2llc").unwrap();
        let shipped = Library::shipped().unwrap();
        let steady = shipped.iter().map(|one| model.load(one).unwrap()).find(|one| one.phases.len() == 1);
        let steady = Arc::new(steady.unwrap());
        let programs = [steady.clone(), steady];
        assert_eq!(drawn(&model, &programs, &[0, 1], 1), [(vec![0, 0], 1.0)]);
    }

    /// Few combinations are all there with the product of their shares; many are drawn, each program in each of its phases
    /// for its share of the moments, to one moment at each of its ends.
    #[test]
    fn moments_have_the_shares_of_time() {
        let few = all(&[vec![0.25, 0.75], vec![1.0], vec![0.5, 0.5]]);
        let weights: Vec<f64> = few.iter().map(|one| one.1).collect();
        assert_eq!(weights, [0.125, 0.125, 0.375, 0.375]);
        assert_eq!(few[2].0, [1, 0, 0]);
        assert_eq!([0.0, 0.24, 0.25, 1.0].map(|at| phase_at(&[0.25, 0.75], at)), [0, 0, 1, 1]);
        let model = model_of("xeon-x5365-2llc").unwrap();
        let programs = load(&model, &["bzip2", "numpy", "cc1", "perl"]);
        let moments = drawn(&model, &programs, &[0, 1, 2, 3], 3);
        assert_eq!(moments.len(), MOST_MOMENTS);
        assert_eq!(moments, drawn(&model, &programs, &[0, 1, 2, 3], 3));
        for (place, program) in programs.iter().enumerate() {
            for (phase, share) in time_shares(&model, program, place).into_iter().enumerate() {
                let of = moments.iter().filter(|one| one.0[place] == phase).map(|one| one.1);
                let off = of.sum::<f64>() - share;
                assert!(off.abs() < 2.0 / MOST_MOMENTS as f64, "{} {phase}: {off}", program.name);
            }
        }
    }
}
