//! `corun fleet`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command as Process, Stdio};

use serde_json::{Value, json};

use crate::documents::undocumented;
use crate::fixture::Fixture;

const FLEET: &str = r#"
objective = "mean-slowdown"
profiles = "solo.csv"
[[node]]
machine = "2x-gold-6138-4c"
count = 2
[[program]]
profile = "stream"
cpus = 2
count = 2
[[program]]
profile = "needy"
cpus = 2
[[program]]
profile = "quiet"
never_beside = ["needy"]
"#;

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.write("fleet.toml", FLEET);
    fixture
}

#[test]
fn a_plan_stands_beside_the_optimum_the_worst_and_the_expectation() {
    let fixture = fixture();
    let document = fixture.run(&["fleet", "place", "fleet.toml", "--format", "json"]).json();
    let missing = undocumented(&document);
    assert!(missing.is_empty(), "docs/json.md lacks {missing:?}");
    let figure = |name: &str| document[name].as_f64().unwrap();
    assert!(figure("bound") <= figure("value") && figure("value") <= figure("worst"));
    assert!(document["expectation"]["mean"].as_f64().unwrap() >= figure("optimum"));
    let programs = document["programs"].as_array().unwrap();
    assert_eq!(programs.len(), 4);
    let node = |name: &str| &programs.iter().find(|one| one["program"] == name).unwrap()["node"];
    assert_ne!(node("needy"), node("quiet"));
    let table = fixture.run(&["fleet", "place", "fleet.toml"]).done();
    assert!(table.contains("mean-slowdown:") && table.contains("optimum"), "{table}");
    let best = fixture.run(&["fleet", "place", "fleet.toml", "--optimal"]).done();
    assert!(best.contains("proven: no plan is better"), "{best}");
    let csv = fixture.run(&["fleet", "place", "fleet.toml", "--format", "csv"]).done();
    assert!(csv.starts_with("program,node,cpus,llcs,slowdown,reason\n"), "{csv}");
}

#[test]
fn a_program_without_a_place_is_told_after_the_plan() {
    let fixture = fixture();
    let nobody = FLEET.split("[[program]]").next().unwrap();
    let large = "[[program]]\nprofile = \"stream\"\ncpus = 100\n";
    fixture.write("fleet.toml", &format!("{nobody}{large}"));
    let ran = fixture.run(&["fleet", "place", "fleet.toml"]);
    assert!(ran.stdout().contains("mean slowdown -, worst -, 0 nodes in use"), "{}", ran.stdout());
    fixture.write("fleet.toml", &FLEET.replace("cpus = 2\ncount = 2", "cpus = 5\ncount = 3"));
    let ran = fixture.run(&["fleet", "place", "fleet.toml"]);
    assert_eq!(ran.code(), 1);
    assert!(ran.stderr().contains("1 program without a place"), "{}", ran.stderr());
    assert!(ran.stderr().contains("; on most of them too few CPUs are free"), "{}", ran.stderr());
}

#[test]
fn mistakes_are_refused_with_their_line() {
    let fixture = fixture();
    fixture.write("bad.toml", &FLEET.replace("count = 2", "count = 0"));
    fixture.run(&["fleet", "place", "bad.toml"]).refused(&["bad.toml:6", "node[0].count"]);
    fixture.write("bad.toml", &FLEET.replace("\"quiet\"", "\"quit\""));
    let quit = &["bad.toml:15: program[2].profile: ", "quit", "quiet"];
    fixture.run(&["fleet", "place", "bad.toml"]).refused(quit);
    fixture.write("bad.toml", &FLEET.replace("solo.csv", "none.csv"));
    fixture.run(&["fleet", "place", "bad.toml"]).refused(&["bad.toml:3: profiles: ", "none.csv"]);
    fixture.write("bad.toml", &FLEET.replace("\"2x-gold-6138-4c\"", "\"2x-gold-6138\""));
    fixture.run(&["fleet", "place", "bad.toml"]).refused(&["bad.toml:5: node[0].machine: "]);
    let twice = "[[node]]\nmachine = \"2x-gold-6138-4c\"\n[[program]]";
    fixture.write("bad.toml", &FLEET.replacen("[[program]]", twice, 1));
    let twice = &["bad.toml:", "node[1].name: two nodes are called `2x-gold-6138-4c-0`"];
    fixture.run(&["fleet", "place", "bad.toml"]).refused(twice);
    fixture.run(&["fleet", "place", "none.toml"]).refused(&["none.toml", "cannot be read"]);
    fixture.run(&["fleet", "simulate", "--node", "x"]).refused(&["MACHINE:COUNT"]);
    fixture.run(&["fleet", "simulate", "--scheduler", "best"]).refused(&["least-allocated"]);
    for (option, typed, expected) in [
        ("--utilisation", "0", "0.001 to 1"),
        ("--utilisation", "1e-300", "0.001 to 1"),
        ("--utilisation", "1.1", "0.001 to 1"),
        ("--utilisation", "NaN", "0.001 to 1"),
        ("--daily-depth", "1.1", "0 to 1"),
        ("--repair-hours", "0", "0.01 to 1e6"),
        ("--repair-hours", "1e-300", "0.01 to 1e6"),
        ("--slowdown-bound", "1", "above 1"),
    ] {
        fixture.run(&["fleet", "simulate", option, typed]).refused(&[expected]);
    }
}

