//! `corun run` and `corun daemon`: real programs, real affinities.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use crate::fixture::Fixture;

/// A policy that goes by stored profiles needs no hardware counters.
const BY_PROFILES: [&str; 4] = ["--policy", "di", "--counters", "profiles"];

pub(crate) fn corun() -> Command {
    Command::new(env!("CARGO_BIN_EXE_corun"))
}

fn affinity(pid: u32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(line.trim().to_owned())
}

/// Waits until it holds, for as long as a loaded machine may need.
pub(crate) fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(60) {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Waits until a process has used so many seconds of CPU time, however long it has to wait for them.
pub(crate) fn has_computed(pid: u32, seconds: u64) -> bool {
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        let of_two = fields.split(' ').skip(11).take(2).map(|one| one.parse::<u64>().unwrap());
        Some(of_two.sum::<u64>())
    };
    eventually(|| ticks() >= Some(seconds * rustix::param::clock_ticks_per_second()))
}

pub(crate) struct Ended(pub(crate) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(fixture: &Fixture, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = corun()
        .arg("run")
        .args(["--journals".as_ref(), fixture.path("journals").as_os_str()])
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn an_untested_policy_is_refused_unless_the_user_insists() {
    let fixture = Fixture::new();
    let policy = ["--policy", "linux-power-saving", "--counters", "profiles"];
    let with = |more: &[&str]| run(&fixture, &[&policy[..], more, &["--", "true"]].concat());
    let (code, _, err) = with(&[]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("`linux-power-saving` is not known to do well"), "{err}");
    assert!(err.contains("--untested"), "{err}");
    for allowed in ["--untested", "--dry-run"] {
        let (code, _, err) = with(&[allowed]);
        assert_eq!(code, Some(0), "{allowed}: {err}");
    }
    let doctor = corun().args(["doctor", "--format", "json"]).output().unwrap();
    let said = String::from_utf8(doctor.stdout).unwrap();
    assert!(said.contains("acts only with --untested: "), "{said}");
    let config = fixture.path("untested.toml");
    let text = "apply = true\npolicy = \"linux-power-saving\"\n[[program]]\nname = \"a\"\ncommand = \"a\"\n";
    let check = |text: &str| {
        std::fs::write(&config, text).unwrap();
        corun().arg("check-config").arg(&config).output().unwrap().status.code()
    };
    assert_eq!(check(text), Some(2));
    assert_eq!(check(&format!("untested = true\n{text}")), Some(0));
    assert_eq!(check(&text.replace("true", "false")), Some(0));
}

/// The guests' cases have the kernels with sched_ext.
#[test]
fn where_sched_ext_is_missing_corun_says_so_and_goes_on_by_affinities() {
    if Path::new("/sys/kernel/sched_ext").exists() {
        println!("skipped: this kernel has sched_ext");
        return;
    }
    let fixture = Fixture::new();
    let with = |backend: &str| {
        let arguments = ["--backend", backend, "--", "sh", "-c", "echo out"];
        run(&fixture, &[&BY_PROFILES[..], &arguments].concat())
    };
    let (code, out, err) = with("sched-ext");
    assert_eq!((code, out.as_str()), (Some(0), "out\n"), "{err}");
    assert!(err.contains("no scheduler in the kernel: this kernel has no sched_ext"), "{err}");
    assert!(err.contains("threads are placed by their affinities instead"), "{err}");
    let (code, _, err) = with("auto");
    assert_eq!(code, Some(0), "{err}");
    assert!(!err.contains("sched_ext") && !err.contains("affinities"), "{err}");
}

#[test]
fn a_program_keeps_its_output_and_its_exit_code() {
    let fixture = Fixture::new();
    let command = ["--", "sh", "-c", "echo out; exit 3"];
    let (code, out, err) = run(&fixture, &[&BY_PROFILES[..], &command].concat());
    assert_eq!((code, out.as_str()), (Some(3), "out\n"), "{err}");
    assert!(err.contains("corun: sh: ") && err.contains("exit code 3"), "{err}");
    let killed = ["--", "sh", "-c", "kill -9 $$"];
    let (code, _, err) = run(&fixture, &[&BY_PROFILES[..], &killed].concat());
    assert_eq!(code, Some(137), "{err}");
    assert!(
        std::fs::read_dir(fixture.path("journals")).unwrap().next().is_none(),
        "a journal stays"
    );
}

#[test]
fn what_cannot_be_started_is_said() {
    let fixture = Fixture::new();
    let (code, _, err) = run(&fixture, &[&BY_PROFILES[..], &["--", "/nowhere/at/all"]].concat());
    assert_eq!(code, Some(2));
    assert!(err.contains("/nowhere/at/all: No such file"), "{err}");
    let (code, _, err) = run(&fixture, &["--policy", "doi", "--", "true"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("unknown policy `doi`") && err.contains("dio"), "{err}");
    let words = [&BY_PROFILES[..], &["--profile", "xy", "--", "true"]].concat();
    let (code, _, err) = run(&fixture, &words);
    assert_eq!(code, Some(2));
    assert!(err.contains("no program is named \"xy\"") && err.contains("near it: xz"), "{err}");
    fixture.write("mix.toml", "[[app]]\nprofile = \"xz\"\n");
    let mix = fixture.path("mix.toml");
    let (code, _, err) = run(&fixture, &[&BY_PROFILES[..], &[mix.to_str().unwrap()]].concat());
    assert_eq!(code, Some(2));
    assert!(err.contains("app `xz` has a profile and no cmd"), "{err}");
    fixture.write("mix.toml", "[[app]]\ncmd = [\"true\"]\nrestart = true\n");
    let (code, _, err) = run(&fixture, &[&BY_PROFILES[..], &[mix.to_str().unwrap()]].concat());
    assert_eq!(code, Some(2));
    assert!(err.contains("there is no end") && err.contains("--duration"), "{err}");
}

#[test]
fn a_program_in_the_place_of_a_mix_leads_to_where_a_program_stands() {
    let fixture = Fixture::new();
    let script = fixture.copy("/bin/sh", "solver");
    for (typed, found) in [(script.to_str().unwrap(), "solver"), ("no-such-file", "cannot be read")]
    {
        let (code, _, err) = run(&fixture, &[&BY_PROFILES[..], &[typed]].concat());
        assert_eq!(code, Some(2));
        assert!(
            err.contains(found) && err.contains(&format!("try: -- {typed} starts it")),
            "{err}"
        );
    }
}

#[test]
fn where_no_policy_is_named_one_is_chosen_and_told() {
    let fixture = Fixture::new();
    let (code, _, told) = run(&fixture, &["--counters", "profiles", "--dry-run", "--", "true"]);
    assert_eq!(code, Some(0), "{told}");
    // By profiles, or none where this machine has one last-level cache.
    let chosen = [
        "--policy auto: di, since nothing here counts",
        "--policy auto: linux-default, since the machine has one last-level cache",
    ];
    assert!(chosen.iter().any(|line| told.contains(line)), "{told}");
    let (code, _, told) = run(&fixture, &["--set", "objective=1", "--", "true"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("--set: nothing says of which policy") && told.contains("--policy NAME"));
}

#[test]
fn without_counters_a_policy_that_needs_them_is_refused() {
    let fixture = Fixture::new();
    let counters = ["--policy", "dio", "--counters", "profiles", "--", "true"];
    let (code, _, err) = run(&fixture, &counters);
    assert_eq!(code, Some(2));
    assert!(err.contains("policy `dio` needs the counter"), "{err}");
    assert!(err.contains("--counters model"), "{err}");
    assert!(!fixture.path("journals").exists(), "something was done");
}

#[test]
fn a_description_of_this_machine_is_taken_and_of_another_refused() {
    let fixture = Fixture::new();
    let described = |file: &str, name: &[&str]| {
        let words = [&["topology"], name, &["--format", "toml"]].concat();
        fixture.write(file, &fixture.run(&words).done());
        let path = fixture.path(file);
        let file = ["--dry-run", "--machine", path.to_str().unwrap(), "--", "true"];
        run(&fixture, &[&BY_PROFILES[..], &file].concat())
    };
    let (code, _, stderr) = described("this.toml", &[]);
    assert_eq!(code, Some(0), "{stderr}");
    let (code, _, stderr) = described("other.toml", &["--machine", "xeon-x5365"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("each share a cache, and on this machine CPUs"), "{stderr}");
}

#[test]
fn stand_ins_run_under_modelled_counters_until_their_time_is_over() {
    let fixture = Fixture::new();
    fixture
        .write("mix.toml", "[[app]]\nprofile = \"xz\"\n\n[[app]]\nprofile = \"sort\"\ncount = 2\n");
    let (mix, summary) = (fixture.path("mix.toml"), fixture.path("run.json"));
    let paths = [mix.to_str().unwrap(), "-o", summary.to_str().unwrap()];
    let model = ["--counters", "model", "--interval", "0.5"];
    let mut document = serde_json::Value::Null;
    // A busy machine may have no time for a second look.
    for duration in ["2", "30"] {
        let words = [&paths[..], &model, &["--duration", duration]].concat();
        let (code, _, err) = run(&fixture, &words);
        assert_eq!(code, Some(0), "{err}");
        let text = std::fs::read_to_string(&summary).unwrap();
        document = serde_json::from_str(&text).unwrap();
        if document["rounds"].as_u64().unwrap() > 1 {
            break;
        }
    }
    let names: Vec<&str> = document["programs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["xz", "sort", "sort#2"]);
    assert!(document["rounds"].as_u64().unwrap() > 1);
    assert_eq!(document["programs"][0]["runs"][0]["ended_by_corun"], true);
    assert_eq!(document["undone"]["failed"], serde_json::json!([]));
    let missing = crate::documents::undocumented(&document["undone"]);
    assert!(missing.is_empty(), "docs/json.md lacks {missing:?}");
}

#[test]
fn restarted_programs_run_again() {
    let fixture = Fixture::new();
    fixture.write("mix.toml", "[[app]]\ncmd = [\"sleep\", \"0.2\"]\nrestart = true\n");
    let (mix, summary) = (fixture.path("mix.toml"), fixture.path("run.json"));
    let ran_again = ["3", "60"].into_iter().any(|duration| {
        let paths = [mix.to_str().unwrap(), "--duration", duration];
        let output = ["-o", summary.to_str().unwrap()];
        let (code, _, err) = run(&fixture, &[&BY_PROFILES[..], &paths, &output].concat());
        assert_eq!(code, Some(0), "{err}");
        err.contains("sleep: ") && err.contains(" runs, ")
    });
    assert!(ran_again);
}

/// Descriptors, their limit and signals are for the program as its caller left them.
#[test]
fn a_started_program_gets_what_its_caller_gave() {
    let fixture = Fixture::new();
    fixture.write("given", "");
    let tells = "for f in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do readlink /proc/$$/fd/$f || echo none; \
                 done; ulimit -Sn; ulimit -Hn; umask; \
                 sed -n 's/^SigIgn.*\\(.......\\)$/\\1/p' /proc/$$/status; exec grep ^SigBlk /proc/self/status";
    // The last seven digits are the signals up to 28: the C library keeps some above for itself.
    let told = |before: &[&str]| {
        let script = "ulimit -Sn 77; umask 027; trap '' USR1 HUP; exec 7<given 9>/dev/null; exec \"$@\" \
                      </dev/null >out 2>err";
        // Whoever runs the tests in the background has them ignore SIGINT, which corun catches all the same.
        let mut command = Command::new("env");
        command.current_dir(fixture.path(".")).args([
            "--default-signal=INT",
            "sh",
            "-c",
            script,
            "sh",
        ]);
        command.args(before);
        assert!(command.args(["sh", "-c", tells]).status().unwrap().success());
        std::fs::read_to_string(fixture.path("out")).unwrap()
    };
    let directly = told(&[]);
    assert!(directly.contains("given") && directly.contains("77\n"), "{directly}");
    let corun = env!("CARGO_BIN_EXE_corun");
    let run = [&[corun, "run", "--journals", "journals"][..], &BY_PROFILES, &["--"]].concat();
    assert_eq!(told(&run), directly);
    // Counters may be forbidden here; the program is started then as well, or nothing is.
    let stat = [corun, "stat", "-o", "counts", "-e", "task-clock", "--"];
    if corun_can_count(&fixture) {
        assert_eq!(told(&stat), directly);
    }
}

fn corun_can_count(fixture: &Fixture) -> bool {
    let ran = fixture.run(&["stat", "-e", "task-clock", "-o", "tried", "--", "true"]);
    ran.code() == 0
}

/// A daemon over a program that only this test has, held by `di` on one CPU.
pub(crate) struct Daemon {
    pub(crate) fixture: Fixture,
    program: Ended,
    pub(crate) before: String,
}

impl Daemon {
    /// None where there is one CPU only, and nothing can be seen to move.
    pub(crate) fn new(apply: bool) -> Option<Self> {
        let fixture = Fixture::new();
        let sleep = fixture.copy("/bin/sleep", "waits-for-corun");
        let program = Ended(Command::new(sleep).arg("1000").spawn().unwrap());
        let before = affinity(program.0.id()).unwrap();
        if before.parse::<u32>().is_ok() {
            eprintln!("skipped: one CPU alone");
            return None;
        }
        let config = format!(
            "apply = {apply}\npolicy = \"di\"\ncounters = \"profiles\"\njournals = \"{}\"\n\
             metrics = \"127.0.0.1:0\"\ngate.on = false\n[[program]]\nname = \"waits\"\nprofile = \"sort\"\n\
             pid = {}\ncommand = \"waits-for-corun\"\n",
            fixture.path("journals").display(),
            program.0.id()
        );
        fixture.write("config.toml", &config);
        Some(Self { fixture, program, before })
    }

    pub(crate) fn start(&self) -> Ended {
        let mut command = corun();
        command.args(["daemon", "--config"]).arg(self.fixture.path("config.toml"));
        Ended(command.stderr(Stdio::piped()).spawn().unwrap())
    }

    pub(crate) fn now(&self) -> String {
        affinity(self.program.0.id()).unwrap()
    }
}

pub(crate) fn signal(child: &Child, name: &str) {
    let number = child.id().to_string();
    assert!(Command::new("kill").args([name, &number]).status().unwrap().success());
}

pub(crate) fn stderr_of(mut child: Ended) -> String {
    let mut text = String::new();
    std::io::Read::read_to_string(child.0.stderr.as_mut().unwrap(), &mut text).unwrap();
    text
}

/// What a process says on stderr, as far as it was read.
pub(crate) struct Log {
    lines: std::io::Lines<BufReader<ChildStderr>>,
    text: String,
}

impl Log {
    pub(crate) fn of(process: &mut Ended) -> Self {
        let stderr = process.0.stderr.take().unwrap();
        Self { lines: BufReader::new(stderr).lines(), text: String::new() }
    }

    /// Reads on to the next line with these words. It ends with the process at the latest.
    fn wait_for(&mut self, words: &str) {
        for line in self.lines.by_ref().map(Result::unwrap) {
            self.text.push_str(&line);
            self.text.push('\n');
            if line.contains(words) {
                return;
            }
        }
        panic!("it did not say `{words}`: {}", self.text);
    }

    /// Where its metrics are, as soon as it has said so.
    pub(crate) fn address_of_metrics(&mut self) -> SocketAddr {
        if !self.text.contains("metrics at /metrics") {
            self.wait_for("metrics at /metrics");
        }
        let mut words = self.text.split_whitespace();
        let address = words.find_map(|word| word.strip_prefix("address="));
        address.unwrap_or_else(|| panic!("no address: {}", self.text)).parse().unwrap()
    }

    /// All that it said, once it has ended.
    pub(crate) fn whole(mut self) -> String {
        for line in self.lines {
            self.text.push_str(&line.unwrap());
            self.text.push('\n');
        }
        self.text
    }
}

#[test]
fn the_daemon_holds_a_program_and_lets_it_go() {
    let Some(ground) = Daemon::new(true) else { return };
    let mut daemon = ground.start();
    assert!(eventually(|| ground.now() != ground.before), "nothing was held");
    signal(&daemon.0, "-HUP");
    assert!(eventually(|| ground.now() != ground.before), "nothing is held after a reload");
    signal(&daemon.0, "-TERM");
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0));
    assert_eq!(ground.now(), ground.before);
}

#[test]
fn two_signals_at_once_leave_nothing_behind() {
    for name in ["-TERM", "-INT"] {
        let Some(ground) = Daemon::new(true) else { return };
        for _ in 0..5 {
            let mut daemon = ground.start();
            assert!(eventually(|| ground.now() != ground.before), "nothing was held");
            signal(&daemon.0, name);
            std::thread::sleep(Duration::from_millis(20));
            // It may have ended by now.
            let _ = Command::new("kill").args([name, &daemon.0.id().to_string()]).output();
            assert_eq!(daemon.0.wait().unwrap().code(), Some(0), "{name}");
            assert_eq!(ground.now(), ground.before, "{name}");
            assert!(std::fs::read_dir(ground.fixture.path("journals")).unwrap().next().is_none());
        }
    }
}

#[test]
fn an_impatient_ctrl_c_hastens_a_run_and_undoes_it() {
    let fixture = Fixture::new();
    let before = affinity(std::process::id()).unwrap();
    if before.parse::<u32>().is_ok() {
        eprintln!("skipped: one CPU alone");
        return;
    }
    // It does not end when asked to, and neither does what it leaves behind in a session of its own.
    let script = "trap 'echo >asked' TERM; echo $$ >own; while ! [ -e go ]; do sleep 0.05; done; \
                  (trap '' TERM; setsid sleep 1000 >&- 2>&- & echo $! >stray); \
                  while :; do sleep 0.05; done";
    let mut run = Ended(
        corun()
            .current_dir(fixture.path("."))
            .arg("run")
            .args(["--journals".as_ref(), fixture.path("journals").as_os_str()])
            .args(BY_PROFILES)
            .args(["--interval", "0.2", "--profile", "sort", "--", "sh", "-c", script])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let number =
        |file: &str| std::fs::read_to_string(fixture.path(file)).ok()?.trim().parse::<u32>().ok();
    let held = || number("own").and_then(affinity).is_some_and(|now| now != before);
    assert!(eventually(held), "nothing was held");
    fixture.write("go", "");
    assert!(eventually(|| number("stray").and_then(affinity).is_some_and(|now| now != before)));
    signal(&run.0, "-INT");
    // Two signals that come while a process has no CPU are one.
    assert!(eventually(|| fixture.path("asked").exists()), "it was not asked to end");
    signal(&run.0, "-INT");
    assert_eq!(run.0.wait().unwrap().code(), Some(130));
    let log = stderr_of(run);
    assert!(log.contains("killed, as a second signal came"), "{log}");
    assert!(log.contains("given back: process"), "{log}");
    let stray = number("stray").unwrap();
    assert_eq!(affinity(stray), Some(before));
    assert!(Command::new("kill").args(["-9", &stray.to_string()]).status().unwrap().success());
    assert!(std::fs::read_dir(fixture.path("journals")).unwrap().next().is_none());
}

#[test]
fn a_broken_configuration_is_refused_before_anything_is_undone() {
    let Some(ground) = Daemon::new(true) else { return };
    let mut daemon = ground.start();
    let mut log = Log::of(&mut daemon);
    assert!(eventually(|| ground.now() != ground.before), "nothing was held");
    let journal = || {
        let entry = std::fs::read_dir(ground.fixture.path("journals")).unwrap().next()?;
        std::os::unix::fs::MetadataExt::ino(&entry.ok()?.metadata().ok()?).into()
    };
    let first: Option<u64> = journal();
    let good = std::fs::read_to_string(ground.fixture.path("config.toml")).unwrap();
    // Others may use it: no journal is kept there.
    std::fs::create_dir(ground.fixture.path("open")).unwrap();
    let own = ground.fixture.path("journals").display().to_string();
    let open = ground.fixture.path("open").display().to_string();
    assert!(good.contains(&own), "{good}");
    let elsewhere = good.replace(&own, &open);
    let by_viewers = elsewhere
        .replace("apply = true\n", &format!("viewers_may_act = true\nviewers = \"{own}/v\"\n"));
    for broken in
        [format!("polcy = 1\n{good}"), format!("stall_s = 1e20\n{good}"), elsewhere, by_viewers]
    {
        ground.fixture.write("config.toml", &broken);
        signal(&daemon.0, "-HUP");
        log.wait_for("the old configuration stays");
        assert_ne!(ground.now(), ground.before);
        assert_eq!(journal(), first, "everything was undone");
    }
    let checked = corun().arg("check-config").arg(ground.fixture.path("config.toml")).output();
    let said = String::from_utf8_lossy(&checked.unwrap().stderr).into_owned();
    assert!(said.contains("warning: ") && said.contains(&open), "{said}");
    signal(&daemon.0, "-TERM");
    let log = log.whole();
    assert_eq!(log.matches("the old configuration stays").count(), 4, "{log}");
    assert_eq!(log.matches("everything is undone").count(), 1, "{log}");
    assert_eq!(ground.now(), ground.before);
}

#[test]
fn what_a_killed_daemon_left_is_restored() {
    let Some(ground) = Daemon::new(true) else { return };
    let mut daemon = ground.start();
    assert!(eventually(|| ground.now() != ground.before), "nothing was held");
    daemon.0.kill().unwrap();
    daemon.0.wait().unwrap();
    assert_ne!(ground.now(), ground.before);
    let folder = ground.fixture.path("journals");
    let restored = corun().arg("restore").arg("--folder").arg(folder).output().unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    assert_eq!(ground.now(), ground.before);
}

#[test]
fn a_daemon_whose_journals_are_moved_undoes_and_stops() {
    let Some(ground) = Daemon::new(true) else { return };
    let folder = ground.fixture.path("journals");
    let moved = ground.fixture.path("moved");
    let mut daemon = ground.start();
    assert!(eventually(|| ground.now() != ground.before), "nothing was held");
    let verify = corun().arg("verify").arg("--folder").arg(&folder).output().unwrap();
    assert_eq!(verify.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&verify.stdout).contains("held by a corun that runs"));
    std::fs::rename(&folder, &moved).unwrap();
    assert_eq!(daemon.0.wait().unwrap().code(), Some(1));
    let log = stderr_of(daemon);
    assert!(log.contains("the journal is lost") && log.contains("was moved"), "{log}");
    assert!(log.contains("everything is undone"), "{log}");
    assert_eq!(ground.now(), ground.before);
    assert!(std::fs::read_dir(&moved).unwrap().next().is_none());
}

#[test]
fn a_daemon_refuses_what_it_cannot_restore() {
    let Some(ground) = Daemon::new(true) else { return };
    let mut daemon = ground.start();
    assert!(eventually(|| ground.now() != ground.before), "nothing was held");
    daemon.0.kill().unwrap();
    daemon.0.wait().unwrap();
    let held = ground.now();
    let journal = std::fs::read_dir(ground.fixture.path("journals")).unwrap().next().unwrap();
    let journal = journal.unwrap().path();
    let whole = std::fs::read(&journal).unwrap();
    let line_2 = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let mut flipped = whole.clone();
    flipped[line_2 + 40] ^= 1;
    for (damaged, why) in [
        (&b"nonsense\n"[..], "line 1 is no header"),
        (&whole[..20], "line 1 is cut short"),
        (&flipped[..], "line 2 cannot be read"),
    ] {
        std::fs::write(&journal, damaged).unwrap();
        let mut next = ground.start();
        assert_eq!(next.0.wait().unwrap().code(), Some(1), "{why}");
        let log = stderr_of(next);
        assert!(log.contains("cannot be restored") && log.contains(why), "{log}");
        assert!(!log.contains("everything is undone"), "{log}");
        assert_eq!(ground.now(), held, "{why}");
        assert!(journal.exists(), "{why}");
    }
    std::fs::write(&journal, whole).unwrap();
    let folder = ground.fixture.path("journals");
    let restored = corun().arg("restore").arg("--folder").arg(folder).output().unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    assert_eq!(ground.now(), ground.before);
}

#[test]
fn until_told_to_apply_the_daemon_only_says_what_it_would_do() {
    let Some(ground) = Daemon::new(false) else { return };
    let config = std::fs::read_to_string(ground.fixture.path("config.toml")).unwrap();
    ground.fixture.write("config.toml", &format!("interval_s = 0.1\n{config}"));
    let mut daemon = ground.start();
    let mut log = Log::of(&mut daemon);
    log.wait_for("would do: waits on CPU");
    // Later looks show that it goes on.
    let at = log.address_of_metrics();
    assert!(eventually(|| crate::daemon::rounds(at) > Some(3)), "no more rounds");
    assert_eq!(ground.now(), ground.before);
    assert!(!ground.fixture.path("journals").exists(), "a journal was begun");
    signal(&daemon.0, "-TERM");
    log.whole();
}
