//! The view of what runs on this machine.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::act::two_cpus;
use crate::browser::Browser;
use crate::server::{Server, pictures};

/// A program that computes until it is dropped, under a name.
pub(crate) struct Busy {
    _folder: tempfile::TempDir,
    child: Child,
}

/// A name that would be markup, and would steer a terminal.
const HOSTILE: &str = "<b>x</b>\u{1b}[2J";

impl Busy {
    pub(crate) fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // A file's name has no slash; a process may give itself one.
        let shell = folder.path().join("busy");
        // Not open for writing in this process, whose other tests' children would inherit that: "text file busy".
        assert!(Command::new("cp").arg("/bin/sh").arg(&shell).status().unwrap().success());
        let script = "printf %s \"$0\" > /proc/$$/comm; while :; do :; done";
        let child =
            Command::new(&shell).args(["-c", script, name]).stdin(Stdio::null()).spawn().unwrap();
        Self { _folder: folder, child }
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// From now on the program does not compute.
    fn stop(&self) {
        assert!(Command::new("kill").args(["-STOP", &self.pid()]).status().unwrap().success());
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that watches these programs by modelled counters, with what `di` would do.
pub(crate) fn watching(busy: &[&Busy], more: &[&str]) -> Server {
    let pids: Vec<String> = busy.iter().map(|one| one.pid()).collect();
    let pids = pids.join(",");
    let model = ["--profile", "sort", "--counters", "model", "--policy", "di", "-T", "200ms"];
    Server::start(&[more, &["-p", &pids], &model].concat())
}

#[test]
fn the_first_look_after_a_pause_is_of_now() {
    let busy = Busy::new("busy");
    let pid = busy.pid();
    let server =
        Server::start(&["-p", &pid, "--profile", "sort", "--counters", "model", "-T", "200ms"]);
    let connections = || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap();
        let links = open.filter_map(|one| std::fs::read_link(one.unwrap().path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    };
    let unwatched = connections();
    let mut live = server.live();
    let cpus_busy = |look: &Value| look["programs"][0]["cpus_busy"].as_f64();
    let mut look = live.next();
    while cpus_busy(&look).is_none_or(|busy| busy < 0.05) {
        look = live.next();
    }
    // Nobody looks on while the program computes, and then stops.
    drop(live);
    let since = Instant::now();
    while connections() > unwatched {
        assert!(since.elapsed() < Duration::from_secs(60), "the viewer is not let go");
        sleep(Duration::from_millis(10));
    }
    sleep(Duration::from_secs(1));
    busy.stop();
    sleep(Duration::from_millis(500));
    let first = server.live().next();
    assert!(first["time_s"].as_f64().unwrap() > look["time_s"].as_f64().unwrap() + 1.5, "{first}");
    assert_eq!(cpus_busy(&first), Some(0.0), "{first}");
}

/// Whoever names nobody means this machine: all programs that this user may look into.
#[test]
fn without_a_target_the_programs_of_this_machine_are_shown() {
    let busy = Busy::new("busy-for-serve");
    let server = Server::start(&["-T", "200ms"]);
    let mut live = server.live();
    let is_shown = |look: &Value| {
        let programs = look["programs"].as_array().unwrap();
        programs.iter().any(|one| one["program"] == "busy-for-serve")
    };
    let mut look = live.next();
    while !is_shown(&look) {
        look = live.next();
    }
    assert!(look["threads"].as_array().unwrap().len() > 1, "{look}");
    assert!(look.get("act").is_none() && look["policy"].is_null(), "{look}");
    let Some(browser) = Browser::or_skip() else { return };
    browser.open(&server.link(), "document.querySelector('nav')");
    browser.evaluate("location.hash = '#view=live'; 0");
    browser.wait("document.querySelector('.live-programs')?.innerText.includes('thr.')");
    // A long table begins with the busiest; the others come when they are asked for.
    let rows = "document.querySelectorAll('.live-programs tbody tr').length";
    let shown = browser.evaluate(rows).as_u64().unwrap();
    let more = "document.querySelector('[aria-expanded=false].link')";
    assert!(shown <= 20, "{shown}");
    browser.assert_readable("live-all", &pictures());
    if look["programs"].as_array().unwrap().len() > 25 {
        browser.evaluate(&format!("{more}.click()"));
        browser.wait(&format!("{rows} > 20"));
    }
    drop(busy);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Two programs on one CPU: the view says who waits, beside whom, and where none of them is.
#[test]
fn who_waits_for_a_cpu_is_said_in_words() {
    let Some(browser) = Browser::or_skip() else { return };
    let Some([cpu, free]) = two_cpus() else { return };
    let busy = ["sort-rows", "xz-log"].map(Busy::new);
    for one in &busy {
        let held = Command::new("taskset").args(["-cp", &cpu, &one.pid()]).output().unwrap();
        assert!(held.status.success());
    }
    let server = watching(&busy.each_ref(), &[]);
    browser.open(&server.link(), "document.querySelector('nav')");
    browser.evaluate("location.hash = '#view=live'; 0");
    // The look after they were moved may still see them elsewhere.
    let said = "document.querySelector('.waits-most')?.innerText";
    browser.wait(&format!("{said}.includes('None of these threads is on CPU')"));
    browser.wait(&format!("{said}.includes('it is on CPU {cpu}, beside ')"));
    let words = browser.text(".waits-most").replace('\u{a0}', " ");
    assert!(words.contains(" waits for a CPU in "), "{words}");
    let (waits, beside) = words.split_once(", beside ").unwrap();
    assert!(waits.starts_with("sort-rows") != beside.starts_with("sort-rows"), "{words}");
    assert!(words.split("is on CPU").last().unwrap().contains(&free), "{words}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// A CPU without the table's threads is no place to go to where others keep it busy.
#[test]
fn a_cpu_that_others_keep_busy_is_not_offered_as_free() {
    let Some(browser) = Browser::or_skip() else { return };
    let Some([cpu, _]) = two_cpus() else { return };
    let busy = ["sort-rows", "xz-log"].map(Busy::new);
    let server = watching(&busy.each_ref(), &[]);
    let mut look = server.live().next();
    for one in look["threads"].as_array_mut().unwrap() {
        one["cpu"] = json!(cpu.parse::<u32>().unwrap());
    }
    for one in look["programs"].as_array_mut().unwrap() {
        one["cpus_busy"] = json!(0.5);
        one["threads_waiting"] = json!(0.5);
    }
    // The page gets looks from here alone.
    let script =
        "window.EventSource = class { constructor() { window.source = this; } close() {} }";
    browser.open(&server.link(), "document.querySelector('nav')");
    browser.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script }));
    browser.open(&server.page("?looks#view=live"), "window.source?.onmessage");
    let mut says = |others_busy: f64| {
        look["others"] = json!({ "cpus_busy": others_busy, "cpus_stolen": 0.0, "cpus": 4 });
        let data = Value::String(look.to_string());
        browser.evaluate(&format!("window.source.onmessage({{ data: {data} }}); 0"));
        let others = format!("keeps {others_busy:.2} of 4 CPUs busy");
        let shown = "document.querySelector('.others')?.innerText.replaceAll('\\u00a0', ' ')";
        browser.wait(&format!("{shown}.includes({})", json!(others)));
        browser.text(".waits-most").replace('\u{a0}', " ")
    };
    let (quiet, busy) = (says(0.0), says(2.9));
    assert!(quiet.contains("None of these threads is on CPU") && quiet.ends_with('.'), "{quiet}");
    let but = ", but what is not in this table leaves hardly a CPU idle.";
    assert_eq!(busy, [quiet.trim_end_matches('.'), but].concat());
}

#[test]
fn what_runs_is_seen_with_what_a_policy_would_do() {
    let Some(browser) = Browser::or_skip() else { return };
    let busy = [HOSTILE, "sort-rows", "xz-log"].map(Busy::new);
    let server = watching(&busy.each_ref(), &[]);
    browser.look(1280, 900, "light");
    browser.open(&server.link(), "document.querySelector('nav')");
    browser.evaluate("location.hash = '#view=live'; 0");
    browser.wait("document.querySelectorAll('.decisions li').length > 1");
    let decision = browser.text(".decisions li");
    assert!(decision.contains("di would:") && decision.len() > 40, "{decision}");
    let programs = browser.text(".live-programs");
    assert!(programs.contains("<b>x</b>"), "{programs}");
    assert_eq!(browser.evaluate("document.querySelectorAll('.live-programs b').length"), 0);
    assert!(browser.text(".tree").contains("<b>x</b>"));
    // Looks go on.
    browser.wait(
        "document.querySelector('.spark polyline').getAttribute('points').split(' ').length > 4",
    );
    browser.picture(&pictures().join("live-busy-1280-light.png"), 5000.0);
    // Two viewers see the same; held still, the view stays as it is while looks go on.
    browser.evaluate("document.querySelector('.live .compare-head button').click()");
    let before = browser.text(".live .how");
    sleep(Duration::from_millis(700));
    assert_eq!(browser.text(".live .how"), before);
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop(server);
    browser.wait("document.querySelector('.live .notice')?.innerText.includes('does not answer')");
    assert!(browser.text(".live-programs").contains("<b>x</b>"));
}

#[test]
fn a_tab_that_nobody_sees_asks_for_nothing() {
    let Some(browser) = Browser::or_skip() else { return };
    let busy = Busy::new("busy");
    let server = watching(&[&busy], &[]);
    browser.open(&server.link(), "document.querySelector('nav')");
    browser.evaluate(
        "(() => { const Real = window.EventSource; window.streams = []; \
         window.EventSource = class extends Real { constructor(path) { super(path); window.streams.push(this) } } })()",
    );
    browser.evaluate("location.hash = '#view=live'; 0");
    browser.wait("document.querySelector('.live-programs tbody tr')");
    let see = |hidden: bool| {
        browser.evaluate(&format!(
            "Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }}); \
             document.dispatchEvent(new Event('visibilitychange')); 0"
        ));
    };
    let states = "window.streams.map((one) => one.readyState).join()";
    assert_eq!(browser.evaluate(states), "1");
    see(true);
    assert_eq!(browser.evaluate(states), "2");
    // Seen again, it goes on where it was.
    see(false);
    browser.wait(&format!("{states} === '2,1'"));
    let seen = browser.text(".live .how");
    browser.wait(&format!("document.querySelector('.live .how').innerText !== {}", json!(seen)));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
