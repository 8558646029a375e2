//! How far predictions were off goes into the machine's file, for whoever predicts from it.

use std::io;
use std::path::{Path, PathBuf};

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
    /// There is no file: a preset, or what Linux shows; or no program was timed.
    Nowhere,
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

/// Writes it into the file that the machine, asked for by this name, was read from.
///
/// # Errors
/// Where the file cannot be written.
pub fn keep(name: &str, machine: &Machine, found: &Validation) -> Result<Kept, KeepError> {
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
