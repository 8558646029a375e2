//! Why this machine cannot be watched or acted on as asked.

use std::io;
use std::path::PathBuf;

use corun_runtime::RuntimeError;

use crate::JournalError;

/// Why this machine cannot be watched or acted on as asked.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The kernel's list of processes cannot be read.
    #[error("{}: {reason}; corun needs /proc mounted and readable", path.display())]
    Proc {
        /// What was read.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        reason: io::Error,
    },
    /// A rule names a user that this machine does not have.
    #[error("no user is called `{user}` here; expected a user's name or number")]
    UnknownUser {
        /// The name.
        user: String,
    },
    /// A rule's pattern cannot be read.
    #[error(
        "{field}: `{pattern}` is no pattern: {reason}; * stands for any text, ? for one letter"
    )]
    BadPattern {
        /// The rule's field.
        field: &'static str,
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The journal cannot be found any more by who would have to undo what is in it.
    #[error("the journal is lost: {0}")]
    Journal(#[from] JournalError),
    /// A policy cannot start or go on.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}
