//! `corun restore`: what a killed corun left, from outside.

use std::path::PathBuf;
use std::process::{Child, Command};

use crate::fixture::Fixture;

/// A program that waits, held on its first CPU by a corun that is no more.
struct Held {
    fixture: Fixture,
    program: Child,
    found: String,
    first: String,
}

impl Held {
    /// None, and a word about it, where there is one CPU only.
    fn new() -> Option<Self> {
        let fixture = Fixture::new();
        let program = Command::new("sleep").arg("1000").spawn().unwrap();
        let mut held = Self { fixture, program, found: String::new(), first: String::new() };
        held.found = held.now();
        held.first = held.found.chars().take_while(char::is_ascii_digit).collect();
        if held.found == held.first {
            eprintln!("skipped: this test may run on one CPU only");
            return None;
        }
        held.taskset(&held.first);
        std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
            .create(held.folder())
            .unwrap();
        held.fixture.write("journals/1073741824-5.journal", &held.journal());
        Some(held)
    }

    fn folder(&self) -> PathBuf {
        self.fixture.path("journals")
    }

    fn journal(&self) -> String {
        let read = |path: &str| std::fs::read_to_string(path).unwrap().trim().to_owned();
        let pid = self.program.id();
        let stat = read(&format!("/proc/{pid}/stat"));
        let start = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(19).unwrap();
        let (found, first, boot) =
            (&self.found, &self.first, read("/proc/sys/kernel/random/boot_id"));
        format!(
            "{{\"corun_journal\":1,\"pid\":1073741824,\"start_ticks\":5,\"boot_id\":\"{boot}\",\
             \"began_ns\":7,\"pid_namespace\":null}}\n{{\"changes\":[{{\"what\":\"affinity\",\"task\":{{\"pid\":{pid},\
             \"tid\":{pid},\"start_ticks\":{start}}},\"before\":\"{found}\",\"after\":\"{first}\"}}]}}\n"
        )
    }

    /// Where the program may run now.
    fn now(&self) -> String {
        let path = format!("/proc/{}/status", self.program.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.unwrap().trim().to_owned()
    }

    fn taskset(&self, cpus: &str) {
        let pid = self.program.id().to_string();
        assert!(
            Command::new("taskset").args(["-cp", cpus, &pid]).output().unwrap().status.success()
        );
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[test]
fn what_was_left_is_told_then_undone_then_no_more() {
    let Some(held) = Held::new() else { return };
    let words = ["restore", "--folder", "journals"];
    let told = held.fixture.run(&[&words[..], &["--dry-run"]].concat()).done();
    assert!(told.contains("would be undone"), "{told}");
    assert_eq!(held.now(), held.first);
    let document = held.fixture.run(&[&words[..], &["--format", "json"]].concat()).json();
    assert_eq!(document["left"], 0);
    let missing = crate::documents::undocumented(&document);
    assert!(missing.is_empty(), "docs/json.md lacks {missing:?}");
    assert_eq!(document["journals"][0]["fate"], "undone");
    assert_eq!(document["journals"][0]["changes"][0]["outcome"], "done");
    assert_eq!(document["journals"][0]["changes"][0]["change"]["before"], held.found.as_str());
    assert_eq!(held.now(), held.found);
    assert_eq!(held.fixture.run(&words).done(), "nothing to restore: no journal in journals\n");
}

#[test]
fn what_somebody_else_set_is_left_and_named() {
    let Some(held) = Held::new() else { return };
    let other = held.found.chars().rev().take_while(char::is_ascii_digit).collect::<String>();
    let other: String = other.chars().rev().collect();
    held.taskset(&other);
    let told = held.fixture.run(&["restore", "--folder", "journals"]).done();
    assert!(told.contains(&format!("left as found: somebody else set it to {other}")), "{told}");
    assert_eq!(held.now(), other);
}

#[test]
fn what_is_left_makes_it_fail() {
    let Some(held) = Held::new() else { return };
    held.fixture.write("journals/1073741824-5.journal", "nonsense\n");
    let ran = held.fixture.run(&["restore", "--folder", "journals"]);
    assert_eq!(ran.code(), 1);
    assert!(ran.stdout().contains("line 1 is no header"), "{}", ran.stdout());
    assert_eq!(ran.stderr(), "corun: 1 journal is left in journals\n");
    let ran = held.fixture.run(&["restore", "--folder", "solo.csv"]);
    assert_eq!(ran.code(), 1);
    assert!(ran.stderr().contains("it is no folder"), "{}", ran.stderr());
}

#[test]
fn a_folder_that_is_not_there_is_no_folder_without_journals() {
    let fixture = Fixture::new();
    let named = fixture.run(&["restore", "--folder", "none", "--all"]);
    named.refused(&["there is no folder none", "--config FILE"]);
    // A daemon that never acted has made none.
    fixture.write("config.toml", "journals = \"none\"\n");
    let told = fixture.run(&["restore", "--config", "config.toml"]).done();
    assert_eq!(told, "nothing to restore: no journal in none (there is no such folder)\n");
    fixture.write("config.toml", "journals = 3\n");
    fixture
        .run(&["restore", "--config", "config.toml"])
        .refused(&["config.toml:1: journals: invalid type: integer `3`, expected a path"]);
    fixture
        .run(&["restore", "--config", "none.toml"])
        .refused(&["none.toml: cannot be read: No such file"]);
}

#[test]
fn the_folder_is_that_of_the_configuration_whatever_else_is_in_it() {
    let Some(held) = Held::new() else { return };
    held.fixture.write("config.toml", "polcy = [\njournals = \"journals\"\n");
    let told = held.fixture.run(&["restore", "--config", "config.toml"]).done();
    assert!(told.contains("undone"), "{told}");
    assert_eq!(held.now(), held.found);
}

#[test]
fn verify_shows_what_differs_until_it_is_restored() {
    let Some(held) = Held::new() else { return };
    let words = ["verify", "--folder", "journals"];
    let ran = held.fixture.run(&words);
    assert_eq!(ran.code(), 1);
    assert!(ran.stdout().contains("left by a corun that is no more"), "{}", ran.stdout());
    assert_eq!(ran.stderr(), "corun: 1 difference from how corun found the machine\n");
    assert_eq!(held.now(), held.first, "something was changed");
    let ran = held.fixture.run(&[&words[..], &["--format", "json"]].concat());
    let document: serde_json::Value = serde_json::from_str(&ran.stdout()).unwrap();
    assert_eq!((&document["as_found"], &document["differences"]), (&false.into(), &1.into()));
    let missing = crate::documents::undocumented(&document);
    assert!(missing.is_empty(), "docs/json.md lacks {missing:?}");
    // What its user gave back meanwhile is as before, though the journal is still there.
    held.taskset(&held.found);
    assert_eq!(held.fixture.run(&words).done(), "as corun found it: 1 journal in journals\n");
    held.fixture.write("journals/1073741824-5.journal", "nonsense\n");
    let ran = held.fixture.run(&words);
    assert_eq!(ran.code(), 1);
    assert!(ran.stdout().contains("cannot be told: line 1 is no header"), "{}", ran.stdout());
    std::fs::remove_file(held.folder().join("1073741824-5.journal")).unwrap();
    assert_eq!(held.fixture.run(&words).done(), "as corun found it: 0 journals in journals\n");
}
