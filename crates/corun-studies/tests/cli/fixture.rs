//! Inputs made by the tests themselves, and the program run on them.

use std::path::PathBuf;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

#[path = "../../src/stand_ins.rs"]
mod stand_ins;

/// A folder with inputs.
pub(crate) struct Fixture {
    folder: TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// With a folder `spec` of profiles by the names of SPEC programs.
    pub(crate) fn with_stand_ins() -> Self {
        Self::with_longer_stand_ins(1)
    }

    /// The same, with programs so many times as long.
    pub(crate) fn with_longer_stand_ins(longer: u64) -> Self {
        let fixture = Self::new();
        std::fs::create_dir(fixture.path("spec")).unwrap();
        stand_ins::write(&fixture.path("spec"), longer, None);
        fixture
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Runs the program in the folder.
    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("corun-study"));
        Ran(command.current_dir(self.folder.path()).args(words).output().unwrap())
    }
}

/// What came of a run.
pub(crate) struct Ran(Output);

impl Ran {
    fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    /// Standard output of a study that did what was asked.
    pub(crate) fn done(&self) -> String {
        assert_eq!(self.0.status.code(), Some(0), "{}", self.stderr());
        assert_eq!(self.stderr(), "");
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    /// Its JSON document.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.done()).unwrap()
    }

    /// Refused as bad input: exit code 2, nothing on stdout, all these words on stderr.
    pub(crate) fn refused(&self, words: &[&str]) {
        let stderr = self.stderr();
        assert_eq!(self.0.status.code(), Some(2), "{stderr}");
        assert!(self.0.stdout.is_empty());
        assert!(stderr.starts_with("corun-study: "), "{stderr}");
        for word in words {
            assert!(stderr.contains(word), "no `{word}` in: {stderr}");
        }
    }
}

/// The rows of a figure of a study's document.
pub(crate) fn rows<'a>(study: &'a Value, id: &str) -> &'a [Value] {
    let figures = study["figures"].as_array().unwrap();
    let figure = figures.iter().find(|figure| figure["id"] == id);
    figure.unwrap_or_else(|| panic!("no figure {id}"))["rows"].as_array().unwrap()
}

/// The number in a column of a row.
pub(crate) fn number(row: &Value, column: usize) -> f64 {
    row[column].as_f64().unwrap_or_else(|| panic!("{row}, column {column}"))
}
