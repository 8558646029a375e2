//! Decides who runs beside whom on a multicore Linux machine.

#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod cli;
mod commands;
mod failure;

use std::process::ExitCode;

fn main() -> ExitCode {
    // A shell that completes a command line calls this program and says so in the environment.
    cli::answer_shell();
    corun_app::keep_replays();
    match cli::parse(std::env::args_os()) {
        Ok(command) => corun_cli::end("corun", commands::run(&command)),
        Err(usage) => usage.print("corun"),
    }
}
