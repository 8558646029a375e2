//! How far predictions were off goes into the machine's file, for whoever predicts from it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use corun_calibrate::BUSY_SHARE;
use corun_machine::{Machine, PredictionError, SpecError, THIS_MACHINE, this_machine_files};
use corun_profile::write_atomically;
use jiff::Timestamp;

use crate::Validation;

/// What became of it.
pub enum Kept {
    /// It stands in the machine's file.
    In(PathBuf),
    /// The file was not measured but written by somebody, whose order and comments would be lost.
    Handwritten(PathBuf),
    /// The file has one that stands on more.
    Weaker(PathBuf, Weaker),
    /// There is no file: a preset, or what Linux shows; or no program was timed.
    Nowhere,
}

/// What a stored error stands on more of than the new one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Weaker {
    /// Programs, then and now.
    Programs(u32, u32),
    /// Clear slowdowns, then and now.
    Slowdowns(u32, u32),
    /// Rounds, then and now.
    Rounds(u32, u32),
    /// The share of the time that others used, then, where the file tells, and now.
    Busy(Option<f64>, f64),
}

impl fmt::Display for Weaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Programs(old, new) => write!(f, "it is of {old} programs, and this run of {new}"),
            Self::Slowdowns(old, new) => {
                write!(f, "it is of {old} clear slowdowns, and this run of {new}")
            }
            Self::Rounds(old, new) => write!(f, "it is of {old} rounds, and this run of {new}"),
            Self::Busy(old, new) => {
                if let Some(old) = old {
                    let old = old * 100.0;
                    write!(f, "others used {old:.0} % of the time then, and ")?;
                }
                write!(f, "others used {:.0} % of the time in this run", new * 100.0)
            }
        }
    }
}

/// Why it does not stand in the machine's file.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// With it the machine would be none.
    #[error(transparent)]
    Machine(#[from] SpecError),
    /// The file cannot be written.
    #[error("{file}: not updated: {source}")]
    Write {
        /// Its path.
        file: String,
        /// Why.
        source: io::Error,
    },
}

/// Writes it into the file that the machine, asked for by this name, was read from; where the file has a better one, only
/// by `force`.
///
/// # Errors
/// Where the file cannot be written.
pub fn keep(
    name: &str,
    machine: &Machine,
    found: &Validation,
    force: bool,
) -> Result<Kept, KeepError> {
    let files = if name == THIS_MACHINE {
        this_machine_files()
    } else {
        vec![Path::new(name).to_path_buf()]
    };
    let is_its = |file: &&PathBuf| {
        file.extension().is_some_and(|extension| extension == "toml")
            && Machine::load(file).is_ok_and(|one| one.spec() == machine.spec())
    };
    let (Some(file), Some(error)) = (files.iter().find(is_its), prediction_error(found)) else {
        return Ok(Kept::Nowhere);
    };
    if machine.spec().measurement.is_none() {
        return Ok(Kept::Handwritten(file.clone()));
    }
    let stored = machine.spec().prediction_error.as_ref().filter(|_| !force);
    if let Some(weaker) = stored.and_then(|stored| weaker(stored, &error)) {
        return Ok(Kept::Weaker(file.clone(), weaker));
    }
    let mut spec = machine.spec().clone();
    spec.prediction_error = Some(error);
    let machine = Machine::from_spec(spec)?;
    write(file, &machine)?;
    Ok(Kept::In(file.clone()))
}

fn write(file: &Path, machine: &Machine) -> Result<(), KeepError> {
    write_atomically(file, machine.to_toml().as_bytes())
        .map_err(|source| KeepError::Write { file: file.display().to_string(), source })
}

/// What `new` stands on less of than `stored`: such a run does not take its place. Which slowdowns are clear is chance, too,
/// and some programs may be missing.
fn weaker(stored: &PredictionError, new: &PredictionError) -> Option<Weaker> {
    let far_fewer = |old: u32, new: u32| new < old.div_ceil(2);
    if far_fewer(stored.programs, new.programs) {
        return Some(Weaker::Programs(stored.programs, new.programs));
    }
    if far_fewer(stored.slowdowns, new.slowdowns) {
        return Some(Weaker::Slowdowns(stored.slowdowns, new.slowdowns));
    }
    if let (Some(old), Some(new)) = (stored.rounds, new.rounds)
        && new < old
    {
        return Some(Weaker::Rounds(old, new));
    }
    let busy = new.busy_share.filter(|&busy| busy > BUSY_SHARE)?;
    let was_calmer = stored.busy_share.is_none_or(|old| old < busy);
    was_calmer.then_some(Weaker::Busy(stored.busy_share, busy))
}

/// None where no program was timed.
fn prediction_error(found: &Validation) -> Option<PredictionError> {
    let agreement = &found.agreement;
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Some(PredictionError {
        by: format!("corun {}", env!("CARGO_PKG_VERSION")),
        finished: Timestamp::now().strftime("%FT%TZ").to_string(),
        programs: count(agreement.alone.count),
        mean_error: agreement.alone.mean_error?,
        rank_correlation: agreement.cpi.rank_correlation,
        slowdowns: count(agreement.clear_slowdowns.count),
        mean_slowdown_error: agreement.clear_slowdowns.mean_error,
        rounds: Some(count(found.rounds)),
        busy_share: Some((found.load.others_share + found.load.stolen_share).clamp(0.0, 1.0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(programs: u32, slowdowns: u32, rounds: u32, busy_share: f64) -> PredictionError {
        PredictionError {
            by: "corun".to_owned(),
            finished: "2026-01-01T00:00:00Z".to_owned(),
            programs,
            mean_error: 0.1,
            rank_correlation: None,
            slowdowns,
            mean_slowdown_error: None,
            rounds: Some(rounds),
            busy_share: Some(busy_share),
        }
    }

    #[test]
    fn a_run_that_stands_on_less_does_not_take_the_place_of_a_better_one() {
        let old = stored(46, 30, 5, 0.01);
        assert_eq!(weaker(&old, &stored(23, 15, 5, 0.05)), None);
        assert_eq!(weaker(&old, &stored(22, 30, 5, 0.0)), Some(Weaker::Programs(46, 22)));
        assert_eq!(weaker(&old, &stored(46, 14, 5, 0.0)), Some(Weaker::Slowdowns(30, 14)));
        assert_eq!(weaker(&old, &stored(46, 30, 4, 0.0)), Some(Weaker::Rounds(5, 4)));
        let busy = weaker(&old, &stored(46, 30, 5, 0.54)).unwrap();
        let text = "others used 1 % of the time then, and others used 54 % of the time in this run";
        assert_eq!(busy.to_string(), text);
        assert_eq!(weaker(&stored(46, 30, 5, 0.6), &stored(46, 30, 5, 0.54)), None);
        let older = PredictionError { rounds: None, busy_share: None, ..old };
        assert_eq!(weaker(&older, &stored(46, 30, 1, 0.0)), None);
        assert_eq!(weaker(&older, &stored(46, 30, 1, 0.2)), Some(Weaker::Busy(None, 0.2)));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named_with_the_cause() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gone/here.toml");
        let machine = corun_machine::preset("xeon-x5365").unwrap();
        let error = write(&file, &machine).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: not updated: ", file.display())), "{error}");
        assert!(error.contains("No such file or directory"), "{error}");
    }
}
