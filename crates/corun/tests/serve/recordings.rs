//! The view of two recordings.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::live::Busy;
use crate::server::{Server, pictures};

/// Lines of a recording from which figures have values.
const LEAST_LINES: usize = 30;

/// What `corun record` writes of a program that computes.
fn recorded(server: &Server, name: &str) -> String {
    let busy = Busy::new("busy");
    let file = server.folder().join(name);
    let path = file.display().to_string();
    let (pid, model) = (busy.pid(), ["--profile", "sort", "--counters", "model", "-T", "20ms"]);
    // Beside others' load a look takes longer.
    for seconds in ["1.5", "10", "60"] {
        let words = ["record", "-o", &path, "-p", &pid, "--duration", seconds];
        server.run(&[&words[..], &model].concat());
        if std::fs::read_to_string(&file).unwrap().lines().count() > LEAST_LINES {
            return path;
        }
        std::fs::remove_file(&file).unwrap();
    }
    panic!("no {LEAST_LINES} looks in a minute");
}

/// A recording of a look a second at programs of one thread each, with so many instructions a second; every other
/// second a twentieth more.
fn written(server: &Server, name: &str, programs: &[(&str, f64)]) -> String {
    let machine = corun_machine::preset("xeon-x5365").unwrap();
    let header = json!({
        "corun_live_recording": 1, "written_by": "test", "interval_s": 1.0, "profiles": false,
        "counters": ["instructions"], "machine": machine.spec(),
    });
    let mut lines = vec![header];
    for look in 0..=60_u64 {
        let thread = |(place, (_, per_s)): (usize, &(&str, f64))| {
            let mut thread = json!({
                "tid": place, "state": "running", "cpu": place, "cpu_ns": look * 900_000_000,
                "instructions_per_s": per_s * if look % 2 == 0 { 1.05 } else { 1.0 },
            });
            if look == 0 {
                thread["new"] = json!({ "pid": place, "start_ticks": 1, "program": place });
                thread["affinity"] = json!("0-7");
                thread["nice"] = json!(0);
                thread["parent"] = json!(1);
                thread["name"] = json!("thread");
            }
            thread
        };
        let threads: Vec<Value> = programs.iter().enumerate().map(thread).collect();
        let mut line = json!({ "at_ns": look * 1_000_000_000, "threads": threads });
        if look == 0 {
            let named = |(name, _): &(&str, f64)| json!({ "name": name });
            line["programs"] = programs.iter().map(named).collect();
        }
        lines.push(line);
    }
    let file = server.folder().join(name);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// Chooses a recording as a person does.
fn choose(browser: &Browser, side: &str, path: &str) {
    browser.choose(&format!("[data-recording='{side}']"), path);
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
    browser.wait("document.querySelector('.live-programs tbody tr')");
    browser.evaluate("location.hash = '#view=recordings'; 0");
    browser.wait("document.querySelector('.changes')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let wrong = server.folder().join("wrong");
    std::fs::write(&wrong, "[[app]]\n").unwrap();
    choose(&browser, "after", wrong.to_str().unwrap());
    browser.wait("document.querySelector('.notice')?.innerText.includes('after: line 1: this is no recording')");
    assert_eq!(browser.evaluate("document.querySelectorAll('.changes').length"), 0);
    // One that was chosen and is gone by then: a browser reads a file when it is asked for its text.
    let gone =
        "File.prototype.text = () => Promise.reject(new DOMException('gone', 'NotFoundError')); 0";
    browser.evaluate(gone);
    let said = "includes('before.corun cannot be read')";
    choose(&browser, "before", &before);
    browser.wait(&format!("document.querySelector('.notice')?.innerText.{said}"));
    browser.evaluate("location.hash = '#view=what-if&machine=xeon-x5365&apps=sort,xz'; 0");
    browser.wait("document.querySelector('.controls > button')");
    browser.evaluate("[...document.querySelectorAll('.controls > button')].at(-1).click()");
    browser.choose("dialog input[type=file]", &before);
    browser.wait(&format!("document.querySelector('dialog .notice')?.innerText.{said}"));
}

#[test]
fn clear_changes_are_marked_and_names_are_text() {
    let Some(browser) = Browser::or_skip() else { return };
    let server = Server::start(&[]);
    let hostile = "<img src=x onerror=document.title=1>";
    let before = [("web", 1e9), ("database", 2e9), (hostile, 1e9)];
    let after = [("web", 1.5e9), ("database", 2e9), ("new", 1e9)];
    let before = written(&server, "before.corun", &before);
    let after = written(&server, "after.corun", &after);
    browser.look(1280, 900, "light");
    browser.open(&server.link(), "document.querySelector('nav')");
    browser.evaluate("location.hash = '#view=recordings'; 0");
    browser.wait("document.querySelector('[data-recording=before]')");
    choose(&browser, "before", &before);
    choose(&browser, "after", &after);
    browser.wait("document.querySelectorAll('.changes tbody tr').length === 4");
    let row = |name: &str| {
        let rows = "[...document.querySelectorAll('.changes tbody tr')]";
        let script =
            format!("{rows}.find((row) => row.innerText.includes({})).innerText", json!(name));
        browser.evaluate(&script).as_str().unwrap().to_owned()
    };
    let web = row("web");
    assert!(web.contains("1.02 G/s → 1.54 G/s") && web.contains("▲ +50.0 %"), "{web}");
    let database = row("database");
    assert!(database.contains("±0 %") && !database.contains('▲'), "{database}");
    assert!(row(hostile).contains("only before") && row("new").contains("only after"));
    browser.picture(&pictures().join("recordings-marked-1280-light.png"), 5000.0);
    browser.click(".changes tbody tr:last-child button");
    browser.wait("document.querySelector('#program-title').innerText === 'web'");
    assert_eq!(browser.evaluate("document.querySelectorAll('img').length"), 0);
    assert_eq!(browser.evaluate("document.title"), "corun");
    assert_eq!(browser.complaints(), Vec::<String>::new());
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
