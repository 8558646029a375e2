//! Why a comparison, a placement or a partition is not to be had.

use std::error::Error as StdError;
use std::fmt;

use corun_machine::MachineError;
use corun_model::ModelError;
use corun_optimal::PlacementError;
use corun_profile::{FileError, UnknownProgram};
use corun_runtime::RuntimeError;
use corun_sim::SimError;

use crate::near_names::near;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Bad input.
    #[error("{message}")]
    Input {
        /// What was found and what is expected, with file, line and field where there is one.
        message: String,
        /// What could be asked for instead, as it is typed.
        hints: Vec<String>,
    },
    /// Something that should have worked did not.
    #[error(transparent)]
    Failed(Box<dyn StdError + Send + Sync>),
    /// The caller wants to stop.
    #[error("interrupted")]
    Stopped,
}

impl Error {
    /// Bad input without a hint.
    pub fn input(message: impl fmt::Display) -> Self {
        Self::Input { message: message.to_string(), hints: Vec::new() }
    }

    /// What should have worked, in words.
    pub fn failed(why: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Failed(why.into())
    }

    /// The same failure with one more hint; failures other than bad input stay as they are.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        if let Self::Input { hints, .. } = &mut self {
            hints.push(hint.into());
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
        let known: Vec<&str> = known.into_iter().collect();
        let near = near(name, &known);
        let message = format!("unknown {what} `{name}`");
        let hint = if near.is_empty() { listed(&known) } else { near.join(", ") };
        let failure = Self::input(message);
        if hint.is_empty() { failure } else { failure.hint(hint) }
    }
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
        Self::input(error).hint("corun profiles list [--profiles PATH]")
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
            SimError::Cancelled => Self::Stopped,
            SimError::App { .. } | SimError::Setting { .. } | SimError::NoApps => {
                Self::input(error)
            }
            SimError::Runtime(error) => error.into(),
            other => Self::failed(other),
        }
    }
}

#[cfg(test)]
mod tests {
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
}
