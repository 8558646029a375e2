//! The Live view of a daemon: what the daemon sees, orders that it carries out, and a daemon that goes and comes back.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::act::{act, allowed, hold, message, two_cpus};
use crate::browser::Browser;
use crate::http::Events;
use crate::live::Busy;
use crate::server::{Server, pictures};

const PATIENCE: Duration = Duration::from_secs(120);

/// A daemon over one process, by modelled counters.
struct Daemon {
    folder: tempfile::TempDir,
    process: Option<Child>,
}

impl Daemon {
    /// `more`: lines of the configuration.
    fn start(busy: &Busy, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let text = format!(
            "policy = \"di\"\ncounters = \"model\"\ninterval_s = 0.2\nmetrics = \"off\"\n\
             journals = {:?}\nviewers = {:?}\n{more}\n\
             [[program]]\nname = \"sorter\"\nprofile = \"sort\"\npid = {}\n",
            path("journals"),
            path("viewers.sock"),
            busy.pid()
        );
        std::fs::write(folder.path().join("config.toml"), text).unwrap();
        let mut own = Self { folder, process: None };
        own.begin();
        own
    }

    fn begin(&mut self) {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("corun"));
        command.arg("daemon").arg("--config").arg(self.folder.path().join("config.toml"));
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        self.process = Some(command.stdin(Stdio::null()).stderr(log).spawn().unwrap());
        let start = Instant::now();
        while std::os::unix::net::UnixStream::connect(self.socket()).is_err() {
            assert!(start.elapsed() < PATIENCE, "the daemon listens to no viewer");
            sleep(Duration::from_millis(20));
        }
    }

    fn end(&mut self, signal: &str) {
        let mut process = self.process.take().unwrap();
        Command::new("kill").args([signal, &process.id().to_string()]).status().unwrap();
        process.wait().unwrap();
    }

    fn socket(&self) -> String {
        self.folder.path().join("viewers.sock").display().to_string()
    }

    fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.end("-TERM");
        }
    }
}

/// The next document for which something holds.
fn when(live: &mut Events, holds: impl Fn(&Value) -> bool) -> Value {
    let start = Instant::now();
    loop {
        let found = live.next();
        if holds(&found) {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{found}");
    }
}

/// Threads of a daemon that attend to a viewer.
fn viewers_of(pid: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("comm"))
    };
    tasks.filter_map(|task| name(task).ok()).filter(|name| name == "viewer\n").count()
}

#[test]
fn what_a_daemon_sees_is_shown_also_after_it_was_away() {
    let busy = Busy::new("busy");
    let mut daemon = Daemon::start(&busy, "apply = false");
    let server = Server::start(&["--daemon", &daemon.socket()]);
    let mut live = server.live();
    let look = when(&mut live, |look| look["programs"][0]["cpus_busy"].is_number());
    assert_eq!(look["programs"][0]["program"], "sorter", "{look}");
    assert_eq!(look["policy"], "di");
    assert_eq!(look["daemon"]["pid"], daemon.pid(), "{look}");
    assert_eq!(look["daemon"]["applies"], false);
    // Of a machine with one cache it says that nothing can be placed better; any other has plans.
    let no_plan = &look["daemon"]["no_plan"];
    assert!(no_plan.is_null() || no_plan["help"].is_string(), "{look}");
    assert!(look.get("act").is_none(), "{look}");
    // The policy does not go by it: the column's dashes are explained.
    assert!(look["programs"][0]["threads_waiting"].is_null(), "{look}");
    let not_measured = look["not_measured"].as_array().unwrap();
    assert!(not_measured.contains(&json!("waiting for a CPU")), "{look}");
    // The server was not started to act, and the daemon would not.
    assert_eq!(act(&server, 0, &hold(&busy.pid(), "0")).0, 403);
    daemon.end("-KILL");
    let away = when(&mut live, |look| look.get("away").is_some());
    assert!(away["away"].as_str().unwrap().contains("is away"), "{away}");
    // The killed daemon left its socket; the next one takes it over.
    assert!(Path::new(&daemon.socket()).exists());
    daemon.begin();
    let back = when(&mut live, |look| look.get("programs").is_some());
    assert_eq!(back["daemon"]["pid"], daemon.pid(), "{back}");
    assert!(viewers_of(daemon.pid()) > 0);
    // Nobody looks on: the daemon is rid of the viewer.
    drop(live);
    let start = Instant::now();
    while viewers_of(daemon.pid()) > 0 {
        assert!(start.elapsed() < PATIENCE, "a viewer stays");
        sleep(Duration::from_millis(50));
    }
    daemon.end("-TERM");
    assert!(!Path::new(&daemon.socket()).exists());
}

