//! `scripts/simulator-accuracy.py` with a simulator that only pretends: what it makes of cycles, and that `corun validate`
//! takes it.

use std::path::Path;
use std::process::Command;

use corun_machine::Machine;
use corun_profile::{CoreDetail, Phase, Profile, ProfileData};
use serde_json::{Value, json};

use crate::fixture::Fixture;

const NAMES: [&str; 2] = ["sort", "xz"];
const FOUR: [&str; 4] = ["cc1", "gawk", "sort", "xz"];

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A simulator of so many cores that has an answer for all traces; it lists the last core first, as ChampSim does.
fn pretend(fixture: &Fixture, cycles: &[u64], mispredicted: u64) {
    pretend_in_order(fixture, "", cycles, mispredicted);
}

/// The same in another order of pages than its own: `-order-2`.
fn pretend_in_order(fixture: &Fixture, order: &str, cycles: &[u64], mispredicted: u64) {
    let core = |cycles: &u64| {
        let wrong = json!({ "BRANCH_CONDITIONAL": mispredicted });
        json!({ "cycles": cycles, "instructions": 3_000_000, "mispredict": wrong })
    };
    let cores: Vec<Value> = cycles.iter().rev().map(core).collect();
    let answer = json!([{ "roi": { "cores": cores } }]);
    let name = format!("folder/champsim-{}{order}", cycles.len());
    fixture.executable(&name, format!("#!/bin/sh\necho 'words first'\necho '{answer}'\n"));
}

/// Simulators, figures of one, and recordings of two programs.
fn prepared() -> Fixture {
    prepared_with(&NAMES)
}

fn prepared_with(names: &[&str]) -> Fixture {
    let fixture = Fixture::new();
    for folder in ["profiles", "traces"] {
        std::fs::create_dir_all(fixture.path("folder").join(folder)).unwrap();
    }
    pretend(&fixture, &[3_000_000], 90_000);
    pretend(&fixture, &[3_300_000, 6_000_000], 90_000);
    let figures = json!({
        "l1": 5.0, "l2": 12.0, "llc": 40.0, "memory": 200.0, "width": 4.0, "penalty": 20.0, "memory_walk": 280.0,
        "second_tlb": 7.0, "walk": 6.0, "random_cycles": 40.0, "read_cycles": 13.0, "misses": 15.4, "llc_hits": 20.0,
        "both_cycles": 22.0, "mixed_cycles": 25.0, "both_mixed_cycles": 48.0, "write_cycles": 50.0,
        "both_write_cycles": 96.0, "first_touch": 240.0, "repeated_branches": {
            "1024": 0.1, "2048": 0.1, "4096": 0.1, "8192": 0.12, "16384": 0.2012,
        }, "loaded": [[0.005, 210.0], [0.03, 240.0], [0.08, 570.0]],
    });
    fixture.write("folder/figures.json", &figures.to_string());
    for name in names {
        let profile = repository().join("profiles").join(format!("{name}.toml"));
        let text = std::fs::read_to_string(profile).unwrap();
        fixture.write(&format!("folder/profiles/{name}.toml"), &text);
        let trace = fixture.path(&format!("folder/traces/{name}.champsim"));
        std::fs::write(&trace, touching_three_pages()).unwrap();
        assert!(Command::new("gzip").arg(&trace).status().unwrap().success());
    }
    fixture
}

/// A trace of two instructions on one page of code; one loads from two pages of data, the other stores to one of these.
fn touching_three_pages() -> Vec<u8> {
    // Address; branch and registers; two addresses that it stores to, four that it loads from.
    let loads = [0x40_0000, 0, 0, 0, 0x1000_0040, 0x1000_1000, 0, 0];
    let stores = [0x40_0004, 0, 0x1000_0080, 0, 0, 0, 0, 0];
    [loads, stores].as_flattened().iter().flat_map(|word: &u64| word.to_le_bytes()).collect()
}

fn judged(fixture: &Fixture) {
    let printed = judged_in(fixture, "1");
    assert!(!printed.contains("one order"), "{printed}");
}

/// In so many orders of pages; what is printed.
fn judged_in(fixture: &Fixture, orders: &str) -> String {
    judged_with(fixture, &[&["--orders", orders], &NAMES[..]].concat())
}

