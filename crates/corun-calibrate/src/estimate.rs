//! From repeated samples to one value and how far to trust it.

use std::ops::Range;

use serde::Serialize;

use crate::bench::Sample;
use corun_metrics::quantile;

/// Which quantile of its samples stands for a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Estimator {
    /// A tenth of the samples lies below: of times to which a disturbance can only add. The least
    /// sample would be the one with the luckiest look at the clock.
    Floor,
    /// The median: of what programs meet in the long run, other users of the hardware included.
    Typical,
    /// A tenth of the samples lies above: of rates that a disturbance can only lower.
    Ceiling,
}

impl Estimator {
    fn share(self) -> f64 {
        match self {
            Self::Floor => 0.1,
            Self::Typical => 0.5,
            Self::Ceiling => 0.9,
        }
    }
}

/// A value, and the interval in which it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FigureRange {
    /// The value, from all rounds.
    pub value: f64,
    /// The least that a quarter of the rounds gives.
    pub low: f64,
    /// The most that a quarter of the rounds gives.
    pub high: f64,
}

impl FigureRange {
    /// A value and what the parts of the measurement give.
    pub(crate) fn new(value: f64, parts: impl IntoIterator<Item = f64>) -> Self {
        let all = Self { value, low: value, high: value };
        parts.into_iter().filter(|part| part.is_finite()).fold(all, |all, part| Self {
            low: all.low.min(part),
            high: all.high.max(part),
            ..all
        })
    }

    /// The same in another unit.
    #[must_use]
    pub(crate) fn times(self, factor: f64) -> Self {
        Self { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }

    /// Half of the interval's width, relative to the value.
    pub fn relative_spread(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.value.abs().max(f64::MIN_POSITIVE)
    }
}

/// The samples of one experiment: by point, then by round.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples {
    points: Vec<Vec<Sample>>,
}

impl Samples {
    pub(crate) fn new(points: usize) -> Self {
        Self { points: vec![Vec::new(); points] }
    }

    pub(crate) fn push(&mut self, point: usize, sample: Sample) {
        self.points[point].push(sample);
    }

    /// The samples of all rounds.
    pub(crate) fn all(&self) -> Values<'_> {
        Values { samples: self, rounds: 0..self.rounds() }
    }

    /// The samples of each quarter of the rounds, in the order in which they were measured, so that
    /// what changes in the course of time shows. Fewer parts where there are fewer rounds.
    pub(crate) fn quarters(&self) -> Vec<Values<'_>> {
        let rounds = self.rounds();
        let parts = rounds.min(4);
        let cut = |part: usize| part * rounds / parts;
        (0..parts).map(|part| Values { samples: self, rounds: cut(part)..cut(part + 1) }).collect()
    }

    fn rounds(&self) -> usize {
        self.points.iter().map(Vec::len).min().unwrap_or(0)
    }
}

/// The samples of some rounds, from which estimators make a value of each point.
#[derive(Debug, Clone)]
pub(crate) struct Values<'a> {
    samples: &'a Samples,
    rounds: Range<usize>,
}

impl Values<'_> {
    /// A point's value. Not a number where there is no sample.
    pub(crate) fn at(&self, point: usize, estimator: Estimator) -> f64 {
        self.estimate(point, estimator, |sample| sample.value)
    }

    /// The value that was measured beside a point's value.
    pub(crate) fn beside(&self, point: usize, estimator: Estimator) -> f64 {
        self.estimate(point, estimator, |sample| sample.beside)
    }

    /// The values of consecutive points.
    pub(crate) fn of(&self, points: Range<usize>, estimator: Estimator) -> Vec<f64> {
        points.map(|point| self.at(point, estimator)).collect()
    }

    /// Disturbed samples count only where they are more than two thirds: then there is nothing
    /// better.
    fn estimate(&self, point: usize, estimator: Estimator, of: impl Fn(&Sample) -> f64) -> f64 {
        let samples = &self.samples.points[point][self.rounds.clone()];
        let clean: Vec<f64> = samples.iter().filter(|sample| !sample.disturbed).map(&of).collect();
        let quantile = |values: &[f64]| quantile(values, estimator.share()).unwrap_or(f64::NAN);
        if clean.len() * 3 > samples.len() {
            quantile(&clean)
        } else {
            quantile(&samples.iter().map(of).collect::<Vec<_>>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[(f64, bool)]) -> Samples {
        let mut samples = Samples::new(1);
        for &(value, disturbed) in values {
            samples.push(0, Sample { value, beside: -value, disturbed });
        }
        samples
    }

    #[test]
    fn a_disturbed_sample_is_left_out_unless_most_are() {
        let few = samples(&[(1.0, false), (9.0, true), (2.0, false), (3.0, false)]);
        assert_eq!(few.all().at(0, Estimator::Typical), 2.0);
        assert_eq!(few.all().at(0, Estimator::Floor), 1.2);
        assert_eq!(few.all().at(0, Estimator::Ceiling), 2.8);
        assert_eq!(few.all().beside(0, Estimator::Typical), -2.0);
        let most = samples(&[(1.0, false), (9.0, true), (8.0, true)]);
        assert_eq!(most.all().of(0..1, Estimator::Typical), [8.0]);
    }

    #[test]
    fn quarters_are_consecutive_rounds() {
        let eight = samples(&[1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 9.0, 9.0].map(|one| (one, false)));
        let quarters: Vec<f64> =
            eight.quarters().iter().map(|part| part.at(0, Estimator::Typical)).collect();
        assert_eq!(quarters, [1.0, 2.0, 3.0, 9.0]);
        let estimate = FigureRange::new(2.5, quarters);
        assert_eq!(estimate, FigureRange { value: 2.5, low: 1.0, high: 9.0 });
        assert_eq!(estimate.relative_spread(), 1.6);
        assert_eq!(samples(&[(1.0, false), (2.0, false)]).quarters().len(), 2);
        assert!(Samples::new(1).all().at(0, Estimator::Typical).is_nan());
    }
}
