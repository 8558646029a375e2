//! Among placements that are as good as each other: the one whose slowest programs are less slow.
//!
//! The mean slowdown says nothing of the slowest. Differences of the mean that are below what a decision must gain
//! are none to the policy, so that placements within such a difference are equally good, and the search goes on
//! among them. What it makes small there is the power mean of the slowdowns, of which the slowest programs are
//! nearly all: the slowest alone would leave no step where two programs are equally slow.

use corun_model::Outcome;

use super::search::{Predicted, Search, Step};

/// The power: with 16, a program that is 1.2 times slower than another counts 18 times as much.
const POWER: i32 = 16;
/// A step has to lower the power mean by this share.
const LEAST_STEP: f64 = 1e-3;
/// Machines that are asked about.
const MOST_QUESTIONS: usize = 600;

/// The power mean of the slowdowns.
pub(super) fn level(outcomes: &[Outcome]) -> f64 {
    let sum: f64 = outcomes.iter().map(|one| one.slowdown.powi(POWER)).sum();
    (sum / outcomes.len().max(1) as f64).powf(1.0 / f64::from(POWER))
}

impl Search<'_> {
    /// From a placement to one whose slowest programs are less slow, where the objective is at most `most` and nobody
    /// exceeds its bound; the given one where there is no such. Only threads on the LLC of the slowest take part in a
    /// step, with others.
    pub(super) fn leveled(
        &mut self,
        at: Predicted,
        most: f64,
        (bounds, memory): (&[f64], bool),
    ) -> Predicted {
        let objective = self.objective;
        let value = move |outcomes: &[Outcome]| {
            if objective.value(outcomes) > most { f64::INFINITY } else { level(outcomes) }
        };
        let until = self.questions + MOST_QUESTIONS;
        let mut at = at;
        'steps: for _ in 0..2 * self.threads.len() {
            for steps in self.steps_of_the_slowest(&at, memory) {
                if let Some(next) = self.best_of(&steps, &at, (bounds, until), value)
                    && value(&next.outcomes) < level(&at.outcomes) * (1.0 - LEAST_STEP)
                {
                    at = next;
                    continue 'steps;
                }
            }
            break;
        }
        at
    }

    /// The steps of the threads on the LLC of the slowest one, its own first.
    fn steps_of_the_slowest(&self, at: &Predicted, memory: bool) -> Vec<Vec<Step>> {
        let machine = self.model.machine();
        let llc = |thread: usize| machine.cpus()[at.situation.cpus[thread]].llc;
        let slowdown = |&thread: &usize| at.outcomes[thread].slowdown;
        let slowest = (0..self.threads.len())
            .max_by(|one, other| slowdown(one).total_cmp(&slowdown(other)).then(other.cmp(one)));
        let Some(slowest) = slowest else { return Vec::new() };
        let own = self.steps(at, memory).concat();
        let mut by_thread: Vec<Vec<Step>> = Vec::new();
        let mut here: Vec<usize> =
            (0..self.threads.len()).filter(|&one| llc(one) == llc(slowest)).collect();
        here.sort_by_key(|&one| one != slowest);
        for one in here {
            let of = |step: &&Step| match **step {
                Step::Swap(first, second, _) => {
                    let other = if first == one { second } else { first };
                    (first == one || second == one) && llc(other) != llc(slowest)
                }
                Step::Move(thread, ..) => thread == one,
                Step::Memory(thread) => thread == one,
            };
            by_thread.push(own.iter().filter(of).copied().collect());
        }
        by_thread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 1 and 2: ((1 + 2^16) / 2)^(1/16) = 2 x 0.5^(1/16), but for the 1, which is a part in 65,536.
    #[test]
    fn the_slowest_make_nearly_all_of_the_level() {
        let outcomes = |slowdowns: &[f64]| -> Vec<Outcome> {
            slowdowns.iter().map(|&slowdown| Outcome { slowdown, ..Outcome::default() }).collect()
        };
        let two = level(&outcomes(&[1.0, 2.0]));
        assert!((two / (2.0 * 0.5_f64.powf(1.0 / 16.0)) - 1.0).abs() < 1e-6, "{two}");
        assert!(level(&outcomes(&[1.5, 1.5])) < two);
        // One of two that are equally slow is less slow.
        assert!(level(&outcomes(&[1.0, 2.0, 1.9])) < level(&outcomes(&[1.0, 2.0, 2.0])));
    }
}
