//! What was typed. Nothing here touches the machine or a file: names are looked up later.

mod arguments;
mod calibrating;
mod completion;
mod explaining;
mod fleet;
mod hosting;
mod serving;
mod sweeping;
mod validating;
mod values;
mod watching;

pub(crate) use arguments::{
    AbArgs, CachesArgs, CompareArgs, DoctorArgs, ExportArgs, ImportArgs, JournalArgs, ListArgs,
    PartitionArgs, PlaceArgs, PoliciesArgs, PredictArgs, ProfileArgs, ProfilesArgs,
    ProfilesCommand, ReplayArgs, RestoreArgs, ShowArgs, StatArgs, TopologyArgs, VerifyArgs,
};
pub(crate) use calibrating::CalibrateArgs;
pub(crate) use completion::{ShellName, answer_shell, registration};
pub(crate) use corun_cli::{TableFormat, model_options};
pub(crate) use explaining::ExplainArgs;
pub(crate) use fleet::{
    AgentArgs, DescribeNodeArgs, FleetCommand, FleetPlaceArgs, FleetSimulateArgs, RankNodesArgs,
    ServeExtenderArgs,
};
pub(crate) use hosting::{
    CheckConfigArgs, CountersName, DaemonArgs, PlacerName, RunArgs, StandInArgs, StartArgs,
};
pub(crate) use serving::ServeArgs;
pub(crate) use sweeping::SweepArgs;
pub(crate) use validating::ValidateArgs;
pub(crate) use values::{
    DocumentFormat, IndexName, LineFormat, PerName, SortBy, TreeFormat, UntilName,
};
pub(crate) use watching::{DecideArgs, FigureArgs, RecordArgs, TargetArgs, TopArgs};

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use corun_cli::UsageError;

/// Decides which programs run beside each other on a multicore Linux machine.
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
  corun explain 1234                        why a running program is slow
  corun compare --report report.html        policies side by side, with the best and the worst
  corun topology                            this machine
  corun profile -o gzip.toml -- gzip -k f   record a program
  corun place --machine xeon-x5365 --profiles lib --apps a,b,c,d --policy optimal

Exit codes: 0 done, 1 failed, 2 wrong usage or bad input, 130 interrupted.";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what this machine can measure and control, and which policies run here
    Doctor(DoctorArgs),
    /// Why a running program is slow: each cause with its figures, how sure it is, and what would help
    Explain(ExplainArgs),
    /// Draw the packages, caches, cores and CPUs of this machine, of a captured machine or of a preset
    Topology(TopologyArgs),
    /// Measure this machine's clock, caches, memory and cores; --machine this uses the result from then on
    Calibrate(CalibrateArgs),
    /// Run programs here, alone and together, and compare their times with the predicted times
    Validate(ValidateArgs),
    /// The profile library: list it, show a program, import a table
    #[command(subcommand)]
    Profiles(ProfilesCommand),
    /// Run a program under the tracer and write its profile
    Profile(ProfileArgs),
    /// The policies: what each does, where it comes from, and what can be set
    Policies(PoliciesArgs),
    /// Predict how much programs slow each other down on given CPUs
    Predict(PredictArgs),
    /// Place programs once, by a policy or by the exact optimum
    Place(PlaceArgs),
    /// Divide the ways of a last-level cache among programs, by a policy or by given masks
    Partition(PartitionArgs),
    /// Compare policies on a simulated machine with each other and with the best and the worst placement
    Compare(CompareArgs),
    /// Run many comparisons: machines x mixes x policies x seeds, here or on a Dask cluster
    Sweep(SweepArgs),
    /// For many machines: on which node of a cluster programs run, beside which neighbours
    #[command(subcommand)]
    Fleet(FleetCommand),
    /// Start programs here and schedule them; undo everything at the end
    Run(RunArgs),
    /// Schedule programs that run here already, as a service; changes nothing until its configuration says so
    Daemon(DaemonArgs),
    /// Check the daemon's configuration
    CheckConfig(CheckConfigArgs),
    #[command(hide = true)]
    StandIn(StandInArgs),
    /// Replay recorded traces against a shared cache, access by access
    Replay(ReplayArgs),
    /// Measure what a policy or a setting gains here, by switching it on and off by turns
    Ab(AbArgs),
    /// Count events of threads, sample by sample: the hardware's and the kernel's
    Stat(StatArgs),
    /// Watch live which threads run where, what they do, and what a policy would do about it
    Top(TopArgs),
    /// Serve a page for the browser: move programs on a drawn machine, compare policies, watch this machine
    Serve(ServeArgs),
    /// Record what corun sees of running programs, look by look, for corun decide
    Record(RecordArgs),
    /// Ask a policy what it would have decided over a recording of `corun record`
    Decide(DecideArgs),
    /// Undo what a killed corun left behind
    Restore(RestoreArgs),
    /// Say whether the machine is as corun found it, and what differs
    Verify(VerifyArgs),
    /// Print the script by which a shell completes corun's commands, options and names with Tab
    Completions(CompletionsArgs),
    /// Print a manual page, or write all of them as files
    Man(ManArgs),
    /// Where the papers' experiments went: `corun-study`
    #[command(hide = true, disable_help_flag = true)]
    Study(StudyArgs),
}

/// `corun completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The script asks corun itself for what can stand next: commands, options, files, and the names of machines, \
programs and policies. `make install` and the Debian package put the scripts where the shells look for them.

Examples:
  source <(corun completions bash)                  for this session
  corun completions zsh > ~/.zfunc/_corun           fpath+=~/.zfunc before compinit
  corun completions fish > ~/.config/fish/completions/corun.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: ShellName,
}

/// `corun man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  corun man | man -l -
  corun man explain | man -l -
  corun man ~/.local/share/man/man1         man corun, man corun-compare")]
pub(crate) struct ManArgs {
    /// A command, such as explain or profiles-show, whose page is printed, or a folder, into which one page a command is
    /// written; a path of several parts is made where missing
    #[arg(value_name = "COMMAND|DIR")]
    pub(crate) what: Option<std::path::PathBuf>,
}

/// `corun study`, which is a program of its own now.
#[derive(Debug, clap::Args)]
pub(crate) struct StudyArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

/// Parses a command line.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, UsageError> {
    let mut commands = definitions();
    let matches = commands
        .try_get_matches_from_mut(arguments)
        .map_err(|error| without_hidden(error, &commands))?;
    Ok(Cli::from_arg_matches(&matches).map(|cli| cli.command)?)
}

/// A mistyped command's error, which offers no command that help does not show.
fn without_hidden(mut error: clap::Error, commands: &clap::Command) -> clap::Error {
    let Some(ContextValue::Strings(mut offered)) = error.remove(ContextKind::SuggestedSubcommand)
    else {
        return error;
    };
    offered.retain(|name| commands.find_subcommand(name).is_none_or(|one| !one.is_hide_set()));
    if !offered.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(offered));
    }
    error
}

/// All commands and options, as `--help` shows them.
pub(crate) fn definitions() -> clap::Command {
    with_negative_values(Cli::command())
}

/// A number below zero is the value of its option, which says what it expects, and no option of its own, for which
/// the advice would be to write `-- -1`.
fn with_negative_values(command: clap::Command) -> clap::Command {
    let takes_value = |argument: clap::Arg| match argument.get_action() {
        clap::ArgAction::Set | clap::ArgAction::Append if argument.get_long().is_some() => {
            argument.allow_negative_numbers(true)
        }
        _ => argument,
    };
    command.mut_args(takes_value).mut_subcommands(with_negative_values)
}

#[cfg(test)]
mod tests;
