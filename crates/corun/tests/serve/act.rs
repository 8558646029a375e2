//! Acting on this machine through the page: only where it was asked for, whole or not at all, and undone at the end.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::live::{Busy, watching};
use crate::server::{Server, pictures};

const PATIENCE: Duration = Duration::from_secs(120);

/// Where a process may run.
pub(crate) fn allowed(pid: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap();
    line.rsplit('\t').next().unwrap().to_owned()
}

/// Two CPUs of those that this test may use; none, with the reason said, where there are fewer.
pub(crate) fn two_cpus() -> Option<[String; 2]> {
    let own = allowed("self");
    let numbers: Vec<u32> = own
        .split(',')
        .flat_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            first.parse::<u32>().unwrap()..=last.parse().unwrap()
        })
        .collect();
    if numbers.len() < 2 {
        println!("skipped: acting needs two CPUs, and this test may use CPUs {own} alone");
        return None;
    }
    Some([numbers[0].to_string(), numbers[1].to_string()])
}

/// A server that may act on these processes, with a policy; its journals are in the folder.
fn acting(journals: &str, busy: &[&Busy]) -> Server {
    watching(busy, &["--act", "--journals", journals])
}

pub(crate) fn act(server: &Server, seen: u64, deed: &Value) -> (u16, Value) {
    let answer = server.post("act", &json!({ "seen": seen, "deed": deed }));
    (answer.status, serde_json::from_str(&answer.body).unwrap())
}

pub(crate) fn hold(pid: &str, cpus: &str) -> Value {
    json!({ "hold": { "pid": pid.parse::<u32>().unwrap(), "cpus": cpus } })
}

pub(crate) fn message(answer: &Value) -> &str {
    assert_eq!(answer["error"]["part"], "act", "{answer}");
    answer["error"]["message"].as_str().unwrap()
}

fn journals(folder: &std::path::Path) -> usize {
    let files = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    files.filter(|file| file.path().extension().is_some_and(|end| end == "journal")).count()
}

#[test]
fn without_act_nothing_can_be_asked_for() {
    let busy = Busy::new("busy");
    let pid = busy.pid();
    let server = Server::start(&["-p", &pid, "--profile", "sort", "--counters", "model"]);
    let before = allowed(&pid);
    let (status, refused) = act(&server, 0, &hold(&pid, "0"));
    assert_eq!(status, 403);
    assert!(message(&refused).contains("started without --act"), "{refused}");
    assert_eq!(act(&server, 0, &json!("undo-all")).0, 403);
    assert_eq!(allowed(&pid), before);
    assert!(server.live().next().get("act").is_none());
    // Nothing to act on, and a journal of nothing.
    for (words, said) in [
        (&["serve", "--act"][..], "nobody is named who may be acted on"),
        (&["serve", "--journals", "x"], "--act"),
    ] {
        let output =
            Command::new(assert_cmd::cargo::cargo_bin!("corun")).args(words).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
    }
}

#[test]
fn a_process_is_held_and_all_is_undone_also_when_the_server_ends() {
    let Some([one, other]) = two_cpus() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journals");
    let (busy, stranger) = (Busy::new("busy"), Busy::new("stranger"));
    let (pid, before) = (busy.pid(), allowed(&busy.pid()));
    let mut server = acting(path.to_str().unwrap(), &[&busy]);
    // What is wrong is refused whole.
    for (deed, said) in [
        (hold(&pid, "none"), "none"),
        (hold(&pid, ""), "no CPUs"),
        (hold(&pid, "4095"), "no CPU 4095"),
        (hold(&stranger.pid(), &one), "is among those that are watched"),
    ] {
        let (status, refused) = act(&server, 0, &deed);
        assert_eq!(status, 422, "{refused}");
        assert!(message(&refused).contains(said), "{refused}");
    }
    assert_eq!(server.post("act", &json!({ "seen": 0, "deed": "reboot" })).status, 422);
    assert_eq!(allowed(&pid), before);
    // Nobody looks on: it is done all the same.
    let (status, done) = act(&server, 0, &hold(&pid, &one));
    assert_eq!((status, &done["revision"]), (200, &json!(1)), "{done}");
    assert!(done["done"][0].as_str().unwrap().contains("1 thread held on CPU"), "{done}");
    assert_eq!(allowed(&pid), one);
    assert_eq!(journals(&path), 1);
    // Two viewers: the one who saw the state before is told, and nothing is done.
    let (status, refused) = act(&server, 0, &hold(&pid, &other));
    assert_eq!(status, 409, "{refused}");
    assert!(message(&refused).contains("somebody else acted meanwhile"), "{refused}");
    assert_eq!(allowed(&pid), one);
    let look = server.live().next();
    assert_eq!(look["act"]["revision"], 1, "{look}");
    assert_eq!(look["act"]["held"][0]["cpus"], json!(one), "{look}");
    // And again after undoing.
    let (status, undone) = act(&server, 1, &json!("undo-all"));
    assert_eq!((status, &undone["not_done"]), (200, &json!([])), "{undone}");
    assert!(undone["done"][0].as_str().unwrap().contains("the change is as before"), "{undone}");
    assert_eq!(allowed(&pid), before);
    assert_eq!(act(&server, 2, &hold(&pid, &other)).0, 200);
    assert_eq!(allowed(&pid), other);
    assert_eq!(allowed(&stranger.pid()), before);
    Command::new("kill").args(["-INT", &server.id().to_string()]).status().unwrap();
    server.wait();
    assert_eq!(allowed(&pid), before);
    assert_eq!(journals(&path), 0);
}

