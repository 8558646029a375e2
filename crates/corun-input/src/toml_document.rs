//! A versioned TOML file whose errors name the line and the field.
//!
//! The text becomes a tree that knows where each value stands, and the tree the caller's type. What that or a later
//! check finds wrong is looked up in the tree.

use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use crate::position::{field_at, key_of_line, line_at, span_of};
use crate::words::{in_words, one_line};
use crate::{Fault, FileError};

/// A TOML text and where its values stand.
#[derive(Debug)]
pub struct TomlDocument<'t> {
    file: &'t str,
    text: &'t str,
    tree: Spanned<DeTable<'t>>,
}

impl<'t> TomlDocument<'t> {
    /// Parses the text; `file` is named in errors.
    ///
    /// # Errors
    /// [`FileError`] with its line when it is no TOML.
    pub fn parse(text: &'t str, file: &'t str) -> Result<Self, FileError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match DeTable::parse(text) {
            Ok(tree) => Ok(Self { file, text, tree }),
            Err(error) => Err(FileError {
                file: file.to_owned(),
                line: error.span().map(|span| line_at(text, span.start)),
                field: error
                    .span()
                    .and_then(|span| key_of_line(text, span.start))
                    .unwrap_or_default(),
                why: format!("no TOML: {}", one_line(error.message())),
            }),
        }
    }

    /// Checks the key `version` before the rest, so that a file of a later version is told apart
    /// from a broken one. An absent one is accepted where `required` is false.
    ///
    /// # Errors
    /// [`FileError`] when it is another, or missing where it is required.
    pub fn check_version(&self, supported: u32, required: bool) -> Result<(), FileError> {
        self.check_versions(supported, &[], required).map(|_| ())
    }

    /// The same where earlier versions are read too. The version that was found.
    ///
    /// # Errors
    /// As [`Self::check_version`].
    pub fn check_versions(
        &self,
        supported: u32,
        earlier: &[u32],
        required: bool,
    ) -> Result<u32, FileError> {
        let older: String = earlier.iter().map(|version| format!(", or {version}")).collect();
        let expected = format!("expected {supported}, the version this build reads{older}");
        let Some(value) = self.tree.get_ref().get("version") else {
            if !required {
                return Ok(supported);
            }
            let why = format!("missing; {expected}");
            return Err(FileError { field: "version".to_owned(), ..self.error(None, why) });
        };
        let found = match value.get_ref() {
            DeValue::Integer(number) => {
                let read = number.as_str();
                let mut known = std::iter::once(&supported).chain(earlier);
                if let Some(&version) = known.find(|version| version.to_string() == read) {
                    return Ok(version);
                }
                read.to_owned()
            }
            other => format!("a {}", other.type_str()),
        };
        let why = format!("found {found}, {expected}");
        let field = "version".to_owned();
        Err(FileError { field, ..self.error(Some(value.span()), why) })
    }

    /// Reads the document as a type.
    ///
    /// # Errors
    /// [`FileError`] with line and field: a key missing, unknown or of the wrong type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, FileError> {
        T::deserialize(Deserializer::from(self.tree.clone())).map_err(|error| {
            let span = error.span();
            // What the whole document lacks is at no key.
            let span = span.filter(|span| *span != (0..0));
            let field = span.as_ref().map(|span| field_at(self.tree.get_ref(), span));
            let why = in_words(&one_line(error.message()));
            FileError { field: field.unwrap_or_default(), ..self.error(span, why) }
        })
    }

    /// The file error of a fault found in what was read.
    pub fn locate(&self, fault: &Fault) -> FileError {
        self.at_field(&fault.field(), fault.why.clone())
    }

    /// The file error of a field, as `phase[1].threads`: with its line, or that of the last part on the way to it that
    /// the text has.
    pub fn at_field(&self, field: &str, why: impl Into<String>) -> FileError {
        let span = span_of(self.tree.get_ref(), field);
        FileError { field: field.to_owned(), ..self.error(span, why.into()) }
    }

    fn error(&self, span: Option<Range<usize>>, why: String) -> FileError {
        FileError {
            file: self.file.to_owned(),
            line: span.map(|span| line_at(self.text, span.start)),
            field: String::new(),
            why,
        }
    }
}

/// A file's name and its text, kept for what is found wrong only later: a name that a library does not hold, a node that
/// a machine does not have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TomlSource {
    file: String,
    text: String,
}

impl TomlSource {
    /// A file's name and its text.
    pub fn new(file: String, text: String) -> Self {
        Self { file, text }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`read_text`].
    pub fn load(path: &Path) -> Result<Self, FileError> {
        Ok(Self { file: path.display().to_string(), text: read_text(path)? })
    }

    /// The file's name.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The file's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// As [`TomlDocument::locate`].
    pub fn error(&self, fault: &Fault) -> FileError {
        self.at_field(&fault.field(), &fault.why)
    }

    /// As [`TomlDocument::at_field`].
    pub fn at_field(&self, field: &str, why: impl Into<String>) -> FileError {
        match TomlDocument::parse(&self.text, &self.file) {
            Ok(document) => document.at_field(field, why),
            Err(error) => error,
        }
    }
}

/// A description that is kept in a TOML file with a version.
pub trait TomlFile: DeserializeOwned {
    /// The version of the file that this build reads, and that of a file which names none.
    const VERSION: u32;

    /// Are all figures such as can be, and all names such as are known?
    ///
    /// # Errors
    /// The first that is not, with its place in the file.
    fn check(&self) -> Result<(), Fault>;

    /// Reads a file's text; `file` is named in errors.
    ///
    /// # Errors
    /// [`FileError`] with line and field: no TOML, another version, a key missing, unknown or of the wrong type, or
    /// what [`Self::check`] refuses.
    fn from_toml(text: &str, file: &str) -> Result<Self, FileError> {
        let document = TomlDocument::parse(text, file)?;
        document.check_version(Self::VERSION, false)?;
        let read: Self = document.read()?;
        read.check().map_err(|fault| document.locate(&fault))?;
        Ok(read)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be read, or as [`Self::from_toml`].
    fn load(path: &Path) -> Result<Self, FileError> {
        Self::from_toml(&read_text(path)?, &path.display().to_string())
    }
}

/// Reads a text file.
///
/// # Errors
/// [`FileError`] with what the operating system says.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    std::fs::read_to_string(path).map_err(|error| {
        FileError::whole(&path.display().to_string(), format!("cannot be read: {error}"))
    })
}
