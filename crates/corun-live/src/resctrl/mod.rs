//! resctrl: ways of the cache and memory bandwidth by group of threads, as the kernel offers them.
//!
//! Only groups whose name begins with `corun-` are ever made or removed; what others made is left
//! as it is. resctrl is never mounted here: that is the operator's choice.

mod actuator;
mod bandwidth;
mod fewer;
mod groups;
mod info;
mod schemata;

pub use actuator::Resctrl;
pub(crate) use groups::{GroupChange, SchemataChange, TaskChange};
pub use info::{BandwidthControl, BandwidthUnit, CacheControl, Monitoring, ResctrlInfo};
pub use schemata::{Schemata, SchemataError, SchemataLine};

use std::io;
use std::path::{Path, PathBuf};

/// Why resctrl cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ResctrlError {
    /// It is not mounted.
    #[error(
        "{}: resctrl is not mounted there; as root: mount -t resctrl resctrl /sys/fs/resctrl",
        path.display()
    )]
    NotMounted {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The kernel said no.
    #[error("{}: {reason}", path.display())]
    Kernel {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        reason: io::Error,
    },
    /// A file is not as the kernel documents it.
    #[error("{}: `{found}` is not {expected}", path.display())]
    Unexpected {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What the kernel documents.
        expected: &'static str,
    },
}

fn read(path: &Path) -> Result<String, ResctrlError> {
    std::fs::read_to_string(path)
        .map_err(|reason| ResctrlError::Kernel { path: path.to_owned(), reason })
}

/// Writes to a file of the kernel's in one call; none is ever made.
fn write(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
    match file.write(text.as_bytes())? {
        written if written == text.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}
