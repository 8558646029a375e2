//! `corun profiles` and `corun profile`.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use crate::fixture::{Fixture, RECORDING, Ran};

#[test]
fn a_table_is_listed_in_all_formats() {
    let fixture = Fixture::new();
    let text = fixture.run(&["profiles", "list", "--profiles", "solo.csv"]).done();
    assert!(text.contains("alone on xeon-x5365: LLC misses with all 16 ways"), "{text}");
    assert!(text.contains("* read in part outside"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let document =
        fixture.run(&["profiles", "list", "--profiles", "solo.csv", "--format", "json"]).json();
    let profiles = document["profiles"].as_array().unwrap();
    let names: Vec<&str> = profiles.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["idler", "middle", "needy", "quiet", "small", "stream"]);
    assert_eq!(profiles[5]["kind"], "table");
    // Below the table's private cache nothing was measured.
    assert_eq!(profiles[5]["mpki"][0]["extrapolated"], true);
    assert_eq!(profiles[5]["mpki"][2]["extrapolated"], false);
    let csv =
        fixture.run(&["profiles", "list", "--profiles", "solo.csv", "--format", "csv"]).done();
    assert_eq!(csv.lines().count(), 1 + 6 * 4);
}

#[test]
fn programs_have_their_class_on_the_machine() {
    let fixture = Fixture::new();
    let list = ["profiles", "list", "--profiles", "solo.csv", "--machine", "xeon-gold-6138"];
    let sorted = |by: &str| {
        let words = [&list[..], &["--sort", by, "--format", "json"]].concat();
        let document = fixture.run(&words).json();
        let profiles = document["profiles"].as_array().unwrap().iter();
        profiles
            .map(|one| {
                let on = &one["on_machine"];
                let class = on["class"].as_str().unwrap();
                (format!("{} {class}", one["name"].as_str().unwrap()), on.clone())
            })
            .collect::<Vec<_>>()
    };
    let names = |by: &str| sorted(by).into_iter().map(|one| one.0).collect::<Vec<_>>().join(", ");
    assert_eq!(
        names("class"),
        "stream streaming, middle sensitive, needy sensitive, small sensitive, \
         idler light-sharing, quiet light-sharing"
    );
    assert!(names("intensity").starts_with("stream streaming, middle sensitive, needy"));
    assert!(names("sensitivity").starts_with("needy sensitive, middle sensitive, small"));
    // The table's own figures: 0.8 misses and 1.6 instructions a cycle with 11 ways, 0.7 with 1.
    let needy = &sorted("sensitivity")[0].1;
    let figure = |name: &str| needy[name].as_f64().unwrap();
    assert_eq!((figure("llc_mpki"), figure("llc_mpkc")), (0.8, 1.28));
    assert_eq!(figure("one_way_slowdown"), 2.285714);
    assert_eq!((&needy["ways"], &needy["extrapolated"]), (&11.into(), &false.into()));
    fixture.run(&["profiles", "list", "--machine", "none"]).refused(&["none", "topology --list"]);
}

/// Where replays are kept, where none are, and where what is kept was damaged: the same output.
#[test]
fn what_was_replayed_once_is_read_the_next_time() {
    let fixture = Fixture::new();
    let with_caches_in = |folder: &Path| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("corun"));
        command.env("XDG_DATA_HOME", fixture.path(""));
        command.args([
            "predict",
            "--machine",
            "xeon-x5365",
            "--apps",
            "gawk,lua",
            "--place",
            "0,1",
        ]);
        Ran::from(command.env("CORUN_CACHE_DIR", folder).output().unwrap()).done()
    };
    let none = with_caches_in(Path::new(""));
    let caches = fixture.path("caches");
    assert_eq!(with_caches_in(&caches), none);
    let of_program = std::fs::read_dir(caches.join("replays")).unwrap().next().unwrap().unwrap();
    let files = || {
        let entries = std::fs::read_dir(of_program.path()).unwrap().map(|entry| entry.unwrap());
        let file = |entry: std::fs::DirEntry| (entry.path(), entry.metadata().unwrap().ino());
        entries.map(file).collect::<BTreeMap<_, _>>()
    };
    let written = files();
    assert!(written.len() >= 2, "{written:?}");
    assert_eq!(with_caches_in(&caches), none);
    assert_eq!(files(), written, "nothing was replayed");
    for file in written.keys() {
        std::fs::write(file, "damaged").unwrap();
    }
    assert_eq!(with_caches_in(&caches), none);
    assert_ne!(files(), written, "what is damaged is made anew");
    fixture.write("file", "");
    assert_eq!(with_caches_in(&fixture.path("file")), none, "where nothing can be written");
}

