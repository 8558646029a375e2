//! The subcommands: each turns what was typed into a text for stdout.

mod compare;
mod place;
mod placement;
mod predict;
mod profile;
mod profiles;
mod replay;
mod study;
mod topology;

use crate::cli::Command;
use crate::failure::Outcome;

/// Runs a command. What it returns goes to stdout, whole or, on failure, not at all.
pub(crate) fn run(command: &Command) -> Outcome<String> {
    match command {
        Command::Topology(arguments) => topology::run(arguments),
        Command::Profiles(command) => profiles::run(command),
        Command::Profile(arguments) => profile::run(arguments),
        Command::Predict(arguments) => predict::run(arguments),
        Command::Place(arguments) => place::run(arguments),
        Command::Compare(arguments) => compare::run(arguments),
        Command::Replay(arguments) => replay::run(arguments),
        Command::Study(arguments) => study::run(arguments),
    }
}
