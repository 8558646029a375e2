//! Any files of cgroups give quotas, limits and pressures that can be, or none; never a panic. A line of the input is a file:
//! its path below the root, `=` and its text, in which `|` ends a line.
#![no_main]

use std::fs;
use std::path::{Component, Path};

use corun_linux::Roots;
use corun_linux::cpu_quota::{groups_of_version_2, quotas};
use corun_linux::memory_limit::limits;
use corun_linux::pressure::{Pressure, Resource};
use libfuzzer_sys::fuzz_target;

/// The process that is asked about.
const PID: u32 = 7;

fuzz_target!(|text: &str| {
    let root = tempfile::tempdir().expect("a folder");
    let own = |folder: &str| root.path().join(folder);
    let roots = Roots { proc: own("proc"), cgroup: own("cgroup"), ..Roots::below(root.path()) };
    for (path, content) in text.lines().filter_map(|line| line.split_once('=')) {
        let path = Path::new(path);
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            continue;
        }
        let file = root.path().join(path);
        // What cannot be made, as a file below a file, is not there.
        let _ = file.parent().map(fs::create_dir_all);
        let _ = fs::write(file, content.replace('|', "\n"));
    }
    for quota in quotas(&roots, PID) {
        assert!(quota.cpus > 0.0 && quota.cpus.is_finite(), "{quota:?}");
        assert!(quota.period_us.is_finite(), "{quota:?}");
    }
    let _ = (limits(&roots, PID), corun_linux::meminfo::available_bytes(&roots));
    let groups = groups_of_version_2(&roots, PID);
    for resource in [Resource::Cpu, Resource::Memory, Resource::Io] {
        let _ = Pressure::of_machine(&roots, resource);
        for group in &groups {
            let _ = Pressure::of_group(group, resource);
        }
    }
});
