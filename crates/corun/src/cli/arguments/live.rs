//! The options of the commands that look at or act on a running machine.

use std::path::PathBuf;

use clap::Args;

use super::{DocumentFormat, TableFormat};

/// `corun doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
For the current user; root sees and may do more. Nothing is changed, and the exit code is 0 whatever
is found.

Examples:
  corun doctor
  sudo corun doctor --format json
  corun doctor --root captured/")]
pub(crate) struct DoctorArgs {
    /// A folder with proc/ and sys/ of another machine, instead of /
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// How it is written
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: DocumentFormat,
}

/// `corun restore`.
#[derive(Debug, Args)]
#[command(after_help = "\
A corun that ends undoes what it did. This is for one that was killed. What somebody else changed
since is left as found. The exit code is 0 when nothing that corun did is in force any more.

Examples:
  corun restore --dry-run
  sudo corun restore --all")]
pub(crate) struct RestoreArgs {
    /// Say what would be undone, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also ask running coruns to stop, and wait until they have undone what they did
    #[arg(long)]
    pub(crate) all: bool,
    /// Where the journals are [default: /run/corun for root, else $XDG_RUNTIME_DIR/corun or
    /// /tmp/corun-UID]
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// How it is written
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
}
