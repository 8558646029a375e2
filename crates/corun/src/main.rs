//! Decides who runs beside whom on a multicore Linux machine.

mod cancel;
mod cli;
mod commands;
mod failure;
mod output;
mod plot;
mod report;

use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let command = match cli::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(stop) => return stop.print(),
    };
    match commands::run(&command).and_then(|text| output::print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // A closed stderr leaves nobody to tell.
            let _ = std::io::stderr().write_all(failure.report().as_bytes());
            failure.exit_code()
        }
    }
}
