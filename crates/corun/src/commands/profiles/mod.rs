//! `corun profiles`: the library.

mod export;
mod import;
mod list;
mod show;

use crate::cli::ProfilesCommand;
use crate::failure::Outcome;

/// The machine on which a CSV of solo figures was measured, unless the user says another.
const TABLE_MACHINE: &str = "xeon-gold-6138";

pub(super) fn run(command: &ProfilesCommand) -> Outcome<String> {
    match command {
        ProfilesCommand::List(arguments) => list::run(arguments),
        ProfilesCommand::Show(arguments) => show::run(arguments),
        ProfilesCommand::Import(arguments) => import::run(arguments),
        ProfilesCommand::Export(arguments) => export::run(arguments),
    }
}
