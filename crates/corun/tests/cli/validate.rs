//! `corun validate`: documents, programs that fail, refusals. No figure is checked: other tests run
//! beside these.

use corun_profile::{Library, ProfileData};

use crate::fixture::Fixture;

/// A profile of a shell's script, with the figures of another program that is a hundred times as long.
fn scripted(fixture: &Fixture, name: &str, words: &[&str]) {
    shortened(fixture, name, words, 100);
}

fn shortened(fixture: &Fixture, name: &str, words: &[&str], times: u64) {
    let mut profile = Library::shipped().unwrap().get("gzip").unwrap().clone();
    profile.name = name.to_owned();
    let ProfileData::Recording(recording) = &mut profile.data else { unreachable!() };
    for stretch in &mut recording.sequence {
        stretch.instructions = stretch.instructions.div_ceil(times);
    }
    for (at, phase) in recording.phases.iter_mut().enumerate() {
        let own = recording.sequence.iter().filter(|stretch| stretch.phase == at);
        phase.instructions = own.map(|stretch| stretch.instructions).sum();
    }
    recording.origin.command = words.iter().map(|&word| word.to_owned()).collect();
    fixture.write(&format!("mine/{name}.toml"), &profile.to_toml());
}

const WORK: &str = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done";

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.path("mine")).unwrap();
    fixture.write("input", "one\n");
    scripted(&fixture, "script", &["sh", "-c", WORK]);
    scripted(&fixture, "reader", &["sh", "-c", &format!("read line; {WORK}"), "<", "input"]);
    fixture
}

const VALIDATE: [&str; 7] =
    ["validate", "--profiles", "mine", "--rounds", "2", "--machine", "this"];

#[test]
fn programs_are_timed_and_failures_named() {
    let fixture = fixture();
    scripted(&fixture, "failing", &["sh", "-c", "exit 3"]);
    let more = ["--report", "page.html", "--format", "json"];
    let document = fixture.run(&[&VALIDATE[..], &more].concat()).json();
    let names = |list: &str| -> Vec<String> {
        let of = document[list].as_array().unwrap().iter();
        let names = of.map(|one| one["name"].as_str().unwrap().to_owned());
        // Groups are left out where other tests shared a core with all runs alone of a member.
        names.filter(|name| !name.contains(" + ")).collect()
    };
    assert_eq!(names("alone"), ["reader", "script"]);
    assert_eq!(names("left_out"), ["failing"]);
    assert_eq!(document["left_out"][0]["why"], "it ended with exit code 3");
    for one in document["alone"].as_array().unwrap() {
        let figure = |name: &str| one[name].as_f64().unwrap();
        let median = one["measured_s"]["median"].as_f64().unwrap();
        assert!(median > 0.0 && figure("predicted_s") > 0.0, "{one}");
        assert!((figure("predicted_s") / median - 1.0 - figure("error")).abs() < 1e-4, "{one}");
        assert!(one["cpi_stack"]["base"].as_f64().unwrap() > 0.0, "{one}");
    }
    assert_eq!(document["agreement"]["alone"]["count"], 2);
    let page = std::fs::read_to_string(fixture.path("page.html")).unwrap();
    assert!(page.contains("script, ") && page.contains("<svg"), "{page}");

    // Again from the document: nothing is run, and the same comes out.
    fixture.write("earlier.json", &document.to_string());
    let again =
        ["validate", "--profiles", "mine", "--machine", "this", "--measured", "earlier.json"];
    let again = fixture.run(&[&again[..], &["--svg", "plot.svg", "--format", "json"]].concat());
    let again = again.json();
    for part in ["alone", "groups", "agreement", "load", "rounds"] {
        assert_eq!(again[part], document[part], "{part}");
    }
    let plot = std::fs::read_to_string(fixture.path("plot.svg")).unwrap();
    assert!(plot.contains("<svg") && plot.contains("predicted"), "{plot}");
}

/// One that had a file to read when it was recorded and has none here, for instance.
#[test]
fn a_program_that_does_something_else_is_left_out() {
    let fixture = fixture();
    shortened(&fixture, "hasty", &["true"], 1);
    let document =
        fixture.run(&[&VALIDATE[..], &["script", "hasty", "--format", "json"]].concat()).json();
    assert_eq!(document["alone"].as_array().unwrap().len(), 1, "{document}");
    let left_out = document["left_out"].as_array().unwrap();
    let hasty = left_out.iter().find(|one| one["name"] == "hasty").unwrap();
    let why = hasty["why"].as_str().unwrap();
    assert!(why.contains("the instructions of its recording take 0.0"), "{why}");
    assert!(why.contains("it did something else than when it was recorded"), "{why}");
}

