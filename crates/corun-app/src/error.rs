//! Why a question has no answer, the text for the user, and the exit code for a script.

use std::collections::BTreeSet;
use std::fmt;
use std::io;

use corun_input::{FileError, similar_names};
use corun_live::LiveError;
use corun_machine::MachineError;
use corun_model::ModelError;
use corun_optimal::PlacementError;
use corun_profile::UnknownProgram;
use corun_runtime::RuntimeError;
use corun_sim::SimError;

/// What everything here returns.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Wrong usage or bad input: exit code 2.
    #[error("{message}")]
    Input {
        /// What was found and what is expected, with file, line and field where there is one.
        message: String,
        /// What the user could type instead.
        hints: Vec<String>,
    },
    /// Something that should have worked did not: exit code 1.
    #[error(transparent)]
    Failed(anyhow::Error),
    /// The user pressed Ctrl-C, or the caller wants to stop: exit code 130, as shells have it.
    #[error("interrupted")]
    Interrupted,
    /// A program that was started for the user ended with this exit code, which becomes ours.
    #[error("the program ended with exit code {0}")]
    Program(u8),
    /// Whoever read our output stopped reading: exit code 0.
    #[error("nobody reads the output any more")]
    ReaderGone,
}

impl Error {
    /// Bad input without a hint.
    pub fn input(message: impl fmt::Display) -> Self {
        Self::Input { message: message.to_string(), hints: Vec::new() }
    }

    /// Something that should have worked and did not.
    pub fn failed(why: impl Into<anyhow::Error>) -> Self {
        Self::Failed(why.into())
    }

    /// As [`Self::live`], of a recording: what it lacks cannot be counted any more.
    pub fn of_recording(error: LiveError) -> Self {
        match error {
            LiveError::Runtime(RuntimeError::Counter { .. }) => Self::input(error)
                .hint("--policy di, which goes by stored profiles")
                .hint("a recording with --counters model"),
            other => Self::live(other),
        }
    }

    /// What the real machine lacks is bad input where something else could be asked of it.
    pub fn live(error: LiveError) -> Self {
        match error {
            LiveError::Runtime(RuntimeError::Counter { .. }) => Self::input(error)
                .hint("corun doctor")
                .hint("--policy di, which goes by stored profiles")
                .hint("--counters model, which computes them from stored profiles"),
            LiveError::Runtime(RuntimeError::Unfit { .. }) => {
                Self::input(error).hint("corun topology")
            }
            LiveError::Runtime(RuntimeError::Interval { .. }) => {
                Self::input(error).hint("corun doctor")
            }
            LiveError::UnknownUser { .. } => Self::input(error).hint("getent passwd"),
            LiveError::Runtime(refused) if refused.is_refusal() => {
                Self::input(refused).hint("corun doctor")
            }
            other => Self::failed(other),
        }
    }

    /// The same failure with one more hint; failures other than bad input stay as they are.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        if let Self::Input { hints, .. } = &mut self {
            hints.push(hint.into());
        }
        self
    }

    /// The same bad input with its hints as a configuration file has them: `--policy di, which ..` is
    /// `policy = "di", which ..` there.
    #[must_use]
    pub fn in_settings(mut self) -> Self {
        if let Self::Input { hints, .. } = &mut self {
            hints.iter_mut().for_each(|hint| *hint = setting(hint));
        }
        self
    }

    /// The same bad input with the option that said so; other failures stay as they are.
    #[must_use]
    pub fn of_option(mut self, option: &str) -> Self {
        if let Self::Input { message, .. } = &mut self {
            *message = format!("{option}: {message}");
        }
        self
    }

    /// The same bad input with its place in a file; other failures stay as they are.
    #[must_use]
    pub fn at(mut self, place: impl FnOnce(String) -> FileError) -> Self {
        if let Self::Input { message, .. } = &mut self {
            *message = place(std::mem::take(message)).to_string();
        }
        self
    }

    /// A name that is not known, with what comes near it or, where nothing does, all there is.
    pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let mut known: Vec<&str> = known.into_iter().collect();
        // Several policies may have a parameter of one name.
        let mut seen = BTreeSet::new();
        known.retain(|name| seen.insert(*name));
        let near = similar_names(name, &known);
        let message = format!("unknown {what} `{name}`");
        let hint = if near.is_empty() { listed(&known) } else { near.join(", ") };
        let failure = Self::input(message);
        if hint.is_empty() { failure } else { failure.hint(hint) }
    }

    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Input { .. } => 2,
            Self::Failed(_) => 1,
            Self::Interrupted => 130,
            Self::Program(code) => *code,
            Self::ReaderGone => 0,
        }
    }

    /// The text for stderr, which the command's name and a colon go before; empty where there is
    /// nothing to say.
    pub fn report(&self) -> String {
        match self {
            Self::Input { message, hints } => {
                let hints: String = hints.iter().map(|hint| format!("  try: {hint}\n")).collect();
                format!("{message}\n{hints}")
            }
            Self::Failed(error) => format!("{error:#}\n"),
            Self::Interrupted => "interrupted\n".to_owned(),
            Self::Program(_) | Self::ReaderGone => String::new(),
        }
    }
}

