//! What programs do to one another on average over their phases.
//!
//! A program stands in the search as a whole, by what it does on average. Beside others that is an approximation: what two
//! phases do to one another is not linear in what each does alone. A phase that just fits is evicted beside
//! one that streams, and is not beside one that rests (docs/model.md, "A program as a whole"). Where programs' phases are
//! known, a change is therefore weighed by the mean over moments at which each program is in one of its phases.
//! When which phases meet is not known: each program's moments are spread evenly over its execution, and independently of
//! the others' (Richtmyer's sequence: multiples of the square roots of primes, modulo 1; Niederreiter, "Random Number
//! Generation and Quasi-Monte Carlo Methods", SIAM 1992, chapter 3).

use std::collections::BTreeMap;

use corun_model::{LoadedPhase, LoadedProgram, Pace};

use super::search::{Predicted, Search, Situation, Thread};

/// Moments that are looked at.
pub(super) const MOMENTS: usize = 256;

/// In which phases programs are at each moment.
pub(super) struct Moments {
    /// A phase by thread, each combination once.
    pub(super) combinations: Vec<Vec<usize>>,
    /// By moment: which combination.
    of: Vec<usize>,
}

impl Moments {
    pub(super) fn of(threads: &[Thread]) -> Self {
        let times: Vec<Vec<f64>> =
            threads.iter().map(|thread| times_s(&thread.worlds.likely)).collect();
        let roots: Vec<f64> = primes().take(threads.len()).map(|one| (one as f64).sqrt()).collect();
        let mut known: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        let mut moments = Self { combinations: Vec::new(), of: Vec::with_capacity(MOMENTS) };
        for moment in 0..MOMENTS {
            let share = |root: f64| (root * (moment as f64 + 0.5)).fract();
            let each = times.iter().zip(&roots);
            let phases: Vec<usize> =
                each.map(|(times, &root)| phase_at(times, share(root))).collect();
            let next = moments.combinations.len();
            let place = *known.entry(phases).or_insert_with_key(|phases| {
                moments.combinations.push(phases.clone());
                next
            });
            moments.of.push(place);
        }
        moments
    }
}

impl Search<'_> {
    /// The objective's value of each of these situations, on average over phases where all programs are known. A moment
    /// after the other: what threads hold of a cache that no situation changes is found once.
    pub(super) fn values_over_phases(&mut self, at: &[&Predicted]) -> Vec<f64> {
        let is_phased = |thread: &Thread| thread.worlds.likely.phases.len() > 1;
        if !self.are_known() || !self.threads.iter().any(is_phased) {
            return at.iter().map(|one| self.value(one)).collect();
        }
        let moments = Moments::of(self.threads);
        let situations: Vec<&Situation> = at.iter().map(|one| &one.situation).collect();
        let mut paces = Vec::new();
        for phases in &moments.combinations {
            for situation in &situations {
                paces.extend_from_slice(self.paces_in(phases, situation));
            }
        }
        let count = self.threads.len();
        let of = |(place, situation): (usize, &&Situation)| {
            let mut mean = vec![Pace::default(); count];
            for combination in &moments.of {
                let first = (combination * situations.len() + place) * count;
                for (sum, one) in mean.iter_mut().zip(&paces[first..]) {
                    sum.slowdown += one.slowdown / MOMENTS as f64;
                    sum.bytes_per_s += one.bytes_per_s / MOMENTS as f64;
                }
            }
            self.value_of(situation, &mean)
        };
        situations.iter().enumerate().map(of).collect()
    }
}

fn primes() -> impl Iterator<Item = usize> {
    let is_prime = |number: &usize| {
        (2..).take_while(|by| by * by <= *number).all(|by| !number.is_multiple_of(by))
    };
    (2..).filter(is_prime)
}

/// How long each phase of a program takes alone.
fn times_s(program: &LoadedProgram) -> Vec<f64> {
    let time_s = |phase: &LoadedPhase| phase.instructions / phase.best_instructions_per_s;
    program.phases.iter().map(time_s).collect()
}

/// The phase (index) that a program is in when this share of its time alone is over, by the times of its phases. Stretches of
/// a phase stand together, since who meets whom when is not known.
fn phase_at(times_s: &[f64], share: f64) -> usize {
    let mut left = share * times_s.iter().sum::<f64>();
    let ends = |time_s: &f64| {
        left -= time_s;
        left < 0.0
    };
    times_s.iter().position(ends).unwrap_or(times_s.len() - 1)
}
