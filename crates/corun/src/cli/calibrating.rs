//! What is typed after `corun calibrate`.

use std::path::PathBuf;

use clap::Args;

use super::values::DocumentFormat;

/// `corun calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun calibrate                           measure this machine, for --machine this
  corun calibrate --output other.toml --report other.html
  sudo corun calibrate --system             for all users, and for the daemon
  corun calibrate --quick --format json     in half a minute")]
pub(crate) struct CalibrateArgs {
    /// The machine file that is written [default: the user's own, which --machine this reads]
    #[arg(short, long, value_name = "FILE.toml", conflicts_with = "system")]
    pub(crate) output: Option<PathBuf>,
    /// Write the machine file of all users, /var/lib/corun/this-machine.toml
    #[arg(long)]
    pub(crate) system: bool,
    /// Measure in half a minute, with fewer rounds and coarser steps
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure as if only this many MiB of memory were free [default: what is free]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(64..))]
    pub(crate) memory: Option<u64>,
    /// Write the machine file also where it replaces a better one, or one that somebody wrote
    #[arg(long)]
    pub(crate) force: bool,
    /// Write a page with all figures and curves
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Format of the output
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: DocumentFormat,
}
