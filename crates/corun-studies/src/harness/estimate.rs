//! A mean, and how sure it is.

/// A mean of a sample with half the width of its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    /// In the unit of the sample; NaN of no values.
    pub(crate) mean: f64,
    /// Half the width of the interval that holds 95 % of what the mean may be, by Student's t. None of fewer than two
    /// values.
    pub(crate) interval: Option<f64>,
}

impl Estimate {
    pub(crate) fn of(values: &[f64]) -> Self {
        let error = corun_metrics::standard_error(values);
        Self {
            mean: corun_metrics::mean(values).unwrap_or(f64::NAN),
            interval: error.map(|error| corun_metrics::student_t_95(values.len() - 1) * error),
        }
    }

    /// A sample of ratios in percent above 1.
    pub(crate) fn percent_above_one(ratios: &[f64]) -> Self {
        Self::of(&ratios.iter().map(|ratio| 100.0 * (ratio - 1.0)).collect::<Vec<f64>>())
    }

    /// Of percent, in words: `+1.2 +- 0.3 %`.
    pub(crate) fn in_percent(self) -> String {
        let mean = corun_report::signed(self.mean, 1);
        match self.interval {
            Some(interval) => format!("{mean} +- {} %", corun_report::fixed(interval, 1)),
            None => format!("{mean} %"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1, 2 and 3: deviation 1, standard error 1 / sqrt 3, two degrees of freedom.
    #[test]
    fn the_interval_is_students() {
        let found = Estimate::of(&[1.0, 2.0, 3.0]);
        assert_eq!(found.mean, 2.0);
        assert!((found.interval.unwrap() - 4.303 / 3f64.sqrt()).abs() < 1e-12);
        assert_eq!(Estimate::of(&[1.0]).interval, None);
        assert!(Estimate::of(&[]).mean.is_nan());
    }

    #[test]
    fn ratios_become_percent() {
        let found = Estimate::percent_above_one(&[1.0, 1.5]);
        assert_eq!(found.mean, 25.0);
        assert_eq!(Estimate { mean: 25.0, interval: Some(0.3) }.in_percent(), "+25.0 +- 0.3 %");
        assert_eq!(Estimate { mean: -2.0, interval: None }.in_percent(), "-2.0 %");
    }
}