#[test]
fn what_a_server_that_was_killed_did_is_restored() {
    let Some([one, _]) = two_cpus() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journals");
    let busy = Busy::new("busy");
    let (pid, before) = (busy.pid(), allowed(&busy.pid()));
    let server = acting(path.to_str().unwrap(), &[&busy]);
    assert_eq!(act(&server, 0, &hold(&pid, &one)).0, 200);
    // The server is killed as it is dropped.
    drop(server);
    assert_eq!(allowed(&pid), one);
    let mut restore = Command::new(assert_cmd::cargo::cargo_bin!("corun"));
    assert!(restore.args(["restore", "--folder"]).arg(&path).status().unwrap().success());
    assert_eq!(allowed(&pid), before);
}

#[test]
fn of_two_viewers_who_act_at_once_one_is_told_to_look_again() {
    let Some(cpus) = two_cpus() else { return };
    let folder = tempfile::tempdir().unwrap();
    let busy = Busy::new("busy");
    let pid = busy.pid();
    let server = acting(folder.path().join("j").to_str().unwrap(), &[&busy]);
    let mut live = server.live();
    live.next();
    let asks: Vec<(u16, Value)> = std::thread::scope(|scope| {
        let ask = |cpus: &String| {
            let deed = hold(&pid, cpus);
            let server = &server;
            scope.spawn(move || act(server, 0, &deed))
        };
        let asked: Vec<_> = cpus.iter().map(ask).collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let mut statuses: Vec<u16> = asks.iter().map(|one| one.0).collect();
    let winner = asks.iter().position(|one| one.0 == 200).unwrap();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{asks:?}");
    assert_eq!(allowed(&pid), cpus[winner]);
    // Both see the same in the next look.
    let start = Instant::now();
    while live.next()["act"]["held"][0]["cpus"] != json!(cpus[winner]) {
        assert!(start.elapsed() < PATIENCE);
    }
}

/// Processes of one name are told apart before and after the plan is applied.
#[test]
fn the_plan_names_the_process_where_a_program_has_several() {
    if two_cpus().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let busy = [Busy::new("busy"), Busy::new("busy")];
    let server = acting(folder.path().join("j").to_str().unwrap(), &[&busy[0], &busy[1]]);
    let says_which = |step: &Value| {
        let text = step.as_str().unwrap();
        busy.iter().any(|one| text.contains(&format!(" {})", one.pid())))
    };
    let mut live = server.live();
    let start = Instant::now();
    let plan = loop {
        let look = live.next();
        let plan = look["act"]["plan"].as_array().unwrap();
        if !plan.is_empty() {
            break plan.clone();
        }
        assert!(start.elapsed() < PATIENCE, "no plan: {look}");
    };
    assert!(plan.iter().all(|step| says_which(&step["action"])), "{plan:?}");
    let (status, answer) = act(&server, 0, &json!("apply-plan"));
    assert_eq!(status, 200, "{answer}");
    assert!(answer["done"].as_array().unwrap().iter().all(says_which), "{answer}");
}

#[test]
fn the_page_asks_before_it_acts_and_undoes() {
    let Some(browser) = Browser::or_skip() else { return };
    let Some([one, _]) = two_cpus() else { return };
    let folder = tempfile::tempdir().unwrap();
    let busy = [Busy::new("<b>x</b>"), Busy::new("xz-log")];
    let (pid, before) = (busy[0].pid(), allowed(&busy[0].pid()));
    let server = acting(folder.path().join("j").to_str().unwrap(), &[&busy[0], &busy[1]]);
    browser.look(1280, 900, "light");
    browser.open(&server.link(), "document.querySelector('nav')");
    assert!(browser.text(".version").contains("may act"));
    browser.evaluate("location.hash = '#view=live'; 0");
    browser.wait("document.querySelector('.act-form select')?.options.length === 2");
    let choose = format!(
        "const form = document.querySelector('.act-form'); const all = form.querySelector('select'); all.value = '{pid}'; \
         all.dispatchEvent(new Event('change', {{ bubbles: true }})); const cpus = form.querySelector('input'); \
         cpus.value = '{one}'; cpus.dispatchEvent(new Event('input', {{ bubbles: true }})); 0"
    );
    browser.evaluate(&choose);
    // Asked for and left: nothing is done.
    browser.click(".act-form button[type=submit]");
    browser.wait("document.querySelector('[role=alertdialog]')");
    let asked = browser.text("[role=alertdialog]");
    assert!(
        asked.contains(&format!("process {pid}")) && asked.contains(&format!("on CPU {one}?")),
        "{asked}"
    );
    browser.wait("document.activeElement.innerText === 'Leave it'");
    browser.key("Escape");
    browser.wait("!document.querySelector('[role=alertdialog]')");
    // Enter by mistake leaves it, too.
    browser.click(".act-form button[type=submit]");
    browser.wait("document.activeElement.innerText === 'Leave it'");
    browser.key("Enter");
    browser.wait("!document.querySelector('[role=alertdialog]')");
    assert_eq!(allowed(&pid), before);
    // Asked for and confirmed, by keyboard.
    browser.click(".act-form button[type=submit]");
    browser.wait("document.activeElement.innerText === 'Leave it'");
    browser.evaluate("document.querySelector('[role=alertdialog] button').focus()");
    browser.wait("document.activeElement.innerText === 'Do it'");
    browser.picture(&pictures().join("live-act-confirm-1280-light.png"), 5000.0);
    browser.key("Enter");
    browser.wait("document.querySelector('.act-held')?.innerText.includes('<b>x</b>')");
    assert_eq!(allowed(&pid), one);
    assert_eq!(browser.evaluate("document.querySelectorAll('.act b').length"), 0);
    assert_eq!(browser.violations(), json!([]));
    browser.picture(&pictures().join("live-act-1280-light.png"), 5000.0);
    browser.look(360, 740, "dark");
    assert_eq!(browser.violations(), json!([]));
    assert_eq!(
        browser.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        ),
        true
    );
    browser.picture(&pictures().join("live-act-360-dark.png"), 6000.0);
    browser.look(1280, 900, "light");
    // The other viewer acts between the question and the confirmation.
    browser.evaluate("[...document.querySelectorAll('.act-buttons button')].at(-1).click()");
    browser.wait("document.querySelector('[role=alertdialog]')?.innerText.includes('Undo all')");
    assert_eq!(act(&server, 1, &hold(&busy[1].pid(), &one)).0, 200);
    browser.click("[role=alertdialog] button");
    browser
        .wait("document.querySelector('.act .notice')?.innerText.includes('somebody else acted')");
    assert_eq!(allowed(&pid), one);
    browser.wait("document.querySelectorAll('.act-held li').length === 2");
    browser.evaluate("[...document.querySelectorAll('.act-buttons button')].at(-1).click()");
    browser.wait("document.querySelector('[role=alertdialog]')?.innerText.includes('2 processes')");
    browser.click("[role=alertdialog] button");
    browser.wait("document.querySelector('.act-done')?.innerText.includes('all 2 changes')");
    assert_eq!(allowed(&pid), before);
    // The policy's plan, once the look shows what the undoing left.
    browser.wait("!document.querySelector('.act-held')");
    browser.wait("!document.querySelector('.act-buttons button').disabled");
    browser.evaluate("document.querySelector('.act-buttons button').click()");
    browser.wait(
        "document.querySelector('[role=alertdialog]')?.innerText.includes('Apply the policy')",
    );
    browser.click("[role=alertdialog] button");
    browser.wait("document.querySelector('.act-held')");
    assert!(busy.iter().any(|one| allowed(&one.pid()) != before));
    // The browser notes the refusal, and nothing else.
    let complaints = browser.complaints();
    assert!(complaints.len() == 1 && complaints[0].contains("409 (Conflict)"), "{complaints:?}");
    // The server goes away: it says so, and what it did is undone by corun restore.
    drop(server);
    browser.wait("document.querySelector('.live .notice')?.innerText.includes('does not answer')");
}
