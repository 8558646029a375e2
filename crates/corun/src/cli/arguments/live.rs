//! The options of the commands that look at or act on a running machine.

use std::path::PathBuf;

use clap::Args;

use super::{DocumentFormat, seconds};
use crate::cli::values::{confidence, named, percent, precision};

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

/// `corun ab`.
#[derive(Debug, Args)]
#[command(after_help = "\
Turns something on and off by turns, in blocks of random length and order, and compares what the
metrics say. It ends when the overall effect is known to the wanted precision, when a program is
harmed, after --longest, or with Ctrl-C, and always runs the command of --off last.

Examples:
  corun ab --on 'corun-policy-on' --off 'corun-policy-off' --metric web='curl -s localhost/rate'
  corun ab --on 'cpupower frequency-set -g performance' --off 'cpupower frequency-set -g powersave' \\
    --prometheus http://localhost:9090 --query 'db=sum(rate(queries_total[10s]))'")]
pub(crate) struct AbArgs {
    /// A shell command that turns it on
    #[arg(long, value_name = "CMD")]
    pub(crate) on: String,
    /// A shell command that turns it off, and leaves all as it was
    #[arg(long, value_name = "CMD")]
    pub(crate) off: String,
    /// A program, and a shell command that prints how it is doing: one number; may stand again
    #[arg(long, value_name = "NAME=CMD", value_parser = named)]
    pub(crate) metric: Vec<(String, String)>,
    /// The same for a count that grows, such as bytes written: its growth a second is compared
    #[arg(long, value_name = "NAME=CMD", value_parser = named)]
    pub(crate) count: Vec<(String, String)>,
    /// The same by a Prometheus query whose answer is one number
    #[arg(long, value_name = "NAME=PROMQL", value_parser = named, requires = "prometheus")]
    pub(crate) query: Vec<(String, String)>,
    /// The Prometheus server, such as http://localhost:9090
    #[arg(long, value_name = "URL", requires = "query")]
    pub(crate) prometheus: Option<String>,
    /// Less is better: the metrics are latencies or the like
    #[arg(long)]
    pub(crate) less_is_better: bool,
    /// It is done when the overall effect is known to so many percent to either side
    #[arg(long, value_name = "PERCENT", value_parser = precision, default_value = "2")]
    pub(crate) precision: f64,
    /// It is also done once the overall effect is surely above or surely below zero
    #[arg(long)]
    pub(crate) until_clear: bool,
    /// It stops when a program surely loses more than this
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "5")]
    pub(crate) harm: f64,
    /// It stops at once when a program loses this in a single block; 100: never
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "50")]
    pub(crate) collapse: f64,
    /// The longest it takes
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "3600")]
    pub(crate) longest: f64,
    /// Mean length of a block, its washout aside
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "20")]
    pub(crate) block: f64,
    /// Time at the start of each block that does not count
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    pub(crate) washout: f64,
    /// Time between two readings of a metric
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "1")]
    pub(crate) sample: f64,
    /// How sure intervals are
    #[arg(long, value_name = "PERCENT", value_parser = confidence, default_value = "95")]
    pub(crate) confidence: f64,
    /// Seed of the blocks' order and length
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How it is written
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: DocumentFormat,
}
