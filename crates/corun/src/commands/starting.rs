//! The programs that a command starts, from what was typed.

use corun_hosting::Program;
use corun_profile::Mix;

use crate::cli::StartArgs;
use crate::failure::{Failure, Outcome};

/// The programs of a mix, or the one that was typed. `stand_ins` as in [`Program::of_mix`].
pub(super) fn programs(asked: &StartArgs, stand_ins: bool) -> Outcome<Vec<Program>> {
    match &asked.mix {
        Some(path) => Program::of_mix(&Mix::load(path)?, stand_ins),
        None if asked.command.is_empty() => Err(Failure::input("no program to start")
            .hint("a MIX file, which names programs")
            .hint("-- PROGRAM ARGUMENTS")),
        None => Ok(vec![Program::of_command(&asked.command, asked.profile.as_deref())]),
    }
}
