//! The options of the commands that look at or act on a running machine.

use std::path::PathBuf;

use clap::Args;

use super::{DocumentFormat, TableFormat, seconds};
use crate::cli::hosting::{PlacerName, PolicyArgs, StartArgs};
use crate::cli::values::{
    LineFormat, PerName, confidence, event_count, interval, named, percent, precision,
};

/// `corun doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Answers for the current user; root sees and may do more. Nothing is changed, and the exit code is 0 \
whatever is found.

Examples:
  corun doctor
  corun doctor --policies
  sudo corun doctor --format json
  corun doctor --root captured/")]
pub(crate) struct DoctorArgs {
    /// A folder with proc/ and sys/ of another machine, instead of /
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Also say of each policy that does not run here what it lacks and what would provide that
    #[arg(long)]
    pub(crate) policies: bool,
    /// Format of the output
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: DocumentFormat,
}

/// `corun ab`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Switches something on and off, in blocks of random length and order, and compares the metrics of both \
kinds of blocks. The experiment ends when the overall effect is known to the wanted precision, when a \
program is harmed, after --longest, or with Ctrl-C, and always ends switched off. What is switched is one \
of these: a policy over programs that run already (--pid, --unit, --cgroup) or that are started here and \
ended with the experiment (MIX or -- CMD); the policy of a daemon's configuration over its programs, \
whatever its `apply` says (--config); anything that two commands switch (--on, --off); or the kernel's own \
scheduling by last-level caches (--sched-cache).

Without a metric each program's instructions a second are compared, where the counters know them. \
Programs that are started here print on stderr. The experiment also ends when the first of these programs \
ends by itself, unless its mix says restart = true.

Examples:
  corun ab mix.toml --policy dio
  corun ab --policy di -p 1234,1240 --metric web='curl -s localhost/rate'
  corun ab --on 'renice -n 10 -p 99' --off 'renice -n 0 -p 99' --count done='wc -l < out'
  corun ab --policy di --count done='wc -l < out' -- ./solver input.dat
  corun ab mix.toml --policy dio --backend sched-ext --against affinity
  sudo corun ab --sched-cache --metric web='curl -s localhost/rate'
  corun ab --config /etc/corun/config.toml
  corun ab --config /etc/corun/config.toml --metric web='curl -s localhost/rate'
  corun ab --on 'cpupower frequency-set -g performance' \\
    --off 'cpupower frequency-set -g powersave' \\
    --prometheus http://localhost:9090 --query 'db=sum(rate(queries_total[10s]))'")]
pub(crate) struct AbArgs {
    #[command(flatten)]
    pub(crate) programs: StartArgs,
    #[command(flatten)]
    pub(crate) chosen: PolicyArgs,
    /// A daemon's configuration: its policy is switched on and off over its programs
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["on", "off", "StartArgs", "PolicyArgs"])]
    pub(crate) config: Option<PathBuf>,
    /// Running processes, with all their threads, over which the policy is switched on and off
    #[arg(short, long, value_name = "PID,..", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["config", "on", "off", "StartArgs", "unit", "cgroup"])]
    pub(crate) pid: Vec<u32>,
    /// The same for the processes of a systemd unit; may be given several times
    #[arg(long, value_name = "UNIT")]
    #[arg(conflicts_with_all = ["config", "on", "off", "StartArgs"])]
    pub(crate) unit: Vec<String>,
    /// The same for the processes of a cgroup and those below it; may be given several times
    #[arg(long, value_name = "PATH")]
    #[arg(conflicts_with_all = ["config", "on", "off", "StartArgs"])]
    pub(crate) cgroup: Vec<String>,
    /// A shell command that switches on what is measured
    #[arg(long, value_name = "CMD", requires = "off")]
    #[arg(conflicts_with_all = ["StartArgs", "PolicyArgs"])]
    pub(crate) on: Option<String>,
    /// A shell command that switches it off again, and leaves everything as it was
    #[arg(long, value_name = "CMD", requires = "on")]
    pub(crate) off: Option<String>,
    /// Switch the kernel's own scheduling by last-level caches (SCHED_CACHE) on and off; the switch ends as it was found,
    /// after a kill -9 by corun restore
    #[arg(long)]
    #[arg(conflicts_with_all = ["config", "on", "off", "pid", "unit", "cgroup", "StartArgs", "PolicyArgs"])]
    pub(crate) sched_cache: bool,
    /// Compare with the same policy under this backend, in place of no policy
    #[arg(long, value_enum, value_name = "BACKEND", conflicts_with_all = ["on", "sched_cache"])]
    pub(crate) against: Option<PlacerName>,
    /// A program's name, and a shell command that prints one number, which says how the program is doing; may be given several times
    #[arg(long, value_name = "NAME=CMD", value_parser = named)]
    pub(crate) metric: Vec<(String, String)>,
    /// The same for a count that grows, such as bytes written; its growth a second is compared
    #[arg(long, value_name = "NAME=CMD", value_parser = named)]
    pub(crate) count: Vec<(String, String)>,
    /// The same by a Prometheus query whose answer is one number
    #[arg(long, value_name = "NAME=PROMQL", value_parser = named, requires = "prometheus")]
    pub(crate) query: Vec<(String, String)>,
    /// The Prometheus server, such as http://localhost:9090
    #[arg(long, value_name = "URL", requires = "query")]
    pub(crate) prometheus: Option<String>,
    /// Less is better, as for latencies
    #[arg(long)]
    pub(crate) less_is_better: bool,
    /// End when the overall effect is known to this many percent to either side
    #[arg(long, value_name = "PERCENT", value_parser = precision, default_value = "2")]
    pub(crate) precision: f64,
    /// Also end once the overall effect is surely above or surely below zero
    #[arg(long)]
    pub(crate) until_clear: bool,
    /// Stop when a program surely loses more than this
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "5")]
    pub(crate) harm: f64,
    /// Stop at once when a program loses this much in a single block; 100: never
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "50")]
    pub(crate) collapse: f64,
    /// The most seconds that the experiment takes
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "3600")]
    pub(crate) longest: f64,
    /// Mean length of a block, without its washout
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "20")]
    pub(crate) block: f64,
    /// Time at the start of each block that does not count
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    pub(crate) washout: f64,
    /// Time between two readings of a metric [default: 1, or half of --block where that is shorter]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) sample: Option<f64>,
    /// How sure the intervals are
    #[arg(long, value_name = "PERCENT", value_parser = confidence, default_value = "95")]
    pub(crate) confidence: f64,
    /// Seed of the blocks' order and length, and of policies that draw at random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Also write each pair's outcome to this file as it comes in; corun serve --ab FILE shows it
    #[arg(long, value_name = "FILE")]
    pub(crate) progress: Option<PathBuf>,
    /// Format of the output
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: DocumentFormat,
}

