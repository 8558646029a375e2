//! `corun topology`.

use crate::fixture::Fixture;

#[test]
fn a_preset_is_drawn_and_written() {
    let fixture = Fixture::new();
    let text = fixture.run(&["topology", "--machine", "xeon-x5365"]).done();
    assert!(text.starts_with("xeon-x5365"), "{text}");
    let document = fixture.run(&["topology", "--machine", "xeon-x5365", "--format", "json"]).json();
    assert_eq!(document["packages"], 2);
    assert_eq!(document["cores"], 8);
    assert_eq!(document["cpus"], 8);
    let caches = document["caches"].as_array().unwrap();
    let last = caches.iter().find(|cache| cache["level"] == 2).unwrap();
    assert_eq!(last["size_bytes"], 4 * 1024 * 1024);
    assert_eq!(last["ways"], 16);
    assert_eq!(last["type"], "unified");
    assert_eq!(last["line_bytes"], 64);
    assert_eq!(last["cpus"], "0-1");
    assert!(document["tree"].is_object());
}

#[test]
fn a_machine_file_written_out_is_read_again() {
    let fixture = Fixture::new();
    let toml = fixture.run(&["topology", "--machine", "opteron-2350", "--format", "toml"]).done();
    fixture.write("mine.toml", &toml);
    let again = fixture.run(&["topology", "--machine", "mine.toml", "--format", "toml"]).done();
    assert_eq!(toml, again);
}

#[test]
fn the_presets_are_listed() {
    let fixture = Fixture::new();
    let text = fixture.run(&["topology", "--list"]).done();
    for name in ["xeon-x5365", "2x-gold-6138-4c", "epyc-9554"] {
        assert!(text.contains(name), "{name}");
    }
    let document = fixture.run(&["topology", "--list", "--format", "json"]).json();
    let machines = document["machines"].as_array().unwrap();
    let first = machines.iter().find(|one| one["name"] == "xeon-x5365").unwrap();
    assert_eq!((&first["llcs"], &first["cpus"]), (&4.into(), &8.into()));
    fixture.run(&["topology", "--list", "--format", "toml"]).refused(&["text or json", "try: "]);
}

#[test]
fn a_tree_below_a_root_is_discovered() {
    let fixture = Fixture::new();
    let cpu = "root/sys/devices/system/cpu";
    for (file, text) in [
        ("online", "0-1\n"),
        ("present", "0-1\n"),
        ("cpu0/topology/core_id", "0\n"),
        ("cpu0/topology/physical_package_id", "0\n"),
        ("cpu1/topology/core_id", "1\n"),
        ("cpu1/topology/physical_package_id", "0\n"),
        ("cpu0/cache/index0/level", "3\n"),
        ("cpu0/cache/index0/type", "Unified\n"),
        ("cpu0/cache/index0/size", "8192K\n"),
        ("cpu0/cache/index0/coherency_line_size", "64\n"),
        ("cpu0/cache/index0/ways_of_associativity", "16\n"),
        ("cpu0/cache/index0/shared_cpu_list", "0-1\n"),
    ] {
        let path = fixture.path(&format!("{cpu}/{file}"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let document = fixture.run(&["topology", "--root", "root", "--format", "json"]).json();
    assert_eq!((&document["packages"], &document["cpus"]), (&1.into(), &2.into()));
    // As a file it has what is assumed of memory: else nobody would be predicted to slow another one down by traffic.
    let file = fixture.run(&["topology", "--root", "root", "--format", "toml"]).done();
    assert!(file.contains("# Assumed: memory bandwidth is unknown: "), "{file}");
    fixture.write("root.toml", &file);
    let apps = ["predict", "--apps", "kernel-triad,kernel-triad", "--place", "0,1", "--machine"];
    let ended = fixture.run(&[&apps[..], &["root.toml", "--format", "json"]].concat());
    assert!(!ended.stderr().contains("no bandwidth limits known"), "{}", ended.stderr());
    assert!(ended.json()["slowdown"][0].as_f64().unwrap() > 1.05);
    let bare = file.split("[[bandwidth]]").next().unwrap();
    let objects = file.find("[[object]]").map(|place| &file[place..]).unwrap_or_default();
    fixture.write("bare.toml", &format!("{bare}{objects}"));
    let ended = fixture.run(&[&apps[..], &["bare.toml"]].concat());
    assert!(ended.stderr().contains("no bandwidth limits known"), "{}", ended.stderr());
    std::fs::create_dir(fixture.path("empty")).unwrap();
    fixture.run(&["topology", "--root", "empty"]).refused(&["empty", "sys/"]);
}

#[test]
fn bad_machines_are_refused() {
    let fixture = Fixture::new();
    fixture.run(&["topology", "--machine", "xeon-5365"]).refused(&["xeon-5365", "try: xeon-x5365"]);
    fixture.run(&["topology", "--machine", "none.toml"]).refused(&["none.toml"]);
    fixture.write("broken.toml", "version = 1\nname = \"x\"\nobject = 5\n");
    fixture.run(&["topology", "--machine", "broken.toml"]).refused(&["broken.toml:3", "object"]);
    fixture.write(
        "zero.toml",
        "version = 1\nname = \"x\"\n[[core_type]]\nname = \"c\"\nclock_mhz = 2000.0\n\
         [[object]]\nkind = \"cache\"\nlevel = 3\nsize_kib = 1024\nways = 0\n\
         [[object.object]]\nkind = \"core\"\n",
    );
    fixture.run(&["topology", "--machine", "zero.toml"]).refused(&["zero.toml:10", "ways"]);
}

/// One CPU of this machine's, as a job or a container has.
#[test]
fn what_may_be_used_is_told_from_what_there_is() {
    let fixture = Fixture::new();
    let on_one_cpu = |words: &[&str]| {
        let corun = env!("CARGO_BIN_EXE_corun");
        let mut command = std::process::Command::new("taskset");
        command.current_dir(fixture.path(".")).env("SLURM_JOB_ID", "4711");
        command.args(["-c", "0", corun]).args(words).output().unwrap()
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let drawn: serde_json::Value =
        serde_json::from_slice(&on_one_cpu(&["topology", "--format", "json"]).stdout).unwrap();
    let may_use = &drawn["may_use"];
    assert_eq!((&may_use["cpus"], &may_use["slurm_job"]), (&"0".into(), &"4711".into()));
    let all = may_use["of_cpus"].as_str().unwrap();
    if all == "0" {
        return eprintln!("skipped: one CPU alone");
    }
    let expected = format!("his process may use CPU 0 of {all}");
    for words in [&["topology"][..], &["doctor"]] {
        let said = text(&on_one_cpu(words).stdout);
        assert!(said.contains(&expected) && said.contains("Slurm job 4711"), "{said}");
    }
    let run = ["run", "--policy", "di", "--counters", "profiles", "--dry-run", "--", "true"];
    let said = text(&on_one_cpu(&run).stderr);
    assert_eq!(said.matches(&expected).count(), 1, "{said}");
    // A machine that is not this one says nothing of this process.
    let other = fixture.run(&["topology", "--machine", "xeon-x5365", "--format", "json"]).json();
    assert!(other["may_use"].is_null());
}
