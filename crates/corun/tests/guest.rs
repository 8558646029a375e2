//! The command inside a Debian kernel of today with 2 packages, 4 LLCs, 2 NUMA nodes and 8 CPUs
//! (`scripts/guest`): real topology, affinities and off-line CPUs, systemd, and sched_ext; and a few cases inside an older
//! kernel. Without qemu-system, cpio or Debian's packages they are skipped, and say so.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Most CPU time that the emulator may take for all cases.
const CPU_SECONDS: &str = "2000";

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

/// What a guest cannot be built or booted without, and is not there.
fn lacking() -> Option<&'static str> {
    ["qemu-system-x86_64", "cpio", "apt-get", "dpkg"].into_iter().find(|command| !has(command))
}

/// The cases of a folder.
fn cases_of(folder: &str) -> Vec<PathBuf> {
    let mut cases: Vec<PathBuf> =
        std::fs::read_dir(script(folder)).unwrap().map(|case| case.unwrap().path()).collect();
    cases.sort();
    assert!(!cases.is_empty());
    cases
}

/// The kernel of a guest.
enum Kernel {
    Newer,
    Older,
}

/// Builds a guest with these cases, boots it, and holds those that are ok against them. One that this machine cannot run, or
/// whose Debian kernel cannot be had, is skipped.
fn all_are_ok(name: &str, kernel: Kernel, cases: &[PathBuf]) {
    if let Some(command) = lacking() {
        eprintln!("skipped: the guest needs {command}");
        return;
    }
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = temporary.join(name);
    let mut build = Command::new(script("build.sh"));
    let packages = match kernel {
        Kernel::Newer => {
            build.arg("--new-kernel").arg(examples());
            temporary.join("guest-packages")
        }
        Kernel::Older => folder.join("packages"),
    };
    build.env("PACKAGES", &packages).arg(&folder).arg(env!("CARGO_BIN_EXE_corun")).args(cases);
    let built = build.output().unwrap();
    if !built.status.success() && !packages.join("kernel").exists() {
        eprintln!("skipped: no Debian kernel to be had: {}", text(&built));
        return;
    }
    assert!(built.status.success(), "{}", text(&built));
    let booted = Command::new(script("boot.sh")).arg(&folder).arg(CPU_SECONDS).output().unwrap();
    let console = text(&booted);
    let of_failed = of_failed(&console);
    assert!(booted.status.success(), "{of_failed}");
    let ok = console.lines().filter(|line| line.starts_with("case ") && line.ends_with(": ok"));
    assert_eq!(ok.count(), cases.len(), "{of_failed}");
}

/// What the cases that failed have printed, and the console's last lines where one was not ended: all of a console is too
/// long to be read in a log.
fn of_failed(console: &str) -> String {
    let failed_name =
        |line: &str| Some(format!("  {}: ", line.strip_prefix("case ")?.strip_suffix(": failed")?));
    let failed: Vec<String> = console.lines().filter_map(failed_name).collect();
    let last = if console.contains("guest: done") { 0 } else { 60 };
    let last = console.lines().count().saturating_sub(last);
    let is_shown = |at: usize, line: &str| {
        at >= last
            || line.starts_with("silence: ")
            || failed.iter().any(|name| line.starts_with(name.as_str()))
    };
    let shown =
        console.lines().enumerate().filter(|(at, line)| is_shown(*at, line)).map(|(_, line)| line);
    let verdicts = console.lines().filter(|line| line.starts_with("case "));
    shown.chain(verdicts).collect::<Vec<_>>().join("\n")
}

/// The folder of the programs that exercise the scheduler in the kernel and stand in for resctrl, built as their source
/// is now. `CORUN_EXAMPLES` names it where they were just built: cargo would wait here for whatever else is being built.
fn examples() -> PathBuf {
    if let Some(folder) = std::env::var_os("CORUN_EXAMPLES") {
        return folder.into();
    }
    let built = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--workspace", "--exclude", "corun-python"])
        .args(["--example", "scx_exercise", "--example", "resctrl_server"])
        .arg("--message-format=json")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built));
    let messages = String::from_utf8(built.stdout).unwrap();
    let messages = messages.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let executable = |message: Value| message["executable"].as_str().map(PathBuf::from);
    let executable = messages.filter_map(executable).next_back();
    executable.expect("an example has an executable").parent().unwrap().to_owned()
}

#[test]
fn of_a_console_what_failed_is_shown() {
    let console = "up\n  one: fine\ncase one: ok\n  two: bad\n  two: kernel: worse\ncase two: failed\nguest: done";
    assert_eq!(
        of_failed(console),
        "  two: bad\n  two: kernel: worse\ncase one: ok\ncase two: failed"
    );
    assert_eq!(of_failed("  one: starts"), "  one: starts");
}

/// In a clock that counts instructions, as the next: how fast the emulator is does not show.
#[test]
fn all_cases_of_the_guest_are_ok() {
    let cases = [cases_of("cases"), cases_of("systemd-cases")].concat();
    all_are_ok("guest", Kernel::Newer, &cases);
}

/// Its cases bound how long threads wait.
#[test]
fn all_cases_of_the_guest_with_sched_ext_are_ok() {
    all_are_ok("guest-sched-ext", Kernel::Newer, &cases_of("kernel-cases"));
}

/// What an older kernel may tell or do otherwise. It does not boot in such a clock.
#[test]
fn all_cases_of_the_guest_with_an_older_kernel_are_ok() {
    let names = ["as_before", "at_once", "cpusets", "off_line", "pages", "topology"];
    let cases = names.map(|name| script("cases").join(format!("{name}.sh")));
    all_are_ok("guest-older", Kernel::Older, &cases);
}
