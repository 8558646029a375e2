//! `corun completions`: what a shell needs to complete corun's command lines.

use crate::cli::{CompletionsArgs, registration};
use crate::failure::{Failure, Outcome};

pub(super) fn run(arguments: &CompletionsArgs) -> Outcome<String> {
    registration(arguments.shell).map_err(Failure::failed)
}
