//! Profiles that nodes learned of their pods while these ran, as an annotation of the node.
//!
//! An agent that counts learns programs' curves by the estimator of the policy `corun` ([`corun_policy::CurveLearner`]) and
//! publishes few of them, each with its confidence and the time at which it was last counted. The extender goes by them
//! where no profile of that name was recorded, and believes them less the older they are.

mod notes;

use corun_machine::Machine;
use corun_model::{LoadedProgram, Model};
use corun_policy::LearnedProgram;
use serde::{Deserialize, Serialize};

pub use notes::{LearnedNotes, LearnedUpdate};

/// Of a node: profiles that its agent learned. Annotation.
pub(crate) const LEARNED_KEY: &str = "corun.dev/learned";
/// Version of the annotation's text.
const VERSION: u32 = 1;
/// Programs in an annotation at most.
const MOST_PROGRAMS: usize = 8;
/// The longest text that is read; eight programs take some 2 KiB.
const MOST_BYTES: usize = 16 << 10;
/// The longest name of a profile, as long as a label's value may be.
const MOST_NAME: usize = 63;
/// After so many seconds a profile that was not counted again is half as sure.
const HALF_LIFE_S: f64 = 24.0 * 3600.0;
/// Below this confidence nothing is published.
const LEAST_CONFIDENCE: f64 = 0.2;

/// The annotation's text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LearnedReport {
    version: u32,
    /// The machine on which all were counted.
    pub(crate) machine: String,
    pub(crate) programs: Vec<LearnedEntry>,
}

/// A program that was learned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LearnedEntry {
    /// The name of the profile that its pods say they run by.
    pub(crate) profile: String,
    /// When it was last counted, in seconds since 1970.
    pub(crate) at: u64,
    confidence: f64,
    llc_apki: f64,
    core_cpi: f64,
    stall_cycles_per_miss: f64,
    bytes_per_miss: f64,
    llc_mpki: Vec<f64>,
}

impl LearnedReport {
    fn new(machine: &str, programs: Vec<LearnedEntry>) -> Self {
        Self { version: VERSION, machine: machine.to_owned(), programs }
    }

    /// Reads an annotation's text. What cannot be a program's figures is left out.
    ///
    /// # Errors
    /// Why nothing of it can be used, in words.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        if text.len() > MOST_BYTES {
            return Err(format!("it has {} bytes, more than {MOST_BYTES}", text.len()));
        }
        let Versioned { version } =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        if version != VERSION {
            return Err(format!("its version is {version}, and {VERSION} is known here"));
        }
        let mut read: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        read.programs.retain(|one| one.profile.len() <= MOST_NAME && one.figures().is_possible());
        read.programs.truncate(MOST_PROGRAMS);
        Ok(read)
    }
}

impl LearnedEntry {
    fn new(profile: &str, learned: &LearnedProgram, now_s: u64) -> Self {
        Self {
            profile: profile.to_owned(),
            at: now_s,
            confidence: significant(learned.confidence),
            llc_apki: significant(learned.llc_apki),
            core_cpi: significant(learned.core_cpi),
            stall_cycles_per_miss: significant(learned.stall_cycles_per_miss),
            bytes_per_miss: significant(learned.bytes_per_miss),
            llc_mpki: learned.llc_mpki.iter().map(|&mpki| significant(mpki)).collect(),
        }
    }

    fn figures(&self) -> LearnedProgram {
        LearnedProgram {
            llc_apki: self.llc_apki,
            core_cpi: self.core_cpi,
            stall_cycles_per_miss: self.stall_cycles_per_miss,
            bytes_per_miss: self.bytes_per_miss,
            llc_mpki: self.llc_mpki.clone(),
            confidence: self.confidence,
        }
    }

    /// How sure it still is: half as much a day after it was last counted.
    pub(crate) fn confidence(&self, now_s: u64) -> f64 {
        let age_s = now_s.saturating_sub(self.at) as f64;
        self.confidence * (-age_s / HALF_LIFE_S).exp2()
    }

