//! An experiment of `corun ab`, shown while it goes on.

use std::process::{Command, Stdio};

use crate::browser::Browser;
use crate::http::Events;
use crate::server::{Server, pictures};

#[test]
fn an_experiment_is_shown_as_it_comes_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let file = path("progress.jsonl");
    let server = Server::start(&["--ab", &file]);
    let bearer = server.bearer();
    let mut events =
        Events::open(server.address, "/api/v1/experiment", &[("Authorization", &bearer)]);
    // The experiment has not begun.
    assert!(events.next()["away"].as_str().unwrap().contains("waiting for corun ab"));
    let browser = Browser::or_skip();
    if let Some(browser) = &browser {
        browser.look(1280, 900, "light");
        browser.open(&server.link(), "document.querySelector('nav')");
        browser.evaluate("location.hash = '#view=live'; 0");
        browser.wait("document.querySelector('.experiment .notice')");
    }
    // A metric that is a fifth higher while a file is there.
    let state = path("on");
    let metric = format!(
        "steady=awk -v on=$(test -e {state} && echo 1.2 || echo 1) \
         'BEGIN {{ srand(); print on * (100 + rand()) }}'"
    );
    let words = [
        "ab",
        "--on",
        &format!("touch {state}"),
        "--off",
        &format!("rm -f {state}"),
        "--metric",
        &metric,
        "--block",
        "0.1",
        "--washout",
        "0.02",
        "--sample",
        "0.02",
        // However slow this machine is now, the noise is the metric's own.
        "--precision",
        "3",
        "--progress",
        &file,
    ];
    let mut ab = Command::new(assert_cmd::cargo::cargo_bin!("corun"))
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut counts = Vec::new();
    let last = loop {
        let event = events.next();
        if event.get("away").is_some() {
            continue;
        }
        assert_eq!(event["about"]["corun_ab"], 1, "{event}");
        if event["result"].is_object() {
            break event;
        }
        counts.push(event["pairs"].as_array().unwrap().len());
    };
    ab.wait().unwrap();
    // Pairs came one after the other, and the result is that of the pairs.
    assert!(counts.windows(2).any(|pair| pair[0] > 0 && pair[0] < pair[1]), "{counts:?}");
    let effect = last["result"]["overall"]["percent"].as_f64().unwrap();
    assert!((effect - 20.0).abs() < 5.0, "{last}");
    assert_eq!(last["result"]["ended"], "precise", "{last}");
    let Some(browser) = browser else { return };
    browser.wait(
        "document.querySelector('.experiment [role=status]').innerText.includes('as precisely as was asked')",
    );
    assert!(browser.text(".experiment").contains(&format!("+{effect:.1} %")), "{effect}");
    browser.wait("document.querySelector('.effect .band').getAttribute('points').length > 20");
    for (width, theme) in [(1280, "light"), (1280, "dark"), (360, "light"), (360, "dark")] {
        browser.look(width, 700, theme);
        browser.picture(&pictures().join(format!("experiment-{width}-{theme}.png")), 2000.0);
        assert_eq!(browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), true);
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
