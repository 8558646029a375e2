//! The pages that commands write, by the same rules as the page of `corun serve`.

use std::path::Path;

use serde_json::json;

use crate::browser::Browser;
use crate::server::{Server, pictures};

/// What `corun validate --format json` wrote of two programs and a group of them.
fn measured(folder: &Path) -> String {
    let estimate = |median: f64| {
        let (low, high) = (0.99 * median, 1.01 * median);
        json!({ "median": median, "low": low, "high": high, "confidence": 0.94, "rounds": 5 })
    };
    let alone =
        |name: &str, s: f64| json!({ "name": name, "measured_s": estimate(s), "had_core": true });
    let member = |name: &str, slowdown: f64| json!({ "name": name, "measured_slowdown": estimate(slowdown) });
    let document = json!({
        "rounds": 5,
        "load": { "others_share": 0.0, "stolen_share": 0.0 },
        "core": { "additions_per_cycle": 4.0, "runs": 10, "shared_runs": 0 },
        "alone": [alone("sort", 0.9), alone("xz", 2.5)],
        "groups": [{ "members": [member("sort", 1.3), member("xz", 1.1)] }],
    });
    let path = folder.join("measured.json");
    std::fs::write(&path, document.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn pages_of_commands_are_readable_by_all_at_every_size() {
    let Some(browser) = Browser::or_skip() else { return };
    let server = Server::start(&[]);
    let measured = measured(server.folder());
    let apps = "sort,numpy,xz,flac";
    let compare = ["compare", "--machine", "xeon-x5365", "--apps", apps, "--seeds", "1"];
    let partition = ["partition", "--machine", "xeon-gold-6138", "--apps", "sort,xz", "--all"];
    let validate = ["validate", "--machine", "xeon-x5365", "--measured", &measured];
    for (name, words) in
        [("compare", &compare[..]), ("partition", &partition), ("validate", &validate)]
    {
        let path = server.folder().join(format!("{name}.html"));
        let report = ["--report", path.to_str().unwrap()];
        server.run(&[words, &report].concat());
        browser.open(&format!("file://{}", path.display()), "document.querySelector('footer')");
        browser.assert_readable(&format!("report-{name}"), &pictures());
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
