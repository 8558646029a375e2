//! How far predictions were off goes into the machine's file, for whoever predicts from it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use corun_machine::{Machine, PredictionError, THIS_MACHINE, this_machine_files};
use jiff::Timestamp;

use corun_report::write_file;

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

/// Writes it into the file that the machine, asked for by this name, was read from.
///
/// # Errors
/// Where the file cannot be written.
pub fn keep(name: &str, machine: &Machine, found: &Validation) -> Result<Kept> {
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
    write_file(file, machine.to_toml().as_bytes())
        .map_err(|error| anyhow::anyhow!("{error}"))
        .with_context(|| format!("{}: not updated", file.display()))?;
    Ok(Kept::In(file.clone()))
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
