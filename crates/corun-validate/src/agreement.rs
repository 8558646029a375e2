//! How far predictions are off.

use corun_metrics::{mean, rank_correlation};
use serde::Serialize;

/// A prediction beside what was measured; both above 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pair {
    /// What was predicted.
    pub predicted: f64,
    /// What was measured.
    pub measured: f64,
}

impl Pair {
    /// Predicted / measured - 1: above 0 where too much was predicted.
    pub fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

/// How far a set of predictions is off.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Agreement {
    /// How many there are.
    pub count: usize,
    /// The mean of the errors' amounts, as a share of what was measured.
    pub mean_error: Option<f64>,
    /// The mean of the errors with their signs.
    pub bias: Option<f64>,
    /// The share that is off by at most a quarter.
    pub within_a_quarter: Option<f64>,
    /// Spearman's rank correlation, -1 to 1; `None` where there is none.
    pub rank_correlation: Option<f64>,
}

/// How far these are off.
pub fn agreement(pairs: &[Pair]) -> Agreement {
    let errors: Vec<f64> = pairs.iter().map(Pair::error).collect();
    let amounts: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    let near = amounts.iter().filter(|&&amount| amount <= 0.25).count();
    let (predicted, measured): (Vec<f64>, Vec<f64>) =
        pairs.iter().map(|pair| (pair.predicted, pair.measured)).unzip();
    Agreement {
        count: pairs.len(),
        mean_error: mean(&amounts),
        bias: mean(&errors),
        within_a_quarter: (!pairs.is_empty()).then(|| near as f64 / pairs.len() as f64),
        rank_correlation: rank_correlation(&predicted, &measured),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_shares_of_what_was_measured() {
        let pair = |predicted, measured| Pair { predicted, measured };
        let found = agreement(&[pair(1.2, 1.0), pair(1.0, 2.0), pair(3.0, 3.0)]);
        assert_eq!(found.count, 3);
        // 0.2, -0.5 and 0.
        assert!((found.mean_error.unwrap() - 0.7 / 3.0).abs() < 1e-12);
        assert!((found.bias.unwrap() + 0.1).abs() < 1e-12);
        assert!((found.within_a_quarter.unwrap() - 2.0 / 3.0).abs() < 1e-12);
        // Ranks 2, 1, 3 beside 1, 2, 3.
        assert!((found.rank_correlation.unwrap() - 0.5).abs() < 1e-12);
        let none = agreement(&[]);
        assert_eq!((none.mean_error, none.within_a_quarter), (None, None));
    }
}
