//! `corun stat` on real programs, by the kernel's own events, which are counted on any machine.

use serde_json::Value;

use crate::fixture::{Fixture, Ran};
use crate::started::Started;

const EVENTS: &str = "task-clock,context-switches,page-faults";

/// Are counters allowed here? Says so where not.
fn can_count(ran: &Ran) -> bool {
    let refused = ran.code() == 2 && ran.stderr().contains("cannot");
    if refused {
        eprintln!("skipped: counters cannot be opened here: {}", ran.stderr());
    }
    !refused
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn count(line: &Value, event: &str) -> f64 {
    line["counts"][event].as_f64().unwrap()
}

#[test]
fn a_program_is_counted_with_all_that_it_starts() {
    let fixture = Fixture::new();
    // A shell that lives on, and children that no sample sees.
    let script = "i=0; while [ $i -lt 60 ]; do /bin/true; i=$((i+1)); done; echo done; exit 7";
    let options = ["stat", "-e", EVENTS, "-T", "50ms", "--format", "json", "-o", "out.json", "--"];
    let ran = fixture.run(&[&options[..], &["sh", "-c", script]].concat());
    if !can_count(&ran) {
        return;
    }
    assert_eq!((ran.code(), ran.stdout().as_str()), (7, "done\n"));
    assert_eq!(ran.stderr(), "");
    let lines = lines(&std::fs::read_to_string(fixture.path("out.json")).unwrap());
    let of = |of: &str| lines.iter().filter(|line| line["of"] == of).collect::<Vec<_>>();
    let total = of("total");
    assert_eq!(total.len(), 1);
    let first = of("thread")[0];
    assert!(first["pid"] == first["tid"] && first["cpu"].is_u64(), "{first}");
    // Each of the children faults in some pages and computes.
    assert!(count(total[0], "page-faults") >= 60.0 * 10.0, "{}", total[0]);
    let parts = of("thread").into_iter().chain(of("others"));
    let sum: f64 = parts.map(|line| count(line, "task-clock_ns")).sum();
    let all = count(total[0], "task-clock_ns");
    assert!(sum >= 0.99 * all && all > 1e6, "{sum} of {all}");
}

#[test]
fn rates_are_columns_beside_the_counts() {
    let fixture = Fixture::new();
    let spin = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let options = ["stat", "-e", "task-clock", "--per", "second", "--format", "csv", "--"];
    let ran = fixture.run(&[&options[..], &["sh", "-c", spin]].concat());
    if !can_count(&ran) {
        return;
    }
    assert_eq!((ran.code(), ran.stdout().as_str()), (0, ""));
    let stderr = ran.stderr();
    let mut lines = stderr.lines();
    let header = "time_s,interval_s,of,pid,tid,program,cpu,task-clock_ns,task-clock_ns_per_s";
    assert_eq!(lines.next(), Some(header));
    let last: Vec<&str> = lines.last().unwrap().split(',').collect();
    let number = |at: usize| last[at].parse::<f64>().unwrap();
    assert_eq!(last[2], "total");
    assert!((number(8) - number(7) / number(1)).abs() <= 1e-3 * number(8), "{last:?}");
}

#[test]
fn running_processes_are_watched_until_they_end() {
    let fixture = Fixture::new();
    let started = Started::busy();
    let pid = started.pid();
    let options = ["stat", "-e", "task-clock", "--format", "json", "-p", &pid];
    // A busy machine may run something else for a while.
    let mut counted = 0.0;
    for every in ["50ms", "1s", "20s"] {
        let ran = fixture.run(&[&options[..], &["-T", every, "--count", "3"]].concat());
        if !can_count(&ran) {
            return;
        }
        let lines = lines(&ran.done());
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line["pid"].as_u64() == pid.parse().ok()), "{lines:?}");
        counted = lines.iter().map(|line| count(line, "task-clock_ns")).sum();
        if counted > 0.0 {
            break;
        }
    }
    assert!(counted > 0.0, "it had no CPU for a minute");
    drop(started);
    let gone = fixture.run(&options);
    gone.refused(&["no process has the number", &pid]);
}