#[test]
fn a_recording_is_shown() {
    let fixture = Fixture::new();
    fixture.write("twophase.toml", RECORDING);
    let text = fixture.run(&["profiles", "show", "twophase.toml"]).done();
    assert!(text.starts_with("twophase\n"), "{text}");
    assert!(text.contains("4.0 G in 2 phases") && text.contains('█'), "{text}");
    let document = fixture.run(&["profiles", "show", "twophase.toml", "--format", "json"]).json();
    assert_eq!(document["instructions"], 4_000_000_000u64);
    let curve = document["curve"].as_array().unwrap();
    assert_eq!(curve[0]["bytes"], 32768);
    assert_eq!(curve[0]["mpki"], 0.75 * 40.0 + 0.25 * 10.0);
    assert!(document["llc_apki"].is_number());
    assert_eq!((&document["phases"], &document["phase"][1]["threads"]), (&2.into(), &1.into()));
    assert_eq!(document["sequence"][1]["instructions"], 1_000_000_000u64);
    let strip = format!("in order      {}{}", "0".repeat(48), "1".repeat(16));
    assert!(text.contains(&strip), "{text}");
    let on = &document["on_machine"];
    assert_eq!((&on["machine"], &on["ways"]), (&"xeon-x5365".into(), &16.into()));
    // At 256 KiB it misses twice as often as at 4 MiB, and waits for each miss.
    assert_eq!(on["class"], "sensitive");
    assert!(on["one_way_slowdown"].as_f64().unwrap() > 1.05, "{on}");
}

#[test]
fn a_core_makes_cycles_of_a_recording() {
    let fixture = Fixture::new();
    fixture.write("twophase.toml", RECORDING);
    let show = ["profiles", "show", "twophase.toml", "--core"];
    let text = fixture.run(&[&show[..], &["juno-2b4s:little"]].concat()).done();
    assert!(text.contains("juno-2b4s:little (little at 850 MHz)"), "{text}");
    assert!(text.contains("branches") && text.contains("memory stalls"), "{text}");
    let json = ["xeon-x5365", "--format", "json"];
    let document = fixture.run(&[&show[..], &json].concat()).json();
    let by_size = document["on_core"]["by_size"].as_array().unwrap();
    assert_eq!((document["on_core"]["core"].as_str(), by_size.len()), (Some("xeon-x5365"), 16));
    assert_eq!(by_size[15]["llc_bytes"], 4 << 20);
    for one in by_size {
        let figure = |name: &str| one[name].as_f64().unwrap();
        let parts = one["cpi_stack"].as_object().unwrap();
        let sum: f64 = parts.values().map(|part| part.as_f64().unwrap()).sum();
        assert!((sum - figure("cpi")).abs() < 1e-5, "{one}");
        assert!((figure("ipc") * figure("cpi") - 1.0).abs() < 1e-4, "{one}");
        let memory = one["cpi_stack"]["memory"].as_f64().unwrap() / figure("cpi");
        assert!((figure("memory_stall_share") - memory).abs() < 1e-4, "{one}");
    }
    // A table says nothing of its cycles' parts, and without a core there is no such field.
    let table = ["profiles", "show", "needy", "--profiles", "solo.csv", "--format", "json"];
    let document = fixture.run(&[&table[..], &["--core", "xeon-gold-6138"]].concat()).json();
    assert!(document["on_core"]["by_size"][0]["cpi_stack"].is_null());
    assert!(fixture.run(&table).json().get("on_core").is_none());
    fixture.run(&[&show[..], &["juno-2b4s:mid"]].concat()).refused(&["mid", "big, little"]);
    fixture.run(&[&show[..], &["x5365"]].concat()).refused(&["x5365", "xeon-x5365"]);
}

