//! What programs do to one another on average over their phases.
//!
//! A program stands in the search as a whole, by what it does on average. Beside others that is an approximation: what two
//! phases do to one another is not linear in what each does alone. A phase that just fits is evicted beside
//! one that streams, and is not beside one that rests (docs/model.md, "A program as a whole"). Where programs' phases are
//! known, a change is therefore weighed by the mean over moments at which each program is in one of its phases.
//! When which phases meet is not known: each program's moments are spread evenly over its execution, and independently of
//! the others' (Richtmyer's sequence: multiples of the square roots of primes, modulo 1; Niederreiter, "Random Number
//! Generation and Quasi-Monte Carlo Methods", SIAM 1992, chapter 3).

use corun_model::{LoadedPhase, LoadedProgram, Outcome};

use super::learned::World;
use super::search::{Predicted, Search, Situation, Thread};

/// Moments that are looked at.
pub(super) const MOMENTS: usize = 256;

impl Search<'_> {
    /// The objective's value of a situation, on average over phases where all programs are known.
    pub(super) fn value_over_phases(&mut self, at: &Predicted) -> f64 {
        let is_phased = |thread: &Thread| thread.worlds.likely.phases.len() > 1;
        if !self.are_known() || !self.threads.iter().any(is_phased) {
            return self.value(at);
        }
        let outcomes = self.over_phases(&at.situation);
        self.value_of(&at.situation, &outcomes)
    }

    /// Slowdown and traffic of each thread, on average over phases; nothing else of it.
    fn over_phases(&mut self, at: &Situation) -> Vec<Outcome> {
        let roots: Vec<f64> = primes().take(at.cpus.len()).map(|one| (one as f64).sqrt()).collect();
        let mut mean = vec![Outcome::default(); at.cpus.len()];
        for moment in 0..MOMENTS {
            let share = |thread: usize| (roots[thread] * (moment as f64 + 0.5)).fract();
            let phase = |thread: usize| {
                phase_at(self.threads[thread].worlds.of(World::Likely), share(thread))
            };
            let phases: Vec<usize> = (0..at.cpus.len()).map(phase).collect();
            for (sum, one) in mean.iter_mut().zip(self.outcomes_in(&phases, at)) {
                sum.slowdown += one.slowdown / MOMENTS as f64;
                sum.bytes_per_s += one.bytes_per_s / MOMENTS as f64;
            }
        }
        mean
    }
}

fn primes() -> impl Iterator<Item = usize> {
    let is_prime = |number: &usize| {
        (2..).take_while(|by| by * by <= *number).all(|by| !number.is_multiple_of(by))
    };
    (2..).filter(is_prime)
}

/// The phase (index) that a program is in when this share of its time alone is over. Stretches of a phase stand together,
/// since who meets whom when is not known.
fn phase_at(program: &LoadedProgram, share: f64) -> usize {
    let time_s = |phase: &LoadedPhase| phase.instructions / phase.best_instructions_per_s;
    let mut left = share * program.phases.iter().map(time_s).sum::<f64>();
    let ends = |phase: &LoadedPhase| {
        left -= time_s(phase);
        left < 0.0
    };
    program.phases.iter().position(ends).unwrap_or(program.phases.len() - 1)
}
