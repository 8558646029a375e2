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

/// The line, from 1, of a byte of a text.
pub(crate) fn line_at(text: &str, byte: usize) -> u64 {
    let before = &text.as_bytes()[..byte.min(text.len())];
    1 + before.iter().filter(|&&one| one == b'\n').count() as u64
}

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

/// The most events of a kind per 1000 instructions that are taken for a figure: a million an
/// instruction, which no program but one long string instruction comes near.
pub(crate) const MOST_PKI: f64 = 1e9;

/// The most instructions a cycle that are taken for a figure: far beyond any core.
const MOST_IPC: f64 = 100.0;

/// What a number must be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expected {
    /// A finite number >= 0.
    Rate,
    /// A number of events per 1000 instructions, from 0 to [`MOST_PKI`].
    PerThousand,
    /// A finite number > 0.
    Positive,
    /// Instructions per cycle: above 0, at most [`MOST_IPC`].
    Ipc,
    /// 0 to 1.
    Share,
    /// Above 0, at most 1.
    NonzeroShare,
    /// 1 to 1e6: far beyond the misses that any program or core has standing.
    AtLeastOne,
}

impl Expected {
    fn accepts(self, value: f64) -> bool {
        value.is_finite()
            && match self {
                Self::Rate => value >= 0.0,
                Self::PerThousand => (0.0..=MOST_PKI).contains(&value),
                Self::Positive => value > 0.0,
                Self::Ipc => value > 0.0 && value <= MOST_IPC,
                Self::Share => (0.0..=1.0).contains(&value),
                Self::NonzeroShare => value > 0.0 && value <= 1.0,
                Self::AtLeastOne => (1.0..=1e6).contains(&value),
            }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Rate => "a number >= 0",
            Self::PerThousand => "a number from 0 to 1e9",
            Self::Positive => "a number > 0",
            Self::Ipc => "a number above 0 and at most 100",
            Self::Share => "a share from 0 to 1",
            Self::NonzeroShare => "a share above 0 and at most 1",
            Self::AtLeastOne => "a number from 1 to 1e6",
        }
    }

    /// Checks a number; the error is the text for people.
    pub(crate) fn test(self, value: f64) -> Result<(), String> {
        if self.accepts(value) {
            return Ok(());
        }
        Err(format!("found {value}, expected {}", self.text()))
    }

    /// Checks the number under a key.
    pub(crate) fn check(self, key: &'static str, value: f64) -> Result<(), Fault> {
        self.test(value).map_err(|why| Fault::here(why).under(PathStep::Key(key)))
    }
}

/// Checks that the count under a key is at least 1.
pub(crate) fn check_count(key: &'static str, value: u64) -> Result<(), Fault> {
    if value >= 1 {
        return Ok(());
    }
    Err(Fault::here("found 0, expected a whole number >= 1").under(PathStep::Key(key)))
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

    #[test]
    fn numbers_are_held_to_what_is_expected() {
        for (expected, good, bad) in [
            (Expected::Rate, 0.0, -0.1),
            (Expected::PerThousand, 1e9, 1.1e9),
            (Expected::PerThousand, 0.0, -0.1),
            (Expected::Positive, 0.1, 0.0),
            (Expected::Ipc, 100.0, 101.0),
            (Expected::Ipc, 0.1, 0.0),
            (Expected::Share, 1.0, 1.1),
            (Expected::NonzeroShare, 1.0, 0.0),
            (Expected::AtLeastOne, 1.0, 0.9),
        ] {
            assert_eq!(expected.test(good), Ok(()));
            assert!(expected.test(bad).is_err());
            assert!(expected.test(f64::NAN).is_err());
            assert!(expected.test(f64::INFINITY).is_err());
        }
    }
}