impl AbArgs {
    /// Is what is on and off something else than a policy?
    pub(crate) fn is_no_policy(&self) -> bool {
        self.on.is_some() || self.sched_cache
    }
}

/// `corun stat`.
#[derive(Debug, Args)]
#[command(after_help = "\
An event is a name that `corun stat --list` shows, a raw number as r1a2, or parts as the processor's \
manual has them: cpu/event=0xc0,umask=1/. A :u behind it counts what programs do, :k what the kernel \
does for them. The exit code is the program's own. Where nothing is named, the five busiest processes of this \
user are counted, for root of all users.

Examples:
  corun stat
  corun stat -- gzip -kf big.tar
  corun stat -e instructions,cycles,cache-misses --per 1000-instructions -T 100ms -- ./program
  corun stat --sample-every page-faults=1000 -e task-clock -- ./program
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
    /// In place of samples by time: a sample of a thread each time that it has had this many of this event;
    /// of clocks the number is nanoseconds
    #[arg(long, value_name = "EVENT=COUNT", value_parser = event_count)]
    #[arg(conflicts_with_all = ["interval", "all_cpus"])]
    pub(crate) sample_every: Option<(String, u64)>,
    /// Also show rates: `second`, `1000-instructions`, `1000-cycles`
    #[arg(long, value_enum, value_name = "UNIT,..", value_delimiter = ',')]
    pub(crate) per: Vec<PerName>,
    /// Watch running processes, with all their threads
    #[arg(short, long, value_name = "PID,..", value_delimiter = ',')]
    pub(crate) pid: Vec<u32>,
    /// Count all that happens on each CPU
    #[arg(short, long, conflicts_with = "pid")]
    pub(crate) all_cpus: bool,
    /// Stop after this many samples
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(conflicts_with = "command")]
    pub(crate) count: Option<u64>,
    /// Format of the output
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

/// `corun restore`.
#[derive(Debug, Args)]
#[command(after_help = "\
A corun that ends undoes what it did; this command undoes what a killed corun left. What somebody else \
changed since is left as found. The exit code is 0 when nothing that corun did is in force any more.

Examples:
  corun restore --dry-run
  corun restore --config /etc/corun/config.toml
  sudo corun restore --all")]
pub(crate) struct RestoreArgs {
    /// Say what would be undone, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also ask running coruns to stop, and wait until they have undone what they did
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) journals: JournalArgs,
    /// Format of the output
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
}

/// `corun verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Reads the journals, those of running coruns too, and compares what they say was there before with \
what is there now. Nothing is changed. The exit code is 0 when the machine is as corun found it, and \
1 when it differs or that cannot be told.

Examples:
  corun verify
  corun verify --format json")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) journals: JournalArgs,
    /// Format of the output
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
}

/// Where journals are looked for.
#[derive(Debug, Args)]
pub(crate) struct JournalArgs {
    /// Where the journals are [default: /run/corun for root, else $XDG_RUNTIME_DIR/corun or
    /// /tmp/corun-UID; for root also where /etc/corun/config.toml says]
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    pub(crate) folder: Option<PathBuf>,
    /// A daemon's configuration, which says where its journals are
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}
