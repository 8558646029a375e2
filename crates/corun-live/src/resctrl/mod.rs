//! resctrl: ways of the cache and memory bandwidth by group of threads, as the kernel offers them.
//!
//! Only groups whose name begins with `corun-` are ever made or removed; what others made is left
//! as it is. resctrl is never mounted here: that is the operator's choice.

mod actuator;
mod bandwidth;
mod fewer;
mod groups;

pub use actuator::Resctrl;
pub(crate) use groups::{GroupChange, SchemataChange, TaskChange};

use std::io;
use std::path::Path;

/// Writes to a file of the kernel's in one call; none is ever made.
fn write(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
    match file.write(text.as_bytes())? {
        written if written == text.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}
