//! Wrong usage, help, the version, readers that go away.

use std::process::{Command as Process, Stdio};

use crate::fixture::{Fixture, Ran};

#[test]
fn help_has_examples_and_exit_codes() {
    let help = Fixture::new().run(&["--help"]).done();
    for word in ["Examples:", "corun compare --report report.html", "Exit codes:", "topology"] {
        assert!(help.contains(word), "{word}");
    }
}

#[test]
fn the_version_is_said() {
    let version = Fixture::new().run(&["--version"]).done();
    assert_eq!(version, format!("corun {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_usage_is_refused() {
    let fixture = Fixture::new();
    fixture.run(&["compar"]).refused(&["unrecognized subcommand 'compar'", "try: ", "compare"]);
    // What help does not show is offered to nobody.
    let ran = fixture.run(&["status"]);
    ran.refused(&["unrecognized subcommand 'status'", "'stat'"]);
    assert!(!ran.stderr().contains("study"), "{}", ran.stderr());
    fixture.run(&["topology", "--formt", "json"]).refused(&["--formt", "--format"]);
    fixture.run(&["topology", "--format", "yaml"]).refused(&["yaml", "text, json, toml"]);
    fixture.run(&["predict"]).refused(&["--machine", "--apps"]);
    fixture.run(&["compare", "--seeds", "0"]).refused(&["--seeds", "0"]);
    let negative = fixture.run(&["compare", "--seeds", "-1"]);
    negative.refused(&["invalid value '-1' for '--seeds <N>'", "1..=10000"]);
    assert!(!negative.stderr().contains("-- -1"), "{}", negative.stderr());
    fixture.run(&["run", "--duration", "-0.5", "--", "true"]).refused(&["-0.5", "above 0"]);
    fixture.run(&["compare", "--peak-bandwidth", "NaN"]).refused(&["NaN", "from 1"]);
    fixture.run(&["compare", "--peak-bandwidth=-5"]).refused(&["-5", "from 1"]);
    fixture.run(&["compare", "--space", "lru"]).refused(&["lru", "fill-time", "whirlpool"]);
    fixture.run(&["compare", "--bandwidth-model", "x"]).refused(&["additive", "stalls"]);
    fixture.run(&["compare", "mix.toml", "--apps", "a"]).refused(&["cannot be used with"]);
}

#[test]
fn nothing_to_do_is_wrong_usage_with_help() {
    let ran = Fixture::new().run(&[]);
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr().contains("Usage: corun"), "{}", ran.stderr());
}

#[test]
fn output_that_cannot_be_written_is_a_failure_that_names_it() {
    for words in [&["--version"][..], &["--help"], &["topology", "--list"]] {
        let full = std::fs::File::create("/dev/full").unwrap();
        let mut command = Process::new(assert_cmd::cargo::cargo_bin!("corun"));
        let ran = Ran::from(command.args(words).stdout(full).output().unwrap());
        assert_eq!(ran.code(), 1, "{words:?}");
        let told = ran.stderr();
        let expected = "corun: cannot write to standard output: No space left on device";
        assert!(told.starts_with(expected), "{words:?}: {told}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = Process::new(assert_cmd::cargo::cargo_bin!("corun"))
        .args(["topology", "--list"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Closed before the command can have written.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}
