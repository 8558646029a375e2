//! A figure of several rounds.

use serde::{Deserialize, Serialize};

/// The chance with which an interval is to hold the median, where there are rounds enough.
const CONFIDENCE: f64 = 0.9;

/// A slowdown is clear where it is at least so many times its interval's half width from 1.
pub(crate) const CLEAR: f64 = 3.0;

/// The median of a figure over rounds, with an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// The interval's ends: order statistics, whatever the distribution.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The chance that the interval holds the median of all rounds there could be, 0 to 1: 0 for one
    /// round, 0.9375 for five.
    pub confidence: f64,
    /// Rounds.
    pub rounds: usize,
}

impl Estimate {
    /// Half the interval's width.
    pub fn half_width(&self) -> f64 {
        0.5 * (self.high - self.low)
    }

    /// Is a slowdown more than chance?
    pub(crate) fn is_clear(&self) -> bool {
        self.is_apart(1.0, CLEAR)
    }

    /// Is it apart from a value by at least so many half widths? Of one round nobody knows, unless it is exact, as a
    /// simulator's is (confidence 1).
    fn is_apart(&self, value: f64, half_widths: f64) -> bool {
        let apart = (self.median - value).abs();
        self.confidence > 0.0 && apart > 0.0 && apart >= half_widths * self.half_width()
    }
}

/// The median of the values and the narrowest pair of order statistics that holds the true median
/// with a chance of at least 0.9, or the least and the most where there are too few; `None` of none.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rounds = sorted.len();
    let median = corun_metrics::median(&sorted)?;
    // The median lies outside the ends with the chance of so few of that many coins on one side.
    let (mut tail, mut chance) = (0.0, 0.5f64.powi(rounds as i32));
    let (mut outside, mut cut) = (2.0 * chance, 0);
    for below in 0..rounds.div_ceil(2) {
        tail += chance;
        if 2.0 * tail > 1.0 - CONFIDENCE && below > 0 {
            break;
        }
        (outside, cut) = (2.0 * tail, below);
        chance *= (rounds - below) as f64 / (below + 1) as f64;
    }
    Some(Estimate {
        median,
        low: sorted[cut],
        high: sorted[rounds - 1 - cut],
        confidence: (1.0 - outside).max(0.0),
        rounds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_round_is_apart_from_nothing_unless_it_is_exact() {
        let one = estimate(&[1.2]).unwrap();
        assert!(!one.is_apart(1.0, 3.0));
        let exact = Estimate { confidence: 1.0, ..one };
        assert!(exact.is_apart(1.0, 3.0) && !exact.is_apart(1.2, 3.0));
        let five = estimate(&[1.1, 1.15, 1.2, 1.25, 1.3]).unwrap();
        // 0.2 apart, with a half width of 0.1.
        assert!(five.is_apart(1.0, 1.9) && !five.is_apart(1.0, 2.1));
    }

    #[test]
    fn few_rounds_have_their_least_and_most_and_say_how_sure_that_is() {
        let five = estimate(&[3.0, 1.0, 2.0, 5.0, 4.0]).unwrap();
        assert_eq!((five.median, five.low, five.high), (3.0, 1.0, 5.0));
        // All five on one side: 2 / 32.
        assert_eq!(five.confidence, 0.9375);
        let two = estimate(&[1.0, 2.0]).unwrap();
        assert_eq!((two.median, two.low, two.high, two.confidence), (1.5, 1.0, 2.0, 0.5));
        let one = estimate(&[7.0]).unwrap();
        assert_eq!((one.median, one.half_width(), one.confidence), (7.0, 0.0, 0.0));
        assert_eq!(estimate(&[]), None);
    }

    #[test]
    fn many_rounds_leave_out_the_outermost() {
        let values: Vec<f64> = (1..=11).map(f64::from).collect();
        let found = estimate(&values).unwrap();
        // At most two of eleven coins on one side: (1 + 11 + 55) / 2048, twice.
        assert_eq!((found.low, found.high), (3.0, 9.0));
        assert!((found.confidence - (1.0 - 2.0 * 67.0 / 2048.0)).abs() < 1e-12);
    }

    proptest::proptest! {
        #[test]
        fn the_interval_holds_the_median(values in proptest::collection::vec(0.0..1e6f64, 1..40)) {
            let found = estimate(&values).unwrap();
            assert!(found.low <= found.median && found.median <= found.high);
            assert!(values.len() < 5 || found.confidence >= CONFIDENCE);
        }
    }
}