#[test]
fn a_simulation_gives_the_same_bytes_and_stays_above_its_bound() {
    let fixture = fixture();
    let words = [
        "fleet",
        "simulate",
        "--profiles",
        "solo.csv",
        "--node",
        "2x-gold-6138-4c:8",
        "--arrivals",
        "25",
        "--format",
        "json",
    ];
    let ran = fixture.run(&words);
    let text = ran.stdout();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(fixture.run(&words).stdout(), text);
    assert!(undocumented(&document).is_empty(), "{:?}", undocumented(&document));
    let schedulers = document["schedulers"].as_array().unwrap();
    assert_eq!(schedulers.len(), 8);
    for one in schedulers {
        assert!(one["mean_slowdown"].as_f64().unwrap() >= 1.0, "{one}");
        assert!(one["lost_work"].as_f64().unwrap() >= 0.0, "{one}");
    }
    let least = &schedulers[0];
    assert_eq!((&least["scheduler"], &least["saved"]), (&json!("least-allocated"), &json!(0.0)));
}

/// A single arrival is the end of the simulation: nothing has run for any time.
#[test]
fn what_nothing_ran_for_is_unknown() {
    let words = "fleet simulate --profiles solo.csv --node 2x-gold-6138-4c:8 --arrivals 1";
    let words: Vec<&str> = words.split_whitespace().collect();
    let table = fixture().run(&words).stdout();
    assert!(table.contains("1 arrival of "), "{table}");
    let document = fixture().run(&[&words[..], &["--format", "json"]].concat()).stdout();
    let document: Value = serde_json::from_str(&document).unwrap();
    for one in document["schedulers"].as_array().unwrap() {
        for figure in ["lost_work", "mean_slowdown", "slowdown_p99", "above_bound"] {
            assert!(one[figure].is_null(), "{one}");
        }
    }
}

#[test]
fn repairs_of_a_fleet_in_which_nothing_happens_take_no_time() {
    // 50 arrivals in 40 years with a repair every 36 seconds: 40 million of them.
    let words = "fleet simulate --profiles solo.csv --node 2x-gold-6138-4c:2 --arrivals 50 --utilisation 0.001 \
                 --repair-hours 0.01 --scheduler corun-repair --format json";
    let words: Vec<&str> = words.split_whitespace().collect();
    let document: Value = serde_json::from_str(&fixture().run(&words).stdout()).unwrap();
    assert!(document["hours"].as_f64().unwrap() > 1e5, "{document}");
}

#[test]
fn a_node_is_described_by_its_pods() {
    let fixture = fixture();
    fixture.write(
        "pods.json",
        r#"{"items": [{"metadata": {"name": "a", "namespace": "d",
        "labels": {"corun.dev/profile": "needy"}}, "spec": {"containers": []}}]}"#,
    );
    let words = ["fleet", "describe-node", "--machine", "m", "--pods", "pods.json", "--at", "7"];
    let ran = fixture.run(&words);
    assert!(ran.stderr().contains("asks for no CPU"), "{}", ran.stderr());
    let patch: Value = serde_json::from_str(&ran.stdout()).unwrap();
    let notes = &patch["metadata"]["annotations"];
    assert_eq!(notes["corun.dev/machine"], "m");
    assert!(notes["corun.dev/programs"].as_str().unwrap().starts_with("{\"at\":7,"));
    fixture.write("pods.json", "none");
    fixture.run(&words).refused(&["no list of pods"]);
}

