//! The options of `corun explain`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use corun_cli::seconds;

use super::hosting::CountersName;
use super::values::DocumentFormat;

/// `corun explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Watches the program for some seconds and changes nothing. Each cause comes with the share of the program's active time \
that it takes (all time but that in which the program sleeps by its own wish), how sure that share is, and a command that \
would help. Where this machine cannot tell something, corun says so, and what would tell it. Neighbours are known by \
stored profiles, which are found by command lines; without root only this user's processes are seen.

Examples:
  corun explain 1234
  corun explain postgresql.service
  corun explain --cgroup '/kubepods.slice/*pod1b2c*' --duration 10
  corun explain 1234 --profile mine --profiles mine.toml --format json")]
pub(crate) struct ExplainArgs {
    /// A process, by its number, or a systemd unit of the system
    #[arg(value_name = "PID|UNIT", value_parser = NonEmptyStringValueParser::new())]
    #[arg(required_unless_present = "cgroup", conflicts_with = "cgroup")]
    pub(crate) target: Option<String>,
    /// In place of a process: a cgroup and those below it, such as a container's or a pod's, by path or pattern
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<String>,
    /// Seconds for which the program is watched
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = seconds)]
    pub(crate) duration: f64,
    /// The program's stored profile [default: found by its command line]
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Folder or file of stored profiles, or a list of these and of `shipped` [default: the shipped profiles]
    #[arg(long, value_name = "PATH")]
    pub(crate) profiles: Option<PathBuf>,
    /// Where counters come from
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) counters: CountersName,
    /// A machine file of this machine, with what Linux does not tell [default: as Linux shows it]
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,
    /// Format of the output
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: DocumentFormat,
}
