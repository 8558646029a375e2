//! `corun ab` with commands that switch a file on and off.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::fixture::{Fixture, Ran};
use crate::started::Started;

/// A switch and a metric that gives 100, or 120 when it is on, plus some noise.
const SWITCH: [&str; 4] =
    ["--on", "touch on; echo on >> log", "--off", "rm -f on; echo off >> log"];
const METRIC: &str = "app=n=$(( $(date +%N | tail -c 4 | sed 's/^0*//;s/^$/0/') % 4 )); \
                      if [ -e on ]; then echo $((120 + n)); else echo $((100 + n)); fi";
const QUICK: [&str; 6] = ["--block", "0.1", "--washout", "0.01", "--sample", "0.03"];

/// How long an experiment may take, in seconds: on a busy machine the first is too short for a pair of blocks.
const LONGEST: [&str; 2] = ["4", "60"];

fn ab(fixture: &Fixture, more: &[&str]) -> Ran {
    fixture.run(&[&["ab"], &SWITCH[..], &QUICK, more].concat())
}

#[test]
fn an_effect_of_the_switch_is_found_and_it_ends_off() {
    let fixture = Fixture::new();
    let ran = ab(&fixture, &["--metric", METRIC, "--precision", "5", "--format", "json"]);
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    let document: serde_json::Value = serde_json::from_str(&ran.stdout()).unwrap();
    assert_eq!(document["ended"], "precise", "{document}");
    let overall = &document["overall"];
    let figure = |name: &str| overall[name].as_f64().unwrap();
    assert!(figure("low_percent") < 20.0 && figure("high_percent") > 19.0, "{document}");
    assert!(figure("high_percent") - figure("low_percent") < 12.5, "{document}");
    assert_eq!(document["programs"][0]["name"], "app");
    let page = include_str!("../../../../docs/json.md");
    for (field, value) in document.as_object().unwrap() {
        let inner = value.as_object().into_iter().flat_map(|inner| inner.keys());
        for name in std::iter::once(field).chain(inner) {
            assert!(page.contains(&format!("`{name}`")), "docs/json.md lacks {name}");
        }
    }
    assert!(ran.stderr().contains("corun: pair 1: +"), "{}", ran.stderr());
    // Whatever came last, it is off.
    assert!(!fixture.path("on").exists());
    let log = std::fs::read_to_string(fixture.path("log")).unwrap();
    assert!(log.ends_with("off\n") && log.contains("on\n"));
}

#[test]
fn a_harm_stops_it() {
    let fixture = Fixture::new();
    let metric = "app=if [ -e on ]; then echo 1; else echo 100; fi";
    let ran = ab(&fixture, &["--metric", metric, "--longest", "60"]);
    let text = ran.stdout();
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    assert!(text.contains("Stopped at once: app lost more than 50 % in a block."), "{text}");
    assert!(!fixture.path("on").exists());
    let ran = ab(&fixture, &["--metric", metric, "--collapse", "100", "--longest", "60"]);
    assert!(ran.stdout().contains("Stopped: app surely loses more than 5 %."), "{}", ran.stdout());
}

