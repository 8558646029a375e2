//! The JSON documents keep their fields, and docs/json.md tells of each.

use serde_json::{Map, Value};

use crate::fixture::{Fixture, RECORDING};

/// What a document is made of: types in the place of values, one entry of each list.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "text".into(),
        Value::Array(entries) => Value::Array(entries.first().map(shape).into_iter().collect()),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, one)| (name.clone(), shape(one))).collect())
        }
    }
}

fn names(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Array(entries) => entries.iter().for_each(|entry| names(entry, into)),
        Value::Object(fields) => fields.iter().for_each(|(name, one)| {
            into.push(name.clone());
            names(one, into);
        }),
        _ => {}
    }
}

/// Documents by what prints them, without what other crates define (trees, origins).
fn documents() -> Vec<(&'static str, Value)> {
    let fixture = Fixture::new();
    fixture.write("twophase.toml", RECORDING);
    let on = ["--machine", "2x-gold-6138-4c", "--profiles", "solo.csv", "--format", "json"];
    let apps = ["--apps", "stream,needy"];
    let run = |words: &[&str]| fixture.run(words).json();
    std::fs::write(fixture.path("made.trace"), crate::replay::trace(0..10)).unwrap();
    let mut shown = run(&["profiles", "show", "twophase.toml", "--format", "json"]);
    if let Some(fields) = shown.as_object_mut() {
        fields.remove("origin");
    }
    crate::doctor::captured(&fixture);
    vec![
        ("compare", run(&[&["compare", "--seeds", "2"], &on[..], &apps].concat())),
        ("place", run(&[&["place", "--policy", "optimal"], &on[..], &apps].concat())),
        ("predict", run(&[&["predict", "--place", "0,1"], &on[..], &apps].concat())),
        ("predict-all", run(&[&["predict"], &on[..], &apps].concat())),
        ("list", run(&["profiles", "list", "--profiles", "solo.csv", "--format", "json"])),
        ("show", shown),
        (
            "replay",
            run(&[
                "replay",
                "made.trace",
                "--masks",
                "1",
                "--private",
                "1KiB/2",
                "--format",
                "json",
            ]),
        ),
        ("doctor", run(&["doctor", "--root", "captured", "--format", "json"])),
        ("policies", run(&["policies", "corun", "--format", "json"])),
        ("machines", run(&["topology", "--list", "--format", "json"])),
    ]
}

#[test]
fn documents_keep_their_fields() {
    let shapes: Map<String, Value> =
        documents().iter().map(|(name, one)| ((*name).to_owned(), shape(one))).collect();
    insta::assert_json_snapshot!("documents", Value::Object(shapes));
}

/// The fields of a document that docs/json.md does not name.
pub(crate) fn undocumented(document: &Value) -> Vec<String> {
    let page = include_str!("../../../../docs/json.md");
    let mut fields = Vec::new();
    names(document, &mut fields);
    fields.retain(|field| !page.contains(&format!("`{field}`")));
    fields.dedup();
    fields
}

#[test]
fn every_field_is_documented() {
    for (document, value) in documents() {
        let missing = undocumented(&value);
        assert!(missing.is_empty(), "docs/json.md lacks {missing:?} of {document}");
    }
}

/// The text of all Rust files below a folder.
fn sources(folder: &std::path::Path, into: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            into.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

/// Is there a function of this name that cargo runs as a test, and that nothing has it leave out?
fn is_run_test(text: &str, name: &str) -> bool {
    text.match_indices(&format!("fn {name}(")).any(|(at, _)| {
        let above = &text[..at];
        let attributes = &above[above.rfind(['}', '{', ';']).map_or(0, |end| end + 1)..];
        attributes.contains("#[test]") && !attributes.contains("#[ignore")
    })
}

#[test]
fn a_promise_needs_a_test_that_is_run() {
    let text = "fn a() {}\n#[test]\nfn b() {}\n/// c.\n#[test]\n#[ignore = \"slow\"]\nfn c() {}";
    assert_eq!(
        ["a", "b", "c", "d"].map(|name| is_run_test(text, name)),
        [false, true, false, false]
    );
}

#[test]
fn every_promise_has_the_test_that_it_names() {
    let page = include_str!("../../../../docs/operating.md");
    let table = page.split("| promise | test |").nth(1).unwrap().split("\n\n").next().unwrap();
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut text = String::new();
    let tested = ["linux", "live", "scx", "sim", "app", "hosting", "top", "daemon"]
        .map(|one| format!("corun-{one}"));
    for name in tested.iter().map(String::as_str).chain(["corun"]) {
        sources(&crates.join(name), &mut text);
    }
    let root = crates.parent().unwrap();
    let python = std::fs::read_to_string(root.join("python/tests/test_policies.py")).unwrap();
    // A case of a guest stands beside the test that boots the guest.
    let is_case = |name: &str| {
        let folders = ["cases", "kernel-cases"];
        folders.iter().any(|one| root.join(format!("scripts/guest/{one}/{name}.sh")).exists())
    };
    let rows = table.lines().skip(2).filter(|line| line.starts_with('|'));
    let mut promises = 0;
    for row in rows {
        let tests: Vec<&str> =
            row.rsplit('|').nth(1).unwrap().split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "no test: {row}");
        for test in tests {
            let is_test = is_run_test(&text, test)
                || python.contains(&format!("\ndef {test}("))
                || is_case(test);
            assert!(is_test, "there is no test {test}");
        }
        promises += 1;
    }
    assert!(promises > 10, "{promises}");
}
