//! The view of two recordings.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::live::Busy;
use crate::server::{Server, pictures};

/// What `corun record` writes of a program that computes.
fn recorded(server: &Server, name: &str) -> String {
    let busy = Busy::new("busy");
    let file = server.folder().join(name);
    let path = file.display().to_string();
    server.run(&[
        "record",
        "-o",
        &path,
        "-p",
        &busy.pid(),
        "--profile",
        "sort",
        "--counters",
        "model",
        "-T",
        "20ms",
        "--duration",
        "1.5",
    ]);
    path
}

/// Chooses a file as a person does.
fn choose(browser: &Browser, side: &str, path: &str) {
    let root = browser.call("DOM.getDocument", json!({}));
    let selector = format!("[data-recording='{side}']");
    let asked = json!({ "nodeId": root["root"]["nodeId"], "selector": selector });
    let node = browser.call("DOM.querySelector", asked);
    let files = json!({ "nodeId": node["nodeId"], "files": [path] });
    browser.call("DOM.setFileInputFiles", files);
}

#[test]
fn two_recordings_stand_side_by_side() {
    let Some(browser) = Browser::or_skip() else { return };
    let server = Server::start(&[]);
    let (before, after) = (recorded(&server, "before.corun"), recorded(&server, "after.corun"));
    browser.look(1280, 900, "light");
    browser.open(&server.link(), "document.querySelector('nav')");
    browser.evaluate("location.hash = '#view=recordings'; 0");
    browser.wait("document.querySelector('[data-recording=before]')");
    choose(&browser, "before", &before);
    choose(&browser, "after", &after);
    browser.wait("document.querySelector('.changes')");

    // The page shows what the API answers.
    let text = |path: &str| std::fs::read_to_string(path).unwrap();
    let answer =
        server.asked("recordings", &json!({ "before": text(&before), "after": text(&after) }));
    let program = &answer["programs"][0];
    assert!(program["after"]["seconds"].as_f64().unwrap() > 0.5, "{program}");
    for figure in program["figures"].as_array().unwrap() {
        let name = figure["figure"].as_str().unwrap();
        assert!(figure["change_percent"].is_f64(), "{figure}");
        let shown = browser.text(&format!(".changes [data-figure={name}]"));
        let change = figure["change_percent"].as_f64().unwrap();
        assert!(shown.contains(&percent(change)), "{shown}: {figure}");
    }
    let busy = &program["figures"][0];
    let shown = browser.text(".changes [data-figure=cpus_busy]");
    for side in ["before", "after"] {
        assert!(shown.contains(&format!("{:.2}", busy[side].as_f64().unwrap())), "{shown}: {busy}");
    }
    assert_eq!(browser.evaluate("document.querySelectorAll('.before-after svg').length"), 6);

    // For all, at every size.
    for (width, height) in [(1280, 900), (360, 780)] {
        for theme in ["light", "dark"] {
            let name = format!("recordings-{width}-{theme}");
            browser.look(width, height, theme);
            browser.picture(&pictures().join(format!("{name}.png")), 5000.0);
            let wide = browser.evaluate("document.documentElement.scrollWidth");
            assert!(wide.as_u64().unwrap() <= u64::from(width), "{name} is {wide} wide");
            assert_eq!(browser.violations(), Value::Array(Vec::new()), "{name}");
        }
    }

    // Another view and back: what was chosen is still there. Another file: asked again, and what is wrong is said.
    browser.evaluate("location.hash = '#view=live'; 0");
    browser.wait("document.querySelector('.empty code')");
    browser.evaluate("location.hash = '#view=recordings'; 0");
    browser.wait("document.querySelector('.changes')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let wrong = server.folder().join("wrong");
    std::fs::write(&wrong, "[[app]]\n").unwrap();
    choose(&browser, "after", wrong.to_str().unwrap());
    browser.wait("document.querySelector('.notice')?.innerText.includes('after: line 1: this is no recording')");
    assert_eq!(browser.evaluate("document.querySelectorAll('.changes').length"), 0);
}

/// As the page writes it.
fn percent(value: f64) -> String {
    let text = format!("{:.1}", value.abs());
    match text.as_str() {
        "0.0" => "±0 %".to_owned(),
        _ if value < 0.0 => format!("−{text} %"),
        _ => format!("+{text} %"),
    }
}
