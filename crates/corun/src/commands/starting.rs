//! The programs that a command starts, from what was typed.

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use corun_hosting::Program;
use corun_profile::Mix;

use crate::cli::StartArgs;
use crate::failure::{Failure, Outcome};

/// The programs of a mix, or the one that was typed. `stand_ins` as in [`Program::of_mix`].
pub(super) fn programs(asked: &StartArgs, stand_ins: bool) -> Outcome<Vec<Program>> {
    match &asked.mix {
        Some(path) => Program::of_mix(&mix(path)?, stand_ins),
        None if asked.command.is_empty() => Err(Failure::input("no program to start")
            .hint("a MIX file, which names programs")
            .hint("-- PROGRAM ARGUMENTS")),
        None => Ok(vec![Program::of_command(&asked.command, asked.profile.as_deref())]),
    }
}

/// Reads a mix file. Who names a program in its place learns where a program stands.
fn mix(path: &Path) -> Outcome<Mix> {
    let is_program = |data: &Metadata| data.is_file() && data.permissions().mode() & 0o111 != 0;
    Mix::load(path).map_err(|error| match path.metadata() {
        Ok(data) if !is_program(&data) => Failure::from(error),
        _ => Failure::from(error).hint(format!(
            "-- {} starts it as a program; MIX is a file that names programs",
            path.display()
        )),
    })
}
