//! What is wrong with an input file, and where.

use std::fmt;

/// A file that cannot be used: which, where in it, what was found and what is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The file, as the person named it.
    pub file: String,
    /// The line, from 1, where there is one.
    pub line: Option<u64>,
    /// The field, as `phase[1].prefetchable`; empty where no field is meant.
    pub field: String,
    /// What was found and what is expected.
    pub why: String,
}

impl FileError {
    /// An error about the file as a whole.
    pub fn whole(file: &str, why: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: None, field: String::new(), why: why.into() }
    }

    /// The file as a whole, or a field of it whose line is not known, with what a check found.
    pub fn of_fault(file: &str, fault: &Fault) -> Self {
        Self { field: fault.field(), ..Self::whole(file, fault.why.clone()) }
    }

    /// An error at a line.
    pub fn at(file: &str, line: u64, field: &str, why: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: Some(line), field: field.to_owned(), why: why.into() }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(out, ":{line}")?;
        }
        out.write_str(": ")?;
        if !self.field.is_empty() {
            write!(out, "{}: ", self.field)?;
        }
        out.write_str(&self.why)
    }
}

impl std::error::Error for FileError {}

/// One step of the way from the top of a document to a value in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathStep {
    /// Into a table, by key.
    Key(&'static str),
    /// Into an array, by index from 0.
    Index(usize),
}

/// A value that cannot be, and its place in the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The way to the value.
    pub path: Vec<PathStep>,
    /// What was found and what is expected.
    pub why: String,
}

impl Fault {
    /// A fault of the value itself; the callers above put their steps before it.
    pub fn here(why: impl Into<String>) -> Self {
        Self { path: Vec::new(), why: why.into() }
    }

    /// The same fault seen from the table or array that holds the value.
    pub fn under(mut self, step: PathStep) -> Self {
        self.path.insert(0, step);
        self
    }

    /// The place, as `phase[1].prefetchable`.
    pub fn field(&self) -> String {
        field_name(&self.path)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return out.write_str(&self.why);
        }
        write!(out, "{}: {}", self.field(), self.why)
    }
}

impl std::error::Error for Fault {}

fn field_name(path: &[PathStep]) -> String {
    let mut name = String::new();
    for step in path {
        match step {
            PathStep::Key(key) if name.is_empty() => name.push_str(key),
            PathStep::Key(key) => {
                name.push('.');
                name.push_str(key);
            }
            PathStep::Index(index) => name.push_str(&format!("[{index}]")),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_file_line_and_field() {
        let error = FileError::at("a.toml", 3, "phase[0].threads", "found 0");
        assert_eq!(error.to_string(), "a.toml:3: phase[0].threads: found 0");
        assert_eq!(FileError::whole("a.toml", "is empty").to_string(), "a.toml: is empty");
    }

    #[test]
    fn a_fault_names_its_place() {
        let fault = Fault::here("found 2").under(PathStep::Index(1)).under(PathStep::Key("curve"));
        let fault = fault.under(PathStep::Index(0)).under(PathStep::Key("phase"));
        assert_eq!(fault.to_string(), "phase[0].curve[1]: found 2");
    }
}
