//! The options of the commands that watch the machine in front of the user and change nothing.

use std::path::PathBuf;

use clap::Args;
use corun_cli::{TableFormat, seconds};

use super::hosting::CountersName;
use super::values::interval;

/// Whom a command watches.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TargetArgs {
    /// A daemon's configuration: its programs are watched, by its policy, counters and profiles where no
    /// option says otherwise
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["pid", "user", "command", "arguments", "cgroup", "unit", "program"])]
    pub(crate) config: Option<PathBuf>,
    /// Running processes, with all their threads
    #[arg(short, long, value_name = "PID,..", value_delimiter = ',')]
    pub(crate) pid: Vec<u32>,
    /// Processes of this user, by name or number; may be given several times
    #[arg(short, long, value_name = "USER")]
    pub(crate) user: Vec<String>,
    /// Processes whose executable's or script's name matches, or whose path where the pattern has a slash; may be given
    /// several times
    #[arg(long, value_name = "PATTERN")]
    pub(crate) command: Vec<String>,
    /// Processes whose whole command line matches; may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub(crate) arguments: Vec<String>,
    /// Processes of a cgroup and those below it, by the path below the root of cgroups or a pattern; may be
    /// given several times
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Vec<String>,
    /// Processes of a systemd unit; may be given several times
    #[arg(long, value_name = "UNIT")]
    pub(crate) unit: Vec<String>,
    /// The stored profile of what is watched [default: found by its command line]
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    pub(crate) profile: Option<String>,
    /// A program to start, and its arguments
    #[arg(last = true, value_name = "CMD")]
    #[arg(conflicts_with_all = ["pid", "user", "command", "arguments", "cgroup", "unit"])]
    pub(crate) program: Vec<std::ffi::OsString>,
}

impl TargetArgs {
    /// Was anybody named, or is a program to be started?
    pub(crate) fn is_given(&self) -> bool {
        let rules = [&self.user, &self.command, &self.arguments, &self.cgroup, &self.unit];
        self.config.is_some()
            || !self.pid.is_empty()
            || !self.program.is_empty()
            || rules.into_iter().any(|given| !given.is_empty())
    }
}

/// Where a watching command has its figures from, and how often.
#[derive(Debug, Clone, Args)]
pub(crate) struct FigureArgs {
    /// Where counters come from [default: auto]
    #[arg(long, value_enum)]
    pub(crate) counters: Option<CountersName>,
    /// Folder or file of stored profiles, or a list of these and of `shipped` [default: the shipped profiles]
    #[arg(long, value_name = "PATH")]
    pub(crate) profiles: Option<PathBuf>,
    /// Time between two looks at the machine, such as 1s or 200ms
    #[arg(short = 'T', long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(crate) interval: f64,
}

/// Seconds since the beginning of a recording.
fn time_in_recording(text: &str) -> Result<f64, String> {
    let at = text.trim().parse::<f64>().ok().filter(|at| (0.0..=1e9).contains(at));
    at.ok_or_else(|| "expected a number of seconds from 0 to 1e9".to_owned())
}

/// `corun top`.
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is changed. Where nobody is named, all programs of this user are watched, for root all there are, the \
busiest first; --once shows the first 20 of them as a table. A process is watched when all options that select processes fit it; each --pid selects one more \
process. A program that is started has no input, and its output is dropped; it is ended with the view. In \
a pattern * stands for any text and ? for one letter. Keys: ? lists them, / filters, g shows units and pods, q quits.

--replay plays what corun record wrote, with a slider in time; a recording has no cgroups.

Columns: CPU% and WAIT% are of one CPU's time: on CPUs, and ready without a CPU. ON CPU and LLC: where the threads run, and \
under which last-level cache. MPKI: LLC misses per 1000 instructions; IPC: instructions a cycle; IN LLC: bytes held. \
SWITCH/s, WAKES/s: context switches and wake-ups. CLASS and ALONE are the stored profile's: what the program does in a \
cache, and its MPKI alone. `-`: not measured here, or no profile. corun explain takes a thread's TID as well as a PID.

Examples:
  corun top
  corun top --user www-data
  corun top --config /etc/corun/config.toml
  corun top --command 'postgres*' --policy dio
  corun top --once --format json -p 1234
  corun top --replay monday.corun --policy dio")]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) targets: TargetArgs,
    #[command(flatten)]
    pub(crate) figures: FigureArgs,
    /// Also show what this policy would do [default: the configuration's, else none]
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// Seed of policies that draw at random
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    /// Print one interval as a table, and end; of a recording, its last look or that of --at
    #[arg(long)]
    pub(crate) once: bool,
    /// Show a recording of corun record in place of this machine
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["TargetArgs", "counters", "profiles", "interval"])]
    pub(crate) replay: Option<PathBuf>,
    /// Begin this many seconds after the recording's first look
    #[arg(long, value_name = "SECONDS", value_parser = time_in_recording, requires = "replay")]
    pub(crate) at: Option<f64>,
    /// Format of the output
    #[arg(long, value_enum, default_value = "table", requires = "once")]
    pub(crate) format: TableFormat,
}

/// `corun record`.
#[derive(Debug, Args)]
#[command(after_help = "\
Writes what corun would see of programs, look by look, for corun decide. Nothing is changed. It ends with \
the program, when all processes of --pid are gone, after --duration, or with Ctrl-C; whatever ends it, the \
file is whole. It has names of programs and threads and their figures, no command lines and no data. \
(To record a program's own cache behaviour, see corun profile.)

Examples:
  corun record -o monday.corun --config /etc/corun/config.toml --duration 3600
  corun record -o solver.corun -T 200ms -- ./solver input.dat")]
pub(crate) struct RecordArgs {
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) targets: TargetArgs,
    #[command(flatten)]
    pub(crate) figures: FigureArgs,
    /// End after this many seconds; a program that was started is ended then
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<f64>,
}

/// `corun decide`.
#[derive(Debug, Args)]
#[command(after_help = "\
The policy sees what it would have seen on that machine, and its plans are taken as carried out, but what \
the threads did afterwards is what they did without it. The same recording, policy and seed give the same \
bytes.

Examples:
  corun decide monday.corun --policy dio
  corun decide monday.corun --policy dio+lfoc --format json")]
pub(crate) struct DecideArgs {
    /// What corun record wrote
    #[arg(value_name = "FILE")]
    pub(crate) recording: PathBuf,
    /// The policy; `dio+lfoc` places by `dio` and partitions by `lfoc`
    #[arg(long, value_name = "NAME", default_value = "corun")]
    pub(crate) policy: String,
    /// Time between two decisions [default: the policy's own]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) interval: Option<f64>,
    /// Seed of policies that draw at random
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    /// Format of the output
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
}