#[test]
fn a_wrong_start_changes_nothing() {
    let fixture = Fixture::new();
    ab(&fixture, &[]).refused(&["no metric", "try: --metric NAME=CMD"]);
    ab(&fixture, &["--metric", "app"]).refused(&["app", "expected a name, `=`"]);
    ab(&fixture, &["--metric", "app=false"]).refused(&[
        "metric `app` (`false`)",
        "exit status: 1",
        "nothing was changed",
    ]);
    ab(&fixture, &["--metric", "app=echo quick"])
        .refused(&["printed `quick`, expected one number", "nothing was changed"]);
    ab(&fixture, &["--metric", "a=echo 1", "--metric", "a=echo 2"])
        .refused(&["two metrics", "`a`"]);
    ab(&fixture, &["--metric", METRIC, "--precision", "0"])
        .refused(&["--precision", "0.01 to 100"]);
    ab(&fixture, &["--metric", METRIC, "--longest", "0.1"])
        .refused(&["--longest", "at least 6 pairs"]);
    let long = [&["ab"], &SWITCH[..], &["--metric", METRIC, "--block", "1", "--sample", "1"]];
    fixture.run(&long.concat()).refused(&["--sample", "half of --block"]);
    // Who asks for short blocks alone gets readings that fit.
    let short = [&["ab"], &SWITCH[..], &["--metric", "app=false", "--block", "0.1"]];
    fixture.run(&short.concat()).refused(&["metric `app` (`false`)", "nothing was changed"]);
    ab(&fixture, &["--prometheus", "http://127.0.0.1:1", "--query", "a=up"]).refused(&[
        "metric `a` (`up`)",
        "no answer from http://127.0.0.1:1",
        "nothing was changed",
    ]);
    let half = fixture.run(&["ab", "--on", "touch on", "--metric", METRIC]);
    half.refused(&["--off"]);
    assert_eq!(fixture.files(), ["solo.csv"]);
}

#[test]
fn a_switch_that_fails_is_turned_off_and_told() {
    let fixture = Fixture::new();
    let words =
        ["ab", "--on", "echo jammed >&2; exit 4", "--off", "touch off", "--metric", "a=echo 1"];
    let ran = fixture.run(&[&words[..], &QUICK].concat());
    assert_eq!(ran.code(), 1, "{}", ran.stderr());
    let stderr = ran.stderr();
    assert!(stderr.contains("command of --on") && stderr.contains("4: jammed"), "{stderr}");
    assert!(stderr.contains("it was turned off"), "{stderr}");
    assert!(fixture.path("off").exists());
    let words = ["ab", "--on", "true", "--off", "exit 5", "--metric", "a=echo 1"];
    let ran = fixture.run(&[&words[..], &QUICK].concat());
    assert!(ran.stderr().contains("turn it off by hand"), "{}", ran.stderr());
}

#[test]
fn interrupted_it_turns_off_and_says_what_is_known() {
    let fixture = Fixture::new();
    let child = Command::new(assert_cmd::cargo::cargo_bin!("corun"))
        .current_dir(fixture.path("."))
        .args(["ab", "--precision", "0.01", "--longest", "600"])
        .args(SWITCH)
        .args(QUICK)
        .args(["--metric", METRIC])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Until it has been on once.
    let on = || std::fs::read_to_string(fixture.path("log")).is_ok_and(|log| log.contains("on\n"));
    let came = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        on()
    });
    assert!(came);
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.status.signal()), (Some(130), None));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Interrupted; this is what is known so far."), "{text}");
    assert!(!fixture.path("on").exists());
}

/// `NAME=CMD` for a program's nanoseconds on a CPU.
fn metric(program: &Started, name: &str) -> String {
    format!("{name}=cut -d' ' -f1 /proc/{}/schedstat", program.pid())
}

#[test]
fn what_stops_a_real_program_is_found_out_and_taken_back() {
    let fixture = Fixture::new();
    let (first, second) = (Started::seldom_busy(), Started::seldom_busy());
    let on = format!("kill -STOP {}", second.pid());
    let off = format!("kill -CONT {}", second.pid());
    let (first_metric, second_metric) = (metric(&first, "first"), metric(&second, "second"));
    let words = ["ab", "--on", &on, "--off", &off, "--washout", "0.05", "--collapse", "90"];
    let counts = ["--count", &first_metric, "--count", &second_metric, "--longest", "120"];
    // On a busy machine the other program may be the one that has no CPU for a short block.
    let is_found = [("0.4", "0.1"), ("4", "1")].into_iter().any(|(block, sample)| {
        let lengths = ["--block", block, "--sample", sample, "--format", "json"];
        let ran = fixture.run(&[&words[..], &counts, &lengths].concat());
        assert_eq!(ran.code(), 0, "{}", ran.stderr());
        let document: serde_json::Value = serde_json::from_str(&ran.stdout()).unwrap();
        assert!(["collapse", "harm"].contains(&document["ended"].as_str().unwrap()), "{document}");
        document["harmed"] == "second"
    });
    assert!(is_found);
    assert_ne!(second.proc("stat").split(' ').nth(2), Some("T"));
}