#[test]
fn a_program_that_does_not_end_is_left_out() {
    let fixture = fixture();
    scripted(&fixture, "endless", &["sleep", "1000"]);
    let alone = ["endless", "--limit-s", "0.2", "--svg", "plot.svg"];
    let ended = fixture.run(&[&VALIDATE[..], &alone].concat());
    assert_eq!(ended.code(), 1, "{}", ended.stdout());
    let why = "no program was timed: endless: it had not ended after 0.2 s";
    assert!(ended.stderr().contains(why), "{}", ended.stderr());
    assert!(!fixture.path("plot.svg").exists());
    let two = ["endless", "script", "--limit-s", "2", "--format", "json"];
    let document = fixture.run(&[&VALIDATE[..], &two].concat()).json();
    assert_eq!(document["left_out"][0]["name"], "endless", "{document}");
    assert_eq!(document["left_out"][0]["why"], "it had not ended after 2 s");
}

#[test]
fn text_says_how_near_it_is() {
    let fixture = fixture();
    let text = fixture.run(&[&VALIDATE[..], &["script", "--groups", "0"]].concat()).done();
    assert!(text.contains("1 program, 2 rounds") && text.contains("mean error"), "{text}");
    assert!(text.contains("script: CPI") && text.contains("dependences"), "{text}");
}

#[test]
fn what_cannot_be_run_is_refused() {
    let fixture = fixture();
    fixture.run(&["validate", "--folder", "absent"]).refused(&["absent", "no such folder"]);
    fixture.write("other.json", "{}");
    fixture.run(&["validate", "--measured", "other.json"]).refused(&["other.json", "no document"]);
    let both = ["validate", "--measured", "other.json", "--rounds", "2"];
    fixture.run(&both).refused(&["cannot be used with"]);
    fixture.run(&[&VALIDATE[..], &["nobody"]].concat()).refused(&["nobody"]);
    let same = ["--report", "one.html", "--svg", "./one.html"];
    fixture.run(&[&VALIDATE[..], &same].concat()).refused(&["one.html", "two outputs"]);
    fixture.write("two.toml", &beside_neighbours([1.0, 0.9, 0.4]));
    let of_three = ["--machine", "two.toml", "--group-size", "3"];
    let none = fixture.run(&[&VALIDATE[..5], &of_three].concat());
    none.refused(&["groups of 3 need 3 CPUs under one LLC, there are "]);
    assert!(none.stderr().contains("predictions of another one, here: "), "{}", none.stderr());
    let mut partial = Library::shipped().unwrap().get("gzip").unwrap().clone();
    let ProfileData::Recording(recording) = &mut partial.data else { unreachable!() };
    recording.origin.complete = false;
    fixture.write("partial.toml", &partial.to_toml());
    fixture
        .run(&["validate", "--profiles", "partial.toml"])
        .refused(&["only a part of its run was recorded", "corun profile"]);
}

/// A program that lies in the folder is found there, whether the folder's path is absolute or not.
#[test]
fn a_program_of_the_folder_is_started_from_there() {
    let fixture = fixture();
    std::fs::create_dir(fixture.path("inputs")).unwrap();
    fixture.write("inputs/own.sh", WORK);
    std::os::unix::fs::symlink("/bin/sh", fixture.path("inputs/shell")).unwrap();
    scripted(&fixture, "own", &["./shell", "own.sh"]);
    for folder in ["inputs", fixture.path("inputs").to_str().unwrap()] {
        let one = ["own", "--groups", "0", "--folder", folder, "--format", "json"];
        let document = fixture.run(&[&VALIDATE[..], &one].concat()).json();
        assert_eq!(document["alone"][0]["name"], "own", "{document}");
    }
}

const MEASUREMENT: &str = r#"
[measurement]
by = "corun, a test"
finished = "2026-01-01T00:00:00Z"
seconds = 1.0
rounds = 1
busy_share = 0.0
cpus = "0"
huge_pages = false
"#;

