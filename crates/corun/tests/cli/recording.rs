//! `corun profile` with what users give it: full disks, foreign programs, scripts, programs that
//! read, fail or never end. Where QEMU's user mode is installed.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command as Process, Stdio};

use crate::fixture::{Fixture, Ran};

/// Is the emulator here? Says so where not.
fn can_emulate(emulators: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|at| at.join(name).is_file());
    match emulators.iter().find(|name| !is_there(name)) {
        None => true,
        Some(missing) => {
            println!("skipped: {missing} is not installed (apt-get install qemu-user)");
            false
        }
    }
}

fn profile(fixture: &Fixture, options: &[&str], command: &[&str]) -> Ran {
    fixture.run(&[&["profile", "-o", "p.toml"], options, &["--"], command].concat())
}

/// Ended with this code, wrote the profile, and said so.
fn recorded(fixture: &Fixture, ran: &Ran, code: i32) {
    let stderr = ran.stderr();
    assert_eq!(ran.code(), code, "{stderr}");
    assert!(stderr.contains("corun: p.toml written: "), "{stderr}");
    fixture.run(&["profiles", "show", "p.toml"]).done();
    fs::remove_file(fixture.path("p.toml")).unwrap();
}

/// A static ELF file of one segment with this code; `machine` as in its header.
fn elf(machine: u16, code: &[u8]) -> Vec<u8> {
    let wide = machine == AARCH64;
    let mut file = vec![0x7f, b'E', b'L', b'F', if wide { 2 } else { 1 }, 1, 1, 0];
    file.extend([0; 8]);
    file.extend([2u16, machine].map(u16::to_le_bytes).concat());
    file.extend(1u32.to_le_bytes());
    let base = 0x40_0000u64;
    let (header, entry) = if wide { (64u16, 56u16) } else { (52, 32) };
    let start = u64::from(header + entry);
    let length = start + code.len() as u64;
    let word = |file: &mut Vec<u8>, value: u64| {
        file.extend(&value.to_le_bytes()[..if wide { 8 } else { 4 }]);
    };
    for value in [base + start, header.into(), 0] {
        word(&mut file, value);
    }
    file.extend(0u32.to_le_bytes());
    file.extend([header, entry, 1, 0, 0, 0].map(u16::to_le_bytes).concat());
    // A segment that may be read and executed; its flags stand elsewhere in the two formats.
    file.extend(1u32.to_le_bytes());
    if wide {
        file.extend(5u32.to_le_bytes());
    }
    for value in [0, base, base, length, length] {
        word(&mut file, value);
    }
    if !wide {
        file.extend(5u32.to_le_bytes());
    }
    word(&mut file, 0x1000);
    file.extend(code);
    file
}

const AARCH64: u16 = 183;
const I386: u16 = 3;

/// 65,536 times a load, then `exit(7)`.
fn foreign(machine: u16) -> Vec<u8> {
    if machine == AARCH64 {
        // movz x1, 1 << 16; ldr x2, [sp]; subs x1, x1, 1; b.ne back; mov x0, 7; mov x8, 93; svc 0
        let code = [
            0xd2a0_0021u32,
            0xf940_03e2,
            0xf100_0421,
            0x54ff_ffc1,
            0xd280_00e0,
            0xd280_0ba8,
            0xd400_0001,
        ];
        return elf(machine, &code.map(u32::to_le_bytes).concat());
    }
    // mov ecx, 65536; mov eax, [esp]; dec ecx; jnz back; mov ebx, 7; mov eax, 1; int 0x80
    let code = b"\xb9\0\0\x01\0\x8b\x04\x24\x49\x75\xfa\xbb\x07\0\0\0\xb8\x01\0\0\0\xcd\x80";
    elf(machine, code)
}

#[test]
fn programs_of_other_architectures_are_recorded() {
    if !can_emulate(&["qemu-x86_64", "qemu-aarch64", "qemu-i386"]) {
        return;
    }
    let fixture = Fixture::new();
    for (name, machine) in [("arm", AARCH64), ("x86", I386)] {
        fixture.executable(name, foreign(machine));
        let path = format!("./{name}");
        let ran = profile(&fixture, &[], &[&path]);
        // Decoded: one instruction in three loads, and cores can be tried on stretches of them.
        let text = fs::read_to_string(fixture.path("p.toml")).unwrap();
        assert!(text.contains("loads_pki = 333.") && text.contains("[micro_traces]"), "{text}");
        recorded(&fixture, &ran, 7);
        // Executed by a traced program: in its own process, and in place of a child's.
        let line = format!("{path}; echo $?; exec {path}");
        let ran = profile(&fixture, &[], &["sh", "-c", &line]);
        assert_eq!(ran.stdout(), "7\n");
        let text = fs::read_to_string(fixture.path("p.toml")).unwrap();
        assert!(text.contains("untraced_processes = 0"), "{text}");
        assert!(text.matches(&format!("command = [\"{path}\"]")).count() == 2, "{text}");
        recorded(&fixture, &ran, 7);
    }
}