/// The document of an experiment that had time for a pair of blocks, and what the command said.
fn with_pairs(fixture: &Fixture, words: &[&str]) -> (serde_json::Value, String) {
    for longest in LONGEST {
        let ran = fixture.run(&[words, &["--longest", longest]].concat());
        assert_eq!(ran.code(), 0, "{}", ran.stderr());
        let document: serde_json::Value = serde_json::from_str(&ran.stdout()).unwrap();
        if document["pairs"].as_u64().unwrap() > 0 {
            return (document, ran.stderr());
        }
    }
    panic!("no pair within {} s", LONGEST[1])
}

/// What `ab` counts by itself, of a configuration's programs with modelled counters.
#[test]
fn without_a_metric_instructions_are_compared() {
    let fixture = Fixture::new();
    let (first, second) = (Started::seldom_busy(), Started::seldom_busy());
    let config = |counters: &str, policy: &str| {
        let program = |name: &str, profile: &str, busy: &Started| {
            let pid = busy.pid();
            format!("[[program]]\nname = \"{name}\"\nprofile = \"{profile}\"\npid = {pid}\n")
        };
        let programs = [program("one", "sort", &first), program("two", "xz", &second)].concat();
        let journals = fixture.path("journals");
        let journals = journals.display();
        let text = format!(
            "policy = \"{policy}\"\ncounters = \"{counters}\"\njournals = \"{journals}\"\n{programs}"
        );
        fixture.write("config.toml", &text);
    };
    config("model", "di");
    let words = ["ab", "--config", "config.toml", "--collapse", "100", "--harm", "99"];
    let (document, _) = with_pairs(&fixture, &[&words[..], &QUICK, &["--format", "json"]].concat());
    let names: Vec<&str> = document["programs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["one", "two"], "{document}");
    assert!(document["programs"][0]["percent"].is_number(), "{document}");
    config("profiles", "di");
    let ran = fixture.run(&[&words[..], &QUICK].concat());
    ran.refused(&["no metric", "nothing here counts", "try: --metric NAME=CMD"]);
}

/// A backend that took the other's place would be compared with itself.
#[test]
fn two_backends_are_compared_or_it_is_refused() {
    let fixture = Fixture::new();
    let asked = |more: &[&str]| {
        let words = ["ab", "--counters", "model", "--journals", "journals", "--longest", "3"];
        fixture.run(&[&words[..], &QUICK, more, &["--", "sleep", "1000"]].concat())
    };
    for backends in [["affinity", "affinity"], ["auto", "affinity"], ["affinity", "auto"]] {
        let ran = asked(&["--profile", "sort", "--backend", backends[0], "--against", backends[1]]);
        ran.refused(&["--against", "expected affinity against sched-ext"]);
    }
    if Path::new("/sys/kernel/sched_ext").exists() {
        println!("skipped: this kernel may have what it takes; the guest's cases compare backends");
        return;
    }
    for (backend, against) in [("affinity", "sched-ext"), ("sched-ext", "affinity")] {
        let ran = asked(&["--profile", "sort", "--backend", backend, "--against", against]);
        ran.refused(&["no scheduler in the kernel: this kernel has no sched_ext"]);
    }
}

/// What is left of these programs: each has its own name.
fn runs(name: &str) -> bool {
    let list = std::fs::read_dir("/proc").unwrap().flatten();
    list.into_iter().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(name)
    })
}

