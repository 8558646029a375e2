//! resctrl: ways of caches and memory bandwidth by group of threads, and what the hardware monitors of a group.

mod groups;
mod info;
mod monitoring;
mod schemata;

use std::io;
use std::path::{Path, PathBuf};

pub use groups::{ControlGroup, control_groups, is_removed, last_status, tasks};
pub use info::{BandwidthControl, BandwidthUnit, CacheControl, Monitoring, ResctrlInfo, bit_usage};
pub use monitoring::{groups_by_task, monitors_task, occupancy_bytes, total_bytes_by_cache};
pub use schemata::{Schemata, SchemataError, SchemataLine};

use crate::files;

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
    files::read(path).map_err(|reason| ResctrlError::Kernel { path: path.to_owned(), reason })
}