#[test]
fn a_machine_without_an_emulator_is_named() {
    let fixture = Fixture::new();
    fixture.executable("alien", elf(4242, &[]));
    profile(&fixture, &[], &["./alien"]).refused(&["./alien", "ELF machine 4242"]);
    if can_emulate(&["qemu-x86_64"]) {
        // The kernel refuses it too, and the shell says so.
        let ran = profile(&fixture, &[], &["sh", "-c", "./alien"]);
        assert!(ran.stderr().contains("Exec format error"), "{}", ran.stderr());
        recorded(&fixture, &ran, 126);
    }
}

#[test]
fn scripts_need_their_first_line() {
    if !can_emulate(&["qemu-x86_64"]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.executable("script", b"#!/bin/sh\necho \"hi $1\"\nexit 3\n");
    let ran = profile(&fixture, &[], &["./script", "there"]);
    assert_eq!(ran.stdout(), "hi there\n");
    recorded(&fixture, &ran, 3);
    fixture.executable("plain", b"echo hi\n");
    profile(&fixture, &[], &["./plain"]).refused(&["./plain", "expected an ELF file or a script"]);
    fixture.executable("orphan", b"#!/no/such/interpreter\n");
    profile(&fixture, &[], &["./orphan"]).refused(&["/no/such/interpreter: no such program"]);
    fs::write(fixture.path("text"), "#!/bin/sh\n").unwrap();
    profile(&fixture, &[], &["./text"]).refused(&["./text: is not executable"]);
    profile(&fixture, &[], &["no-such-program"]).refused(&["no-such-program: no such program"]);
    assert!(!fixture.path("p.toml").exists());
}

#[test]
fn standard_input_reaches_the_program() {
    if !can_emulate(&["qemu-x86_64"]) {
        return;
    }
    let fixture = Fixture::new();
    let mut child = Process::new(assert_cmd::cargo::cargo_bin!("corun"))
        .current_dir(fixture.path("."))
        .args(["profile", "-o", "p.toml", "--", "wc", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"hello").unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.stdout().trim(), "5");
    recorded(&fixture, &ran, 0);
}

#[test]
fn a_program_without_its_arguments_says_so_itself() {
    if !can_emulate(&["qemu-x86_64"]) {
        return;
    }
    let fixture = Fixture::new();
    let ran = profile(&fixture, &[], &["grep"]);
    assert!(ran.stderr().contains("Usage: grep"), "{}", ran.stderr());
    recorded(&fixture, &ran, 2);
}

#[test]
fn what_never_ends_is_stopped() {
    if !can_emulate(&["qemu-x86_64"]) {
        return;
    }
    let fixture = Fixture::new();
    for command in [["sh", "-c", "while :; do :; done"], ["sh", "-c", "sleep 1000"]] {
        let ran = profile(&fixture, &["--duration", "0.5"], &command);
        assert!(ran.stderr().contains("stopped at the time limit"), "{}", ran.stderr());
        recorded(&fixture, &ran, 0);
    }
}

/// On a busy machine the time may be over before the program has begun.
#[test]
fn what_begins_after_its_time_is_over_is_recorded_up_to_its_first_report() {
    if !can_emulate(&["qemu-x86_64"]) {
        return;
    }
    let fixture = Fixture::new();
    let path = std::env::var("PATH").unwrap();
    // The emulator, for this test after a while.
    let late = format!("#!/bin/sh\nsleep 2\nPATH='{path}' exec qemu-x86_64 \"$@\"\n");
    fixture.executable("qemu-x86_64", late);
    let recorder = Process::new(assert_cmd::cargo::cargo_bin!("corun"))
        .args(["profile", "-o", "p.toml", "--duration", "0.1", "--", "sleep", "1000"])
        .current_dir(fixture.path(""))
        .env("PATH", format!("{}:{path}", fixture.path("").display()))
        .env("XDG_DATA_HOME", fixture.path(""))
        .output();
    let ran = Ran::from(recorder.unwrap());
    assert!(ran.stderr().contains("stopped at the time limit"), "{}", ran.stderr());
    recorded(&fixture, &ran, 0);
}

/// Whoever stops a recording with Ctrl-C or `kill` has the profile of what ran until then.
#[test]
fn a_signal_to_the_recorder_leaves_the_profile_so_far() {
    if !can_emulate(&["qemu-x86_64"]) {
        return;
    }
    let fixture = Fixture::new();
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let recorder = Process::new(assert_cmd::cargo::cargo_bin!("corun"))
            .args(["profile", "-o", "p.toml", "--", "sh", "-c", "echo up; while :; do :; done"])
            .current_dir(fixture.path(""))
            .env("XDG_DATA_HOME", fixture.path(""))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut recorder = recorder.unwrap();
        let mut up = [0; 3];
        std::io::Read::read_exact(recorder.stdout.as_mut().unwrap(), &mut up).unwrap();
        let words = ["-s", signal, &recorder.id().to_string()];
        assert!(Process::new("kill").args(words).status().unwrap().success());
        let ran = Ran::from(recorder.wait_with_output().unwrap());
        let stderr = ran.stderr();
        assert!(stderr.contains("note: a signal ended the program; the profile is"), "{stderr}");
        recorded(&fixture, &ran, code);
    }
}

