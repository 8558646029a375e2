//! A sweep's Parquet file, opened and filtered in Compare.

use serde_json::Value;

use crate::browser::Browser;
use crate::server::{Server, pictures};

const SWEEP: &str = r#"
machines = ["i7-2600", "xeon-x5365-2llc"]
policies = ["linux-default", "di"]
bounds = ["optimal"]
seeds = 2
instructions = 1000000000
[[mix]]
apps = ["sort", "xz"]
[[mix]]
apps = ["numpy", "flac", "xz"]
"#;

#[test]
fn a_sweeps_parquet_file_is_opened_and_filtered() {
    let Some(browser) = Browser::or_skip() else { return };
    let server = Server::start(&["--machine", "i7-2600", "--apps", "sort,xz"]);
    let path = |name: &str| server.folder().join(name).display().to_string();
    std::fs::write(path("sweep.toml"), SWEEP).unwrap();
    let summary = server.command(&["sweep", &path("sweep.toml"), "-o", &path("results")]);
    browser.look(1280, 900, "light");
    browser.open(&server.link(), "document.querySelector('nav')");
    browser.evaluate("location.hash = '#view=compare&machine=i7-2600&apps=sort,xz'; 0");
    browser.wait("document.querySelector('[data-sweep]')");
    // What is no file of a sweep is named where it was opened.
    browser.choose("[data-sweep]", &path("sweep.toml"));
    browser.wait("document.querySelector('.sweep .notice')");
    assert!(browser.text(".sweep .notice").contains("no results of a sweep"));
    browser.choose("[data-sweep]", &path("results/results.parquet"));
    browser.wait("document.querySelector('.sweep-lines')");
    let lines = || browser.text(".sweep-lines tbody");
    assert!(
        ["optimal", "di", "linux-default"].iter().all(|one| lines().contains(one)),
        "{}",
        lines()
    );
    assert!(browser.text(".sweep .how").starts_with("20 rows of 20"));

    // Of one machine the figures are those that the command prints.
    let filter = |name: &str, value: &str, event: &str| {
        browser.evaluate(&format!(
            "(() => {{ const field = document.querySelector('[data-filter={name}]'); field.value = '{value}'; \
             field.dispatchEvent(new Event('{event}', {{ bubbles: true }})); }})()"
        ));
    };
    filter("machine", "xeon-x5365-2llc", "change");
    browser.wait("document.querySelector('.sweep .how').innerText.startsWith('10 rows')");
    let of_machine = |one: &&Value| one["machine"] == "xeon-x5365-2llc";
    for one in summary["summary"].as_array().unwrap().iter().filter(of_machine) {
        let row = lines()
            .lines()
            .find(|line| line.starts_with(one["policy"].as_str().unwrap()))
            .unwrap()
            .to_owned();
        for (figure, digits) in
            [("mean_slowdown", 3), ("stp", 2), ("unfairness", 2), ("worst_slowdown", 2)]
        {
            let expected = format!("{:.digits$}", one[figure].as_f64().unwrap());
            assert!(row.contains(&expected), "{figure} {expected}: {row}");
        }
    }
    filter("policy", "linux", "input");
    browser.wait("document.querySelectorAll('.sweep-lines tbody tr:not(.by)').length === 1");
    assert!(lines().starts_with("linux-default"), "{}", lines());
    filter("policy", "nobody", "input");
    browser.wait("!document.querySelector('.sweep-lines')");
    filter("policy", "", "input");
    for (width, theme) in [(1280, "light"), (1280, "dark"), (360, "light"), (360, "dark")] {
        browser.look(width, 900, theme);
        browser.picture(&pictures().join(format!("sweep-{width}-{theme}.png")), 5000.0);
        assert_eq!(browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), true);
    }
    // Another view and back: the file stays open.
    browser.evaluate("location.hash = '#view=what-if&machine=i7-2600&apps=sort,xz'; 0");
    browser.wait("!document.querySelector('[data-sweep]')");
    browser.evaluate("history.back(); 0");
    browser.wait("document.querySelector('.sweep-lines')");
    // The browser itself complains of the file that was refused.
    let others = browser.complaints().into_iter().filter(|one| !one.contains("422"));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<String>::new());
}
