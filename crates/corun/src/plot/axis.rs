//! Axes: where a value lies between the ends, and which values get a label.

/// An axis from a low to a high end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Axis {
    /// A logarithmic axis of cache sizes in bytes; none where the ends are no range.
    pub(crate) fn of_sizes(low: f64, high: f64) -> Option<Self> {
        let range = low > 0.0 && high > low;
        range.then_some(Self { low, high, logarithmic: true })
    }

    /// A logarithmic axis of rates that ends with the power of ten at or above `most`. It begins
    /// at 0.1: a program that misses less than that per 1000 instructions hurts nobody.
    pub(crate) fn of_mpki(most: f64) -> Self {
        let high = 10f64.powf(most.max(1.0).log10().ceil());
        Self { low: 0.1, high, logarithmic: true }
    }

    /// A logarithmic axis from the power of ten at or below `least` to that at or above `most`, one
    /// power at least.
    pub(crate) fn logarithmic(least: f64, most: f64) -> Self {
        let low = least.max(1e-12).log10().floor();
        let high = most.max(1e-12).log10().ceil().max(low + 1.0);
        Self { low: 10f64.powf(low), high: 10f64.powf(high), logarithmic: true }
    }

    /// A straight axis from 0 that ends with 1, 2 or 5 times a power of ten at or above `most`.
    pub(crate) fn from_zero(most: f64) -> Self {
        Self::from(0.0, most)
    }

    /// The same from another value.
    pub(crate) fn from(low: f64, most: f64) -> Self {
        let span = most - low;
        let power = 10f64.powf(span.max(1e-9).log10().floor());
        let spans = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let high = low + spans.into_iter().find(|&one| one >= span * (1.0 - 1e-9)).unwrap_or(span);
        Self { low, high, logarithmic: false }
    }

    /// A straight axis that covers both values, its ends multiples of 1, 2 or 5 times a power of
    /// ten that is at least a quarter of their distance.
    pub(crate) fn between(least: f64, most: f64) -> Self {
        let span = (most - least).max(1e-9);
        let power = 10f64.powf((span / 4.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let step = steps.into_iter().find(|one| 4.0 * one >= span * (1.0 - 1e-9)).unwrap_or(span);
        let (low, high) = ((least / step).floor() * step, (most / step).ceil() * step);
        Self { low, high: high.max(low + step), logarithmic: false }
    }

    /// Where a value lies: 0 is the low end, 1 the high one. What is beyond an end lies on it.
    pub(crate) fn part(&self, value: f64) -> f64 {
        let part = if self.logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        part.clamp(0.0, 1.0)
    }

    /// The value that lies at a part of the axis.
    pub(crate) fn at(&self, part: f64) -> f64 {
        if self.logarithmic {
            self.low * ((self.high / self.low).ln() * part).exp()
        } else {
            self.low + part * (self.high - self.low)
        }
    }

    /// Sizes worth a label: powers of two in even steps, some `count` of them.
    pub(crate) fn size_ticks(&self, count: u32) -> Vec<f64> {
        let (low, high) = (self.low.log2().ceil() as i32, self.high.log2().floor() as i32);
        let step = (f64::from(high - low) / f64::from(count - 1)).ceil().max(1.0) as usize;
        (low..=high).step_by(step).map(|power| 2f64.powi(power)).collect()
    }

    /// Rates worth a label: every power of ten, or the ends and the middle of a straight axis.
    pub(crate) fn rate_ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.high / self.low).log10().round() as i32;
            return (0..=decades).map(|decade| self.low * 10f64.powi(decade)).collect();
        }
        [0.0, 0.5, 1.0].map(|part| self.at(part)).to_vec()
    }
}

/// A rate as a label: without digits that say nothing.
pub(crate) fn rate_label(rate: f64) -> String {
    let text = format!("{rate:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_spread_by_their_logarithm() {
        let axis = Axis::of_sizes(1024.0, 1024.0 * 1024.0).unwrap();
        assert_eq!((axis.part(1024.0), axis.part(1024.0 * 1024.0)), (0.0, 1.0));
        assert!((axis.part(32.0 * 1024.0) - 0.5).abs() < 1e-12);
        assert!((axis.at(0.5) - 32.0 * 1024.0).abs() < 1e-6);
        let kib: Vec<f64> = axis.size_ticks(3).iter().map(|tick| tick / 1024.0).collect();
        assert_eq!(kib, [1.0, 32.0, 1024.0]);
        assert_eq!(Axis::of_sizes(1024.0, 1024.0), None);
        assert_eq!(Axis::of_sizes(0.0, 1024.0), None);
    }

    #[test]
    fn rates_end_with_a_round_number() {
        let axis = Axis::of_mpki(42.0);
        let labels: Vec<String> = axis.rate_ticks().into_iter().map(rate_label).collect();
        assert_eq!(labels, ["0.1", "1", "10", "100"]);
        // Nothing lies below the floor.
        assert_eq!(axis.part(0.0), 0.0);
        let axis = Axis::from_zero(0.31);
        let labels: Vec<String> = axis.rate_ticks().into_iter().map(rate_label).collect();
        assert_eq!(labels, ["0", "0.25", "0.5"]);
        assert_eq!(axis.part(0.25), 0.5);
    }

    #[test]
    fn an_axis_between_two_values_ends_with_round_ones() {
        let axis = Axis::between(-4.2, 11.0);
        assert_eq!((axis.at(0.0), axis.at(1.0)), (-5.0, 15.0));
        let axis = Axis::between(2.0, 2.0);
        assert!(axis.part(2.0) >= 0.0 && axis.at(1.0) > axis.at(0.0));
    }

    #[test]
    fn an_axis_of_nothing_is_still_one() {
        assert_eq!(Axis::from_zero(0.0).part(0.0), 0.0);
        assert_eq!(Axis::of_mpki(0.0).rate_ticks().len(), 2);
    }
}