/// One request over a connection of its own: status and body.
fn post(address: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: corun\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// An extender that listens, its address, and the rest of what it says.
fn extender(fixture: &Fixture) -> (Child, String, BufReader<ChildStderr>) {
    let words = ["--machine", "2x-gold-6138-4c", "--listen", "127.0.0.1:0", "--profiles"];
    let mut child = Process::new(assert_cmd::cargo::cargo_bin!("corun"))
        .args(["fleet", "serve-extender"])
        .args(words)
        .arg(fixture.path("solo.csv"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    said.read_line(&mut first).unwrap();
    let address = first.trim().rsplit("http://").next().unwrap().to_owned();
    (child, address, said)
}

#[test]
fn the_extender_answers_over_http_until_it_is_told_to_stop() {
    let fixture = fixture();
    let (mut child, address, mut said) = extender(&fixture);
    let node = |name: &str| json!({"metadata": {"name": name}});
    let asks = json!({
        "Pod": {"metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": []}},
        "Nodes": {"items": [node("n1"), node("n2")]},
    });
    let (status, body) = post(&address, "/filter", &asks.to_string());
    let kept: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, kept["Nodes"]["items"].as_array().unwrap().len()), (200, 2));
    let (status, body) = post(&address, "/prioritize", &asks.to_string());
    assert_eq!(
        (status, body.as_str()),
        (200, r#"[{"Host":"n1","Score":5},{"Host":"n2","Score":5}]"#)
    );
    let (status, body) = post(&address, "/prioritize", "nonsense");
    assert!(status == 400 && body.contains("no ExtenderArgs"), "{status} {body}");
    assert_eq!(post(&address, "/elsewhere", "").0, 404);
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    let status = child.wait().unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("assumed: pod d/p has no corun.dev/profile"), "{rest}");
    assert_eq!(status.code(), Some(0), "{status}");
    assert_eq!(rest.matches("pod d/p has no corun.dev/profile").count(), 1, "{rest}");
}

#[test]
fn connections_that_ask_nothing_are_few_and_end() {
    let fixture = fixture();
    let (mut child, address, _said) = extender(&fixture);
    let sockets = || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
        let links = open.filter_map(|one| std::fs::read_link(one.unwrap().path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    };
    let idle = sockets();
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let mut most = 0;
    while most < idle + 16 {
        most = most.max(sockets());
        std::thread::yield_now();
    }
    // The oldest end as others come.
    assert_eq!(post(&address, "/elsewhere", "").0, 404);
    most = most.max(sockets());
    // One that ends may still be there when the next is.
    assert!((16..=17).contains(&(most - idle)), "{most} sockets, {idle} at first");
    drop(silent);
    child.kill().unwrap();
    child.wait().unwrap();
}

const UID: &str = "0a1b2c3d-1111-2222-3333-444455556666";

/// A `kubectl` that knows one pod and keeps what it is told, as long as there is no file `away`.
fn stand_in_for_kubectl(fixture: &Fixture) {
    let pods = json!({"items": [{
        "metadata": {"name": "a", "namespace": "d", "uid": UID, "labels": {"corun.dev/profile": "needy"}},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "2"}}}]},
    }]});
    fixture.write("pods.json", &pods.to_string());
    let script = "#!/bin/sh\n\
                  here=$(dirname \"$0\")\n\
                  if [ -e \"$here/away\" ]; then echo 'connection refused' >&2; exit 1; fi\n\
                  shift\n\
                  echo \"$@\" >>\"$here/asked\"\n\
                  if [ \"$1\" = get ]; then cat \"$here/pods.json\"; else cp \"$5\" \"$here/patch.json\"; fi\n";
    fixture.executable("kubectl", script);
}

