//! Where and why is a file that a person wrote wrong?
//!
//! A [`TomlDocument`] reads a TOML text as a type. What is wrong with it is a [`FileError`]: the file, the line, the
//! field and what was found and expected, in words that name no type of Rust.

mod error;
mod position;
mod similar_names;
mod toml_document;
mod words;

pub use error::{Fault, FileError, PathStep};
pub use position::line_at;
pub use similar_names::similar_names;
pub use toml_document::{TomlDocument, TomlFile, TomlSource, read_text};
pub use words::{did_you_mean, json_in_words};
