//! What was typed. Nothing here touches the machine or a file: names are looked up later.

mod arguments;
mod calibrating;
mod hosting;
mod sweeping;
mod values;
mod watching;

pub(crate) use arguments::model_options;
pub(crate) use arguments::{
    AbArgs, AllStudiesArgs, CachesArgs, CompareArgs, CurveStudyOutput, DoctorArgs, ExportArgs,
    FactorsArgs, ImportArgs, ListArgs, PaperStudyArgs, PartitionArgs, PartitioningStudyArgs,
    PlaceArgs, PredictArgs, PredictionArgs, ProfileArgs, ProfilesCommand, ReplayArgs,
    RerecordingArgs, RestoreArgs, SamplingArgs, ShowArgs, StatArgs, StudyCommand, TopologyArgs,
};
pub(crate) use calibrating::CalibrateArgs;
pub(crate) use hosting::{
    CheckConfigArgs, CountersName, DaemonArgs, HostArgs, RunArgs, StandInArgs, StartArgs,
};
pub(crate) use sweeping::SweepArgs;
pub(crate) use values::{
    CacheForm, DocumentFormat, IndexName, LineFormat, PerName, SortBy, TableFormat, TreeFormat,
    UntilName,
};
pub(crate) use watching::{DecideArgs, FigureArgs, RecordArgs, TargetArgs, TopArgs};

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Decides who runs beside whom on a multicore Linux machine.
#[derive(Debug, Parser)]
#[command(name = "corun", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  corun doctor                              what can be done on this machine
  corun compare --report report.html        policies side by side, with the best and the worst
  corun topology                            this machine
  corun profile -o gzip.toml -- gzip -k f   record a program
  corun place --machine xeon-x5365 --profiles lib --apps a,b,c,d --policy optimal

Exit codes: 0 done, 1 failed, 2 wrong usage or bad input, 130 interrupted.";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// What this machine can measure and control, and which policies run here
    Doctor(DoctorArgs),
    /// The tree of packages, caches, cores and CPUs: of this machine, a captured one or a preset
    Topology(TopologyArgs),
    /// Measure this machine: clock, caches, memory, cores; --machine this is as measured from then on
    Calibrate(CalibrateArgs),
    /// The profile library: list it, show a program, import a table
    #[command(subcommand)]
    Profiles(ProfilesCommand),
    /// Run a program under the tracer and write its profile
    Profile(ProfileArgs),
    /// How much programs slow each other down at given places
    Predict(PredictArgs),
    /// One placement, by a policy or the exact optimum
    Place(PlaceArgs),
    /// Who shares which ways of a last-level cache: by a policy, or as given
    Partition(PartitionArgs),
    /// Policies side by side on a simulated machine, with the best and worst placement there is
    Compare(CompareArgs),
    /// Many comparisons at once: machines x mixes x policies x seeds, here or on a Dask cluster
    Sweep(SweepArgs),
    /// Start programs here and schedule them; undo everything at the end
    Run(RunArgs),
    /// Schedule what already runs here, as a service; changes nothing until told to
    Daemon(DaemonArgs),
    /// Check the daemon's configuration
    CheckConfig(CheckConfigArgs),
    #[command(hide = true)]
    StandIn(StandInArgs),
    /// Recorded traces against a shared cache, access by access
    Replay(ReplayArgs),
    /// What something is worth here: it is on and off by turns, and the programs' progress is compared
    Ab(AbArgs),
    /// What threads do, sample by sample: hardware events and the kernel's own
    Stat(StatArgs),
    /// A live view: who sits where, what they do, and what a policy would do about it
    Top(TopArgs),
    /// Record what corun sees of running programs, look by look
    Record(RecordArgs),
    /// What a policy would have decided over what `corun record` wrote
    Decide(DecideArgs),
    /// Undo what a killed corun left behind
    Restore(RestoreArgs),
    /// A paper's experiment, our figures beside the paper's, and how accurate recordings are
    #[command(subcommand)]
    Study(StudyCommand),
}

/// Why parsing ended without a command: help, the version, or wrong usage.
pub(crate) struct Stop(clap::Error);

impl Stop {
    /// Says it where it belongs. The exit code is 0 for what was asked for, else 2.
    pub(crate) fn print(&self) -> ExitCode {
        if !self.0.use_stderr() {
            // A reader that went away has seen enough.
            let _ = self.0.print();
            return ExitCode::SUCCESS;
        }
        let text = self.0.render().to_string().replace("  tip: ", "  try: ");
        // Without arguments the text is the help, which is no error message.
        let _ = match text.strip_prefix("error: ") {
            Some(error) => write!(std::io::stderr(), "corun: {error}"),
            None => write!(std::io::stderr(), "{text}"),
        };
        ExitCode::from(2)
    }
}

/// Parses a command line.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Stop> {
    Cli::try_parse_from(arguments).map(|cli| cli.command).map_err(Stop)
}

#[cfg(test)]
mod tests;
