//! The choices a user has: law of space, model of bandwidth, compatibility.

use std::fmt;
use std::str::FromStr;

use corun_machine::{BandwidthDomain, Machine};

/// How programs that share a cache divide its space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SpaceLaw {
    /// Every sharer of an LRU cache sees the same fill time.
    #[default]
    FillTime,
    /// In proportion to misses per cycle: the law of random replacement.
    Proportional,
    /// A way at a time, each divided by misses per cycle: KPart's walk as the thesis changed it.
    Whirlpool,
    /// The same walk by misses per instruction, as KPart has it.
    WhirlpoolMpki,
}

/// What limited bandwidth costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BandwidthModel {
    /// Nothing.
    None,
    /// KPart's rule: beyond the peak, all are cut.
    Simple,
    /// Morad's probabilistic model, slowdown B / B' (thesis, eq. 5.8-5.9).
    Morad,
    /// The thesis's: Morad's B / B' weighted by the share of memory stalls (eq. 5.10).
    Stalls,
    /// Stretches the memory part of CPI alone.
    Additive,
    /// Stretches it by how much later a busier memory answers, for light and heavy programs alike.
    Loaded,
    /// [`Self::Loaded`] where it was measured how much later the machine's memory answers under load, else
    /// [`Self::Additive`].
    #[default]
    ByMachine,
}

/// What else to do as somebody else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compatibility {
    /// corun's own choices.
    #[default]
    Own,
    /// As the public simulator PBBCache does: see [`ModelOptions::pbbcache`].
    Pbbcache,
}

/// All choices together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ModelOptions {
    /// The law of space.
    pub space: SpaceLaw,
    /// The model of bandwidth.
    pub bandwidth: BandwidthModel,
    /// Compatibility.
    pub compatibility: Compatibility,
    /// The peak of each memory controller in MB/s (1e6 bytes a second), instead of the machine's;
    /// a machine without bandwidth domains gets one of this peak for all its traffic.
    pub peak_mb_per_s: Option<f64>,
    /// The most that a program alone draws of the peak of each domain it passes, above 0 and at
    /// most [`MAX_SOLO_PEAK_SHARE`]; [`DEFAULT_SOLO_PEAK_SHARE`] where absent. It matters beside a
    /// program that would draw more: see the table in docs/model.md.
    pub solo_peak_share: Option<f64>,
}

/// [`ModelOptions::solo_peak_share`] where it is not given (errata.md, thesis section 5.3.2).
pub const DEFAULT_SOLO_PEAK_SHARE: f64 = 0.95;

/// The highest [`ModelOptions::solo_peak_share`]: Morad's model (thesis, eq. 5.8) has no solution
/// at the whole peak.
pub const MAX_SOLO_PEAK_SHARE: f64 = 0.999;

impl ModelOptions {
    /// What the public simulator PBBCache does (thesis, chapter 5, and its published behaviour):
    /// the whirlpool walk by misses per cycle, the maximum IPC over the table as the reference of
    /// slowdowns, a straight line through the first two ways below one way (at least 1e-6), the
    /// `stalls` model with one bandwidth domain for all traffic.
    pub fn pbbcache(peak_mb_per_s: Option<f64>) -> Self {
        Self {
            space: SpaceLaw::Whirlpool,
            bandwidth: BandwidthModel::Stalls,
            compatibility: Compatibility::Pbbcache,
            peak_mb_per_s,
            // PBBCache cuts nothing.
            solo_peak_share: Some(MAX_SOLO_PEAK_SHARE),
        }
    }

    pub(crate) fn solo_share(&self) -> f64 {
        self.solo_peak_share.unwrap_or(DEFAULT_SOLO_PEAK_SHARE)
    }
}

/// A name that is none of the choices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is no {what}: expected one of {choices}")]
pub struct NameError {
    /// What was looked for.
    pub what: &'static str,
    /// What was found.
    pub found: String,
    /// The names there are.
    pub choices: String,
}

impl SpaceLaw {
    /// The laws that are compared, with their names.
    pub const ALL: [(&'static str, Self); 3] = [
        ("fill-time", Self::FillTime),
        ("proportional", Self::Proportional),
        ("whirlpool", Self::Whirlpool),
    ];

    /// All laws and variants with their names.
    pub const NAMED: [(&'static str, Self); 4] = [
        ("fill-time", Self::FillTime),
        ("proportional", Self::Proportional),
        ("whirlpool", Self::Whirlpool),
        ("whirlpool-mpki", Self::WhirlpoolMpki),
    ];
}

impl BandwidthModel {
    /// All models with their names.
    pub const ALL: [(&'static str, Self); 7] = [
        ("none", Self::None),
        ("simple", Self::Simple),
        ("morad", Self::Morad),
        ("stalls", Self::Stalls),
        ("additive", Self::Additive),
        ("loaded", Self::Loaded),
        ("by-machine", Self::ByMachine),
    ];

    /// The model that [`Self::ByMachine`] stands for on a machine; any other is itself.
    pub fn on(self, machine: &Machine) -> Self {
        let is_measured = |domain: &BandwidthDomain| domain.loaded_latency.len() > 1;
        match self {
            Self::ByMachine if machine.bandwidth_domains().iter().any(is_measured) => Self::Loaded,
            Self::ByMachine => Self::Additive,
            other => other,
        }
    }
}

impl Compatibility {
    /// All kinds of compatibility with their names.
    pub const ALL: [(&'static str, Self); 2] = [("own", Self::Own), ("pbbcache", Self::Pbbcache)];
}

fn from_name<T: Copy>(
    what: &'static str,
    all: &[(&'static str, T)],
    text: &str,
) -> Result<T, NameError> {
    all.iter().find(|(name, _)| *name == text).map(|&(_, one)| one).ok_or_else(|| NameError {
        what,
        found: text.to_owned(),
        choices: all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
    })
}

fn name_of<T: PartialEq>(all: &[(&'static str, T)], one: &T) -> &'static str {
    all.iter().find(|(_, other)| other == one).map_or("", |(name, _)| name)
}

macro_rules! named {
    ($type:ty, $what:literal, $names:ident) => {
        impl FromStr for $type {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                from_name($what, &Self::$names, text)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(name_of(&Self::$names, self))
            }
        }
    };
}

named!(SpaceLaw, "law of space", NAMED);
named!(BandwidthModel, "bandwidth model", ALL);
named!(Compatibility, "compatibility", ALL);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        for (name, law) in SpaceLaw::NAMED {
            assert_eq!(name.parse(), Ok(law));
            assert_eq!(law.to_string(), name);
        }
        for (name, model) in BandwidthModel::ALL {
            assert_eq!(name.parse(), Ok(model));
            assert_eq!(model.to_string(), name);
        }
        for (name, one) in Compatibility::ALL {
            assert_eq!(name.parse(), Ok(one));
            assert_eq!(one.to_string(), name);
        }
    }

    #[test]
    fn a_wrong_name_lists_the_choices() {
        let error = "lru".parse::<SpaceLaw>().unwrap_err().to_string();
        assert_eq!(
            error,
            "`lru` is no law of space: expected one of fill-time, proportional, whirlpool, \
             whirlpool-mpki"
        );
    }
}