/// Only a file that was measured is written anew: somebody's own keeps its comments and its order.
#[test]
fn a_machine_file_without_a_measurement_is_left_as_it_is() {
    let fixture = fixture();
    let machine = fixture.run(&["topology", "--format", "toml"]).done();
    let machine = format!("# Written by hand.\n{machine}");
    fixture.write("here.toml", &machine);
    let validate = ["validate", "--profiles", "mine", "--rounds", "1", "--groups", "0"];
    let ended = fixture.run(&[&validate[..], &["--machine", "here.toml"]].concat());
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    assert!(ended.stderr().contains("here.toml: how far predictions are off is not noted there"));
    assert_eq!(std::fs::read_to_string(fixture.path("here.toml")).unwrap(), machine);
}

#[test]
fn predictions_for_the_machine_say_how_far_they_were_off() {
    let fixture = fixture();
    let machine = fixture.run(&["topology", "--format", "toml"]).done();
    fixture.write("here.toml", &(machine + MEASUREMENT));
    let validate = ["validate", "--profiles", "mine", "--rounds", "1", "--groups", "0"];
    let ended = fixture.run(&[&validate[..], &["--machine", "here.toml"]].concat());
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    assert!(
        ended.stderr().contains("here.toml: how far predictions are off is noted there"),
        "{}",
        ended.stderr()
    );
    let predict = ["predict", "--machine", "here.toml", "--profiles", "mine"];
    let one = ["--apps", "script", "--place", "0"];
    let text = fixture.run(&[&predict[..], &one].concat()).done();
    assert!(text.contains("measured here: times of 2 programs alone off by"), "{text}");
    let document = fixture.run(&[&predict[..], &one, &["--format", "json"]].concat()).json();
    assert_eq!(document["data"]["prediction_error"]["programs"], 2);
    // Nor does the file have what is measured; it works.
    assert!(text.contains("not in the machine file: clock with one core busy, "), "{text}");
    assert!(document["data"]["unmeasured"].as_array().unwrap().contains(&"TLB reach".into()));
    // A run of fewer programs does not take its place, unless told to.
    let read = || std::fs::read_to_string(fixture.path("here.toml")).unwrap();
    fixture.write("here.toml", &read().replace("programs = 2", "programs = 9"));
    let again = [&validate[..], &["--machine", "here.toml"]].concat();
    let ended = fixture.run(&again);
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    let why = "stays as it is there: it is of 9 programs, and this run of 2";
    assert!(ended.stderr().contains(why), "{}", ended.stderr());
    assert!(read().contains("programs = 9"));
    let ended = fixture.run(&[&again[..], &["--force"]].concat());
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    assert!(read().contains("programs = 2"));
    // A machine that was not measured says nothing.
    let preset = ["predict", "--machine", "xeon-x5365", "--profiles", "mine"];
    let document = fixture.run(&[&preset[..], &one, &["--format", "json"]].concat()).json();
    assert_eq!(document["data"].get("prediction_error"), None);
    assert_eq!(document["data"].get("unmeasured"), None);
}

/// Two cores under an LLC of 32 MiB that others outside use, too, with these shares of lines left after 1, 10 and 20 ms.
fn beside_neighbours(left: [f64; 3]) -> String {
    let [one, ten, twenty] = left;
    format!(
        "version = 1\nname = \"here\"\n[[core_type]]\nname = \"core\"\nclock_mhz = 4000\n\
         [[object]]\nkind = \"cache\"\nlevel = 3\nsize_kib = 32768\nways = 16\neffective_kib = 12000\n\
         idle_survival = [[1.0, {one}], [10.0, {ten}], [20.0, {twenty}]]\n\
         single_use_life = 0.1\nrandom_use_life = 0.4\n\
         [[object.object]]\nkind = \"core\"\ncount = 2\n\
         [[object.object.object]]\nkind = \"cache\"\nlevel = 2\nsize_kib = 1024\n"
    )
}

/// An earlier run, and what was seen of neighbours and clock meanwhile.
fn earlier(neighbours: &serde_json::Value, clock: &serde_json::Value) -> String {
    let time = |s: f64| serde_json::json!({"median": s, "low": s, "high": s, "confidence": 0.9, "rounds": 5});
    let alone = |name: &str, s: f64| serde_json::json!({"name": name, "measured_s": time(s), "had_core": true});
    let document = serde_json::json!({
        "rounds": 5, "load": {"others_share": 0.0, "stolen_share": 0.0},
        "core": {"additions_per_cycle": 5.0, "runs": 10, "shared_runs": 0},
        "alone": [alone("perl", 0.1), alone("zstd", 0.05), alone("sqlite3", 0.05)], "groups": [],
        "neighbours": neighbours, "clock": clock,
    });
    document.to_string()
}

