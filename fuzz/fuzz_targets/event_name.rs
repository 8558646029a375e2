//! Any text is an event on any counters, or an error; never a panic. The first line of the input is
//! what is asked for; each further line is a file of the counters: its path below
//! `sys/bus/event_source/devices`, `=` and its text.
#![no_main]

use std::fs;
use std::path::{Component, Path};

use corun_linux::Roots;
use corun_linux::perf::Pmus;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let root = tempfile::tempdir().expect("a folder");
    let devices = root.path().join("sys/bus/event_source/devices");
    let (asked, files) = text.split_once('\n').unwrap_or((text, ""));
    for (path, content) in files.lines().filter_map(|line| line.split_once('=')) {
        let path = Path::new(path);
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            continue;
        }
        let file = devices.join(path);
        // What cannot be made, as a file below a file, is not there.
        let _ = file.parent().map(fs::create_dir_all);
        let _ = fs::write(file, content);
    }
    let pmus = Pmus::read(&Roots::below(root.path()));
    for name in pmus.known_names() {
        if let Err(error) = pmus.event(&name) {
            assert!(!error.to_string().is_empty());
        }
    }
    match pmus.event(asked) {
        Ok(event) => {
            assert_eq!(event.name, asked.trim());
            assert!(!event.encodings.is_empty());
            let not_both = |one: &corun_linux::perf::Encoding| !(one.user_only && one.kernel_only);
            assert!(event.encodings.iter().all(not_both));
            assert!(event.is_software || pmus.has_hardware());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
