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
        let text = advised(&self.0.render().to_string());
        // Without arguments the text is the help, which is no error message.
        let _ = match text.strip_prefix("error: ") {
            Some(error) => write!(std::io::stderr(), "{command}: {error}"),
            None => write!(std::io::stderr(), "{text}"),
        };
        ExitCode::from(2)
    }
}

/// clap's text, with its advice as corun's own is written. Who mistypes an option does not want it as a value.
fn advised(text: &str) -> String {
    let text = text.replace("  tip: ", "  try: ");
    let is_of_use = |part: &&str| {
        !(part.starts_with("  try: to pass '") && part.contains("as a value, use '-- "))
    };
    text.split("\n\n").filter(is_of_use).collect::<Vec<_>>().join("\n\n")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_option_is_not_advised_to_be_a_value() {
        let command = clap::Command::new("a")
            .arg(clap::Arg::new("seeds").long("seeds"))
            .arg(clap::Arg::new("rest").trailing_var_arg(true).num_args(0..));
        let wrong = |option: &str| {
            let error = command.clone().try_get_matches_from(["a", option]).unwrap_err();
            let text = error.render().to_string();
            (text.contains("as a value"), advised(&text))
        };
        let (had, text) = wrong("--duration");
        assert!(had && !text.contains("as a value"), "{text}");
        assert!(text.contains("unexpected argument '--duration' found\n\nUsage"), "{text}");
        let (_, text) = wrong("--seed");
        assert!(text.contains("  try: a similar argument exists: '--seeds'"), "{text}");
    }
}
