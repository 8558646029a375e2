//! The options of the commands that look at or act on a running machine.

use std::path::PathBuf;

use clap::Args;

use super::DocumentFormat;
use crate::cli::values::{LineFormat, PerName, interval};

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

/// `corun stat`.
#[derive(Debug, Args)]
#[command(after_help = "\
An event is a name that `corun stat --list` shows, a raw number as r1a2, or parts as the processor's
manual has them: cpu/event=0xc0,umask=1/. A :u behind it counts what programs do, :k what the kernel
does for them. The exit code is the program's own.

Examples:
  corun stat -- gzip -kf big.tar
  corun stat -e instructions,cycles,cache-misses --per 1000-instructions -T 100ms -- ./program
  corun stat -p 1234 --count 10 --format csv
  sudo corun stat -a -e context-switches -- sleep 5")]
pub(crate) struct StatArgs {
    /// What is counted [default: instructions, cycles, cache misses and branches where there are
    /// hardware counters, else what the kernel counts itself]
    #[arg(short, long, value_name = "EVENT,..")]
    pub(crate) events: Vec<String>,
    /// Time between samples, such as 1s or 200ms
    #[arg(short = 'T', long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(crate) interval: f64,
    /// Also show rates: `second`, `1000-instructions`, `1000-cycles`
    #[arg(long, value_enum, value_name = "UNIT,..", value_delimiter = ',')]
    pub(crate) per: Vec<PerName>,
    /// Watch running processes, with all their threads
    #[arg(short, long, value_name = "PID,..", value_delimiter = ',')]
    pub(crate) pid: Vec<u32>,
    /// Count all that happens on each CPU
    #[arg(short, long, conflicts_with = "pid")]
    pub(crate) all_cpus: bool,
    /// Stop after so many samples
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(conflicts_with = "command")]
    pub(crate) count: Option<u64>,
    /// How it is written
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: LineFormat,
    /// Where it is written [default: stdout; stderr where a program is started, which has stdout]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// List the events of this machine
    #[arg(long, conflicts_with_all = ["pid", "all_cpus", "command"])]
    pub(crate) list: bool,
    /// A program to start, and its arguments
    #[arg(last = true, value_name = "CMD", conflicts_with = "pid")]
    pub(crate) command: Vec<std::ffi::OsString>,
}
