//! What can be wrong with a machine, and where in its file.

use corun_input::FileError;

/// A field of a machine that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct SpecError {
    /// The way to the field from the top of the file: `object[0].object[1].ways`.
    pub field: String,
    /// What was found and what is expected.
    pub why: String,
}

impl SpecError {
    pub(crate) fn new(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self { field: field.into(), why: why.into() }
    }
}

/// A machine file, or the name of a preset, that gives no machine.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The file cannot be read.
    #[error("{file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The file is no machine file.
    #[error(transparent)]
    Invalid(#[from] FileError),
    /// No preset and no file has this name.
    #[error("no preset and no file is called `{name}`; {}", suggestion(near))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// Presets with a name like it, nearest first; all presets where none is like it.
        near: Vec<String>,
    },
    /// The machine has no such kind of core.
    #[error("{machine} has no core type `{name}`; it has {}", known.join(", "))]
    UnknownCoreType {
        /// The machine.
        machine: String,
        /// The core type that was asked for.
        name: String,
        /// Those it has.
        known: Vec<String>,
    },
}

fn suggestion(near: &[String]) -> String {
    format!("presets like it: {}", near.join(", "))
}
