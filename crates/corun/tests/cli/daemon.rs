//! `corun daemon` among users and load that it cannot choose, and `corun check-config`.

use std::io::{BufRead as _, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::fixture::Fixture;
use crate::hosting::{Daemon, Ended, Log, corun, eventually, signal, stderr_of};
use crate::started::Started;

fn configure(ground: &Daemon, more: &str) {
    let old = std::fs::read_to_string(ground.fixture.path("config.toml")).unwrap();
    let own = old.replace("metrics = \"127.0.0.1:0\"\n", more);
    assert_ne!(own, old);
    ground.fixture.write("config.toml", &own);
}

/// What the metrics page says; none where it says nothing for some seconds.
fn metrics(at: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(2)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.starts_with("HTTP/1.1 200").then_some(text)
}

/// How often the daemon has looked.
pub(crate) fn rounds(at: SocketAddr) -> Option<u64> {
    let text = metrics(at)?;
    text.lines().find_map(|line| line.strip_prefix("corun_rounds_total ")?.parse().ok())
}

#[test]
fn clients_that_say_nothing_do_not_end_the_metrics() {
    let Some(ground) = Daemon::new(true) else { return };
    // So few descriptors that connections alone use them up.
    let script = "ulimit -n 40; exec \"$0\" daemon --config \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_corun")]);
    command.arg(ground.fixture.path("config.toml")).stderr(Stdio::piped());
    let mut daemon = Ended(command.spawn().unwrap());
    let mut log = Log::of(&mut daemon);
    let at = log.address_of_metrics();
    assert!(eventually(|| metrics(at).is_some()), "no metrics at all");
    let mut silent: Vec<TcpStream> = Vec::new();
    for place in 0..100 {
        let mut stream = TcpStream::connect(at).unwrap();
        // Half of them begin a request that never ends.
        if place % 2 == 0 {
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost:").unwrap();
        }
        silent.push(stream);
    }
    let mut text = None;
    let answers = || {
        text = metrics(at);
        text.is_some()
    };
    assert!(eventually(answers), "the metrics are gone");
    let text = text.unwrap();
    assert!(text.contains("corun_rounds_total") && text.ends_with("# EOF\n"), "{text}");
    let is_held = eventually(|| ground.now() != ground.before);
    signal(&daemon.0, "-TERM");
    let log = log.whole();
    assert!(is_held, "nothing is held: {log}");
    assert!(log.contains("everything is undone") && !log.contains("panicked"), "{log}");
}

#[test]
fn other_paths_and_methods_get_no_metrics() {
    let Some(ground) = Daemon::new(false) else { return };
    let mut daemon = ground.start();
    let mut log = Log::of(&mut daemon);
    let at = log.address_of_metrics();
    for (request, expected) in [("GET /", "404"), ("POST /metrics", "405"), ("nonsense", "400")] {
        let mut stream = TcpStream::connect(at).unwrap();
        let request = format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{answer}");
    }
}

#[test]
fn a_port_that_is_taken_does_not_end_the_daemon() {
    let Some(ground) = Daemon::new(true) else { return };
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = other.local_addr().unwrap();
    configure(&ground, &format!("metrics = \"{at}\"\n"));
    let path = ground.fixture.path("config.toml");
    let checked = corun().arg("check-config").arg(&path).output().unwrap();
    let text = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success() && text.contains("warning: metrics: "), "{text}");
    let daemon = ground.start();
    assert!(eventually(|| ground.now() != ground.before), "nothing is held");
    drop(other);
    assert!(eventually(|| metrics(at).is_some()), "the port is free, and no metrics");
    signal(&daemon.0, "-TERM");
    let log = stderr_of(daemon);
    assert_eq!(log.matches("metrics are not served").count(), 1, "{log}");
    assert!(log.contains(&at.to_string()) && log.contains("everything is undone"), "{log}");
}

#[test]
fn metrics_can_be_switched_off() {
    let Some(ground) = Daemon::new(true) else { return };
    configure(&ground, "metrics = \"off\"\n");
    let config = std::fs::read_to_string(ground.fixture.path("config.toml")).unwrap();
    let absent = "[[program]]\nname = \"absent\"\ncommand = \"no-such-program\"\n";
    ground.fixture.write("config.toml", &format!("{config}{absent}"));
    let daemon = ground.start();
    assert!(eventually(|| ground.now() != ground.before), "nothing is held");

    let threads = std::fs::read_dir(format!("/proc/{}/task", daemon.0.id())).unwrap();
    let names: Vec<String> = threads
        // A thread may end before its name is read.
        .filter_map(|one| std::fs::read_to_string(one.unwrap().path().join("comm")).ok())
        .collect();
    assert!(!names.is_empty() && !names.concat().contains("metrics"), "{names:?}");
    signal(&daemon.0, "-TERM");
    let log = stderr_of(daemon);
    assert!(log.contains("everything is undone"), "{log}");
    // Who was there at the start, and who was not.
    assert!(log.contains("looked after"), "{log}");
    assert!(log.contains("no process belongs to it yet program=\"absent\""), "{log}");
}