/// Programs of a mix are started, compared by what the model says that they do, and ended.
#[test]
fn programs_are_started_and_ended_with_the_experiment() {
    let fixture = Fixture::new();
    let long = format!("1{:09}", std::process::id());
    let mix = format!(
        "[[app]]\nprofile = \"sort\"\n\n[[app]]\nprofile = \"xz\"\ncmd = [\"sh\", \"-c\", \
         \"echo printed; while :; do :; done; : {long}\"]\n"
    );
    fixture.write("mix.toml", &mix);
    let words = ["ab", "mix.toml", "--policy", "di", "--counters", "model"];
    let more = ["--journals", "journals", "--collapse", "100", "--harm", "99", "--format", "json"];
    let (document, said) = with_pairs(&fixture, &[&words[..], &QUICK, &more].concat());
    let programs = document["programs"].as_array().unwrap();
    let names: Vec<&str> = programs.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["sort", "xz"], "{document}");
    assert!(programs[0]["percent"].is_number(), "{document}");
    // What programs print does not get into the result.
    assert!(said.contains("printed\n"), "{said}");
    assert!(!runs(&long), "a program still runs");
    assert!(
        std::fs::read_dir(fixture.path("journals")).unwrap().next().is_none(),
        "a journal stays"
    );
}

#[test]
fn a_program_that_ends_by_itself_ends_the_experiment() {
    let fixture = Fixture::new();
    let words = ["ab", "--policy", "di", "--counters", "profiles", "--journals", "journals"];
    let metric = ["--metric", "a=echo 1", "--longest", "600", "--precision", "0.01"];
    let words = [&words[..], &QUICK, &metric].concat();
    let ran = fixture.run(&[&words[..], &["--", "sh", "-c", "sleep 2; exit 3"]].concat());
    assert_eq!(ran.code(), 3, "{}", ran.stderr());
    let said = "sh ended (exit code 3); this is what was known by then.";
    assert!(ran.stdout().contains(said), "{}", ran.stdout());
    let json = ["--format", "json", "--", "sleep", "0.5"];
    let ran = fixture.run(&[&words[..], &json].concat());
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    let document: serde_json::Value = serde_json::from_str(&ran.stdout()).unwrap();
    assert_eq!(document["ended"], "over", "{document}");
    assert_eq!(document["over"], "sleep ended (exit code 0)", "{document}");
}

#[test]
fn programs_that_a_mix_starts_again_go_on() {
    let fixture = Fixture::new();
    fixture.write("mix.toml", "[[app]]\ncmd = [\"sleep\", \"0.05\"]\nrestart = true\n");
    let words = ["ab", "mix.toml", "--policy", "di", "--counters", "profiles"];
    let more = ["--journals", "journals", "--metric", "a=echo 1", "--precision", "0.01"];
    let ended_again = LONGEST.into_iter().any(|longest| {
        let ran = fixture.run(&[&words[..], &QUICK, &more, &["--longest", longest]].concat());
        assert_eq!(ran.code(), 0, "{}", ran.stderr());
        assert!(!ran.stdout().contains("this is what was known by then"), "{}", ran.stdout());
        let stderr = ran.stderr();
        let told = stderr.matches("sleep ended (exit code 0) and is started again").count();
        assert!(told <= 1, "{stderr}");
        told == 1 && stderr.contains("corun: sleep ended ") && stderr.contains(" times")
    });
    assert!(ended_again);
}

#[test]
fn what_cannot_be_started_or_tried_is_refused() {
    let fixture = Fixture::new();
    let metric = ["--metric", "a=echo 1"];
    let ab = |words: &[&str]| fixture.run(&[&["ab"], &QUICK[..], &metric, words].concat());
    let di = ["--policy", "di", "--counters", "profiles", "--journals", "journals"];
    ab(&[&di[..], &["--", "/nowhere/at/all"]].concat()).refused(&["/nowhere/at/all: No such file"]);
    ab(&["--policy", "dio", "--counters", "profiles", "--", "sleep", "9"])
        .refused(&["policy `dio` needs the counter", "--counters model"]);
    ab(&["--config", "c.toml", "mix.toml"]).refused(&["--config", "cannot be used with"]);
    ab(&["--config", "c.toml", "--policy", "di"]).refused(&["--config", "cannot be used with"]);
    ab(&["--on", "true", "--off", "true", "--", "sleep", "9"])
        .refused(&["--on", "cannot be used with"]);
    ab(&[]).refused(&[
        "on and off by turns",
        "-p PID",
        "MIX",
        "--on CMD --off CMD",
        "--config FILE",
    ]);
    fixture.write("mix.toml", "[[app]]\nprofile = \"xz\"\n");
    ab(&[&di[..], &["mix.toml"]].concat()).refused(&["app `xz` has a profile and no cmd"]);
}

