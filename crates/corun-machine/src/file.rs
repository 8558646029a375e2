//! Machine files: reading them, with errors that name line and field, and writing them.

use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use crate::check::sources;
use crate::{Machine, MachineError, MachineSpec, Place};

/// Is it a file of hwloc's, by its name?
pub(crate) fn is_xml(path: &Path) -> bool {
    path.extension().is_some_and(|one| one.eq_ignore_ascii_case("xml"))
}

impl Machine {
    /// Builds a machine from the text of a machine file; `file` is its name in errors.
    ///
    /// # Errors
    /// [`MachineError::Invalid`] names the line and the field, what was found and what is expected.
    pub fn from_toml(text: &str, file: &str) -> Result<Self, MachineError> {
        let spec: MachineSpec = toml::from_str(text).map_err(|error| MachineError::Invalid {
            file: file.to_owned(),
            // What the whole file lacks is at no key.
            place: error
                .span()
                .filter(|span| *span != (0..0))
                .map(|span| place_of(text, &span))
                .unwrap_or_default(),
            why: in_words(error.message()),
        })?;
        let machine = Self::from_spec(spec);
        let machine = machine.and_then(|one| sources(one.spec()).map(|()| one));
        machine.map_err(|error| MachineError::Invalid {
            file: file.to_owned(),
            place: Place { line: line_of_field(text, &error.field), field: Some(error.field) },
            why: error.why,
        })
    }

    /// Reads a machine file, or the XML that hwloc writes where the name ends in `.xml`: what that
    /// does not tell of memory is assumed, see [`Machine::with_assumed_memory`].
    ///
    /// # Errors
    /// [`MachineError::Read`] where it cannot be read, else as [`Machine::from_toml`] and
    /// [`Machine::from_hwloc_xml`].
    pub fn load(path: &Path) -> Result<Self, MachineError> {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) if is_xml(path) => {
                Self::from_hwloc_xml(&text, &file)?.with_assumed_memory().map_err(|error| {
                    let why = error.to_string();
                    MachineError::Invalid { file, place: Place::default(), why }
                })
            }
            Ok(text) => Self::from_toml(&text, &file),
            Err(source) => Err(MachineError::Read { file, source }),
        }
    }

    /// The machine as a machine file; what had to be assumed stands on top as comments.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for warning in self.warnings() {
            text.push_str(&format!("# Assumed: {}\n", warning.replace('\n', " ")));
        }
        // A spec holds strings, numbers, lists and tables alone: all of that TOML can say.
        text.push_str(&toml::to_string(self.spec()).unwrap_or_default());
        text
    }
}

/// A parser's message that names types of Rust's, in words.
fn in_words(message: &str) -> String {
    let Some((found, expected)) = message.rsplit_once(", expected ") else {
        return message.to_owned();
    };
    let words = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number".to_owned(),
        "f64" => "a number".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other => other.replace("a tuple of size ", "a list of "),
    };
    let found = found.replace("` as i128", "`").replace(" as i128", "");
    let found = found.replace("type: map", "type: table").replace("type: sequence", "type: list");
    format!("{found}, expected {words}")
}

fn line_at(text: &str, byte: usize) -> usize {
    1 + text.as_bytes().iter().take(byte).filter(|&&byte| byte == b'\n').count()
}

/// The line of a place in the text, and the innermost field around it.
fn place_of(text: &str, span: &Range<usize>) -> Place {
    let field = DeTable::parse(text).ok().and_then(|table| {
        let mut way = String::new();
        innermost(table.get_ref(), span, &mut way);
        Some(way).filter(|way| !way.is_empty())
    });
    Place { line: Some(line_at(text, span.start)), field }
}

fn innermost(table: &DeTable<'_>, span: &Range<usize>, way: &mut String) {
    let around = |outer: &Range<usize>| outer.start <= span.start && span.end <= outer.end;
    let reach = |value: &DeValue<'_>| value.as_table().is_some() || value.as_array().is_some();
    for (key, value) in table {
        let hit = around(&key.span()) || around(&value.span());
        if !hit && !reach(value.get_ref()) {
            continue;
        }
        let before = way.len();
        if !way.is_empty() {
            way.push('.');
        }
        way.push_str(key.get_ref());
        let named = way.len();
        inside(value.get_ref(), span, way);
        if hit || way.len() > named {
            return;
        }
        way.truncate(before);
    }
}

fn inside(value: &DeValue<'_>, span: &Range<usize>, way: &mut String) {
    if let Some(table) = value.as_table() {
        innermost(table, span, way);
    }
    for (place, item) in value.as_array().into_iter().flatten().enumerate() {
        let before = way.len();
        way.push_str(&format!("[{place}]"));
        let named = way.len();
        inside(item.get_ref(), span, way);
        let around = item.span().start <= span.start && span.end <= item.span().end;
        if around || way.len() > named {
            return;
        }
        way.truncate(before);
    }
}

/// The line of a field such as `object[0].object[1].ways`; that of the innermost part of the way
/// that the text has, where the field itself is missing.
fn line_of_field(text: &str, field: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let root = DeValue::Table(table.into_inner());
    let mut at = &root;
    let mut found = None;
    for part in field.split('.') {
        let mut steps = part.split('[');
        let Some((key, value)) =
            at.as_table().and_then(|table| table.get_key_value(steps.next().unwrap_or_default()))
        else {
            break;
        };
        // The header of a table stands where its span starts, the key of a figure before it.
        found = Some(if value.get_ref().is_table() { value.span() } else { key.span() });
        at = value.get_ref();
        for step in steps {
            let place = step.trim_end_matches(']').parse::<usize>().ok();
            let Some(item) = place.and_then(|place| at.as_array()?.get(place)) else { break };
            found = Some(item.span());
            at = item.get_ref();
        }
    }
    found.map(|span| line_at(text, span.start))
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