/// One program alone gains nothing wherever it is held.
#[test]
fn a_plan_without_a_gain_is_not_made_and_the_log_says_why() {
    let Some(ground) = Daemon::new(true) else { return };
    let path = ground.fixture.path("config.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("gate.on = false\n", "interval_s = 0.1\n")).unwrap();
    let mut daemon = ground.start();
    let stderr = daemon.0.stderr.take().unwrap();
    let mut lines = std::io::BufReader::new(stderr).lines().map(Result::unwrap);
    let first = lines.find(|line| line.contains("not done") || line.contains("waits on CPU"));
    assert_eq!(ground.now(), ground.before);
    signal(&daemon.0, "-TERM");
    let log = first.into_iter().chain(lines).collect::<Vec<_>>().join("\n");
    let refused =
        "not done: gate: the model expects +0.0 % in all, which is within the noise of +2.0 %";
    assert_eq!(log.matches(refused).count(), 1, "{log}");
}

/// Whoever reads log or metrics learns why nothing happens, and what to do, without asking anybody.
#[test]
fn why_nothing_is_planned_is_said_once_and_stands_in_the_metrics() {
    let fixture = crate::fixture::Fixture::new();
    let program = "[[program]]\nname = \"absent\"\ncommand = \"no-such-program\"\n";
    let text = format!("policy = \"di\"\nmetrics = \"127.0.0.1:0\"\n{program}");
    fixture.write("config.toml", &text);
    let mut command = corun();
    command.args(["daemon", "--config"]).arg(fixture.path("config.toml"));
    let mut daemon = Ended(command.stderr(Stdio::piped()).spawn().unwrap());
    let mut log = Log::of(&mut daemon);
    let at = log.address_of_metrics();
    let line = "corun_no_plan{reason=\"nobody_there\"} 1\n";
    let stands = || metrics(at).is_some_and(|text| text.contains(line));
    assert!(eventually(stands), "{:?}", metrics(at));
    assert!(eventually(|| rounds(at) > Some(3)), "no more rounds");
    signal(&daemon.0, "-TERM");
    let log = log.whole();
    let said = "nothing is planned: no process belongs to any of the programs";
    assert_eq!(log.matches(said).count(), 1, "{log}");
    assert!(log.contains("help=\"corun top shows what runs"), "{log}");
}

/// A line of a program of several processes says which of them it is about.
#[test]
fn the_log_names_the_process_where_a_program_has_several() {
    let fixture = crate::fixture::Fixture::new();
    // The shells of other tests have other arguments.
    let own = format!("while :; do sleep 0.1; done; : {}a", std::process::id());
    let (one, other) = (Started::new(&own), Started::new(&own));
    let config = format!(
        "policy = \"random\"\ncounters = \"profiles\"\nmetrics = \"off\"\n\
         [[program]]\nname = \"shells\"\narguments = \"*: {}a\"\n",
        std::process::id()
    );
    fixture.write("config.toml", &config);
    let log = fixture.path("log");
    let mut command = corun();
    command.args(["daemon", "--config"]).arg(fixture.path("config.toml"));
    command.stderr(std::fs::File::create(&log).unwrap());
    let daemon = Ended(command.spawn().unwrap());
    let said = || std::fs::read_to_string(&log).unwrap();
    let named =
        |program: &Started| said().contains(&format!("shells (sh {}) on CPU", program.pid()));
    let are_named = eventually(|| named(&one) && named(&other));
    drop(daemon);
    assert!(are_named, "{}", said());
}

/// What viewers may order, the policy does not do by itself.
#[test]
fn a_daemon_whose_viewers_may_act_logs_the_policy_s_plan_as_proposed() {
    let Some(ground) = Daemon::new(false) else { return };
    let viewers = ground.fixture.path("viewers.sock");
    let more = format!(
        "metrics = \"127.0.0.1:0\"\nviewers_may_act = true\nviewers = {:?}\n",
        viewers.display().to_string()
    );
    configure(&ground, &more);
    let mut daemon = ground.start();
    let mut log = Log::of(&mut daemon);
    let at = log.address_of_metrics();
    let proposed = "corun_decisions_total{verdict=\"proposed\"} 1";
    let is_counted = || metrics(at).is_some_and(|text| text.contains(proposed));
    assert!(eventually(is_counted), "{:?}", metrics(at));
    let text = metrics(at).unwrap();
    assert!(text.contains("corun_apply 0\n"), "{text}");
    assert_eq!(ground.now(), ground.before);
    signal(&daemon.0, "-TERM");
    let log = log.whole();
    assert!(log.contains("would do: waits on CPU"), "{log}");
}

/// The example has to start on any machine, with hardware counters or without.
#[test]
fn the_example_starts_and_says_which_policy_it_chose() {
    let fixture = crate::fixture::Fixture::new();
    let example = corun().args(["check-config", "--example"]).output().unwrap();
    let example = String::from_utf8(example.stdout).unwrap();
    let own = example.replace("metrics = \"127.0.0.1:9748\"", "metrics = \"off\"");
    fixture.write("config.toml", &own);
    let path = fixture.path("config.toml");
    let checked = corun().arg("check-config").arg(&path).output().unwrap();
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    let good = text.split(": good: ").nth(1).unwrap_or_else(|| panic!("{text}"));
    let (policy, why) = good.split_once(" (auto: ").unwrap_or_else(|| panic!("{text}"));
    assert!(["dio", "di", "linux-default"].contains(&policy) && !why.is_empty(), "{text}");
    let mut command = corun();
    command.args(["daemon", "--config"]).arg(&path).stderr(Stdio::piped());
    let mut daemon = Ended(command.spawn().unwrap());
    let stderr = daemon.0.stderr.take().unwrap();
    let mut lines = std::io::BufReader::new(stderr).lines().map(Result::unwrap);
    let started = lines.find(|line| line.contains(" started "));
    let policy = format!("policy=\"{policy}\"");
    assert!(started.is_some_and(|line| line.contains(&policy)), "it did not start");
    signal(&daemon.0, "-TERM");
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0));
}

