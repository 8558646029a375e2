//! `corun record` on a real program and `corun decide` over what it wrote.

use crate::fixture::{Fixture, Ran};

const COUNT: &str = "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done";

/// A program that computes for a while, as the model sees it.
fn recorded(fixture: &Fixture, script: &str) -> Ran {
    let options = ["record", "-o", "live.corun", "-T", "50ms", "--counters", "model"];
    let command = ["--profile", "sort", "--", "sh", "-c", script];
    fixture.run(&[&options[..], &command].concat())
}

#[test]
fn a_policy_decides_over_a_recording_the_same_each_time() {
    let fixture = Fixture::new();
    let ran = recorded(&fixture, COUNT);
    assert_eq!((ran.code(), ran.stdout().as_str()), (0, ""), "{}", ran.stderr());
    assert!(ran.stderr().contains("live.corun"), "{}", ran.stderr());
    for policy in ["di", "dio", "lfoc", "di+ucp", "random"] {
        let decide = |format| {
            fixture.run(&["decide", "live.corun", "--policy", policy, "--format", format]).done()
        };
        assert_eq!(decide("json"), decide("json"), "{policy}");
        let document: serde_json::Value = serde_json::from_str(&decide("json")).unwrap();
        assert_eq!((&document["policy"], &document["threads"]), (&policy.into(), &1.into()));
        assert!(document["looks"].as_u64().unwrap() >= 1);
        let decisions = document["decisions"].as_array().unwrap();
        let rows = decide("csv").lines().count();
        assert_eq!(rows, decisions.len() + 1);
        assert_eq!(decide("table").lines().count(), decisions.len() + 1);
    }
    let placed = fixture.run(&["decide", "live.corun", "--policy", "di"]).done();
    assert!(placed.contains("di would: sort on CPU "), "{placed}");
}

#[test]
fn a_recorded_program_keeps_its_output_and_its_exit_code() {
    let fixture = Fixture::new();
    let ran = recorded(&fixture, "echo out; exit 7");
    assert_eq!((ran.code(), ran.stdout().as_str()), (7, "out\n"), "{}", ran.stderr());
    let long = ["record", "-o", "live.corun", "--duration", "0.3", "--", "sleep", "1000"];
    let ran = fixture.run(&long);
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
}

#[test]
fn bad_recordings_are_refused_with_file_and_line() {
    let fixture = Fixture::new();
    let decide = || fixture.run(&["decide", "live.corun", "--policy", "di"]);
    decide().refused(&["live.corun: No such file"]);
    fixture.write("live.corun", "version = 1\n");
    decide().refused(&["live.corun: line 1: this is no recording", "corun record"]);
    let ran = recorded(&fixture, COUNT);
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    let good = std::fs::read_to_string(fixture.path("live.corun")).unwrap();
    fixture.write("live.corun", &good.replacen("\"tid\"", "\"thread\"", 1));
    decide().refused(&["live.corun: line 2: "]);
    // One that was cut off is good up to there.
    fixture.write("live.corun", &format!("{good}{{\"at_ns\":"));
    let ran = decide();
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    assert!(ran.stderr().contains("ends within a line"), "{}", ran.stderr());
}

#[test]
fn a_policy_that_needs_what_was_not_recorded_is_refused() {
    let fixture = Fixture::new();
    let options = ["record", "-o", "live.corun", "-T", "50ms", "--counters", "profiles", "--"];
    let ran = fixture.run(&[&options[..], &["sh", "-c", COUNT]].concat());
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    let refused = fixture.run(&["decide", "live.corun", "--policy", "dio"]);
    refused.refused(&["policy `dio` needs the counter", "recording"]);
    fixture.run(&["record", "-o", "no/where", "--", "true"]).refused(&["no such folder"]);
    fixture.run(&["record", "-o", "live.corun"]).refused(&["nothing to watch"]);
    fixture.run(&["record", "--", "true"]).refused(&["--output"]);
}

#[test]
fn a_name_in_a_recording_cannot_speak_to_the_terminal() {
    let fixture = Fixture::new();
    let ran = recorded(&fixture, COUNT);
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    let good = std::fs::read_to_string(fixture.path("live.corun")).unwrap();
    let named = good.replace("\"name\":\"sort\"", "\"name\":\"\\u001b[2Jsort\\u009b\"");
    assert_ne!(named, good);
    fixture.write("live.corun", &named);
    for format in ["table", "csv", "json"] {
        let shown = fixture.run(&["decide", "live.corun", "--policy", "di", "--format", format]);
        let shown = shown.done();
        assert!(shown.contains("u001b[2Jsort"), "{format}: {shown:?}");
        assert!(!shown.contains(['\u{1b}', '\u{9b}']), "{format}: {shown:?}");
    }
    // In an error, too.
    fixture.write("live.corun", "\u{1b}[2J\n");
    let refused = fixture.run(&["decide", "live.corun", "--policy", "di"]).stderr();
    assert!(refused.contains("u001b[2J") && !refused.contains('\u{1b}'), "{refused:?}");
}