#[test]
fn stack_distances_are_shown() {
    let fixture = Fixture::new();
    let with = format!(
        "{RECORDING}\n[[stack_distances]]\nsets = 4096\nline_bytes = 64\n\
         private_caches = [[32768, 8]]\nhits_pki = [3.0, 1.5]\nmisses_pki = 4.0\n"
    );
    fixture.write("with.toml", &with);
    let text = fixture.run(&["profiles", "show", "with.toml"]).done();
    assert!(text.contains("of 512 KiB in 2 ways, behind 32 KiB in 8 ways"), "{text}");
    assert!(text.contains("5.500") && text.contains("4.000"), "{text}");
    let document = fixture.run(&["profiles", "show", "with.toml", "--format", "json"]).json();
    let one = &document["stack_distances"][0];
    assert_eq!((&one["bytes"], &one["ways"]), (&(512 << 10).into(), &2.into()));
    assert_eq!((&one["accesses_pki"], &one["hits_pki"][1]), (&8.5.into(), &1.5.into()));
}

#[test]
fn caches_that_cannot_be_are_refused() {
    let fixture = Fixture::new();
    let refused = |words: &[&str], expected: &[&str]| {
        let all = [&["profile", "-o", "p.toml"], words, &["--", "true"]].concat();
        fixture.run(&all).refused(expected);
    };
    refused(&["--llc", "16MB/16"], &["16MB/16", "SIZE/WAYS"]);
    refused(&["--llc", "1MiB/3"], &["1048576 bytes in 3 ways"]);
    refused(&["--private", "32KiB/8"], &["--llc"]);
    refused(&["--machine", "cmt-2x4"], &["cmt-2x4", "16 bytes", "try: --llc"]);
    refused(&["--machine", "no-such-machine"], &["no-such-machine"]);
    refused(&["--machine", "xeon-x5365", "--llc", "1MiB/4"], &["--llc"]);
    assert!(!fixture.path("p.toml").exists());
}

#[test]
fn an_imported_table_is_the_same_program() {
    let fixture = Fixture::new();
    let written = fixture.run(&["profiles", "import", "solo.csv", "--out-dir", "lib"]).done();
    assert_eq!(written, "6 profiles written to lib\n");
    let show = |from: &[&str]| {
        let mut words = vec!["profiles", "show", "needy", "--format", "json", "--profiles"];
        words.extend(from);
        fixture.run(&words).done()
    };
    assert_eq!(show(&["solo.csv"]), show(&["lib"]));
    let again = ["profiles", "import", "solo.csv", "--out-dir", "lib"];
    fixture.run(&again).refused(&["lib/idler.toml is there already", "try: --force"]);
    fixture.run(&[&again[..], &["--force"]].concat()).done();
}

#[test]
fn bad_tables_are_refused_and_leave_nothing() {
    let fixture = Fixture::new();
    let good = std::fs::read_to_string(fixture.path("solo.csv")).unwrap();
    let import = |name: &str, text: &str, words: &[&str]| {
        fixture.write(name, text);
        fixture.run(&["profiles", "import", name, "--out-dir", "out"]).refused(words);
        assert!(!fixture.path("out").exists());
    };
    import("column.csv", &good.replacen("llcmpki", "other", 1), &["column.csv:1", "llcmpki"]);
    import("nan.csv", &good.replacen("0.600000", "NaN", 1), &["nan.csv:2", "ipc"]);
    import("negative.csv", &good.replacen("0.600000", "-1", 1), &["negative.csv:2", "ipc"]);
    import("empty.csv", "", &["empty.csv"]);
    import("short.csv", &good[..good.len() - 40], &["short.csv:67"]);
    import("table.txt", &good, &["table.txt", ".csv"]);
    fixture.run(&["profiles", "import", "none.csv", "--out-dir", "out"]).refused(&["none.csv"]);
}

