//! Inputs made by the tests themselves, and the program run on them.

use std::path::PathBuf;
use std::process::Output;

use assert_cmd::Command;
use corun_profile::{Library, Profile, ProfileData, Recording};
use serde_json::Value;
use tempfile::TempDir;

/// The SPEC programs that studies name, and the shipped program that stands for each in tests: of
/// much the same kind, with figures of its own.
const STAND_INS: [(&str, &str); 20] = [
    ("mcf06", "kernel-hash-join"),
    ("lbm06", "kernel-triad"),
    ("milc06", "numpy"),
    ("soplex06", "igraph"),
    ("libquantum06", "kernel-stencil"),
    ("omnetpp06", "xsltproc"),
    ("sphinx306", "pocketsphinx"),
    ("gcc06", "cc1"),
    ("gobmk06", "gnugo"),
    ("perlbench06", "perl"),
    ("h264ref06", "x264"),
    ("gamess06", "flac"),
    ("namd06", "lammps"),
    ("povray06", "povray"),
    ("GemsFDTD06", "stockfish"),
    ("sjeng06", "gnuchess"),
    ("tonto06", "calculix"),
    ("zeusmp06", "sort"),
    ("hmmer06", "hmmsearch"),
    ("bzip206", "bzip2"),
];

/// A folder with inputs.
pub(crate) struct Fixture {
    folder: TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// With a folder `spec` of profiles by the names of SPEC programs. `swapped`: two names that
    /// change places.
    pub(crate) fn with_stand_ins(swapped: Option<[&str; 2]>) -> Self {
        let fixture = Self::new();
        let library = Library::shipped().unwrap();
        std::fs::create_dir(fixture.path("spec")).unwrap();
        for (name, shipped) in STAND_INS {
            let name = match swapped {
                Some([one, other]) if name == one => other,
                Some([one, other]) if name == other => one,
                _ => name,
            };
            let data = in_one_phase(&library.get(shipped).unwrap().data);
            let profile = Profile { name: name.to_owned(), data };
            fixture.write(&format!("spec/{name}.toml"), &profile.to_toml());
        }
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

/// A recording's longest phase alone. Without phases a placement that is best for the programs'
/// averages is best in the simulator too, so that an optimum bounds the policies exactly.
fn in_one_phase(data: &ProfileData) -> ProfileData {
    let ProfileData::Recording(recording) = data else { panic!("shipped profiles are recordings") };
    let longest = recording.phases.iter().max_by_key(|phase| phase.instructions).unwrap();
    ProfileData::Recording(Recording::new(recording.origin.clone(), vec![longest.clone()]))
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