/// With a policy that leaves all to the kernel, blocks with it are as those without.
#[test]
fn where_no_policy_would_act_nothing_is_compared() {
    let fixture = Fixture::new();
    let metric = ["--metric", "a=touch measured; echo 1"];
    let ab = |words: &[&str]| fixture.run(&[&["ab"], &QUICK[..], &metric, words].concat());
    let said = ["nothing to compare", "leaves all to the kernel", "--on CMD --off CMD"];
    ab(&["--policy", "linux-default", "--", "sleep", "9"])
        .refused(&[&said[..], &["--policy NAME"]].concat());
    let program = "[[program]]\nname = \"a\"\ncommand = \"a\"\n";
    fixture.write("named.toml", &format!("policy = \"linux-default\"\n{program}"));
    ab(&["--config", "named.toml"]).refused(&said);
    // What is chosen depends on this machine.
    fixture.write("auto.toml", &format!("policy = \"auto\"\n{program}"));
    let checked = fixture.run(&["check-config", "auto.toml"]).stdout();
    if checked.contains("good: linux-default (auto: ") {
        let said = [
            "policy = \"auto\" chooses no policy here, since the machine has one last-level cache",
        ];
        ab(&["--config", "auto.toml"]).refused(&[&said[..], &["policy = \"NAME\""]].concat());
    }
    assert!(!fixture.path("measured").exists());
}

#[test]
fn interrupted_it_ends_its_programs() {
    let fixture = Fixture::new();
    let long = format!("2{:09}", std::process::id());
    let child = Command::new(assert_cmd::cargo::cargo_bin!("corun"))
        .current_dir(fixture.path("."))
        .args(["ab", "--policy", "di", "--counters", "profiles", "--journals", "journals"])
        .args(QUICK)
        .args(["--metric", "a=echo 1", "--precision", "0.01", "--", "sleep", &long])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let own = |name: &str| format!("sleep\0{name}");
    let came = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        runs(&own(&long))
    });
    assert!(came);
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(!runs(&own(&long)), "the program still runs");
}

#[test]
fn a_policy_is_tried_over_processes_that_run_already() {
    let fixture = Fixture::new();
    let busy = Started::seldom_busy();
    let pid = busy.pid();
    let allowed = || {
        let status = busy.proc("status");
        status.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap().to_owned()
    };
    let before = allowed();
    let metric = "app=echo $((100 + $(date +%N | tail -c 4 | sed 's/^0*//;s/^$/0/') % 4))";
    let own = ["ab", "--policy", "di", "-p", &pid, "--metric", metric, "--precision", "20"];
    let ran = fixture.run(&[&own[..], &QUICK, &["--format", "json"]].concat());
    let after = allowed();
    drop(busy);
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    let document: serde_json::Value = serde_json::from_str(&ran.stdout()).unwrap();
    assert_eq!(document["programs"][0]["name"], "app", "{document}");
    assert_eq!(before, after);
    fixture
        .run(&["ab", "-p", "4194304", "--metric", metric])
        .refused(&["no process has the number"]);
    fixture.run(&["ab", "-p", "1", "--", "true"]).refused(&["--pid"]);
    fixture.run(&["ab", "-p", "1", "--unit", "a.service"]).refused(&["--unit"]);
}