/// `dd` is one thread and touches each page of its buffer.
#[test]
fn a_sample_comes_each_time_an_event_has_happened_so_often() {
    let fixture = Fixture::new();
    let stat = |format: &str| {
        let options = ["stat", "--sample-every", "page-faults=10", "-e", "task-clock"];
        let more = ["--format", format, "-o", "out", "--"];
        let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=4M", "count=1", "status=none"];
        let ran = fixture.run(&[&options[..], &more, &dd].concat());
        can_count(&ran).then(|| {
            assert_eq!(ran.code(), 0, "{}", ran.stderr());
            std::fs::read_to_string(fixture.path("out")).unwrap()
        })
    };
    let Some(text) = stat("json") else { return };
    let lines = lines(&text);
    let (total, samples) = lines.split_last().unwrap();
    assert_eq!(total["of"], "total");
    assert!(samples.len() >= 5, "{text}");
    for line in samples {
        assert_eq!((line["of"].as_str(), count(line, "page-faults")), (Some("thread"), 10.0));
        assert!(count(line, "task-clock_ns") > 0.0 && line["cpu"].is_u64(), "{line}");
    }
    let sum: f64 = samples.iter().map(|line| count(line, "page-faults")).sum();
    let left = count(total, "page-faults") - sum;
    assert!((0.0..10.0).contains(&left), "{left} page faults in no sample: {text}");
    let time = |line: &Value| line["time_s"].as_f64().unwrap();
    assert!(samples.is_sorted_by_key(time), "{text}");
    let csv = stat("csv").unwrap();
    let header = "time_s,interval_s,of,pid,tid,program,cpu,page-faults,task-clock_ns";
    assert_eq!(csv.lines().next(), Some(header));
    let second = csv.lines().nth(2).unwrap();
    assert_eq!(second.split(',').nth(7), Some("10"), "{csv}");
    let table = stat("text").unwrap();
    assert!(table.lines().nth(2).unwrap().split_whitespace().nth(4) == Some("10"), "{table}");
}

#[test]
fn a_running_program_is_sampled_by_its_own_time() {
    let fixture = Fixture::new();
    let busy = Started::busy();
    let pid = busy.pid();
    let options = ["stat", "--sample-every", "task-clock=2000000", "--format", "json"];
    let ran = fixture.run(&[&options[..], &["-p", &pid, "--count", "7"]].concat());
    drop(busy);
    if !can_count(&ran) {
        return;
    }
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    let lines = lines(&ran.stdout());
    assert_eq!(lines.len(), 7);
    for line in &lines {
        assert_eq!(line["pid"].to_string(), pid);
        // The timer goes by the wall while the thread runs.
        assert!(count(line, "task-clock_ns") > 1e6, "{line}");
    }
}

#[test]
fn what_cannot_be_sampled_by_is_refused() {
    let fixture = Fixture::new();
    let every = |what: &str| fixture.run(&["stat", "--sample-every", what, "--", "/bin/true"]);
    every("page-falts=10").refused(&["unknown event `page-falts`", "page-faults"]);
    for wrong in ["page-faults", "page-faults=0", "page-faults=many", "=5"] {
        every(wrong).refused(&["--sample-every", "an event, `=` and a whole number above 0"]);
    }
    let often = every("task-clock=5");
    // Where counters are not allowed, it says that first.
    if !often.stderr().contains("cannot be counted") {
        often.refused(&["5 ns of `task-clock` is too short", "10000"]);
    }
    let all = ["stat", "--sample-every", "page-faults=10", "-a", "--", "/bin/true"];
    fixture.run(&all).refused(&["--sample-every", "cannot be used with"]);
    let timed = ["stat", "--sample-every", "page-faults=10", "-T", "1s", "--", "/bin/true"];
    fixture.run(&timed).refused(&["--sample-every", "cannot be used with"]);
}