#[test]
fn unknown_and_broken_profiles_are_refused() {
    let fixture = Fixture::new();
    fixture
        .run(&["profiles", "show", "neddy", "--profiles", "solo.csv"])
        .refused(&["neddy", "needy", "try: "]);
    fixture.write("bad.toml", &RECORDING.replace("dirty_share = 0.2", "dirty_share = 2"));
    fixture.run(&["profiles", "show", "bad.toml"]).refused(&["bad.toml:15", "dirty_share"]);
    fixture.run(&["profiles", "show", "missing.toml"]).refused(&["missing.toml"]);
}

#[test]
fn recording_what_is_no_program_is_refused() {
    let fixture = Fixture::new();
    fixture.write("text", "no program");
    let before = fixture.files();
    fixture.run(&["profile", "-o", "p.toml"]).refused(&["<CMD>"]);
    fixture.run(&["profile", "-o", "p.toml", "--", "/no/such/prog"]).refused(&["/no/such/prog"]);
    fixture.run(&["profile", "-o", "p.toml", "--", "./text"]).refused(&["text", "executable"]);
    fixture.run(&["profile", "-o", "no/p.toml", "--", "true"]).refused(&["no: there is no such"]);
    fixture.run(&["profile", "-o", "p.toml", "--", "/usr"]).refused(&["/usr", "directory"]);
    let both = ["profile", "-o", "p.toml", "--exact", "--max-lines", "9", "--", "true"];
    fixture.run(&both).refused(&["--exact", "--max-lines"]);
    let rate = ["profile", "-o", "p.toml", "--sampling-rate", "2", "--", "true"];
    fixture.run(&rate).refused(&["a share above 0 and at most 1"]);
    let named = |name: &str| {
        let words = ["profile", "-o", "p.toml", "--name", name, "--", "touch", "it-ran"];
        fixture.run(&words).refused(&["name", "try: --name"]);
    };
    named("a/b");
    named(&"x".repeat(201));
    fixture.run(&["profile", "-o", ".p.toml", "--", "./.hidden"]).refused(&["name", "try: --name"]);
    assert_eq!(fixture.files(), before);
}