/// A hint that begins with an option, with the setting of that name in its place; any other hint as it is.
fn setting(hint: &str) -> String {
    let Some(option) = hint.strip_prefix("--") else { return hint.to_owned() };
    let (option, rest) = match option.split_once(", ") {
        Some((option, rest)) => (option, format!(", {rest}")),
        None => (option, String::new()),
    };
    let (name, value) = match option.split_once(' ') {
        Some((name, value)) => (name, format!("\"{value}\"")),
        None => (option, "true".to_owned()),
    };
    format!("{} = {value}{rest}", name.replace('-', "_"))
}

/// The first names of a list, for a message.
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 24;
    let more = names.len().saturating_sub(SHOWN);
    let mut text = names[..names.len() - more].join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

impl From<FileError> for Error {
    fn from(error: FileError) -> Self {
        Self::input(error)
    }
}

impl From<UnknownProgram> for Error {
    fn from(error: UnknownProgram) -> Self {
        let is_shipped = corun_profile::shipped_names().contains(&error.name.as_str());
        let error = Self::input(error).hint("corun profiles list [--profiles PATH]");
        if is_shipped {
            error.hint("own profiles beside the shipped ones: --profiles PATH,shipped")
        } else {
            error
        }
    }
}

impl From<MachineError> for Error {
    fn from(error: MachineError) -> Self {
        match error {
            MachineError::Unknown { name, near } => {
                Self::input(format!("no machine preset and no file is called `{name}`"))
                    .hint(near.join(", "))
                    .hint("corun topology --list")
            }
            other => Self::input(other),
        }
    }
}

impl From<ModelError> for Error {
    fn from(error: ModelError) -> Self {
        Self::input(error)
    }
}

impl From<PlacementError> for Error {
    fn from(error: PlacementError) -> Self {
        Self::input(error)
    }
}

impl From<RuntimeError> for Error {
    fn from(error: RuntimeError) -> Self {
        if error.is_refusal() { Self::input(error) } else { Self::failed(error) }
    }
}

impl From<SimError> for Error {
    fn from(error: SimError) -> Self {
        match error {
            SimError::Cancelled => Self::Interrupted,
            SimError::App { .. } | SimError::Setting { .. } | SimError::NoApps => {
                Self::input(error)
            }
            SimError::Runtime(error) => error.into(),
            other => Self::failed(other),
        }
    }
}

impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::ReaderGone
        } else {
            Self::failed(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn parts(error: Error) -> (String, Vec<String>) {
        match error {
            Error::Input { message, hints } => (message, hints),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn an_unknown_name_lists_what_is_near() {
        let (message, hints) = parts(Error::unknown("policy", "dia", ["di", "dio", "random"]));
        assert_eq!((message.as_str(), hints), ("unknown policy `dia`", vec!["di, dio".to_owned()]));
    }

    #[test]
    fn with_nothing_near_all_are_listed() {
        let (_, hints) = parts(Error::unknown("machine", "zzz", ["alpha", "beta"]));
        assert_eq!(hints, ["alpha, beta"]);
    }

    #[test]
    fn a_report_says_why_and_what_to_try() {
        let failure = Error::unknown("policy", "dia", ["di", "dio", "random"]);
        assert_eq!(failure.report(), "unknown policy `dia`\n  try: di, dio\n");
        let failure = Error::failed(anyhow!("no such core").context("cannot read cpu3"));
        assert_eq!(failure.report(), "cannot read cpu3: no such core\n");
    }

    #[test]
    fn hints_name_settings_where_a_file_said_what_is_wrong() {
        let failure = Error::input("no counters")
            .hint("corun doctor")
            .hint("--policy di, which goes by stored profiles")
            .hint("--spill-after never")
            .hint("--untested");
        let expected = [
            "corun doctor",
            "policy = \"di\", which goes by stored profiles",
            "spill_after = \"never\"",
            "untested = true",
        ];
        assert_eq!(parts(failure.in_settings()).1, expected);
    }

    #[test]
    fn a_reader_that_went_away_is_silent() {
        let gone = Error::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((gone.report(), gone.exit_code()), (String::new(), 0));
    }
}
