//! `corun record` on a real program and `corun decide` over what it wrote.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::fixture::{Fixture, Ran};
use crate::hosting::eventually;
use crate::started::Started;

const COUNT: &str = "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done";

/// A program that computes for a while, as the model sees it.
fn recorded(fixture: &Fixture, script: &str) -> Ran {
    let options = ["record", "-o", "live.corun", "-T", "50ms", "--counters", "model"];
    let command = ["--profile", "sort", "--", "sh", "-c", script];
    fixture.run(&[&options[..], &command].concat())
}

/// The same of a program that computes for as long as it takes for some looks: on a busy machine it may be over before.
fn recorded_at_length(fixture: &Fixture) -> Ran {
    for length in ["1000000", "30000000"] {
        let ran = recorded(fixture, &COUNT.replace("1000000", length));
        assert_eq!((ran.code(), ran.stdout().as_str()), (0, ""), "{}", ran.stderr());
        let lines = std::fs::read_to_string(fixture.path("live.corun")).unwrap().lines().count();
        if lines > 4 {
            return ran;
        }
    }
    panic!("no 4 looks");
}

#[test]
fn a_policy_decides_over_a_recording_the_same_each_time() {
    let fixture = Fixture::new();
    let ran = recorded_at_length(&fixture);
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

/// A recorder that has no CPU until its time is over looks once more: of one look alone nothing can be said.
#[test]
fn a_recorder_that_comes_late_looks_at_the_end() {
    let fixture = Fixture::new();
    let busy = Started::seldom_busy();
    let file = fixture.path("live.corun");
    let mut recorder = Command::new(assert_cmd::cargo::cargo_bin!("corun"));
    recorder.args(["record", "-T", "500ms", "--duration", "1", "--counters", "profiles", "-p"]);
    recorder.arg(busy.pid()).arg("-o").arg(&file).env("XDG_DATA_HOME", fixture.path(""));
    let recorder = recorder.stderr(Stdio::piped()).spawn().unwrap();
    let lines = || std::fs::read_to_string(&file).map_or(0, |text| text.lines().count());
    // The header, and the first look.
    assert!(eventually(|| lines() >= 2), "it does not look");
    let pid = Pid::from_child(&recorder);
    kill_process(pid, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_millis(1200));
    kill_process(pid, Signal::CONT).unwrap();
    let ran = Ran::from(recorder.wait_with_output().unwrap());
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    assert!(lines() >= 3, "{}", ran.stderr());
}

#[test]
fn bad_recordings_are_refused_with_file_and_line() {
    let fixture = Fixture::new();
    let decide = || fixture.run(&["decide", "live.corun", "--policy", "di"]);
    decide().refused(&["live.corun: No such file"]);
    fixture.write("live.corun", "version = 1\n");
    decide().refused(&["live.corun: line 1: this is no recording", "corun record"]);
    // The first look at a program that ended before it has no thread.
    recorded_at_length(&fixture);
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
    let unknown = &["no program is named \"nope\""];
    fixture.run(&["record", "-o", "a", "--profile", "nope", "--", "true"]).refused(unknown);
    fixture.run(&["top", "--once", "--profile", "nope", "--", "true"]).refused(unknown);
    fixture.run(&["record", "--", "true"]).refused(&["--output"]);
}

#[test]
fn a_name_in_a_recording_cannot_speak_to_the_terminal() {
    let fixture = Fixture::new();
    recorded_at_length(&fixture);
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
