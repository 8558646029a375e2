//! How a command ends: what it prints where, and its exit code.

use std::io::Write as _;
use std::process::ExitCode;

use corun_app::Result;

/// Why parsing a command line ended without a command: help, the version, or wrong usage.
#[derive(Debug)]
pub struct UsageError(clap::Error);

impl From<clap::Error> for UsageError {
    fn from(error: clap::Error) -> Self {
        Self(error)
    }
}

impl UsageError {
    /// Says it where it belongs. The exit code is 0 for what was asked for, else 2.
    pub fn print(&self, command: &str) -> ExitCode {
        if !self.0.use_stderr() {
            // A reader that went away has seen enough.
            let _ = self.0.print();
            return ExitCode::SUCCESS;
        }
        let text = self.0.render().to_string().replace("  tip: ", "  try: ");
        // Without arguments the text is the help, which is no error message.
        let _ = match text.strip_prefix("error: ") {
            Some(error) => write!(std::io::stderr(), "{command}: {error}"),
            None => write!(std::io::stderr(), "{text}"),
        };
        ExitCode::from(2)
    }
}

/// Prints a command's output, or why there is none, and gives the exit code.
pub fn end(command: &str, output: Result<String>) -> ExitCode {
    match output.and_then(|text| corun_report::print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let report = error.report();
            let report = corun_linux::escape_controls_in_lines(&report);
            if !report.is_empty() {
                // A closed stderr leaves nobody to tell.
                let _ = write!(std::io::stderr(), "{command}: {report}");
            }
            ExitCode::from(error.exit_code())
        }
    }
}
