//! Decides who runs beside whom on a multicore Linux machine.

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
            let report = failure.report();
            if !report.is_empty() {
                // A closed stderr leaves nobody to tell.
                let _ = write!(std::io::stderr(), "corun: {report}");
            }
            ExitCode::from(failure.exit_code())
        }
    }
}
