//! Inputs made by the tests themselves, and the command run on them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use tempfile::TempDir;

/// A program of the table: name, IPC and misses per 1000 instructions with one way and with all.
const PROGRAMS: [(&str, [f64; 2], [f64; 2]); 6] = [
    ("stream", [0.60, 0.62], [30.0, 28.0]),
    ("needy", [0.70, 1.60], [22.0, 0.8]),
    ("middle", [1.10, 1.50], [8.0, 2.0]),
    ("small", [1.70, 2.00], [3.0, 0.1]),
    ("quiet", [2.20, 2.22], [0.2, 0.05]),
    ("idler", [2.50, 2.50], [0.0, 0.0]),
];

/// Ways of the table.
const WAYS: u32 = 11;

/// A folder with inputs.
pub(crate) struct Fixture {
    folder: TempDir,
}

impl Fixture {
    /// A folder with `solo.csv`.
    pub(crate) fn new() -> Self {
        let fixture = Self { folder: tempfile::tempdir().unwrap() };
        fixture.write("solo.csv", &solo_csv());
        fixture
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// A program of this machine under another name. `install` has it open for writing, and no child of another test
    /// inherits that, as it would from here: such a program could not be started ("text file busy").
    pub(crate) fn copy(&self, program: &str, name: &str) -> PathBuf {
        let path = self.path(name);
        let mut install = std::process::Command::new("install");
        assert!(install.args(["-m", "755", program]).arg(&path).status().unwrap().success());
        path
    }

    /// A program of these bytes, or a script.
    pub(crate) fn executable(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let written = format!("{name}.written");
        std::fs::write(self.path(&written), content).unwrap();
        let path = self.copy(self.path(&written).to_str().unwrap(), name);
        std::fs::remove_file(self.path(&written)).unwrap();
        path
    }

    /// Names of the files there are, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut files: Vec<String> = std::fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        files
    }

    /// Runs the command in the folder.
    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        run_in(self.folder.path(), words)
    }
}

/// Runs the command in a folder.
pub(crate) fn run_in(folder: &Path, words: &[&str]) -> Ran {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("corun"));
    // A calibrated file of whoever runs the tests is neither read nor written.
    command.env("XDG_DATA_HOME", folder);
    Ran(command.current_dir(folder).args(words).output().unwrap())
}

/// What came of a command.
pub(crate) struct Ran(Output);

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self(output)
    }
}

impl Ran {
    pub(crate) fn code(&self) -> i32 {
        self.0.status.code().unwrap()
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    /// Standard output of a command that did what was asked.
    pub(crate) fn done(&self) -> String {
        assert_eq!(self.code(), 0, "{}", self.stderr());
        assert_eq!(self.stderr(), "");
        self.stdout()
    }

    /// Its JSON document.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.done()).unwrap()
    }

    /// Refused as bad input: exit code 2, nothing on stdout, all these words on stderr.
    pub(crate) fn refused(&self, words: &[&str]) {
        let stderr = self.stderr();
        assert_eq!(self.code(), 2, "{stderr}");
        assert_eq!(self.stdout(), "");
        assert!(stderr.starts_with("corun: "), "{stderr}");
        for word in words {
            assert!(stderr.contains(word), "no `{word}` in: {stderr}");
        }
    }
}

/// A table as the public simulator's, of made-up programs on the Xeon Gold 6138 at 2 GHz.
pub(crate) fn solo_csv() -> String {
    let mut text = "BENCH,NR_WAYS,ipc,llcrpki,llcmpki,llcrpkc,llcmpkc,llc_usage_kb,bandwidth_mbps,\
                    llcm_bandwidth,stalls_l2_miss,stalls_l3_miss,stalls_total,stalls_store_buf\n"
        .to_owned();
    for (name, ipc, mpki) in PROGRAMS {
        for ways in 1..=WAYS {
            let part = f64::from(ways - 1) / f64::from(WAYS - 1);
            let ipc = ipc[0] + part * (ipc[1] - ipc[0]);
            let mpki = mpki[0] + part * (mpki[1] - mpki[0]);
            let rpki = 32.0f64.max(mpki) * f64::from(u8::from(mpki > 0.0));
            let mb_per_s = mpki / 1000.0 * ipc * 2e9 * 64.0 / 1e6;
            let stalls = (mpki * ipc * 0.02).min(0.8);
            writeln!(
                text,
                "{name},{ways},{ipc:.6},{rpki:.6},{mpki:.6},{:.6},{:.6},{},{mb_per_s:.6},\
                 {mb_per_s:.6},{stalls:.6},{stalls:.6},{:.6},0.01",
                rpki * ipc,
                mpki * ipc,
                2560 * ways,
                stalls + 0.1,
            )
            .unwrap();
        }
    }
    text
}

/// The public table of SPEC solo figures, which is not part of corun: tests that need it are ignored
/// unless asked for, as in `CORUN_SOLO_TABLE=FILE.csv cargo test -p corun public -- --ignored`.
pub(crate) fn public_table() -> String {
    std::env::var("CORUN_SOLO_TABLE").expect("CORUN_SOLO_TABLE names the table")
}

/// A profile file as the tracer writes it, of two phases.
pub(crate) const RECORDING: &str = r#"version = 1
name = "twophase"
[origin]
command = ["twophase", "input"]
program = "a made-up program"
sampling_rate = 1
complete = true
exit_code = 0
[[phase]]
instructions = 3000000000
data_accesses_pki = 400
mix = { loads_pki = 250, stores_pki = 100, branches_pki = 150, float_pki = 0, mispredicted_pki = 2 }
prefetchable = 0.3
memory_level_parallelism = 2
dirty_share = 0.2
footprint_bytes = 67108864
curve = [[32768, 40], [1048576, 20], [33554432, 5], [67108864, 0.1]]
[[phase]]
instructions = 1000000000
data_accesses_pki = 300
mix = { loads_pki = 200, stores_pki = 50, branches_pki = 150, float_pki = 0, mispredicted_pki = 1 }
prefetchable = 0.5
memory_level_parallelism = 3
dirty_share = 0.1
footprint_bytes = 1048576
curve = [[32768, 10], [1048576, 0.1]]
"#;
