//! The Compare view in a browser.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::server::Server;

#[test]
fn policies_are_explained_where_they_stand_and_names_cross_no_line() {
    let Some(browser) = Browser::or_skip() else { return };
    let server = Server::start(&[]);
    let apps = "sort,numpy,xsltproc,xz,glpsol,sqlite3,hmmsearch,flac";
    let address = format!("#view=compare&machine=xeon-x5365&apps={apps}");
    browser.open(&server.link(), "document.querySelector('nav')");
    browser.evaluate(&format!("location.hash = {}; 0", json!(address)));
    browser.wait("document.querySelectorAll('.frontier-point').length > 1");

    // A policy that comes out as another one has no row, and is named once.
    let rows = texts(&browser, ".policy-rows tbody th button");
    let compared = server.command(&[
        "compare",
        "--machine",
        "xeon-x5365",
        "--apps",
        apps,
        "--seeds",
        "3",
        "--time-limit",
        "10",
    ]);
    let (alike, own): (Vec<&Value>, Vec<&Value>) =
        compared["policies"].as_array().unwrap().iter().partition(|row| row["same_as"].is_string());
    assert!(!alike.is_empty(), "{compared}");
    let names = |rows: &[&Value]| -> Vec<String> {
        rows.iter().map(|row| row["policy"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(rows, names(&own));
    browser.evaluate("document.querySelectorAll('.alike').forEach((one) => { one.open = true })");
    let mut folded = texts(&browser, ".alike dt");
    folded.sort();
    let mut expected = names(&alike);
    expected.sort();
    assert_eq!(folded, expected);

    // Each policy's line stands under it.
    let described = "[...document.querySelectorAll('.policy-rows tbody th button')].map((one) => \
                     [one.innerText, document.getElementById(one.getAttribute('aria-describedby')).innerText])";
    let lines = browser.evaluate(described);
    for line in lines.as_array().unwrap() {
        let (name, said) = (line[0].as_str().unwrap(), line[1].as_str().unwrap());
        if let Some(policy) = corun_policy::registry().iter().find(|one| one.name == name) {
            assert_eq!(said, policy.summary, "{name}");
        }
        assert!(said.len() > 10, "{name}: {said}");
    }

    // Whichever is chosen, its name and those of the bounds stand clear of the frontier.
    for name in rows {
        let choose = format!(
            "[...document.querySelectorAll('.policy-rows button')].find((one) => one.innerText === {}).click()",
            json!(name)
        );
        browser.evaluate(&choose);
        browser
            .wait(&format!("document.querySelector('#row-title').innerText === {}", json!(name)));
        let crossed = "(() => { const line = document.querySelector('.scatter .frontier'); \
            const points = Array.from({ length: 400 }, (_, at) => line.getPointAtLength(at * line.getTotalLength() / 399)); \
            return [...document.querySelectorAll('.dot-of text')].filter((text) => { const box = text.getBBox(); \
              return points.some(({ x, y }) => x > box.x && x < box.x + box.width && y > box.y + 2 && y < box.y + box.height - 2) }) \
              .map((text) => text.textContent) })()";
        assert_eq!(browser.evaluate(crossed), json!([]), "{name} is chosen");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// What elements show.
fn texts(browser: &Browser, selector: &str) -> Vec<String> {
    let script =
        format!("[...document.querySelectorAll({})].map((one) => one.innerText)", json!(selector));
    let found = browser.evaluate(&script);
    found.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}
