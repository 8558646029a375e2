//! A versioned TOML file whose errors name the line and the field.
//!
//! The text is parsed twice: once into a tree that knows where each value stands, once into the
//! caller's type. What the second parse or a later check finds wrong is looked up in the first.

use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::bad_input::{Fault, FileError, PathStep, line_at};
use crate::profile_file::read_text;

/// A TOML text and where its values stand.
#[derive(Debug)]
pub struct TomlDocument<'t> {
    file: &'t str,
    text: &'t str,
    tree: DeTable<'t>,
}

impl<'t> TomlDocument<'t> {
    /// Parses the text; `file` is named in errors.
    ///
    /// # Errors
    /// [`FileError`] with its line when it is no TOML.
    pub fn parse(text: &'t str, file: &'t str) -> Result<Self, FileError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match DeTable::parse(text) {
            Ok(tree) => Ok(Self { file, text, tree: tree.into_inner() }),
            Err(error) => Err(FileError {
                file: file.to_owned(),
                line: error.span().map(|span| line_at(text, span.start)),
                field: String::new(),
                why: format!("no TOML: {}", one_line(error.message())),
            }),
        }
    }

    /// Checks the key `version` before the rest, so that a file of a later version is told apart
    /// from a broken one. An absent one is accepted where `required` is false.
    ///
    /// # Errors
    /// [`FileError`] when it is another, or missing where it is required.
    pub(crate) fn check_version(&self, supported: u32, required: bool) -> Result<(), FileError> {
        self.check_versions(supported, &[], required).map(|_| ())
    }

    /// The same where earlier versions are read too. The version that was found.
    ///
    /// # Errors
    /// As [`Self::check_version`].
    pub(crate) fn check_versions(
        &self,
        supported: u32,
        earlier: &[u32],
        required: bool,
    ) -> Result<u32, FileError> {
        let older: String = earlier.iter().map(|version| format!(", or {version}")).collect();
        let expected = format!("expected {supported}, the version this build reads{older}");
        let Some(value) = self.tree.get("version") else {
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
        toml::from_str(self.text).map_err(|error| {
            let span = error.span();
            // What the whole document lacks is at no key.
            let span = span.filter(|span| *span != (0..0));
            let field = span.as_ref().map(|span| self.field_at(span)).unwrap_or_default();
            let why = in_words(&one_line(error.message()));
            FileError { field, ..self.error(span, why) }
        })
    }

    /// The file error of a fault found in what was read.
    pub fn locate(&self, fault: &Fault) -> FileError {
        let span = self.span_of(&fault.path);
        FileError { field: fault.field(), ..self.error(span, fault.why.clone()) }
    }

    fn error(&self, span: Option<Range<usize>>, why: String) -> FileError {
        FileError {
            file: self.file.to_owned(),
            line: span.map(|span| line_at(self.text, span.start)),
            field: String::new(),
            why,
        }
    }

    /// Where the value at the end of a path stands, or the last one on the way that exists.
    fn span_of(&self, path: &[PathStep]) -> Option<Range<usize>> {
        let mut span = None;
        let mut table = Some(&self.tree);
        let mut array = None;
        for step in path {
            let value = match step {
                PathStep::Key(key) => table.and_then(|inside: &DeTable<'_>| inside.get(*key)),
                PathStep::Index(index) => array.and_then(|items: &DeArray<'_>| items.get(*index)),
            };
            let Some(value) = value else { return span };
            span = Some(value.span());
            table = value.get_ref().as_table();
            array = value.get_ref().as_array();
        }
        span
    }

    /// The name of the innermost value that holds a span.
    fn field_at(&self, span: &Range<usize>) -> String {
        let mut innermost = String::new();
        search_table(&self.tree, span, "", &mut innermost);
        innermost
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

fn holds(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// Finds the innermost value that holds a span. The span of a table under a `[header]` is that of
/// its header, so that a value inside need not lie in it: all are searched.
fn search_table(table: &DeTable<'_>, span: &Range<usize>, name: &str, innermost: &mut String) {
    for (key, value) in table {
        let dot = if name.is_empty() { "" } else { "." };
        let name = format!("{name}{dot}{}", key.get_ref());
        if holds(&key.span(), span) {
            innermost.clone_from(&name);
        }
        search_value(value, span, &name, innermost);
    }
}

fn search_value(
    value: &Spanned<DeValue<'_>>,
    span: &Range<usize>,
    name: &str,
    innermost: &mut String,
) {
    if holds(&value.span(), span) {
        name.clone_into(innermost);
    }
    match value.get_ref() {
        DeValue::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                search_value(item, span, &format!("{name}[{index}]"), innermost);
            }
        }
        DeValue::Table(table) => search_table(table, span, name, innermost),
        _ => {}
    }
}

/// A parser's message that names types of Rust's, in words.
pub fn in_words(message: &str) -> String {
    let Some((found, expected)) = message.rsplit_once(", expected ") else {
        return message.to_owned();
    };
    let words = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other => other.replace("a tuple of size ", "a list of "),
    };
    let found = found.replace("` as i128", "`").replace(" as i128", "");
    let found = found.replace("type: map", "type: table").replace("type: sequence", "type: list");
    format!("{found}, expected {words}")
}

/// What a reader of JSON finds wrong, in words and without its place.
pub fn json_in_words(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    in_words(text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what))
}

/// A parser's message on one line.
fn one_line(message: &str) -> String {
    message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_type_of_rusts_is_named() {
        for (message, words) in [
            ("found, expected u32", "found, expected a whole number"),
            ("integer `9` as i128, expected u32", "integer `9`, expected a whole number"),
            ("length 1, expected a tuple of size 2", "length 1, expected a list of 2"),
            ("invalid type: map, expected a sequence", "invalid type: table, expected a list"),
            ("unit, expected struct Line with 6 elements", "unit, expected a table"),
            ("unknown field `a`, expected `b`", "unknown field `a`, expected `b`"),
        ] {
            assert_eq!(in_words(message), words);
        }
        let error = serde_json::from_str::<u32>("\"a\"").unwrap_err();
        let words = "invalid type: string \"a\", expected a whole number";
        assert_eq!(json_in_words(&error), words);
    }
}