#[test]
fn each_cpu_is_counted_for_the_machine_as_a_whole() {
    let fixture = Fixture::new();
    let options = ["stat", "-a", "-e", "context-switches", "-T", "50ms", "--format", "csv"];
    let ran = fixture.run(&[&options[..], &["-o", "out.csv", "--", "sleep", "0.2"]].concat());
    if !can_count(&ran) {
        return;
    }
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    let text = std::fs::read_to_string(fixture.path("out.csv")).unwrap();
    let cpus: std::collections::BTreeSet<&str> =
        text.lines().skip(1).map(|line| line.split(',').nth(6).unwrap()).collect();
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let online: corun_machine::CpuSet = online.trim().parse().unwrap();
    assert_eq!(cpus.len(), online.len());
}

/// Its clock and its switches are of different units of the kernel's.
#[test]
fn all_events_of_the_cpus_are_counted() {
    let fixture = Fixture::new();
    let script = "i=0; while [ $i -lt 60 ]; do /bin/true; i=$((i+1)); done";
    let options = ["stat", "-a", "-e", EVENTS, "-T", "50ms", "--format", "json", "-o", "out.json"];
    let ran = fixture.run(&[&options[..], &["--", "sh", "-c", script]].concat());
    if !can_count(&ran) {
        return;
    }
    let lines = lines(&std::fs::read_to_string(fixture.path("out.json")).unwrap());
    for event in ["task-clock_ns", "context-switches", "page-faults"] {
        let all: f64 = lines.iter().map(|line| count(line, event)).sum();
        assert!(all >= 60.0, "{event}: {all}");
    }
}

#[test]
fn mistakes_are_named_with_what_to_do() {
    let fixture = Fixture::new();
    let on = |events: &str| fixture.run(&["stat", "-e", events, "--", "/bin/true"]);
    on("task-clok").refused(&["unknown event `task-clok`", "task-clock", "--list"]);
    for none in ["", " , "] {
        on(none).refused(&["--events: found ", "expected the name of an event", "--list"]);
    }
    on("gpu/event=1/").refused(&["no counters called `gpu`"]);
    on("task-clock:z").refused(&["found `:z`"]);
    fixture.run(&["stat", "-T", "1ms", "--", "/bin/true"]).refused(&["10ms"]);
    fixture.run(&["stat", "-o", "no/where", "--", "/bin/true"]).refused(&["no such folder"]);
    let missing = fixture.run(&["stat", "-e", "task-clock", "--", "no-such-program"]);
    missing.refused(&["`no-such-program`"]);
    let folder = fixture.run(&["stat", "-e", "task-clock", "--", "/tmp"]);
    folder.refused(&["cannot run `/tmp`"]);
}

#[test]
fn without_a_name_the_busiest_processes_are_counted() {
    let fixture = Fixture::new();
    let busy = Started::busy();
    let options = ["stat", "-e", "task-clock", "-T", "100ms", "--count", "10", "--format", "json"];
    let ran = fixture.run(&options);
    drop(busy);
    if !can_count(&ran) {
        return;
    }
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    assert!(ran.stderr().contains("counting the busiest processes: "), "{}", ran.stderr());
    let lines = lines(&ran.stdout());
    let counted: std::collections::BTreeSet<u64> =
        lines.iter().filter_map(|line| line["pid"].as_u64()).collect();
    assert!((1..=5).contains(&counted.len()), "{counted:?}");
}

#[test]
fn a_program_that_a_signal_ends_is_told_by_the_exit_code() {
    let fixture = Fixture::new();
    let options = ["stat", "-e", "task-clock", "--format", "json", "-o", "out.json", "--"];
    let ran = fixture.run(&[&options[..], &["sh", "-c", "kill -KILL $$"]].concat());
    if can_count(&ran) {
        assert_eq!(ran.code(), 137, "{}", ran.stderr());
        // It ended before anybody saw it under its own name.
        let text = std::fs::read_to_string(fixture.path("out.json")).unwrap();
        let lines = lines(&text);
        let mut threads = lines.iter().filter(|line| line["of"] == "thread").peekable();
        assert!(threads.peek().is_some() && threads.all(|line| line["program"] == "sh"), "{text}");
    }
}

#[test]
fn events_are_listed() {
    let list = Fixture::new().run(&["stat", "--list"]).done();
    assert!(list.lines().any(|name| name == "task-clock"), "{list}");
    assert!(list.lines().is_sorted());
}
