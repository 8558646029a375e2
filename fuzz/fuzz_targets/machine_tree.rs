//! Any files under a root are a machine that survives being written and read, or an error; never a
//! panic. A line of the input is a file: its path below `sys/devices/system`, `=` and its text.
#![no_main]

use std::fs;
use std::path::{Component, Path};

use corun_machine::{Machine, discover};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let root = tempfile::tempdir().expect("a folder");
    let system = root.path().join("sys/devices/system");
    fs::create_dir_all(system.join("cpu")).expect("a folder in it");
    for (path, content) in text.lines().filter_map(|line| line.split_once('=')) {
        let path = Path::new(path);
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            continue;
        }
        let file = system.join(path);
        // What cannot be made, as a file below a file, is not there.
        let _ = file.parent().map(fs::create_dir_all);
        let _ = fs::write(file, content);
    }
    if let Ok(machine) = discover(root.path()) {
        let again = Machine::from_toml(&machine.to_toml(), "again.toml").expect("what we wrote");
        assert_eq!(again.spec(), machine.spec());
    }
});