#[test]
fn predictions_know_what_neighbours_left_of_the_cache_meanwhile() {
    let fixture = Fixture::new();
    fixture.write("busy.toml", &beside_neighbours([0.9, 0.1, 0.0]));
    fixture.write("calm.toml", &beside_neighbours([1.0, 0.9, 0.4]));
    let seen =
        serde_json::json!({"looks": 16, "idle_survival": [[1.0, 1.0], [10.0, 0.9], [20.0, 0.4]]});
    fixture.write("seen.json", &earlier(&seen, &serde_json::Value::Null));
    let validate = |machine: &str, measured: &str, format: &str| {
        let machine = ["--machine", machine, "--measured", measured, "--format", format];
        fixture.run(&[&["validate"][..], &machine].concat())
    };
    let busy = validate("busy.toml", "seen.json", "json").json();
    let calm = validate("calm.toml", "seen.json", "json").json();
    let neighbours = &busy["neighbours"];
    assert_eq!((&neighbours["looks"], &neighbours["half_left_ms"]), (&16.into(), &18.0.into()));
    assert_eq!(neighbours["calibrated_half_left_ms"], 5.5);
    assert_eq!(busy["as_seen"]["alone"], calm["agreement"]["alone"]);
    assert_ne!(busy["agreement"]["alone"], calm["agreement"]["alone"]);
    let text = validate("busy.toml", "seen.json", "text").done();
    assert!(text.contains("gone after 18 ms by 16 looks; 6 ms when calibrated"), "{text}");

    // The machine to themselves: as one whose file knows of nobody outside.
    let nobody = serde_json::json!({"looks": 16, "idle_survival": []});
    fixture.write("nobody.json", &earlier(&nobody, &serde_json::Value::Null));
    let alone = validate("busy.toml", "nobody.json", "json").json();
    let own = beside_neighbours([0.9, 0.1, 0.0]);
    let own =
        own.lines().filter(|line| !line.starts_with("idle") && !line.starts_with("effective"));
    fixture.write("own.toml", &own.map(|line| format!("{line}\n")).collect::<String>());
    let own = validate("own.toml", "nobody.json", "json").json();
    assert_eq!(alone["as_seen"]["alone"], own["agreement"]["alone"]);
    assert_eq!(alone["neighbours"]["half_left_ms"], serde_json::Value::Null);
    // Documents of earlier versions say nothing of them.
    fixture.write("old.json", &earlier(&serde_json::Value::Null, &serde_json::Value::Null));
    let old = validate("busy.toml", "old.json", "json").json();
    assert_eq!(
        (&old["neighbours"], &old["as_seen"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
}

#[test]
fn predictions_know_the_clock_of_the_runs() {
    let fixture = Fixture::new();
    let machine = beside_neighbours([0.9, 0.1, 0.0]);
    fixture.write("slow.toml", &machine);
    fixture.write("fast.toml", &machine.replace("clock_mhz = 4000", "clock_mhz = 4500"));
    let clock = serde_json::json!({"looks": 9, "mhz": 4500.0});
    fixture.write("seen.json", &earlier(&serde_json::Value::Null, &clock));
    let validate = |machine: &str, format: &str| {
        let machine = ["--machine", machine, "--measured", "seen.json", "--format", format];
        fixture.run(&[&["validate"][..], &machine].concat())
    };
    let [slow, fast] = ["slow.toml", "fast.toml"].map(|machine| validate(machine, "json").json());
    assert_eq!(slow["clock"]["calibrated_mhz"], 4000.0);
    assert_eq!(slow["as_seen"]["alone"], fast["agreement"]["alone"]);
    assert_ne!(slow["agreement"]["alone"], fast["agreement"]["alone"]);
    // Nothing is other than in the file.
    assert_eq!(fast["as_seen"]["alone"], fast["agreement"]["alone"]);
    let text = validate("slow.toml", "text").done();
    assert!(text.contains("4500 MHz by 9 looks; 4000 when calibrated"), "{text}");
}
