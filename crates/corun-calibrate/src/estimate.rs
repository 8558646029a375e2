//! From repeated samples to one value and how far to trust it.

use std::ops::Range;

use serde::Serialize;

use crate::bench::Sample;
use crate::surroundings::{Fit, Surroundings};
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
    /// The least that a quarter of the samples gives.
    pub low: f64,
    /// The most that a quarter of the samples gives.
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

/// A sample as it was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Taken {
    /// The sample.
    pub(crate) sample: Sample,
    /// What was seen before and after it.
    pub(crate) seen: Surroundings,
    /// Whether its CPUs were as they should be, as far as is known by now.
    pub(crate) fit: Fit,
}

/// The samples of one experiment: by point, then by round.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples {
    points: Vec<Vec<Taken>>,
}

impl Samples {
    pub(crate) fn new(points: usize) -> Self {
        Self { points: vec![Vec::new(); points] }
    }

    pub(crate) fn push(&mut self, point: usize, taken: Taken) {
        self.points[point].push(taken);
    }

    /// Puts a good sample in the place of the point's latest whose CPUs were not as they should be; that one is forgotten.
    pub(crate) fn replace_unfit(&mut self, point: usize, taken: Taken) {
        if let Some(place) = self.points[point].iter_mut().rev().find(|one| one.fit != Fit::GOOD) {
            *place = taken;
        }
    }

    /// Decides of every sample anew whether its CPUs were as they should be.
    pub(crate) fn judge(&mut self, fit: impl Fn(Surroundings) -> Fit) {
        for taken in self.points.iter_mut().flatten() {
            taken.fit = fit(taken.seen);
        }
    }

    /// Samples of a point whose CPUs were as they should be, and others.
    pub(crate) fn good_and_unfit(&self, point: usize) -> (usize, usize) {
        let good = self.points[point].iter().filter(|taken| taken.fit == Fit::GOOD).count();
        (good, self.points[point].len() - good)
    }

    /// How its CPUs were in the best of all samples of a point: such samples count. None before the first.
    pub(crate) fn best_fit(&self, point: usize) -> Option<Fit> {
        self.points[point].iter().map(|taken| taken.fit).max()
    }

    pub(crate) fn points(&self) -> usize {
        self.points.len()
    }

    /// All samples, of all points.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Taken> {
        self.points.iter().flatten()
    }

    /// All samples that count.
    pub(crate) fn all(&self) -> Values<'_> {
        Values { samples: self, part: 0, parts: 1 }
    }

    /// Of each point a quarter of the samples that count, in the order in which they were measured, so that what changes in
    /// the course of time shows. Fewer parts where a point has fewer: each has a sample of each point.
    pub(crate) fn quarters(&self) -> Vec<Values<'_>> {
        let counts = (0..self.points()).map(|point| self.that_count(point).count());
        let parts = counts.min().unwrap_or(0).min(4);
        (0..parts).map(|part| Values { samples: self, part, parts }).collect()
    }

    /// The samples of a point that count: those whose CPUs were not as they should be only where there are no better ones.
    fn that_count(&self, point: usize) -> impl Iterator<Item = Sample> {
        let best = self.best_fit(point);
        let counting = self.points[point].iter().filter(move |taken| Some(taken.fit) == best);
        counting.map(|taken| taken.sample)
    }
}

/// One of so many consecutive parts of each point's samples, from which estimators make a value of the point.
#[derive(Debug, Clone)]
pub(crate) struct Values<'a> {
    samples: &'a Samples,
    part: usize,
    parts: usize,
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

    /// Disturbed samples count only where they are more than two thirds: then there is nothing better.
    fn estimate(&self, point: usize, estimator: Estimator, of: impl Fn(&Sample) -> f64) -> f64 {
        let samples: Vec<Sample> = self.samples.that_count(point).collect();
        let cut = |part: usize| part * samples.len() / self.parts;
        let samples = &samples[cut(self.part)..cut(self.part + 1)];
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
            samples.push(0, taken(Sample { value, beside: -value, disturbed }, None));
        }
        samples
    }

    fn taken(sample: Sample, transfer_ns: Option<f64>) -> Taken {
        let seen = Surroundings { transfer_ns, additions_per_cycle: None };
        Taken { sample, seen, fit: Fit::GOOD }
    }

    /// A transfer that takes less is near.
    fn below(ns: f64) -> impl Fn(Surroundings) -> Fit {
        move |seen| Fit { is_near: seen.transfer_ns.is_none_or(|seen| seen < ns), is_free: true }
    }

    /// Of values with the time of a transfer.
    fn beside_transfers(values: &[(f64, f64)]) -> Samples {
        let mut samples = Samples::new(1);
        for &(value, ns) in values {
            samples.push(0, taken(Sample::new(value, false), Some(ns)));
        }
        samples
    }

    #[test]
    fn a_sample_that_was_taken_apart_counts_where_there_is_no_other() {
        let mut samples = beside_transfers(&[(1.0, 180.0), (2.0, 40.0), (3.0, 190.0), (4.0, 45.0)]);
        let typical = |samples: &Samples| samples.all().at(0, Estimator::Typical);
        samples.judge(below(100.0));
        assert_eq!(samples.good_and_unfit(0), (2, 2));
        assert_eq!((typical(&samples), samples.best_fit(0)), (3.0, Some(Fit::GOOD)));
        let parts = samples.quarters();
        let parts: Vec<f64> = parts.iter().map(|part| part.at(0, Estimator::Typical)).collect();
        assert_eq!(parts, [2.0, 4.0], "of those that count");
        samples.judge(below(20.0));
        let apart = Fit { is_near: false, ..Fit::GOOD };
        assert_eq!((typical(&samples), samples.best_fit(0)), (2.5, Some(apart)));
        samples.judge(|_| Fit::GOOD);
        assert_eq!(samples.good_and_unfit(0), (4, 0));
        assert_eq!(Samples::new(1).best_fit(0), None, "nothing was measured");
    }

    #[test]
    fn a_later_sample_takes_the_place_of_the_latest_apart() {
        let mut samples = beside_transfers(&[(1.0, 180.0), (2.0, 190.0), (3.0, 40.0)]);
        samples.judge(below(100.0));
        samples.replace_unfit(0, taken(Sample::new(5.0, false), Some(42.0)));
        let values: Vec<f64> = samples.iter().map(|taken| taken.sample.value).collect();
        assert_eq!(values, [1.0, 5.0, 3.0]);
        assert_eq!(samples.good_and_unfit(0), (2, 1));
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
    fn quarters_are_consecutive_samples() {
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