#[test]
fn a_program_is_recorded_and_its_exit_code_passes_through() {
    let emulator = format!("qemu-{}", std::env::consts::ARCH);
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|folder| folder.join(&emulator).is_file()) {
        println!("skipped: {emulator} is not installed");
        return;
    }
    let fixture = Fixture::new();
    let words = ["profile", "-o", "p.toml", "--name", "mine", "--machine", "xeon-gold-6138"];
    let ran = fixture.run(&[&words[..], &["--", "sh", "-c", "echo out; exit 3"]].concat());
    assert_eq!(ran.code(), 3, "{}", ran.stderr());
    assert_eq!(ran.stdout(), "out\n");
    assert!(ran.stderr().contains("p.toml written: mine"), "{}", ran.stderr());
    assert!(ran.stderr().contains("exit status: 3"), "{}", ran.stderr());
    let document = fixture.run(&["profiles", "show", "p.toml", "--format", "json"]).json();
    assert_eq!(document["name"], "mine");
    assert_eq!(document["origin"]["exit_code"], 3);
    let engine = |options: &[&str]| {
        let words =
            [&["profile", "-o", "p.toml"], options, &["--", "sh", "-c", "ls; ls; true"]].concat();
        assert_eq!(fixture.run(&words).code(), 0);
        let origin =
            fixture.run(&["profiles", "show", "p.toml", "--format", "json"]).json()["origin"]
                .take();
        let untraced = origin["untraced_processes"].as_u64().unwrap();
        let fetches = origin["instruction_fetches"].as_bool().unwrap();
        (origin["engine"].clone(), origin["sampling_rate"].as_f64().unwrap(), fetches, untraced)
    };
    assert_eq!(engine(&["--exact", "--main-only"]), ("exact".into(), 1.0, true, 2));
    let rate = engine(&["--sampling-rate", "0.25", "--no-fetches"]);
    assert_eq!(rate, ("fixed-rate".into(), 0.25, false, 0));
    let (kind, rate, _, _) = engine(&["--max-lines", "100"]);
    assert!(kind == "fixed-size" && rate < 0.5, "{rate}");
    assert!(document["instructions"].as_u64().unwrap() > 1000);
    let caches = &document["stack_distances"][0];
    assert_eq!(caches["sets"], 40960);
    assert_eq!(caches["private_caches"], serde_json::json!([[32 << 10, 8], [1 << 20, 16]]));
    assert!(caches["misses_pki"].as_f64().unwrap() > 0.0);
}

#[test]
fn curves_are_drawn_to_a_file() {
    let fixture = Fixture::new();
    fixture.write("twophase.toml", RECORDING);
    let text = fixture.run(&["profiles", "show", "twophase.toml", "--svg", "one.svg"]).done();
    assert!(text.starts_with("twophase\n"), "{text}");
    let drawn = std::fs::read_to_string(fixture.path("one.svg")).unwrap();
    for part in ["<title id=\"title\">Miss-rate curve of twophase</title>", "<desc", "its phases"] {
        assert!(drawn.contains(part), "{part} in {drawn}");
    }
    // Its second phase ends at 1 MiB; both phases and the whole have a dashed part from there.
    assert!(drawn.matches("stroke-dasharray").count() >= 2, "{drawn}");
    assert!(drawn.contains("prefers-color-scheme: dark"));
    let all = ["needy", "stream", "quiet", "idler"];
    let words = ["profiles", "show", "--profiles", "solo.csv", "--svg", "all.svg"];
    fixture.run(&[&words[..], &all].concat()).done();
    let drawn = std::fs::read_to_string(fixture.path("all.svg")).unwrap();
    assert!(all.iter().all(|name| drawn.contains(&format!(">{name}<"))), "{drawn}");
    let document = fixture.run(&[&words[..], &all[..2], &["--format", "json"]].concat()).json();
    assert_eq!(document["profiles"][1]["name"], "stream");

    fixture.run(&[&words[..], &["needy"; 9]].concat()).refused(&["9 programs", "at most 8"]);
    let nowhere = ["profiles", "show", "twophase.toml", "--svg", "no/x.svg"];
    fixture.run(&nowhere).refused(&["no: there is no such folder"]);
    let point = RECORDING
        .replace("[[32768, 40], [1048576, 20], [33554432, 5], [67108864, 0.1]]", "[[4096, 1]]");
    let point = point.replace("[[32768, 10], [1048576, 0.1]]", "[[4096, 1]]");
    fixture.write("point.toml", &point);
    let words = ["profiles", "show", "point.toml", "--svg", "point.svg"];
    fixture.run(&words).refused(&["one point", "expected a curve"]);
    assert!(!fixture.path("point.svg").exists());
}

