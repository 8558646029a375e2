//! `corun explain` on programs that are slow for a reason that the test made.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::fixture::Fixture;
use crate::started::Started;

fn explain(words: &[&str]) -> Value {
    let words = [&["explain", "--duration", "2", "--format", "json"], words].concat();
    Fixture::new().run(&words).json()
}

fn cause<'a>(document: &'a Value, kind: &str) -> &'a Value {
    let causes = document["causes"].as_array().unwrap();
    let found = causes.iter().find(|one| one["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}: {document:#}"))
}

#[test]
fn a_program_that_shares_a_cpu_with_others_waits_for_it() {
    let programs: Vec<Started> = (0..4).map(|_| Started::busy()).collect();
    for one in &programs {
        let pinned = Command::new("taskset").args(["-cp", "0", &one.pid()]).output();
        if !pinned.is_ok_and(|output| output.status.success()) {
            println!("skipped: needs taskset and CPU 0");
            return;
        }
    }
    let document = explain(&[&programs[0].pid()]);
    assert_eq!(document["causes"][0]["kind"], "waiting-for-cpu", "{document:#}");
    // A wait that is not over is seen by samples alone.
    let is_sampled = document["facts"]["time"]["waiting_is_sampled"] == true;
    let sureness = if is_sampled { "estimated" } else { "measured" };
    assert_eq!(document["causes"][0]["lost"]["sureness"], sureness);
    // Of four on one CPU each waits three quarters of the time, others on this machine aside.
    assert!(document["causes"][0]["lost"]["share"].as_f64().unwrap() > 0.5, "{document:#}");
    assert_eq!(document["facts"]["may_run_on"], "0");
    assert!(!document["facts"]["competitors"].as_array().unwrap().is_empty(), "{document:#}");
    let text = Fixture::new().run(&["explain", "--duration", "0.5", &programs[0].pid()]).done();
    assert!(text.contains("waits for a CPU") && text.contains("      $ "), "{text}");
    // What is advised can be measured as it stands: the time on CPUs tells how far such a program is.
    let pid = programs[0].pid();
    let counted = format!(r#"--count cpu='awk "{{print \$14+\$15}}" /proc/{pid}/stat'"#);
    assert!(text.contains("corun ab --until-clear --on ") && text.contains(&counted), "{text}");
}

/// Between sessions nice values do nothing: the advice for them is one that the kernel takes, and takes back.
#[test]
fn between_sessions_the_session_is_asked_to_give_way() {
    let (one, other) = (Started::in_a_session(BUSY_ON_CPU_0), Started::in_a_session(BUSY_ON_CPU_0));
    let groups = [&one, &other].map(autogroup);
    let [Some(own), Some(others)] = groups else {
        println!("skipped: this kernel makes no autogroups");
        return;
    };
    assert_ne!(own, others);
    let document = explain(&[&one.pid()]);
    assert_eq!(document["facts"]["place"]["autogroup"]["number"], own, "{document:#}");
    let competitors = document["facts"]["competitors"].as_array().unwrap();
    let pid: u64 = other.pid().parse().unwrap();
    let other_facts = competitors.iter().find(|found| found["pid"] == pid);
    let other_facts = other_facts.unwrap_or_else(|| panic!("{document:#}"));
    assert_eq!(other_facts["place"]["autogroup"]["number"], others, "{document:#}");
    // The busiest may be a program of another test, which is left alone.
    let advice = cause(&document, "waiting-for-cpu")["advice"].as_array().unwrap();
    let file = format!("/proc/{}/autogroup", other.pid());
    let Some(way) = advice.iter().find(|one| one["command"].to_string().contains(&file)) else {
        return;
    };
    for (command, nice) in [("command", 10), ("undo", 0)] {
        let line = way[command].as_str().unwrap();
        assert!(Command::new("sh").args(["-c", line]).status().unwrap().success(), "{line}");
        let now = std::fs::read_to_string(&file).unwrap();
        assert_eq!(now, format!("/autogroup-{others} nice {nice}\n"));
    }
}

#[test]
fn a_name_leads_to_processes_and_a_threads_number_to_its_process() {
    let fixture = Fixture::new();
    let shell = fixture.copy("/bin/sh", "for-explain");
    let named = Started::new(&format!("exec {} -c 'while :; do :; done'", shell.display()));
    while named.proc("comm") != "for-explain\n" {
        std::thread::yield_now();
    }
    let offered = format!("try: corun explain {}    ", named.pid());
    let refused = fixture.run(&["explain", "for-explain"]);
    refused.refused(&["no process is in a unit called `for-explain`", &offered]);
    drop(named);
    fixture.run(&["explain", "for-explain"]).refused(&["systemctl list-units"]);

    let corun = assert_cmd::cargo::cargo_bin!("corun");
    let two = Started::new(&format!("exec {} stand-in --threads 2", corun.display()));
    let thread = loop {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", two.pid())).unwrap();
        let mut names = tasks.map(|one| one.unwrap().file_name().into_string().unwrap());
        if let Some(thread) = names.find(|one| *one != two.pid()) {
            break thread;
        }
    };
    let document = explain(&[&thread]);
    let verdict = document["verdict"].as_str().unwrap();
    assert!(verdict.starts_with(&format!("corun ({}) ", two.pid())), "{verdict}");
}

/// A script that keeps CPU 0 busy.
const BUSY_ON_CPU_0: &str = "taskset -cp 0 $$ >/dev/null 2>&1; while :; do :; done";

/// The number of a process's autogroup; none where the kernel makes none, or has been told not to.
fn autogroup(program: &Started) -> Option<u64> {
    let switch = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").ok()?;
    if switch.trim() == "0" {
        return None;
    }
    let line = std::fs::read_to_string(format!("/proc/{}/autogroup", program.pid())).ok()?;
    line.strip_prefix("/autogroup-")?.split(' ').next()?.parse().ok()
}

/// A cgroup of this test with a quota that a busy program reaches on any machine, of whichever version there is: a
/// fiftieth of a CPU.
struct Limited(PathBuf);

impl Limited {
    fn new() -> Option<Self> {
        let name = format!("corun-test-{}", std::process::id());
        for (place, file, limit) in [
            ("", "cpu.max", "2000 100000"),
            ("unified", "cpu.max", "2000 100000"),
            ("cpu", "cpu.cfs_quota_us", "2000"),
            ("cpu,cpuacct", "cpu.cfs_quota_us", "2000"),
        ] {
            let folder = PathBuf::from("/sys/fs/cgroup").join(place).join(&name);
            if std::fs::create_dir(&folder).is_err() {
                continue;
            }
            let own = Self(folder);
            // Else it is a plain folder beside the mounts of cgroups.
            let is_group = own.0.join("cgroup.procs").is_file();
            if is_group && std::fs::write(own.0.join(file), limit).is_ok() {
                return Some(own);
            }
        }
        None
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // The kernel takes a moment to let a group go whose last process was killed.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn a_program_with_a_small_quota_is_held_back_by_it() {
    let Some(group) = Limited::new() else {
        println!("skipped: needs a cgroup with a quota of CPU time, which takes root");
        return;
    };
    let program = Started::busy();
    std::fs::write(group.0.join("cgroup.procs"), program.pid()).unwrap();
    let document = explain(&[&program.pid()]);
    drop(program);
    let throttled = cause(&document, "throttled-by-quota");
    assert!(throttled["lost"]["share"].as_f64().unwrap() > 0.2, "{document:#}");
    let command = throttled["advice"][0]["command"].as_str().unwrap();
    assert!(command.contains(group.0.to_str().unwrap()), "{command}");
    assert_eq!(document["facts"]["quota"]["cpus"], 0.02);
}

#[test]
fn why_a_program_sleeps_cannot_be_told() {
    let program = Started::new("exec sleep 100");
    let document = explain(&[&program.pid()]);
    assert_eq!(document["cannot_tell"], true, "{document:#}");
    assert_eq!(document["unknown"][0]["kind"], "sleep");
    assert!(document["verdict"].as_str().unwrap().starts_with("Cannot tell"), "{document:#}");
}

#[test]
fn a_stored_profile_tells_what_is_the_programs_own_nature() {
    let fixture = Fixture::new();
    // A chase through 64 MiB, on a machine of which no cache holds it; beside other tests the program may get a
    // small share of its CPU, and what it lost is a part of that.
    let found = fixture.run(&["topology", "--format", "toml"]).done();
    let sized = |line: &str| match line.strip_prefix("size_kib = ") {
        Some(kib) => format!("size_kib = {}", kib.parse::<u64>().unwrap().min(8192)),
        None => line.to_owned(),
    };
    let machine: Vec<String> = found.lines().map(sized).collect();
    fixture.write("small.toml", &machine.join("\n"));
    let program = Started::busy();
    let words = ["explain", "--format", "json", "--machine", "small.toml"];
    let of = [&program.pid(), "--profile", "kernel-chase"];
    let explained =
        |seconds| fixture.run(&[&words[..], &of, &["--duration", seconds]].concat()).json();
    let share_of = |document: &Value, kind: &str| {
        let causes = document["causes"].as_array().unwrap();
        causes
            .iter()
            .find(|one| one["kind"] == kind)
            .map(|one| one["lost"]["share"].as_f64().unwrap())
    };
    let mut document = explained("2");
    for seconds in ["2", "2", "20"] {
        if share_of(&document, "cache-by-its-nature").is_some() {
            break;
        }
        // It had next to no CPU for so long.
        document = explained(seconds);
    }
    // What it loses in caches is a part of the time that it runs: of a tenth, it is not worth naming.
    if share_of(&document, "waiting-for-cpu").is_none_or(|share| share < 0.9) {
        let own = cause(&document, "cache-by-its-nature");
        assert_eq!(own["lost"]["sureness"], "predicted");
    }
    assert_eq!(document["facts"]["cache"]["profile"], "kernel-chase");
    let share = document["facts"]["cache"]["solo_memory_cycles_share"].as_f64().unwrap();
    assert!(share > 0.5, "{share}");
}

/// A look of two minutes, which is broken off as soon as it is announced.
#[test]
fn who_waits_long_is_told_how_long() {
    let program = Started::busy();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("corun"));
    command.args(["explain", "--duration", "120", &program.pid()]).stdout(Stdio::null());
    let mut looking = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(looking.stderr.take().unwrap());
    let mut heard = String::new();
    while !heard.ends_with(" for 120 s\n") {
        assert!(said.read_line(&mut heard).unwrap() > 0, "{heard}");
    }
    let pid = rustix::process::Pid::from_child(&looking);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(looking.wait().unwrap().code(), Some(130), "{heard}");
}

#[test]
fn whoever_is_not_there_is_refused() {
    let fixture = Fixture::new();
    fixture.run(&["explain"]).refused(&["PID|UNIT"]);
    fixture.run(&["explain", ""]).refused(&["a value is required"]);
    fixture.run(&["explain", "4194399"]).refused(&["no process has the number 4194399"]);
    fixture.run(&["explain", "99999999999"]).refused(&["no process has the number"]);
    fixture.run(&["explain", "corun-no-such"]).refused(&["corun-no-such", "systemctl"]);
    fixture.run(&["explain", "--cgroup", "/no/such"]).refused(&["/no/such", "systemd-cgls"]);
    let own = std::process::id().to_string();
    fixture.run(&["explain", &own, "--profile", "nobody"]).refused(&["nobody"]);
}