    /// The program as a model takes it, as far as it is sure (`confidence`, 0 to 1) and otherwise a quiet one.
    pub(crate) fn load(
        &self,
        confidence: f64,
        seen_on: &Machine,
        model: &Model,
    ) -> Option<LoadedProgram> {
        self.figures().towards_quiet(confidence).load(&self.profile, seen_on, model)
    }

    /// The same figures, whenever they were counted and however sure they are?
    pub(crate) fn has_figures_of(&self, other: &Self) -> bool {
        let figures = |one: &Self| LearnedProgram { confidence: 0.0, ..one.figures() };
        self.profile == other.profile && figures(self) == figures(other)
    }
}

/// To three significant digits: more nobody knows.
fn significant(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A program of so many misses, more with less cache, of so much confidence.
    pub(crate) fn learned(mpki: f64, confidence: f64) -> LearnedProgram {
        LearnedProgram {
            llc_apki: 2.0 * mpki,
            core_cpi: 0.6,
            stall_cycles_per_miss: 90.0,
            bytes_per_miss: 70.123,
            llc_mpki: (0..16).map(|at| mpki * (1.5 - f64::from(at) / 16.0)).collect(),
            confidence,
        }
    }

    fn text(programs: &[(&str, LearnedProgram)]) -> String {
        let entries = programs.iter().map(|(name, one)| LearnedEntry::new(name, one, 1000));
        serde_json::to_string(&LearnedReport::new("m", entries.collect())).unwrap()
    }

    #[test]
    fn what_is_written_is_read_to_three_digits() {
        let read = LearnedReport::read(&text(&[("web", learned(12.3456, 0.87654))])).unwrap();
        let [entry] = &read.programs[..] else { panic!("{read:?}") };
        assert_eq!((entry.llc_apki, entry.bytes_per_miss, entry.confidence), (24.7, 70.1, 0.877));
        assert_eq!(entry.llc_mpki[0], 18.5);
        assert!(entry.figures().is_possible());
    }

    #[test]
    fn eight_programs_take_little_room() {
        let names: Vec<String> = (0..8).map(|at| format!("{at}{}", "x".repeat(62))).collect();
        let programs: Vec<(&str, LearnedProgram)> =
            names.iter().map(|name| (name.as_str(), learned(12.3456, 0.87654))).collect();
        let text = text(&programs);
        assert!(text.len() < 3 << 10, "{}", text.len());
        assert_eq!(LearnedReport::read(&text).unwrap().programs.len(), 8);
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        let good = text(&[("web", learned(10.0, 0.9))]);
        let why = |text: &str| LearnedReport::read(text).unwrap_err();
        assert!(why("nonsense").contains("expected"));
        assert!(why(&good.replace("\"version\":1", "\"version\":2")).contains("version is 2"));
        assert!(why(&good.replace("\"version\":1", "\"other\":1")).contains("version"));
        assert!(why(&(good.clone() + &" ".repeat(MOST_BYTES))).contains("bytes"));
        // Figures that no program has are left out, others stay.
        let two = text(&[("web", learned(10.0, 0.9)), ("db", learned(4.0, 0.9))]);
        for (from, to) in [("20.0", "-1.0"), ("20.0", "3.0"), ("15.0,", ""), ("0.6", "0.0")] {
            let changed = two.replacen(from, to, 1);
            assert_ne!(changed, two);
            let read = LearnedReport::read(&changed).unwrap();
            let names: Vec<&str> = read.programs.iter().map(|one| one.profile.as_str()).collect();
            assert_eq!(names, ["db"], "{from} {to}");
        }
        let long = text(&[(&"x".repeat(64), learned(10.0, 0.9))]);
        assert!(LearnedReport::read(&long).unwrap().programs.is_empty());
    }

    /// A day halves what is left; a clock that is ahead makes nothing surer.
    #[test]
    fn what_was_learned_is_believed_less_the_older_it_is() {
        let entry = LearnedEntry::new("web", &learned(10.0, 0.8), 1_000_000);
        let after = |days: f64| entry.confidence(1_000_000 + (days * 86_400.0) as u64);
        assert!((after(1.0) - 0.4).abs() < 1e-12 && (after(2.0) - 0.2).abs() < 1e-12);
        assert_eq!((after(0.0), entry.confidence(0)), (0.8, 0.8));
    }
}
