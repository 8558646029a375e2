//! `corun calibrate`: documents, files that stay, interruption. No figure is checked: other tests
//! run beside these.

use std::process::{Command, Stdio};

use corun_machine::{Machine, Measurement};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::documents::undocumented;
use crate::fixture::{Fixture, Ran};
use crate::hosting::has_computed;

/// In little memory, which takes less time to fill.
const QUICK: [&str; 5] = ["calibrate", "--quick", "--memory=256", "--output", "mine.toml"];

/// When the calibration ended that [`measured_before`] has.
const BEFORE: &str = "2026-01-01T00:00:00Z";

#[test]
fn a_quick_run_writes_a_machine_that_others_read() {
    let fixture = Fixture::new();
    let document =
        fixture.run(&[&QUICK[..], &["--report", "page.html", "--format", "json"]].concat()).json();
    let page = std::fs::read_to_string(fixture.path("page.html")).unwrap();
    assert!(page.contains("core_type.core.clock_mhz") && page.contains("<svg"), "{page}");
    assert_eq!(document["output"], "mine.toml");
    assert_eq!(document["measurement"]["quick"], true);
    assert_eq!(undocumented(&document), Vec::<String>::new());
    let figures = document["figures"].as_array().unwrap();
    assert!(figures.len() > 40, "{}", figures.len());
    for figure in figures {
        let number = |name: &str| figure[name].as_f64().unwrap();
        let (low, value, high) = (number("low"), number("value"), number("high"));
        assert!(low <= value && value <= high, "{figure}");
        assert!(!figure["source"].as_str().unwrap().is_empty(), "{figure}");
    }
    let ladder = document["curves"].as_array().unwrap();
    assert!(ladder.iter().any(|curve| curve["kind"] == "ladder"), "{ladder:?}");

    let machine = Machine::load(&fixture.path("mine.toml")).unwrap();
    assert!(machine.spec().measurement.is_some());
    assert!(machine.spec().kernel.unwrap().page_fault_ns.unwrap() > 0.0);
    let text = fixture.run(&["topology", "--machine", "mine.toml"]).done();
    assert!(text.contains("bandwidth: memory0"), "{text}");
}

#[test]
fn a_file_that_somebody_wrote_or_a_better_one_stays() {
    let fixture = Fixture::new();
    let toml = fixture.run(&["topology", "--machine", "i7-2600", "--format", "toml"]).done();
    fixture.write("mine.toml", &toml);
    fixture.run(&QUICK).refused(&["mine.toml stays as it is", "corun calibrate", "--force"]);
    fixture.write("mine.toml", "no machine");
    fixture.run(&QUICK).refused(&["mine.toml stays as it is", "no machine file", "--force"]);
    assert_eq!(std::fs::read_to_string(fixture.path("mine.toml")).unwrap(), "no machine");

    fixture.write("mine.toml", &measured_before(false, 0.0));
    fixture.run(&QUICK).refused(&["whole calibration", "--force", "--output"]);
    let same = fixture.run(&[&QUICK[..], &["--force", "--report", "mine.toml"]].concat());
    same.refused(&["mine.toml: found for two outputs"]);
}

/// A file of this machine that was calibrated before, quickly or not, while others kept this share of its CPUs busy.
fn measured_before(quick: bool, busy_share: f64) -> String {
    let mut found = corun_machine::this_machine("/".as_ref(), &[]).unwrap().spec().clone();
    found.measurement = Some(Measurement {
        by: "corun".to_owned(),
        finished: BEFORE.to_owned(),
        seconds: 100.0,
        rounds: 60,
        quick,
        busy_share,
        cpus: "0".parse().unwrap(),
        huge_pages: true,
        notes: Vec::new(),
    });
    Machine::from_spec(found).unwrap().to_toml()
}

#[test]
fn a_target_that_cannot_be_written_is_refused_before_measuring() {
    let fixture = Fixture::new();
    fixture.run(&["calibrate", "--output", "none/mine.toml"]).refused(&["none", "no such folder"]);
    fixture.run(&["calibrate", "--system", "--output", "a.toml"]).refused(&["cannot be used with"]);
}

#[test]
fn an_interrupted_run_leaves_the_old_file() {
    let fixture = Fixture::new();
    fixture.write("mine.toml", "old");
    let child = Command::new(assert_cmd::cargo::cargo_bin!("corun"))
        .args(["calibrate", "--force", "--memory=256", "--output", "mine.toml"])
        .current_dir(fixture.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Longer than it takes to begin; a whole run takes 100 s.
    assert!(has_computed(child.id(), 2));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.code(), 130, "{}", ran.stderr());
    assert_eq!(ran.stdout(), "");
    assert_eq!(std::fs::read_to_string(fixture.path("mine.toml")).unwrap(), "old");
    assert_eq!(fixture.files(), ["mine.toml", "solo.csv"]);
}

#[test]
fn one_allowed_cpu_is_measured_and_the_others_named() {
    let all = sched_getaffinity(None).unwrap();
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).collect();
    let fixture = Fixture::new();
    // One that was disturbed all the time makes way for any.
    fixture.write("mine.toml", &measured_before(true, 1.0));
    let ran = Command::new("taskset")
        .args(["-c", &cpus[0].to_string()])
        .arg(assert_cmd::cargo::cargo_bin!("corun"))
        .args(QUICK)
        .current_dir(fixture.path(""))
        .output();
    let text = Ran::from(ran.unwrap()).done();
    assert!(text.contains("no latency beside others"), "{text}");
    if cpus.len() > 1 {
        assert!(text.contains("the others were not measured"), "{text}");
    }
    let machine = Machine::load(&fixture.path("mine.toml")).unwrap();
    let measured = machine.spec().measurement.clone().unwrap();
    assert_eq!(measured.cpus.to_string(), cpus[0].to_string());
    assert_ne!(measured.finished, BEFORE);
}