#[test]
fn a_policy_that_cannot_run_is_refused_in_the_words_of_the_file() {
    let fixture = crate::fixture::Fixture::new();
    let program = "[[program]]\nname = \"a\"\ncommand = \"a\"\n";
    fixture.write("config.toml", &format!("policy = \"dio\"\ncounters = \"profiles\"\n{program}"));
    let checked = corun().arg("check-config").arg(fixture.path("config.toml")).output().unwrap();
    assert_eq!(checked.status.code(), Some(2));
    let text = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(text.contains("try: policy = \"di\", which goes by stored profiles\n"), "{text}");
    assert!(text.contains("try: counters = \"model\", which") && !text.contains("--"), "{text}");
}

#[test]
fn a_socket_that_systemd_listens_to_is_taken_over() {
    let Some(ground) = Daemon::new(false) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let script =
        "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" daemon --config \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_corun")]);
    command.arg(ground.fixture.path("config.toml")).stderr(Stdio::piped());
    command.stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)));
    let daemon = Ended(command.spawn().unwrap());
    drop(command);
    assert!(eventually(|| metrics(at).is_some()), "no metrics");
    signal(&daemon.0, "-TERM");
    let log = stderr_of(daemon);
    assert!(log.contains("from systemd's socket"), "{log}");
}

/// What systemd says of the unit file: 10 is a service that may do anything.
#[test]
fn the_unit_is_exposed_to_little() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/corun.service");
    let words = ["security", "--offline=true", "--no-pager", "--threshold=20", unit];
    let Ok(rated) = Command::new("systemd-analyze").args(words).output() else {
        return eprintln!("skipped: no systemd-analyze here");
    };
    let text = String::from_utf8_lossy(&rated.stdout).into_owned();
    let Some(overall) = text.lines().find(|line| line.contains("Overall exposure level")) else {
        return eprintln!("skipped: this systemd-analyze rates no files");
    };
    assert!(rated.status.success(), "{text}");
    let rating = overall.split(": ").nth(1).unwrap().split(' ').next().unwrap();
    let page = include_str!("../../../../docs/operating.md");
    let said = page.split("rates the exposure at ").nth(1).unwrap().split(' ').next().unwrap();
    // Another version of systemd weighs otherwise.
    assert!(
        rating.parse::<f64>().unwrap() <= 2.0 && said.parse::<f64>().unwrap() <= 2.0,
        "{overall}"
    );
}

#[test]
fn a_configuration_is_checked_before_use() {
    let fixture = Fixture::new();
    let check = |file: &Path| corun().arg("check-config").arg(file).output().unwrap();
    let example = corun().args(["check-config", "--example"]).output().unwrap();
    assert!(String::from_utf8_lossy(&example.stdout).contains("apply = false"));
    fixture.write("bad.toml", "apply = true\npolciy = \"dio\"\n");
    let bad = check(&fixture.path("bad.toml"));
    assert_eq!(bad.status.code(), Some(2));
    let message = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert!(
        message.contains("bad.toml:2: polciy: unknown field `polciy` (did you mean `policy`?)"),
        "{message}"
    );
    let program = "[[program]]\nname = \"a\"\ncommand = \"a\"\n";
    let checked = |more: &str| {
        let text = format!("policy = \"di\"\ncounters = \"profiles\"\n{program}{more}\n");
        fixture.write("other.toml", &text);
        let done = check(&fixture.path("other.toml"));
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (code, said) = checked("cgroup = \"\"");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("other.toml:6: program[0].cgroup: found nothing"), "{said}");
    // The daemon starts all the same.
    let (code, said) = checked("profile = \"nope\"");
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("other.toml:6: program[0].profile: no program is named \"nope\""),
        "{said}"
    );
    fixture.write("good.toml", &format!("policy = \"di\"\ncounters = \"profiles\"\n{program}"));
    let good = check(&fixture.path("good.toml"));
    let said = String::from_utf8_lossy(&good.stdout).into_owned();
    assert!(said.contains("good: di on this-machine, 1 program, only logs"), "{said}");
    let mut named = corun();
    let named = named.args(["check-config", "--config"]).arg(fixture.path("good.toml"));
    assert_eq!(String::from_utf8_lossy(&named.output().unwrap().stdout), said);
}
