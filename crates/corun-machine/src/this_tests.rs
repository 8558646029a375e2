use std::fs;
use std::path::Path;

use super::*;

/// A root with two CPUs under one cache of so many KiB.
fn root(llc_kib: u32) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let block = |cpu: u32| {
        format!(
            "processor\t: {cpu}\nmodel name\t: Test CPU\ncpu MHz\t\t: 2000.0\nphysical id\t: 0\n\
             core id\t\t: {cpu}\n\n"
        )
    };
    write("proc/cpuinfo", &[block(0), block(1)].concat());
    for cpu in 0..2 {
        let cache = format!("sys/devices/system/cpu/cpu{cpu}/cache/index0");
        write(&format!("{cache}/level"), "2\n");
        write(&format!("{cache}/type"), "Unified\n");
        write(&format!("{cache}/size"), &format!("{llc_kib}K\n"));
        write(&format!("{cache}/shared_cpu_list"), "0-1\n");
    }
    write("sys/devices/system/cpu/online", "0-1\n");
    root
}

fn write_calibrated(folder: &Path, root: &Path) -> PathBuf {
    let mut spec = discover(root).unwrap().spec().clone();
    spec.name = "this".to_owned();
    spec.memory_latency_ns = vec![vec![123.0]];
    let path = folder.join("this-machine.toml");
    fs::write(&path, Machine::from_spec(spec).unwrap().to_toml()).unwrap();
    path
}

#[test]
fn a_calibrated_file_of_this_machine_counts() {
    let (root, folder) = (root(1024), tempfile::tempdir().unwrap());
    let missing = folder.path().join("missing.toml");
    let path = write_calibrated(folder.path(), root.path());
    let machine = this_machine(root.path(), &[missing.clone(), path]).unwrap();
    assert_eq!(machine.memory_latency_ns(0, 0), Some(123.0));
    let assumed = this_machine(root.path(), &[missing]).unwrap();
    assert_eq!(assumed.memory_latency_ns(0, 0), Some(90.0));
}

#[test]
fn a_file_of_another_machine_is_passed_over_and_named() {
    let (ours, theirs) = (root(1024), root(2048));
    let folder = tempfile::tempdir().unwrap();
    let path = write_calibrated(folder.path(), theirs.path());
    let machine = this_machine(ours.path(), &[path]).unwrap();
    assert_eq!(machine.memory_latency_ns(0, 0), Some(90.0));
    let warning = machine.warnings().last().unwrap();
    assert!(warning.contains("it has L2 of 2048 KiB at CPUs 0-1"), "{warning}");
}

#[test]
fn a_broken_file_is_an_error_that_names_it() {
    let (root, folder) = (root(1024), tempfile::tempdir().unwrap());
    let path = folder.path().join("broken.toml");
    fs::write(&path, "version = 1\nname = 7\n").unwrap();
    let error = this_machine(root.path(), &[path]).unwrap_err().to_string();
    assert!(error.contains("broken.toml:2"), "{error}");
}

#[test]
fn what_was_not_measured_is_listed() {
    let preset = crate::preset("xeon-x5365").unwrap();
    assert_eq!(preset.unmeasured().len(), 10);
    assert!(preset.unmeasured().contains(&"loaded latency"));
    // The preset says that its L2 is inclusive.
    let silent = preset.to_toml().replace("inclusion = \"inclusive\"\n", "");
    let silent = silent.lines().filter(|line| !line.contains("cache.L2.inclusion"));
    let silent = silent.collect::<Vec<_>>().join("\n");
    let silent = Machine::from_toml(&silent, "silent.toml").unwrap();
    let told = cfg!(not(target_arch = "x86_64"));
    assert_eq!(silent.unmeasured().contains(&"inclusion of the LLC"), !told);
}

#[test]
fn a_machine_whose_host_took_memory_back_is_known_as_before() {
    let root = root(1024);
    let with_memory = |kib: u64| {
        fs::write(root.path().join("proc/meminfo"), format!("MemTotal: {kib} kB\n")).unwrap();
        discover(root.path()).unwrap()
    };
    let (before, after) = (with_memory(24 << 20), with_memory(13 << 20));
    assert_ne!(before, after);
    assert!(before.is_known_as(&after));
    let mut other = after.spec().clone();
    other.memory_latency_ns = vec![vec![123.0]];
    assert!(!before.is_known_as(&Machine::from_spec(other).unwrap()));
}
