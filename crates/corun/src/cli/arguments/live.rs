//! The options of the commands that look at or act on a running machine.

use std::path::PathBuf;

use clap::Args;

use super::DocumentFormat;

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
