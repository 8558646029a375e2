//! How a command ends when it does not end well, and the exit code that tells a script which.

use std::fmt;
use std::io;
use std::process::ExitCode;

use corun_compare::Error;
use corun_live::LiveError;
use corun_machine::MachineError;
use corun_model::ModelError;
use corun_optimal::PlacementError;
use corun_profile::{FileError, UnknownProgram};
use corun_sim::SimError;

/// Why a command gives up.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Wrong usage or bad input: exit code 2.
    Input {
        /// What was found and what is expected, with file, line and field where there is one.
        message: String,
        /// What the user could type instead.
        hints: Vec<String>,
    },
    /// Something that should have worked did not: exit code 1.
    Failed(anyhow::Error),
    /// The user pressed Ctrl-C: exit code 130, as shells have it.
    Interrupted,
    /// The recorded program ended with this exit code, and so does the command.
    Program(u8),
    /// Whoever read our output stopped reading: not our failure, exit code 0.
    ReaderGone,
}

/// What every command returns.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Bad input without a hint.
    pub(crate) fn input(message: impl fmt::Display) -> Self {
        Self::Input { message: message.to_string(), hints: Vec::new() }
    }

    /// The same failure with one more hint; failures other than bad input stay as they are.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        if let Self::Input { hints, .. } = &mut self {
            hints.push(hint.into());
        }
        self
    }

    /// What the real machine lacks is bad input where something else could be asked of it.
    pub(crate) fn live(error: LiveError) -> Self {
        match error {
            LiveError::Counter { .. } => Self::input(error)
                .hint("corun doctor")
                .hint("--policy di, which goes by stored profiles")
                .hint("--counters model, which computes them from stored profiles"),
            LiveError::Unfit { .. } => Self::input(error).hint("corun topology"),
            LiveError::Profiles { .. }
            | LiveError::Control { .. }
            | LiveError::TwoOwners { .. }
            | LiveError::Interval { .. } => Self::input(error).hint("corun doctor"),
            other => Self::Failed(other.into()),
        }
    }

    /// A name that is not known, with what comes near it or, where nothing does, all there is.
    pub(crate) fn unknown<'a>(
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Error::unknown(what, name, known).into()
    }

    /// The process's exit code.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Input { .. } => 2,
            Self::Failed(_) => 1,
            Self::Interrupted => 130,
            Self::Program(code) => *code,
            Self::ReaderGone => 0,
        })
    }

    /// The text for stderr; empty where there is nothing to say.
    pub(crate) fn report(&self) -> String {
        match self {
            Self::Input { message, hints } => {
                let hints: String = hints.iter().map(|hint| format!("  try: {hint}\n")).collect();
                format!("corun: {message}\n{hints}")
            }
            Self::Failed(error) => format!("corun: {error:#}\n"),
            Self::Interrupted => "corun: interrupted\n".to_owned(),
            Self::Program(_) | Self::ReaderGone => String::new(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Input { message, hints } => Self::Input { message, hints },
            Error::Failed(why) => Self::Failed(anyhow::Error::from_boxed(why)),
            Error::Stopped => Self::Interrupted,
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Error::from(error).into()
    }
}

impl From<UnknownProgram> for Failure {
    fn from(error: UnknownProgram) -> Self {
        Error::from(error).into()
    }
}

impl From<MachineError> for Failure {
    fn from(error: MachineError) -> Self {
        Error::from(error).into()
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Error::from(error).into()
    }
}

impl From<PlacementError> for Failure {
    fn from(error: PlacementError) -> Self {
        Error::from(error).into()
    }
}

impl From<SimError> for Failure {
    fn from(error: SimError) -> Self {
        Error::from(error).into()
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::ReaderGone
        } else {
            Self::Failed(error.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_lists_what_is_near() {
        let failure = Failure::unknown("policy", "dia", ["di", "dio", "random"]);
        assert_eq!(failure.report(), "corun: unknown policy `dia`\n  try: di, dio\n");
    }

    #[test]
    fn a_reader_that_went_away_is_silent() {
        let gone = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(gone.report(), "");
        assert_eq!(gone.exit_code(), ExitCode::from(0));
    }
}