fn agent(fixture: &Fixture, words: &[&str]) -> Process {
    let named = if words.contains(&"--machine") { &[][..] } else { &["--machine", "m"][..] };
    let mut command = Process::new(assert_cmd::cargo::cargo_bin!("corun"));
    let path = std::env::var("PATH").unwrap();
    let folder = fixture.path("");
    command.env("PATH", format!("{}:{path}", folder.display())).current_dir(&folder);
    command.args(["fleet", "agent", "--node", "n1"]).args(named).arg("--root").arg(&folder);
    command.args(words).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

#[test]
fn an_agent_publishes_what_runs_on_its_node() {
    let fixture = fixture();
    stand_in_for_kubectl(&fixture);
    let output = agent(&fixture, &["--once"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let asked = std::fs::read_to_string(fixture.path("asked")).unwrap();
    let pods = "get --raw /api/v1/pods?fieldSelector=spec.nodeName%3Dn1&resourceVersion=0\n";
    assert!(asked.starts_with(&format!("{pods}patch node n1 --patch-file ")), "{asked}");
    let patch: Value =
        serde_json::from_slice(&std::fs::read(fixture.path("patch.json")).unwrap()).unwrap();
    let notes = &patch["metadata"]["annotations"];
    assert_eq!(notes["corun.dev/machine"], "m");
    let report: Value =
        serde_json::from_str(notes["corun.dev/programs"].as_str().unwrap()).unwrap();
    assert_eq!(report["programs"], json!([{"pod": "d/a", "profile": "needy", "cpus": 2}]));
    fixture.write("away", "");
    let output = agent(&fixture, &["--once"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("connection refused"), "{said}");
    // A name that would be part of the question is none.
    let ran = fixture.run(&["fleet", "agent", "--machine", "m", "--node", "n1&limit=1"]);
    ran.refused(&["--node", "a node's name"]);
    let output = agent(&fixture, &["--caches", "--once"]).output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("monitors no cache"));
}

/// The fixture's /sys shows no counters: the agent says what it assumes, and publishes all else.
#[test]
fn an_agent_that_cannot_count_learns_nothing_and_publishes_what_runs() {
    let fixture = fixture();
    stand_in_for_kubectl(&fixture);
    let mut agent =
        agent(&fixture, &["--every", "1", "--learn", "--machine", "i7-2600"]).spawn().unwrap();
    while std::fs::read(fixture.path("patch.json")).map_or(0, |patch| patch.len()) == 0 {
        assert_eq!(agent.try_wait().unwrap(), None);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let pid = rustix::process::Pid::from_child(&agent);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let output = agent.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let assumed =
        "assumed: nothing is learned of pods: perf: the kernel shows no hardware counters";
    assert_eq!(said.matches(assumed).count(), 1, "{said}");
    let patch = std::fs::read_to_string(fixture.path("patch.json")).unwrap();
    assert!(patch.contains("i7-2600") && !patch.contains("corun.dev/learned"), "{patch}");
    // A machine that nobody knows is a mistake.
    let ran = fixture.run(&["fleet", "agent", "--node", "n1", "--machine", "none", "--learn"]);
    ran.refused(&["none"]);
}

#[test]
fn an_agent_has_a_daemon_hold_its_pods_and_ends_with_it() {
    let fixture = fixture();
    stand_in_for_kubectl(&fixture);
    let group = format!("sys/fs/cgroup/kubepods/burstable/pod{UID}");
    std::fs::create_dir_all(fixture.path(&group)).unwrap();
    let profiles = fixture.path("solo.csv");
    let journals = fixture.path("journals");
    fixture.write(
        "hold.toml",
        &format!(
            "policy = \"di\"\nmetrics = \"off\"\nprofiles = {profiles:?}\njournals = {journals:?}\n"
        ),
    );
    let mut agent = agent(&fixture, &["--every", "1", "--hold", "hold.toml"]).spawn().unwrap();
    let mut said = BufReader::new(agent.stderr.take().unwrap());
    let mut heard = String::new();
    while !heard.contains("started") {
        assert!(said.read_line(&mut heard).unwrap() > 0, "{heard}");
    }
    // The pod goes: so does the daemon.
    fixture.write("pods.json", r#"{"items": []}"#);
    while !heard.contains("stopped") {
        assert!(said.read_line(&mut heard).unwrap() > 0, "{heard}");
    }
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&agent),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert_eq!(agent.wait().unwrap().code(), Some(0));
}

#[test]
fn the_load_of_pods_is_measured_from_their_cgroups() {
    let fixture = fixture();
    stand_in_for_kubectl(&fixture);
    let group = format!("sys/fs/cgroup/kubepods/burstable/pod{UID}");
    std::fs::create_dir_all(fixture.path(&group)).unwrap();
    fixture.write(&format!("{group}/cpu.stat"), "usage_usec 5000000\n");
    let words = "fleet describe-node --machine m --pods pods.json --root . --measure 0.05";
    let patch = fixture.run(&words.split(' ').collect::<Vec<_>>()).json();
    let report = patch["metadata"]["annotations"]["corun.dev/programs"].as_str().unwrap();
    let report: Value = serde_json::from_str(report).unwrap();
    assert_eq!(report["programs"][0]["used_cpus"], 0.0, "{report}");
}
