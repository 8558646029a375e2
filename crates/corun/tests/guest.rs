//! The command inside a Debian kernel with 2 packages, 4 LLCs, 2 NUMA nodes and 8 CPUs
//! (`scripts/guest`): real topology, affinities and off-line CPUs; and inside a newer one with sched_ext. Without
//! qemu-system, cpio or Debian's packages they are skipped, and say so.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Longest time for all cases; the guest runs under software emulation.
const SECONDS: &str = "600";

fn has(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(command).is_file())
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/guest").join(name)
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// Builds a guest with the arguments, boots it, and holds the cases that are ok against those in the folders. One
/// whose Debian kernel cannot be had is skipped. Where not all are ok, so many boots in all decide.
fn all_are_ok(name: &str, arguments: &[&str], cases: &[&str], boots: u32) {
    for command in ["qemu-system-x86_64", "cpio", "apt-get", "dpkg"] {
        if !has(command) {
            eprintln!("skipped: the guest needs {command}");
            return;
        }
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let built = Command::new(script("build.sh"))
        .args(arguments)
        .arg(&folder)
        .arg(env!("CARGO_BIN_EXE_corun"))
        .output()
        .unwrap();
    if !built.status.success() && !folder.join("packages/kernel").exists() {
        eprintln!("skipped: no Debian kernel to be had: {}", text(&built));
        return;
    }
    assert!(built.status.success(), "{}", text(&built));
    let count = |folder: &str| std::fs::read_dir(script(folder)).unwrap().count();
    let cases: usize = cases.iter().map(|folder| count(folder)).sum();
    for boot in 1..=boots {
        let booted = Command::new(script("boot.sh")).arg(&folder).arg(SECONDS).output().unwrap();
        let console = text(&booted);
        let is_ok = |line: &&str| line.starts_with("case ") && line.ends_with(": ok");
        let ok = console.lines().filter(is_ok).count();
        if booted.status.success() && ok == cases {
            return;
        }
        assert!(boot < boots, "{ok} of {cases} cases are ok: {console}");
        println!("boot {boot}: {ok} of {cases} cases are ok, once more: {console}");
    }
}

#[test]
fn all_cases_of_the_guest_are_ok() {
    all_are_ok("guest", &[], &["cases", "systemd-cases"], 1);
}

/// This guest's clock is the host's, and its cases bound how long threads wait: a host that stood still in one boot
/// does not in the next.
#[test]
fn all_cases_of_the_guest_with_sched_ext_are_ok() {
    all_are_ok("guest-sched-ext", &["--new-kernel"], &["kernel-cases"], 2);
}
