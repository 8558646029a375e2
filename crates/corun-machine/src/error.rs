//! What can be wrong with a machine file.

/// A field of a machine file that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct SpecError {
    /// The field, as in the file: `object.ways`.
    pub field: String,
    /// What was found and what is expected.
    pub why: String,
}

impl SpecError {
    pub(crate) fn new(field: &str, why: String) -> Self {
        Self { field: field.to_owned(), why }
    }
}
