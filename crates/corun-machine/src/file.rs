//! Machine files: reading them, with errors that name line and field, and writing them.

use std::path::Path;

use corun_input::{FileError, TomlDocument};

use crate::check::sources;
use crate::{Machine, MachineError};

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
        let document = TomlDocument::parse(text, file)?;
        let machine = Self::from_spec(document.read()?);
        let machine = machine.and_then(|one| sources(one.spec()).map(|()| one));
        machine.map_err(|error| document.at_field(&error.field, error.why).into())
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
            Ok(text) if is_xml(path) => Self::from_hwloc_xml(&text, &file)?
                .with_assumed_memory()
                .map_err(|error| FileError::whole(&file, error.to_string()).into()),
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

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