/// Awk first counts, then fills an array; the default window is longer than the whole run.
#[test]
fn shorter_windows_find_shorter_phases() {
    if !can_emulate(&["qemu-x86_64"]) {
        return;
    }
    let fixture = Fixture::new();
    let refused = profile(&fixture, &["--window", "10"], &["true"]);
    refused.refused(&["--window", "10", "1000"]);
    let program = "BEGIN { while (i < 5000) i++; while (j < 20000) a[j++] = j \"text\" }";
    let phases = |options: &[&str]| {
        let ran = profile(&fixture, options, &["awk", program]);
        let text = fs::read_to_string(fixture.path("p.toml")).unwrap();
        recorded(&fixture, &ran, 0);
        text.matches("[[phase]]").count()
    };
    let (default, short) = (phases(&["--window", "1000000000"]), phases(&["--window", "200000"]));
    assert!(default == 1 && short > 1, "{default} {short}");
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_program_runs() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("folder")).unwrap();
    let to = |output: &str| fixture.run(&["profile", "-o", output, "--", "touch", "ran"]);
    to("folder").refused(&["folder is a folder: expected a file"]);
    to("solo.csv").refused(&["solo.csv stays as it is: it is no profile", "--output"]);
    let one = ["profile", "-o", "p", "--trace", "./p", "--", "touch", "ran"];
    fixture.run(&one).refused(&["p: found for two outputs"]);
    // Nobody can make a file here, root included.
    let ran = to("/proc/p.toml");
    assert_eq!(ran.code(), 1);
    assert!(ran.stderr().contains("cannot write /proc/p.toml"), "{}", ran.stderr());
    // Root may write here; for root /proc above is such a folder.
    fs::set_permissions(fixture.path("folder"), Permissions::from_mode(0o555)).unwrap();
    if fs::write(fixture.path("folder/any"), "").is_err() {
        let ran = to("folder/p.toml");
        assert!(ran.code() == 1 && ran.stderr().contains("folder/p.toml"), "{}", ran.stderr());
    }
    assert_eq!(fixture.files(), ["folder", "solo.csv"]);
    if can_emulate(&["qemu-x86_64"]) {
        let ran = fixture.run(&["profile", "-o", "/dev/full", "--", "true"]);
        assert_eq!(ran.code(), 1);
        assert!(ran.stderr().contains("No space left on device"), "{}", ran.stderr());
    }
}

/// On a disk of 16 KiB, in a mount namespace of its own.
#[test]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    if !can_emulate(&["qemu-x86_64"]) {
        return;
    }
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("disk")).unwrap();
    let run = |fill: u32, line: &str| {
        let script = format!(
            "mount -t tmpfs -o size=16k none disk || exit 99
             head -c {fill} /dev/zero >disk/fill
             {line} >/dev/null; code=$?
             ls -A disk >left
             exit $code"
        );
        let ran = Process::new("unshare")
            .args(["-rm", "sh", "-c", &script])
            .current_dir(fixture.path("."))
            .env("CORUN", assert_cmd::cargo::cargo_bin!("corun"))
            .output();
        let ran = Ran::from(ran.ok()?);
        if !fixture.path("left").exists() {
            println!("skipped: no mount namespace here: {}", ran.stderr().trim());
            return None;
        }
        assert_eq!(ran.code(), 1, "{line}: {}", ran.stderr());
        let told = ran.stderr().matches("No space left on device").count();
        assert_eq!(told, 1, "{line}: {}", ran.stderr());
        assert_eq!(fs::read_to_string(fixture.path("left")).unwrap(), "fill\n", "{line}");
        Some(ran)
    };
    let children = "sh -c 'for i in 1 2 3 4 5 6; do ls; done'";
    for (fill, line) in [
        (16384, "$CORUN profile -o disk/p.toml -- true".to_owned()),
        (16384, "$CORUN profile -o p.toml --trace disk/trace -- true".to_owned()),
        (16384, "TMPDIR=$PWD/disk $CORUN profile -o p.toml -- true".to_owned()),
        // Room for the first report, and not for those of all children.
        (8000, format!("TMPDIR=$PWD/disk $CORUN profile -o p.toml -- {children}")),
    ] {
        if run(fill, &line).is_none() {
            return;
        }
        assert!(!fixture.path("p.toml").exists(), "{line}");
        fs::remove_file(fixture.path("left")).unwrap();
    }
    // Where the trace alone has no room the profile is whole.
    let line = "$CORUN profile -o p.toml --trace disk/trace -- ls -R /usr/share/doc";
    let ran = run(12000, line).unwrap();
    assert!(ran.stderr().contains("no trace was written to disk/trace"), "{}", ran.stderr());
    recorded(&fixture, &ran, 1);
}