#[test]
fn a_table_is_exported_as_it_stands() {
    let fixture = Fixture::new();
    let words = ["profiles", "export", "--profiles", "solo.csv", "-o", "out.csv"];
    let said = fixture.run(&words).done();
    let expected = "6 programs written to out.csv: 6 as measured on xeon-gold-6138, 0 derived by \
                    the model\n";
    assert_eq!(said, expected);
    let show = |from: &str| {
        let words = ["profiles", "show", "needy", "--profiles", from, "--format", "json"];
        fixture.run(&words).done()
    };
    assert_eq!(show("out.csv"), show("solo.csv"));
    // Written again from what was read, it is the same file.
    let words = ["profiles", "export", "--profiles", "out.csv", "-o", "again.csv"];
    fixture.run(&words).done();
    let text = |name: &str| std::fs::read_to_string(fixture.path(name)).unwrap();
    assert_eq!(text("out.csv"), text("again.csv"));
}

#[test]
fn a_recording_is_exported_as_the_model_sees_it() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.path("lib")).unwrap();
    fixture.write("lib/twophase.toml", RECORDING);
    let class_of = |from: &str, machine: &str| {
        let words = ["profiles", "show", "twophase", "--profiles", from, "--machine", machine];
        let document = fixture.run(&[&words[..], &["--format", "json"]].concat()).json();
        document["on_machine"].clone()
    };
    for machine in ["xeon-gold-6138", "xeon-x5365"] {
        let on = ["--machine", machine];
        let words = ["profiles", "export", "twophase", "--profiles", "lib", "-o", "out.csv"];
        let said = fixture.run(&[&words[..], &on].concat()).done();
        assert!(
            said.contains("0 as measured") && said.contains("1 derived by the model"),
            "{said}"
        );
        let hinted = said.contains("import it with --machine xeon-x5365");
        assert_eq!(hinted, machine == "xeon-x5365", "{said}");
        let words = ["profiles", "import", "out.csv", "--out-dir", machine];
        fixture.run(&[&words[..], &on].concat()).done();
        // Back as a table, it does on that machine what the recording does.
        let (mut recorded, mut back) = (class_of("lib", machine), class_of(machine, machine));
        for one in [&mut recorded, &mut back] {
            // A recording of two phases ends where the shorter one does, a table with all ways.
            one.as_object_mut().unwrap().remove("extrapolated");
        }
        assert_eq!(recorded, back);
    }
    let text = std::fs::read_to_string(fixture.path("out.csv")).unwrap();
    assert_eq!(text.lines().count(), 1 + 16);
}

#[test]
fn what_cannot_be_exported_or_imported_is_refused() {
    let fixture = Fixture::new();
    let export = |words: &[&str]| {
        fixture.run(&[&["profiles", "export", "--profiles", "solo.csv"], words].concat())
    };
    export(&["-o", "no/out.csv"]).refused(&["no: there is no such folder"]);
    export(&["-o", "out.csv", "neddy"]).refused(&["neddy", "needy"]);
    export(&["-o", "out.csv", "--machine", "none"]).refused(&["none"]);
    export(&[]).refused(&["--output"]);
    assert_eq!(fixture.files(), ["solo.csv"]);
    let import = ["profiles", "import", "solo.csv", "--out-dir"];
    fixture.run(&[&import[..], &["solo.csv"]].concat()).refused(&["solo.csv is a file"]);
    fixture.run(&[&import[..], &["solo.csv/lib"]].concat()).refused(&["solo.csv/lib"]);
    let on = ["lib", "--machine", "none"];
    fixture.run(&[&import[..], &on].concat()).refused(&["none"]);
}

#[test]
fn a_file_that_is_too_large_is_refused_before_it_is_read() {
    let fixture = Fixture::new();
    // 200 MB that no disk holds and no reader would like.
    let large = std::fs::File::create(fixture.path("large.toml")).unwrap();
    large.set_len(200_000_000).unwrap();
    let expected = "large.toml: found 200000000 bytes, expected profiles of at most 16777216";
    for path in ["large.toml", "."] {
        fixture.run(&["profiles", "list", "--profiles", path]).refused(&[expected]);
    }
    let pipe = fixture.path("pipe.toml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fixture.run(&["profiles", "list", "--profiles", "pipe.toml"]).refused(&["no plain file"]);
}