fn judged_with(fixture: &Fixture, words: &[&str]) -> String {
    let done = Command::new("python3")
        .arg(repository().join("scripts/simulator-accuracy.py"))
        .arg(fixture.path("no-checkout"))
        .arg(fixture.path("folder"))
        .args(["--pairs", "1"])
        .args(words)
        .env("CORUN", env!("CARGO_BIN_EXE_corun"))
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn document(fixture: &Fixture, name: &str) -> Value {
    let path = fixture.path("folder").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A profile that the script has made of a recording.
fn profile(fixture: &Fixture, folder: &str, name: &str) -> Profile {
    let path = fixture.path("folder").join(folder).join(format!("{name}.toml"));
    Profile::from_toml(&std::fs::read_to_string(path).unwrap(), name).unwrap()
}

/// How often something happens in a whole program, of which its phases say how often in 1000 instructions.
fn events(profile: &Profile, pki: impl Fn(&CoreDetail) -> f64) -> f64 {
    let ProfileData::Recording(recording) = &profile.data else { panic!("no recording") };
    let of_phase =
        |phase: &Phase| phase.instructions as f64 * 1e-3 * pki(phase.core.as_ref().unwrap());
    recording.phases.iter().map(of_phase).sum()
}

/// 3 million cycles at 4 GHz are 0.75 ms, a CPI of 1; beside the other 1.1 and 2 times as many.
#[test]
fn simulated_cycles_are_held_against_predictions() {
    let fixture = prepared();
    judged(&fixture);
    let found = document(&fixture, "accuracy.json");
    let alone = found["alone"].as_array().unwrap();
    assert_eq!(alone.len(), 2);
    for (one, name) in alone.iter().zip(NAMES) {
        assert_eq!(one["name"], name);
        assert!((one["measured_s"]["median"].as_f64().unwrap() - 0.75e-3).abs() < 1e-9);
    }
    let members = found["groups"][0]["members"].as_array().unwrap();
    for (member, (name, slowdown)) in members.iter().zip(NAMES.into_iter().zip([1.1, 2.0])) {
        assert_eq!(member["name"], name);
        let measured = member["measured_slowdown"]["median"].as_f64().unwrap();
        assert!((measured - slowdown).abs() < 1e-9, "{measured}");
        assert!(member["predicted_slowdown"].as_f64().unwrap() >= 1.0);
        assert_eq!(member["clear"], true);
    }
    // Run again, nothing is simulated: the same bytes.
    let text = std::fs::read(fixture.path("folder/accuracy.txt")).unwrap();
    std::fs::remove_file(fixture.path("folder/champsim-1")).unwrap();
    pretend(&fixture, &[1], 0);
    judged(&fixture);
    assert_eq!(std::fs::read(fixture.path("folder/accuracy.txt")).unwrap(), text);
}

/// 3 and 5 million cycles alone are 4 in the mean; 3.3 and 4.7 beside the other as many, 6 and 12 of the other 2.25 times.
#[test]
fn times_in_several_orders_of_pages_are_means() {
    let fixture = prepared();
    pretend_in_order(&fixture, "-order-2", &[5_000_000], 0);
    pretend_in_order(&fixture, "-order-2", &[4_700_000, 12_000_000], 0);
    let printed = judged_in(&fixture, "2");
    // Of the two slowdowns the same is larger in both orders; one of them is clear, which has no order.
    let ranked = "\n2 all: one order of pages ranks another with 1.00\n";
    assert!(printed.ends_with(ranked), "{printed}");
    let found = document(&fixture, "accuracy.json");
    let near = |found: &Value, expected: f64| (found.as_f64().unwrap() - expected).abs() < 1e-9;
    for one in found["alone"].as_array().unwrap() {
        let measured = &one["measured_s"];
        assert!(near(&measured["median"], 1e-3), "{measured}");
        assert!(near(&measured["low"], 0.75e-3) && near(&measured["high"], 1.25e-3), "{measured}");
        assert_eq!(measured["rounds"], 2);
    }
    let members = found["groups"][0]["members"].as_array().unwrap();
    // By order, 1.1 and 0.94, and 2 and 2.4.
    for (member, (mean, low, high)) in members.iter().zip([(1.0, 0.94, 1.1), (2.25, 2.0, 2.4)]) {
        let measured = &member["measured_slowdown"];
        assert!(near(&measured["median"], mean), "{measured}");
        assert!(near(&measured["low"], low) && near(&measured["high"], high), "{measured}");
        assert_eq!(member["clear"], mean > 1.0);
    }
}

/// The one group that four programs make, on a machine of four cores: in whatever order they were drawn, the first takes 1.5
/// times as long as alone, the next 2.
#[test]
fn more_cores_run_larger_groups_under_a_larger_cache() {
    let fixture = prepared_with(&FOUR);
    pretend(&fixture, &[4_500_000, 6_000_000, 7_500_000, 9_000_000], 90_000);
    judged_with(&fixture, &[&["--cores", "4"], &FOUR[..]].concat());
    let found = document(&fixture, "accuracy.json");
    assert_eq!(found["groups"].as_array().unwrap().len(), 1);
    let members = found["groups"][0]["members"].as_array().unwrap();
    let mut names: Vec<&str> = members.iter().map(|one| one["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, FOUR);
    for (member, slowdown) in members.iter().zip([1.5, 2.0, 2.5, 3.0]) {
        let measured = member["measured_slowdown"]["median"].as_f64().unwrap();
        assert!((measured - slowdown).abs() < 1e-9, "{member}");
        assert!(member["predicted_slowdown"].as_f64().unwrap() >= 1.0, "{member}");
    }
    let machine = fixture.path("folder/machine.toml");
    let machine = Machine::from_toml(&std::fs::read_to_string(machine).unwrap(), "").unwrap();
    assert_eq!((machine.cores().len(), machine.llcs().len()), (4, 1));
    assert_eq!(machine.llcs()[0].cache.unwrap().size_bytes, 1 << 20);
}

/// 240 cycles are 60 ns; three touches in a whole program are next to nothing.
#[test]
fn first_touches_of_pages_are_counted_and_priced() {
    let fixture = prepared();
    judged(&fixture);
    let machine = std::fs::read_to_string(fixture.path("folder/machine.toml")).unwrap();
    assert!(machine.contains("\npage_fault_ns = 60.0\n"), "{machine}");
    for name in NAMES {
        let profile = profile(&fixture, "profiles-with-first-touches", name);
        let faults = events(&profile, |core| core.page_faults_pki);
        assert!((faults - 3.0).abs() < 0.01, "{name}: {faults}");
        assert!(events(&profile, |core| core.file_faults_pki).abs() < 1e-9);
    }
}

/// At 4 GHz: 64 bytes in 50 cycles; in 25 cycles a line is read, and a third of one written back; two cores, each a
/// line in 96 or 48 cycles.
#[test]
fn rates_are_those_that_a_calibration_measures() {
    let fixture = prepared();
    judged(&fixture);
    let text = std::fs::read_to_string(fixture.path("folder/machine.toml")).unwrap();
    // Of the core, then of the memory controller.
    let are = |name: &str, mb_per_s: [f64; 2]| {
        let found: Vec<f64> = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(" = ")?.parse().ok())
            .collect();
        assert_eq!(found.len(), 2, "{name} in {text}");
        for (found, expected) in found.iter().zip(mb_per_s) {
            assert!((found - expected).abs() < 0.3, "{name}: {found}, not {expected}");
        }
    };
    are("read_mb_per_s", [256_000.0 / 13.0, 2.0 * 256_000.0 / 22.0]);
    are("write_mb_per_s", [256_000.0 / 50.0, 2.0 * 256_000.0 / 96.0]);
    are("mixed_mb_per_s", [10_240.0 * 4.0 / 3.0, 2.0 * 256_000.0 / 48.0 * 4.0 / 3.0]);
}

/// Of the repeated branches the small predictor mispredicts 1.1332, summed over all periods, the large one 0.1092, and this one
/// 0.6212.
#[test]
fn a_predictor_half_way_between_those_of_recordings_is_told() {
    let fixture = prepared();
    judged(&fixture);
    let text = std::fs::read_to_string(fixture.path("folder/machine.toml")).unwrap();
    assert!(text.contains("\nlarge_predictor_share = 0.500\n"), "{text}");
}

/// 90,000 mispredictions in 3 million instructions are 30 in 1000, more than either was recorded with: with them the
/// programs are predicted to be slower, for branches and nothing else.
#[test]
fn the_simulators_mispredictions_can_stand_in_for_the_recordings() {
    let fixture = prepared();
    judged(&fixture);
    let [as_recorded, with_its] =
        ["accuracy.json", "accuracy-with-its-branches.json"].map(|name| document(&fixture, name));
    for at in 0..NAMES.len() {
        let of =
            |found: &Value, cause: &str| found["alone"][at]["cpi_stack"][cause].as_f64().unwrap();
        assert!(of(&with_its, "branches") > of(&as_recorded, "branches"));
        // Short stretches that dispatch faster than the width allows in the mean differ a little.
        assert!((of(&with_its, "base") - of(&as_recorded, "base")).abs() < 1e-3);
        let cpi = |found: &Value| found["alone"][at]["predicted_cpi"].as_f64().unwrap();
        assert!(cpi(&with_its) > cpi(&as_recorded));
        let profile = profile(&fixture, "profiles-with-its-branches", NAMES[at]);
        let wrong = events(&profile, |core| core.mispredicted_large_pki);
        let pki = wrong * 1e3 / profile.instructions() as f64;
        assert!((pki - 30.0).abs() < 0.01, "{pki}");
    }
}
