//! `corun top`: once over real programs, and as a view on a terminal that `script` makes.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use crate::fixture::Fixture;

/// A program that computes until it is dropped, found by a name of its own.
struct Busy {
    fixture: Fixture,
    child: Child,
}

impl Busy {
    fn new() -> Self {
        Self::named("busy-for-corun")
    }

    fn named(name: &str) -> Self {
        let fixture = Fixture::new();
        let shell = fixture.copy("/bin/sh", name);
        let mut command = Command::new(shell);
        let child =
            command.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap();
        Self { fixture, child }
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is shown of a time in which a program computed: a busy machine may run something else for a while.
fn while_it_computes(busy: &Busy, name: &str, options: &[&str]) -> serde_json::Value {
    for time in ["300ms", "3s", "30s"] {
        let once = ["top", "--once", "--format", "json", "-T", time];
        let document = busy.fixture.run(&[&once[..], options].concat()).json();
        let programs = document["programs"].as_array().unwrap();
        let shown = programs.iter().find(|one| one["program"] == name).unwrap();
        if shown["cpus_busy"].as_f64().unwrap() > 0.0 {
            return document;
        }
    }
    panic!("it had no CPU for half a minute")
}

#[test]
fn without_a_name_the_busiest_programs_are_shown() {
    let busy = Busy::new();
    let document = while_it_computes(&busy, "busy-for-corun", &[]);
    let programs = document["programs"].as_array().unwrap();
    // The busiest come first, and the table is cut where there are many.
    let busy_cpus = |one: &serde_json::Value| -one["cpus_busy"].as_f64().unwrap_or(0.0);
    assert!(programs.is_sorted_by_key(busy_cpus), "{programs:?}");
    let text = busy.fixture.run(&["top", "--once", "-T", "300ms"]).done();
    let first_table = text.split("\n\n").next().unwrap();
    assert!(first_table.lines().count() <= 22, "{first_table}");
}

/// The kernel runs a shell for it, and names the process after the script all the same. Of programs that are found by
/// their names alone another run of the tests on this machine has others: the names have this process's number.
#[test]
fn a_script_is_found_by_the_name_that_is_shown() {
    let fixture = Fixture::new();
    let name = format!("{:07}-is-a-script", std::process::id());
    let path = fixture.executable(&name, "#!/bin/sh\nwhile :; do :; done\n");
    let child = Command::new(&path).stdin(Stdio::null()).spawn().unwrap();
    let script = Busy { fixture, child };
    let found = |pattern: &str| {
        let options = ["top", "--once", "-T", "300ms", "--format", "json", "--command", pattern];
        let document = script.fixture.run(&options).json();
        let threads = document["threads"].as_array().unwrap().iter();
        threads.map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // The kernel cuts what it shows to 15 letters.
    let shown = &name[..15];
    for pattern in [name.as_str(), shown, path.to_str().unwrap()] {
        assert_eq!(found(pattern), [shown], "{pattern}");
    }
    let offered = format!("try: corun explain {}    ", script.pid());
    script.fixture.run(&["explain", &name]).refused(&[&offered]);
}

#[test]
fn several_programs_are_named_by_an_option_each() {
    let own = |name: &str| format!("{name}-{}", std::process::id());
    let (one, two) = (own("one"), own("other"));
    let (busy, other, third) = (Busy::named(&one), Busy::named(&two), Busy::named(&own("third")));
    let options = ["top", "--once", "-T", "300ms", "--format", "json"];
    let of = ["--command", &one, "--command", &own("o*r")];
    let document = busy.fixture.run(&[&options[..], &of].concat()).json();
    let threads = document["threads"].as_array().unwrap();
    let mut pids: Vec<u64> = threads.iter().map(|one| one["pid"].as_u64().unwrap()).collect();
    pids.sort_unstable();
    let mut expected = [busy.child.id(), other.child.id()].map(u64::from);
    expected.sort_unstable();
    assert_eq!(pids, expected, "and not {}: {document}", third.child.id());
    let programs = document["programs"].as_array().unwrap();
    let mut names: Vec<&str> =
        programs.iter().map(|one| one["program"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, [one, two]);
}

#[test]
fn once_shows_a_busy_program_with_modelled_counters() {
    let busy = Busy::new();
    let pid = busy.pid();
    let of = ["-p", &pid, "--profile", "sort", "--counters", "model", "--policy", "di"];
    let document = while_it_computes(&busy, "busy-for-corun", &of);
    assert_eq!(document["policy"], "di");
    assert!([0.3, 3.0, 30.0].map(Into::into).contains(&document["interval_s"]), "{document}");
    let [program] = &document["programs"].as_array().unwrap()[..] else { panic!("{document}") };
    let instructions = program["instructions_per_s"].as_f64().unwrap();
    assert!(instructions > 1e6, "{program}");
    // Alone on its cache, it misses as its profile says that it does alone.
    let (mpki, solo) =
        (program["llc_mpki"].as_f64().unwrap(), program["solo_llc_mpki"].as_f64().unwrap());
    assert!(mpki > 0.0 && solo > 0.0, "{program}");
    let thread = &document["threads"][0];
    assert_eq!(thread["pid"], busy.child.id());
    let of_llcs: u64 = document["llcs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|llc| llc["threads"].as_u64().unwrap())
        .sum();
    assert_eq!(of_llcs, 1);
    let decision = &document["decisions"][0];
    assert_eq!((&decision["policy"], &decision["verdict"]), (&"di".into(), &"proposed".into()));
    assert!(decision["reason"].as_str().unwrap().contains("MPKI"), "{decision}");
    assert_eq!(document["not_measured"], serde_json::json!([]));
}

#[test]
fn counts_are_not_modelled_of_programs_without_a_profile() {
    let busy = Busy::new();
    busy.fixture.run(&["top", "--once", "-p", &busy.pid(), "--counters", "model"]).refused(&[
        "nobody's is named",
        "--profile NAME",
        "--config FILE",
    ]);
}

#[test]
fn counts_are_modelled_by_the_profile_that_a_command_line_leads_to() {
    let fixture = Fixture::new();
    let mut xz = Command::new(fixture.copy("/bin/sh", "xz"));
    let child = xz.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap();
    let busy = Busy { fixture, child };
    let document = while_it_computes(&busy, "xz", &["--counters", "model", "-p", &busy.pid()]);
    let program = &document["programs"][0];
    assert!(program["llc_mpki"].as_f64().is_some(), "{program}");
}

#[test]
fn what_is_not_measured_is_a_dash_and_said() {
    let busy = Busy::new();
    let base = ["top", "--once", "-T", "100ms", "--counters", "profiles", "-p"];
    let text = busy.fixture.run(&[&base[..], &[&busy.pid()]].concat()).done();
    let line = text.lines().find(|line| line.starts_with("busy-for-corun")).unwrap();
    let fields: Vec<&str> = line.split_whitespace().collect();
    // MPKI, IPC, instructions, memory traffic, LLC occupancy; after what the scheduler counts class and solo MPKI.
    assert_eq!((&fields[5..10], &fields[13..]), (&["-"; 5][..], &["-"; 2][..]), "{text}");
    assert!(
        text.contains("not measured here: IPC, MPKI") && text.contains("corun doctor"),
        "{text}"
    );
    let csv = busy.fixture.run(&[&base[..], &[&busy.pid(), "--format", "csv"]].concat()).done();
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0][0], rows[1][0]), ("program", "busy-for-corun"));
    let ipc = rows[0].iter().position(|name| *name == "ipc").unwrap();
    assert_eq!((rows[0].len(), rows[1][ipc]), (rows[1].len(), ""));
}

#[test]
fn a_configuration_says_whom_to_watch_and_by_which_policy() {
    let busy = Busy::new();
    let config = format!(
        "policy = \"di\"\ncounters = \"profiles\"\n[[program]]\nname = \"mine\"\n\
         profile = \"xz\"\npid = {}\n",
        busy.pid()
    );
    busy.fixture.write("config.toml", &config);
    let options = ["top", "--once", "-T", "50ms", "--config", "config.toml", "--format", "json"];
    let document = busy.fixture.run(&options).json();
    assert_eq!(
        (&document["policy"], &document["programs"][0]["program"]),
        (&"di".into(), &"mine".into())
    );
    let unasked = [&options[..], &["--policy", "linux-default"]].concat();
    let document = busy.fixture.run(&unasked).json();
    assert_eq!((&document["policy"], &document["decisions"]), (&().into(), &serde_json::json!([])));
}

#[test]
fn a_program_that_is_started_is_ended_and_out_of_sight() {
    let fixture = Fixture::new();
    let script = "echo $$ > pid; echo seen; while :; do sleep 0.05; done";
    // On a busy machine it may not have begun when it is looked at and ended.
    let pid = ["500ms", "5s", "50s"].into_iter().find_map(|time| {
        let options = ["top", "--once", "-T", time, "--", "sh", "-c", script];
        let text = fixture.run(&options).done();
        assert!(text.contains("sh") && !text.contains("seen"), "{text}");
        let pid = std::fs::read_to_string(fixture.path("pid")).ok()?;
        (!pid.is_empty()).then_some(pid)
    });
    let pid = pid.expect("it never began");
    assert!(!std::path::Path::new("/proc").join(pid.trim()).exists());
}

#[test]
fn mistakes_are_named_with_what_to_do() {
    let fixture = Fixture::new();
    fixture.run(&["top", "-p", "1"]).refused(&["needs a terminal", "corun top --once"]);
    fixture.run(&["top", "--once", "-p", "4194304"]).refused(&["no process has the number"]);
    let policy = fixture.run(&["top", "--once", "--policy", "doi", "--user", "0"]);
    policy.refused(&["unknown policy `doi`"]);
    fixture.run(&["top", "--format", "json", "-p", "1"]).refused(&["--once"]);
    let counters = ["top", "--once", "--policy", "dio", "--counters", "profiles", "--user", "0"];
    fixture.run(&counters).refused(&["needs the counter", "corun doctor"]);
    let user = fixture.run(&["top", "--once", "--user", "no-such-user"]);
    user.refused(&["no user is called", "getent passwd"]);
    let nobody = fixture.run(&["top", "--once", "-T", "50ms", "--command", "no-such-program"]);
    assert_eq!(nobody.code(), 0);
    assert!(nobody.stderr().contains("no process is what was asked for"), "{}", nobody.stderr());
}

#[test]
fn a_recording_is_shown_at_any_of_its_looks() {
    let busy = Busy::new();
    let record = ["record", "-o", "a.corun", "-T", "50ms", "--duration", "3", "--counters"];
    let pid = busy.pid();
    let recorded =
        busy.fixture.run(&[&record[..], &["model", "--profile", "sort", "-p", &pid]].concat());
    assert_eq!(recorded.code(), 0, "{}", recorded.stderr());
    let show = |more: &[&str]| {
        let words = ["top", "--once", "--format", "json", "--replay", "a.corun"];
        busy.fixture.run(&[&words[..], more].concat()).json()
    };
    let last = show(&[]);
    assert_eq!(last["programs"][0]["program"], "busy-for-corun");
    // How much it is: on a busy machine a program that computes may get no CPU for 50 ms.
    assert!(last["programs"][0]["cpus_busy"].is_number(), "{last}");
    assert_eq!((&last["groups"], &last["interval_s"]), (&serde_json::json!([]), &0.05.into()));
    let time = |document: &serde_json::Value| document["time_s"].as_f64().unwrap();
    let first = show(&["--at", "0"]);
    let half = (time(&last) - time(&first)) / 2.0;
    let middle = show(&["--at", &half.to_string()]);
    assert!(time(&first) < time(&last), "{last}");
    assert!(time(&middle) < time(&last) && time(&middle) - time(&first) <= half + 1e-3, "{middle}");
    // Nothing is known of the time before the first look.
    assert_eq!(first["programs"][0]["cpus_busy"], serde_json::Value::Null);
    // A policy decides over it, and what it decided before stays.
    let decided = show(&["--policy", "di"]);
    assert_eq!(decided["decisions"][0]["policy"], "di", "{decided}");
    busy.fixture.run(&["top", "--once", "--at", "3"]).refused(&["--replay"]);
    busy.fixture.run(&["top", "--once", "--replay", "a.corun", "-p", "1"]).refused(&["--replay"]);
    busy.fixture.run(&["top", "--once", "--replay", "none.corun"]).refused(&["none.corun"]);
    let terminal = busy.fixture.run(&["top", "--replay", "a.corun"]);
    terminal.refused(&["needs a terminal"]);
}

#[test]
fn processes_are_shown_with_their_cgroups() {
    let busy = Busy::new();
    let words = ["top", "--once", "-T", "50ms", "--format", "json", "-p", &busy.pid()];
    let document = busy.fixture.run(&words).json();
    let cgroup = std::fs::read_to_string(format!("/proc/{}/cgroup", busy.pid()));
    let Ok(cgroup) = cgroup else {
        println!("skipped: this kernel has no cgroups");
        return;
    };
    let group = document["groups"][0]["group"].as_str().unwrap();
    assert_eq!(document["threads"][0]["group"], group);
    assert_eq!(document["groups"][0]["threads"], 1);
    // A unit is named by the end of its path, a pod and a container by a part of it.
    let key = group.rsplit(' ').next().unwrap();
    assert!(cgroup.replace('_', "-").contains(&key.replace('_', "-")), "{group}: {cgroup}");
}

/// Runs the view on a terminal of its own; what it wrote, and its exit code.
fn on_a_terminal(busy: &Busy, end: impl FnOnce(&mut Child)) -> Option<(String, Option<i32>)> {
    on_a_terminal_with(&format!("-T 50ms --counters profiles -p {}", busy.pid()), end)
}

fn on_a_terminal_with(
    options: &str,
    end: impl FnOnce(&mut Child),
) -> Option<(String, Option<i32>)> {
    let corun = env!("CARGO_BIN_EXE_corun");
    // What it prints is kept where its last line says that the terminal is as it was. A view that hears nothing ends, too.
    let view = format!(
        "stty rows 24 cols 80; timeout --foreground 600 '{corun}' top {options}; code=$?; \
         stty -a | grep -q ' icanon' && echo \"cooked $code\""
    );
    let mut command = Command::new("script");
    command.args(["-qec", &view, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR");
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut terminal) = started else {
        eprintln!("skipped: `script` (bsdutils) is not installed");
        return None;
    };
    let mut text = Vec::new();
    let mut out = terminal.stdout.take().unwrap();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&text).contains("busy-for") {
        let read = std::io::Read::read(&mut out, &mut piece).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&piece[..read]);
    }
    end(&mut terminal);
    std::io::Read::read_to_end(&mut out, &mut text).unwrap();
    let code = terminal.wait().unwrap().code();
    Some((String::from_utf8_lossy(&text).into_owned(), code))
}

const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

#[test]
fn the_view_gives_the_terminal_back_when_it_is_quit() {
    let busy = Busy::new();
    let quit = |terminal: &mut Child| {
        terminal.stdin.as_mut().unwrap().write_all(b"\tq").unwrap();
    };
    let Some((text, _)) = on_a_terminal(&busy, quit) else { return };
    assert!(text.contains(ENTER) && text.contains(LEAVE), "{text:?}");
    assert!(text.trim_end().ends_with("cooked 0"), "{text:?}");
}

/// A look at thousands of threads takes longer than from one look to the next.
#[test]
fn keys_are_heard_where_looks_take_all_the_time() {
    let busy = Busy::new();
    let corun = env!("CARGO_BIN_EXE_corun");
    let words = ["stand-in", "--threads", "3000", "--cpu-ms", "1", "--wait-ms", "600000"];
    let many = Command::new(corun).args(words).stdin(Stdio::null()).spawn().unwrap();
    let options = format!("-T 10ms --counters profiles -p {},{}", busy.pid(), many.id());
    // Ended however the test ends.
    let _many = Busy { fixture: Fixture::new(), child: many };
    let quit = |terminal: &mut Child| {
        terminal.stdin.as_mut().unwrap().write_all(b"q").unwrap();
    };
    let Some((text, _)) = on_a_terminal_with(&options, quit) else { return };
    assert!(text.trim_end().ends_with("cooked 0"), "{text:?}");
}

#[test]
fn the_view_gives_the_terminal_back_when_it_is_told_to_stop() {
    let busy = Busy::new();
    let stop = |_: &mut Child| {
        // The view is the one process whose arguments begin so and end with this program's number.
        let corun = env!("CARGO_BIN_EXE_corun");
        let pattern = format!("^{corun} top -T 50ms --counters profiles -p {}$", busy.pid());
        let found = Command::new("pgrep").args(["-f", &pattern]).output().unwrap();
        let pids = String::from_utf8(found.stdout).unwrap();
        let pid = pids.trim();
        assert!(Command::new("kill").args(["-TERM", pid]).status().unwrap().success(), "{pids}");
    };
    let Some((text, _)) = on_a_terminal(&busy, stop) else { return };
    assert!(text.contains(ENTER) && text.contains(LEAVE), "{text:?}");
    assert!(text.trim_end().ends_with("cooked 130"), "{text:?}");
}

#[test]
fn the_view_ends_with_its_terminal() {
    let busy = Busy::new();
    let closed = |terminal: &mut Child| terminal.kill().unwrap();
    if on_a_terminal(&busy, closed).is_none() {
        return;
    }
    let pattern = format!("top -T 50ms --counters profiles -p {}$", busy.pid());
    let since = std::time::Instant::now();
    let runs = || Command::new("pgrep").args(["-f", &pattern]).status().unwrap().success();
    while runs() {
        assert!(since.elapsed().as_secs() < 60, "the view goes on without a terminal");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}
