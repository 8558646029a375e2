//! What a figure of a profile or a mix must be.

use corun_input::{Fault, PathStep};

/// The most events of a kind per 1000 instructions that are taken for a figure: a million an
/// instruction, which no program but one long string instruction comes near.
pub(crate) const MOST_PKI: f64 = 1e9;

/// The most instructions a cycle that are taken for a figure: far beyond any core.
const MOST_IPC: f64 = 100.0;

/// What a number must be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expected {
    /// A finite number >= 0.
    Rate,
    /// A number of events per 1000 instructions, from 0 to [`MOST_PKI`].
    PerThousand,
    /// A finite number > 0.
    Positive,
    /// Instructions per cycle: above 0, at most [`MOST_IPC`].
    Ipc,
    /// 0 to 1.
    Share,
    /// Above 0, at most 1.
    NonzeroShare,
    /// 1 to 1e6: far beyond the misses that any program or core has standing.
    AtLeastOne,
}

impl Expected {
    fn accepts(self, value: f64) -> bool {
        value.is_finite()
            && match self {
                Self::Rate => value >= 0.0,
                Self::PerThousand => (0.0..=MOST_PKI).contains(&value),
                Self::Positive => value > 0.0,
                Self::Ipc => value > 0.0 && value <= MOST_IPC,
                Self::Share => (0.0..=1.0).contains(&value),
                Self::NonzeroShare => value > 0.0 && value <= 1.0,
                Self::AtLeastOne => (1.0..=1e6).contains(&value),
            }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Rate => "a number >= 0",
            Self::PerThousand => "a number from 0 to 1e9",
            Self::Positive => "a number > 0",
            Self::Ipc => "a number above 0 and at most 100",
            Self::Share => "a share from 0 to 1",
            Self::NonzeroShare => "a share above 0 and at most 1",
            Self::AtLeastOne => "a number from 1 to 1e6",
        }
    }

    /// Checks a number; the error is the text for people.
    pub(crate) fn test(self, value: f64) -> Result<(), String> {
        if self.accepts(value) {
            return Ok(());
        }
        Err(format!("found {value}, expected {}", self.text()))
    }

    /// Checks the number under a key.
    pub(crate) fn check(self, key: &'static str, value: f64) -> Result<(), Fault> {
        self.test(value).map_err(|why| Fault::here(why).under(PathStep::Key(key)))
    }
}

/// Checks that the count under a key is at least 1.
pub(crate) fn check_count(key: &'static str, value: u64) -> Result<(), Fault> {
    if value >= 1 {
        return Ok(());
    }
    Err(Fault::here("found 0, expected a whole number >= 1").under(PathStep::Key(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_held_to_what_is_expected() {
        for (expected, good, bad) in [
            (Expected::Rate, 0.0, -0.1),
            (Expected::PerThousand, 1e9, 1.1e9),
            (Expected::PerThousand, 0.0, -0.1),
            (Expected::Positive, 0.1, 0.0),
            (Expected::Ipc, 100.0, 101.0),
            (Expected::Ipc, 0.1, 0.0),
            (Expected::Share, 1.0, 1.1),
            (Expected::NonzeroShare, 1.0, 0.0),
            (Expected::AtLeastOne, 1.0, 0.9),
        ] {
            assert_eq!(expected.test(good), Ok(()));
            assert!(expected.test(bad).is_err());
            assert!(expected.test(f64::NAN).is_err());
            assert!(expected.test(f64::INFINITY).is_err());
        }
    }
}
