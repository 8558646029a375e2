//! How lines are followed.

use std::fmt;
use std::str::FromStr;

use corun_profile::EngineKind;

/// Lines followed at most, unless asked otherwise: 512 KiB of footprint stay exact.
pub const DEFAULT_TRACKED_LINES: usize = 8 * 1024;

/// What the engine is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineOptions {
    /// Which lines are followed.
    pub kind: EngineKind,
    /// The share of them that [`EngineKind::FixedRate`] follows.
    pub rate: SamplingRate,
    /// Lines that [`EngineKind::FixedSize`] follows at most; at least 1.
    pub lines: usize,
    /// Do instruction fetches count beside data accesses?
    pub fetches: bool,
    /// Does what the kernel does count: its calls, page faults, and the pages that it clears?
    pub kernel: bool,
}

impl EngineOptions {
    pub(crate) fn exact() -> Self {
        Self { kind: EngineKind::Exact, ..Self::default() }
    }
}

impl Default for EngineOptions {
    /// Fixed size, all accesses.
    fn default() -> Self {
        Self {
            kind: EngineKind::FixedSize,
            rate: SamplingRate::default(),
            lines: DEFAULT_TRACKED_LINES,
            fetches: true,
            kernel: true,
        }
    }
}

/// One line in so many, which keeps every line's weight a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SamplingRate {
    one_in: u64,
}

impl SamplingRate {
    /// Every line.
    pub const ALL: Self = Self { one_in: 1 };

    /// The nearest to this share, above 0 to 1; `None` for what is no share.
    pub fn new(share: f64) -> Option<Self> {
        let one_in = (1.0 / share).round();
        // More lines than 2^32 (256 GiB) for one that is followed tell nothing.
        let usable = share > 0.0 && share <= 1.0 && one_in <= f64::from(u32::MAX);
        usable.then_some(Self { one_in: one_in as u64 })
    }

    /// One line in how many.
    pub(crate) fn one_in(self) -> u64 {
        self.one_in
    }

    /// The share, 0 to 1.
    pub fn share(self) -> f64 {
        1.0 / self.one_in as f64
    }

    /// One line in this many, at least 1.
    pub(crate) fn of_one_in(one_in: u64) -> Self {
        Self { one_in: one_in.max(1) }
    }

    /// Lines with at most this hash are followed.
    pub(crate) fn threshold(self) -> u64 {
        u64::MAX / self.one_in
    }
}

impl Default for SamplingRate {
    /// 1 %.
    fn default() -> Self {
        Self { one_in: 100 }
    }
}

impl fmt::Display for SamplingRate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.share().fmt(formatter)
    }
}

/// What is no sampling rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no sampling rate; expected a share such as 0.01, or 1%")]
pub struct BadRate(String);

impl FromStr for SamplingRate {
    type Err = BadRate;

    /// A share or a percentage.
    fn from_str(text: &str) -> Result<Self, BadRate> {
        let share = match text.strip_suffix('%') {
            Some(percent) => percent.trim_end().parse().map(|percent: f64| percent / 100.0),
            None => text.parse(),
        };
        share.ok().and_then(Self::new).ok_or_else(|| BadRate(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_rounded() {
        let one_in = |text: &str| text.parse::<SamplingRate>().map(SamplingRate::one_in);
        assert_eq!(one_in("0.01"), Ok(100));
        assert_eq!(one_in("1%"), Ok(100));
        assert_eq!(one_in("1"), Ok(1));
        assert_eq!(one_in("0.3"), Ok(3));
        for bad in ["0", "-0.1", "1.5", "200%", "all", "", "nan", "1e-30"] {
            let error = bad.parse::<SamplingRate>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("'{bad}' is no")), "{error}");
        }
        let rate = "0.01".parse::<SamplingRate>().unwrap();
        assert_eq!(rate.to_string().parse(), Ok(rate));
    }
}
