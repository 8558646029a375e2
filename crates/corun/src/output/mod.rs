//! What leaves the process: text on stdout, documents, files.

mod file;
mod format;
mod table;

pub(crate) use corun_app::round;
pub(crate) use file::{check_target, write_file};
pub(crate) use format::{counted, csv_rows, json};
pub(crate) use table::{Align, table};

use std::io::Write as _;

use crate::failure::Outcome;

/// Writes a command's whole output; a reader that went away is not a failure.
pub(crate) fn print(text: &str) -> Outcome {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}
