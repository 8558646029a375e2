//! Runs the papers' experiments again and shows the figures beside the papers'.

#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod harness;
mod held_placements;
mod simulate;
#[cfg(test)]
mod stand_ins;
mod studies;

use std::process::ExitCode;

fn main() -> ExitCode {
    corun_app::keep_replays();
    match harness::run(studies::STUDIES, std::env::args_os()) {
        Ok(output) => corun_cli::end("corun-study", output),
        Err(usage) => usage.print("corun-study"),
    }
}
