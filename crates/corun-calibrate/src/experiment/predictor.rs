//! How good a core's branch predictor is, beside the two that recordings count mispredictions by.

use std::collections::BTreeMap;

use corun_machine::CpuId;
use corun_trace::engine::{MispredictedShares, mispredicted_of_repeated};
use rand::{RngExt as _, SeedableRng};
use rand_pcg::Pcg64;

use crate::CalibrateError;
use crate::bench::{Sample, pin, timed};
use crate::estimate::{Estimator, Values};
use crate::figure::{CoreFigure, Figure};
use crate::kernel::Outcomes;
use crate::rounds::Experiment;

/// After how many outcomes they come again: the small predictor foresees most of the first, the large one nearly all of the
/// last, and less beyond.
const PERIODS: [usize; 5] = [1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14];
/// Rounds through all outcomes in which they are learnt before any is timed.
const LEARNING_ROUNDS: usize = 8;
/// Branches of a sample: some 0.1 ms.
const TIMED_BRANCHES: usize = 1 << 15;
/// Of outcomes that never come again.
const UNFORESEEN: f64 = 0.5;

/// The branch predictor of a core type. The first point is of outcomes that come again after two turns of the branches, which
/// any predictor with a history foresees, the last of outcomes that never come again, those between of [`PERIODS`].
pub(crate) struct BranchPredictor {
    core_type: usize,
    cpu: CpuId,
    foreseen: Outcomes,
    again: Vec<Outcomes>,
    /// By period.
    of_recordings: Vec<MispredictedShares>,
    generator: Pcg64,
}

impl BranchPredictor {
    pub(crate) fn new(core_type: usize, cpu: CpuId) -> Self {
        let mut generator = Pcg64::seed_from_u64(1);
        let two_turns = drawn(&mut generator, 2 * Outcomes::BRANCHES);
        let turns = two_turns.repeat(TIMED_BRANCHES / two_turns.len());
        let periods = PERIODS.map(|count| drawn(&mut generator, count));
        let of_recordings = periods.iter().map(|period| {
            let counted = timed_rounds(period.len());
            mispredicted_of_repeated(period, Outcomes::BRANCHES as u64, LEARNING_ROUNDS, counted)
        });
        Self {
            core_type,
            cpu,
            of_recordings: of_recordings.collect(),
            again: periods.iter().map(|period| Outcomes::new(period)).collect(),
            foreseen: Outcomes::new(&turns),
            generator,
        }
    }
}

fn drawn(generator: &mut Pcg64, count: usize) -> Vec<bool> {
    generator.random_iter().take(count).collect()
}

/// Rounds through so many outcomes that are timed.
fn timed_rounds(period: usize) -> usize {
    TIMED_BRANCHES / period
}

/// Cycles a branch in so many rounds, after others.
fn cycles_a_branch(outcomes: &Outcomes, learning: usize, rounds: usize) -> Sample {
    if learning > 0 {
        outcomes.run(learning as u64);
    }
    let mut branches = 0;
    let reading = timed(|| branches = outcomes.run(rounds as u64));
    reading.sample(reading.cycles() / branches as f64)
}

impl Experiment for BranchPredictor {
    fn name(&self) -> &'static str {
        "branch predictor"
    }

    fn points(&self) -> usize {
        self.again.len() + 2
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        pin(self.cpu)?;
        let Some(of_period) = point.checked_sub(1) else {
            return Ok(cycles_a_branch(&self.foreseen, LEARNING_ROUNDS, 1));
        };
        Ok(match self.again.get(of_period) {
            Some(outcomes) => {
                cycles_a_branch(outcomes, LEARNING_ROUNDS, timed_rounds(PERIODS[of_period]))
            }
            None => {
                let new = drawn(&mut self.generator, TIMED_BRANCHES);
                cycles_a_branch(&Outcomes::new(&new), 0, 1)
            }
        })
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let cycles: Vec<f64> =
            (0..self.points()).map(|point| values.at(point, Estimator::Floor)).collect();
        let share = large_share(&cycles, &self.of_recordings);
        BTreeMap::from([(Figure::Core(self.core_type, CoreFigure::LargePredictorShare), share)])
    }
}

/// Where the core's mispredictions lie between those of the small and the large predictor of recordings, over all periods
/// together. `cycles`: a branch, by point.
fn large_share(cycles: &[f64], of_recordings: &[MispredictedShares]) -> f64 {
    let [foreseen, again @ .., unforeseen] = cycles else { return f64::NAN };
    let mispredicted = |cycles: &f64| UNFORESEEN * (cycles - foreseen) / (unforeseen - foreseen);
    let core: f64 = again.iter().map(mispredicted).sum();
    let sum = |of: fn(&MispredictedShares) -> f64| of_recordings.iter().map(of).sum::<f64>();
    let (small, large) = (sum(|one| one.small), sum(|one| one.large));
    (small - core) / (small - large)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A misprediction takes 20 cycles, what is foreseen one: unforeseen outcomes 11 in the mean. The large predictor would
    /// take 1.2 and 3, the small one 5 and 9.
    #[test]
    fn a_core_lies_between_the_predictors() {
        let of_recordings = [(0.2, 0.01), (0.4, 0.1)];
        let of_recordings = of_recordings.map(|(small, large)| MispredictedShares { small, large });
        let share = |again: [f64; 2]| large_share(&[1.0, again[0], again[1], 11.0], &of_recordings);
        assert!((share([1.2, 3.0]) - 1.0).abs() < 1e-12);
        assert!(share([5.0, 9.0]).abs() < 1e-12);
        assert!((share([3.1, 6.0]) - 0.5).abs() < 1e-12);
        assert!(share([1.0, 1.0]) > 1.0, "better than the large one");
    }

    /// The longer the period, the more both mispredict, and the large one less than the small one.
    #[test]
    fn periods_tell_the_predictors_apart() {
        let shares = BranchPredictor::new(0, CpuId(0)).of_recordings;
        assert!(shares.iter().all(|one| one.large < one.small), "{shares:?}");
        assert!(shares.is_sorted_by(|one, next| one.small < next.small), "{shares:?}");
        assert!(shares[0].small < 0.1 && shares[4].small > 0.35, "{shares:?}");
        assert!(shares[3].large < 0.05 && shares[4].large < 0.15, "{shares:?}");
    }
}
