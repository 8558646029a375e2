//! The subcommands: each turns what was typed into a text for stdout.

mod ab;
mod calibrate;
mod compare;
mod completions;
mod daemon;
mod dask;
mod decide;
mod doctor;
mod explain;
mod fleet;
mod journals;
mod man;
mod partition;
mod place;
mod policies;
mod predict;
mod profile;
mod profiles;
mod record;
mod replay;
mod restore;
mod run;
mod serve;
mod stand_in;
mod starting;
mod stat;
mod sweep;
mod top;
mod topology;
mod validate;
mod verify;
mod watching;

use corun_app::{find_machine, tell};
use corun_machine::{Machine, THIS_MACHINE};

use crate::cli::Command;
use crate::failure::{Failure, Outcome};

/// Runs a command. What it returns goes to stdout, whole or, on failure, not at all.
pub(crate) fn run(command: &Command) -> Outcome<String> {
    match command {
        Command::Ab(arguments) => ab::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Explain(arguments) => explain::run(arguments),
        Command::Topology(arguments) => topology::run(arguments),
        Command::Calibrate(arguments) => calibrate::run(arguments),
        Command::Validate(arguments) => validate::run(arguments),
        Command::Profiles(command) => profiles::run(command),
        Command::Profile(arguments) => profile::run(arguments),
        Command::Policies(arguments) => policies::run(arguments),
        Command::Predict(arguments) => predict::run(arguments),
        Command::Place(arguments) => place::run(arguments),
        Command::Partition(arguments) => partition::run(arguments),
        Command::Compare(arguments) => compare::run(arguments),
        Command::Sweep(arguments) => sweep::run(arguments),
        Command::Fleet(command) => fleet::run(command),
        Command::Run(arguments) => run::run(arguments),
        Command::Daemon(arguments) => daemon::run(arguments),
        Command::CheckConfig(arguments) => daemon::check(arguments),
        Command::StandIn(arguments) => stand_in::run(arguments),
        Command::Replay(arguments) => replay::run(arguments),
        Command::Stat(arguments) => stat::run(arguments),
        Command::Record(arguments) => record::run(arguments),
        Command::Decide(arguments) => decide::run(arguments),
        Command::Top(arguments) => top::run(arguments),
        Command::Serve(arguments) => serve::run(arguments),
        Command::Restore(arguments) => restore::run(arguments),
        Command::Verify(arguments) => verify::run(arguments),
        Command::Completions(arguments) => completions::run(arguments),
        Command::Man(arguments) => man::run(arguments),
        Command::Study(arguments) => Err(moved(&arguments.words)),
    }
}

/// The machine that figures are predicted for. Where it is this one and was not calibrated, standard error says what is
/// assumed of it, and which calibrated file is passed over.
fn predicted_machine(name: &str) -> Outcome<Machine> {
    let machine = find_machine(name)?;
    if name == THIS_MACHINE && machine.spec().measurement.is_none() {
        for warning in machine.warnings() {
            tell(warning);
        }
        tell("not calibrated: such figures are assumed; corun calibrate measures them");
    }
    if machine.bandwidth_domains().is_empty() {
        let what = "no bandwidth limits known: programs are predicted to share memory as if it had no limits";
        tell(format_args!(
            "{}: {what}; [[bandwidth]] in the machine file has them",
            machine.name()
        ));
    }
    Ok(machine)
}

/// Says where the studies are.
fn moved(words: &[String]) -> Failure {
    let command = format!("corun-study {}", words.join(" "));
    Failure::input("the studies are a program of their own: corun-study").hint(command.trim_end())
}

/// What was typed, as a shell would take it again.
pub(crate) fn command_line() -> String {
    let quoted = |word: String| {
        let plain = |one: char| one.is_ascii_alphanumeric() || "-_./,:=+@%#".contains(one);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    let arguments = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy().into()));
    std::iter::once("corun".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}
