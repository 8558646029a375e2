//! The machines that come with the crate, one file each in `machines/`, built into the binary.

use std::path::Path;

use corun_input::similar_names;
use include_dir::{Dir, include_dir};

use crate::file::is_xml;
use crate::{Machine, MachineError};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/machines");

/// The names of the presets, in alphabetical order.
pub fn presets() -> Vec<&'static str> {
    let mut names: Vec<&str> =
        FILES.files().filter_map(|file| file.path().to_str()?.strip_suffix(".toml")).collect();
    names.sort_unstable();
    names
}

/// A preset by its name.
///
/// # Errors
/// [`MachineError::Unknown`] lists presets with a name like it.
pub fn preset(name: &str) -> Result<Machine, MachineError> {
    let file = format!("{name}.toml");
    match FILES.get_file(&file).and_then(|file| file.contents_utf8()) {
        Some(text) => Machine::from_toml(text, &format!("machines/{file}")),
        None => Err(MachineError::Unknown { name: name.to_owned(), near: near(name) }),
    }
}

/// A preset by its name, else a machine file or an XML file of hwloc by its path.
///
/// # Errors
/// [`MachineError::Unknown`] where there is neither, else as [`Machine::load`].
pub fn resolve(name_or_path: &str) -> Result<Machine, MachineError> {
    let path = Path::new(name_or_path);
    let meant_as_file =
        name_or_path.contains('/') || name_or_path.ends_with(".toml") || is_xml(path);
    match preset(name_or_path) {
        Err(MachineError::Unknown { .. }) if meant_as_file || path.is_file() => Machine::load(path),
        other => other,
    }
}

/// Presets that contain the name or are spelt like it, nearest first; all where none is.
fn near(name: &str) -> Vec<String> {
    let all = presets();
    let near = similar_names(name, &all);
    let shown = if near.is_empty() { all } else { near };
    shown.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
#[path = "presets_tests.rs"]
mod tests;