#[test]
fn a_daemon_in_dry_run_does_what_viewers_ask_for() {
    let Some([one, other]) = two_cpus() else { return };
    let busy = Busy::new("busy");
    let (pid, before) = (busy.pid(), allowed(&busy.pid()));
    let mut daemon = Daemon::start(&busy, "viewers_may_act = true");
    let server = Server::start(&["--daemon", &daemon.socket(), "--act"]);
    let mut live = server.live();
    let look = when(&mut live, |look| look.get("act").is_some());
    let seen = look["act"]["revision"].as_u64().unwrap();
    let (status, done) = act(&server, seen, &hold(&pid, &one));
    assert_eq!((status, &done["revision"]), (200, &json!(seen + 1)), "{done}");
    assert_eq!(allowed(&pid), one);
    when(&mut live, |look| look["act"]["held"][0]["cpus"] == json!(one));
    // Who saw the state before is told, as by a server that looks itself.
    let (status, refused) = act(&server, seen, &hold(&pid, &other));
    assert_eq!(status, 409, "{refused}");
    let (status, undone) = act(&server, seen + 1, &json!("undo-all"));
    assert_eq!((status, &undone["not_done"]), (200, &json!([])), "{undone}");
    assert_eq!(allowed(&pid), before);
    let (status, done) = act(&server, seen + 2, &hold(&pid, &other));
    assert_eq!(status, 200, "{done}");
    assert_eq!(allowed(&pid), other);
    // The daemon undoes at its end what viewers had it do; what is asked for while it is away is not done.
    daemon.end("-TERM");
    let log = std::fs::read_to_string(daemon.folder.path().join("log")).unwrap();
    let held = format!("ordered by a viewer: sorter (process {pid}): 1 thread held on CPU");
    assert_eq!(log.matches(&held).count(), 2, "{log}");
    assert!(log.contains("an order of a viewer was not carried out"), "{log}");
    assert_eq!(allowed(&pid), before);
    when(&mut live, |look| look.get("away").is_some());
    let (_, refused) = act(&server, seen + 3, &hold(&pid, &one));
    assert!(message(&refused).contains("away"), "{refused}");
    daemon.begin();
    let look = when(&mut live, |look| look.get("act").is_some());
    // States of the daemon before are none of this one's.
    assert!(look["act"]["revision"].as_u64().unwrap() > seen + 3, "{look}");
    assert_eq!(act(&server, seen + 3, &hold(&pid, &one)).0, 409);
    assert_eq!(allowed(&pid), before);
}

#[test]
fn a_daemon_that_is_not_there_or_does_not_let_act_is_named() {
    let refused = |words: &[&str], said: &str| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("corun"));
        let output = command.arg("serve").args(words).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
    };
    refused(&["--daemon", "/nowhere/viewers.sock"], "no daemon answers at /nowhere/viewers.sock");
    refused(&["--daemon", "x", "--policy", "di"], "cannot be used with");
    let busy = Busy::new("busy");
    let daemon = Daemon::start(&busy, "apply = false");
    refused(&["--daemon", &daemon.socket(), "--act"], "viewers_may_act = true");
}

#[test]
fn the_page_says_that_the_daemon_is_away_and_goes_on_when_it_is_back() {
    let Some(browser) = Browser::or_skip() else { return };
    let busy = Busy::new("busy");
    let mut daemon = Daemon::start(&busy, "viewers_may_act = true");
    let server = Server::start(&["--daemon", &daemon.socket(), "--act"]);
    browser.look(1280, 900, "light");
    browser.open(&server.link(), "document.querySelector('nav')");
    browser.evaluate("location.hash = '#view=live'; 0");
    browser.wait("document.querySelector('.live-programs')?.innerText.includes('sorter')");
    let said = browser.text(".live .how");
    assert!(said.contains(&format!("daemon (process {})", daemon.pid())), "{said}");
    for (width, theme) in [(1280, "light"), (1280, "dark"), (360, "light"), (360, "dark")] {
        browser.look(width, 900, theme);
        browser.picture(&pictures().join(format!("daemon-{width}-{theme}.png")), 5000.0);
    }
    daemon.end("-TERM");
    browser.wait("document.querySelector('.live .notice')?.innerText.includes('is away')");
    // What was seen last stays.
    assert!(browser.text(".live-programs").contains("sorter"));
    daemon.begin();
    browser.wait(&format!(
        "document.querySelector('.live .how').innerText.includes('process {}')",
        daemon.pid()
    ));
    browser.wait("!document.querySelector('.live .notice')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
