//! The API against its description, without a network.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use corun_profile::Library;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::api::{Desk, OPENAPI, routes};
use crate::{Live, ServeOptions};

fn router() -> Router {
    let machine = corun_machine::preset("xeon-x5365").unwrap();
    router_over(Some(Live::new(Arc::new(machine), crate::Asker::new().0, false)))
}

fn router_over(live: Option<Live>) -> Router {
    let library = Library::shipped().unwrap();
    let options = ServeOptions { library, machine: None, apps: Vec::new(), live, experiment: None };
    routes().with_state(Arc::new(Desk::new(options)))
}

#[test]
fn where_nothing_can_be_observed_the_live_view_is_told_so() {
    let (status, fault) = ask(&router_over(None), "/api/v1/live", None);
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(fault["error"]["message"], "nothing is observed", "{fault}");
}

/// The status and the document that a request gets.
fn ask(router: &Router, path: &str, body: Option<&Value>) -> (StatusCode, Value) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let request = Request::builder().uri(path);
    let request = match body {
        Some(body) => request
            .method("POST")
            .header("Content-Type", "application/json")
            .body(Body::from(body.to_string())),
        None => request.body(Body::empty()),
    };
    runtime.block_on(async {
        let response = router.clone().oneshot(request.unwrap()).await.unwrap();
        let status = response.status();
        let bytes = to_bytes(response.into_body(), 1 << 24).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap())
    })
}

/// Where documents stand that the commands print too: docs/json.md describes their fields.
const DESCRIBED_ELSEWHERE: [&str; 5] =
    ["profile", "predict.placement", "place.placement", "compare.comparison", "openapi.json"];

fn description() -> Value {
    serde_json::from_str(OPENAPI).unwrap()
}

/// Where a document is not what a schema of the description says.
fn differences(schema: &Value, value: &Value, at: &str, into: &mut Vec<String>) {
    let known = description();
    if let Some(name) = schema["$ref"].as_str() {
        let pointer = name.trim_start_matches('#');
        return differences(known.pointer(pointer).unwrap(), value, at, into);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fits = |choice: &Value| {
            let mut found = Vec::new();
            differences(choice, value, at, &mut found);
            found.is_empty()
        };
        if !choices.iter().any(fits) {
            into.push(format!("{at}: none of the choices fits {value}"));
        }
        return;
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let said = &schema["type"];
    let allows =
        |name: &str| said == name || said.as_array().is_some_and(|all| all.contains(&json!(name)));
    if !(allows(kind) || kind == "number" && allows("integer") && !value.is_f64()) {
        into.push(format!("{at}: found {kind}, described as {said}"));
    }
    if let Some(entries) = value.as_array() {
        for (place, entry) in entries.iter().enumerate() {
            differences(&schema["items"], entry, &format!("{at}[{place}]"), into);
        }
    }
    let Some(fields) = value.as_object() else { return };
    let Some(properties) = schema["properties"].as_object() else {
        if !DESCRIBED_ELSEWHERE.contains(&at) {
            into.push(format!("{at}: the description has no fields"));
        }
        return;
    };
    for (name, field) in fields {
        match properties.get(name) {
            Some(described) => differences(described, field, &format!("{at}.{name}"), into),
            None => into.push(format!("{at}.{name}: not described")),
        }
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if !fields.contains_key(name.as_str().unwrap()) {
            into.push(format!("{at}: {name} is missing"));
        }
    }
}

#[test]
fn the_description_has_every_route_and_no_other() {
    let source = include_str!("api/mod.rs");
    let mut routed: Vec<(&str, &str)> = source
        .split(".route(")
        .skip(1)
        .map(|rest| {
            let mut quoted = rest.splitn(3, '"').skip(1);
            let (path, rest) = (quoted.next().unwrap(), quoted.next().unwrap());
            let method = rest.trim_start_matches(',').trim_start();
            (path, if method.starts_with("post(") { "post" } else { "get" })
        })
        .collect();
    let described = description();
    let mut paths: Vec<(&str, &str)> = Vec::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        paths.extend(
            methods.as_object().unwrap().keys().map(|method| (path.as_str(), method.as_str())),
        );
    }
    routed.sort_unstable();
    paths.sort_unstable();
    assert_eq!(routed, paths);
}

/// A live recording of two looks at a thread, with this many instructions a second.
fn recording(instructions_per_s: f64) -> String {
    let machine = corun_machine::preset("i7-2600").unwrap();
    let header = json!({
        "corun_live_recording": 1, "written_by": "test", "interval_s": 1.0, "profiles": false,
        "counters": ["instructions"], "machine": machine.spec(),
    });
    let first = json!({
        "at_ns": 1, "programs": [{ "name": "work" }],
        "threads": [{
            "tid": 7, "new": { "pid": 7, "start_ticks": 1, "program": 0 }, "state": "running",
            "cpu": 0, "cpu_ns": 0, "affinity": "0-7", "nice": 0, "parent": 1, "name": "work",
        }],
    });
    let second = json!({
        "at_ns": 1_000_000_001,
        "threads": [{
            "tid": 7, "state": "running", "cpu": 0, "cpu_ns": 500_000_000,
            "instructions_per_s": instructions_per_s,
        }],
    });
    format!("{header}\n{first}\n{second}\n")
}

/// A file of results with a row, in base64.
fn results() -> String {
    let folder = tempfile::tempdir().unwrap();
    let row = json!({
        "machine": "m", "mix": "xz, sort", "apps": ["xz", "sort"], "policy": "di", "kind": "run", "seed": 3,
        "mean_slowdown": 1.25, "stp": 1.5, "unfairness": 1.1, "worst_slowdown": 1.4, "migrations": 2.0,
        "llc_migrations": 1.0, "slowdown": [1.1, 1.4], "machine_hash": "", "mix_hash": "", "policy_hash": "",
        "hash": "1", "version": "0",
    });
    let rows = vec![serde_json::from_value(row).unwrap()];
    let mut store = corun_sweep::Store::open(folder.path()).unwrap();
    store.add(vec![corun_sweep::TaskRows { task: 0, rows }]).unwrap();
    store.flush().unwrap();
    let mut parts = std::fs::read_dir(folder.path().join("parts")).unwrap();
    let bytes = std::fs::read(parts.next().unwrap().unwrap().path()).unwrap();
    base64::Engine::encode(&base64::prelude::BASE64_STANDARD, bytes)
}

#[test]
fn results_of_a_sweep_are_read_and_what_is_none_is_refused() {
    let router = router();
    let asked = |parquet: &str| ask(&router, "/api/v1/sweep", Some(&json!({ "parquet": parquet })));
    let (_, found) = asked(&results());
    assert_eq!(found["rows"].as_array().unwrap().len(), 1, "{found}");
    let row = &found["rows"][0];
    assert_eq!((&row["policy"], &row["stp"], &row["seed"]), (&json!("di"), &json!(1.5), &json!(3)));
    for (parquet, said) in
        [("no base64!", "base64"), ("UEFSMQ==", "no results of a sweep"), ("", "no results")]
    {
        let (status, found) = asked(parquet);
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{found}");
        assert_eq!(found["error"]["part"], "sweep", "{found}");
        assert!(found["error"]["message"].as_str().unwrap().contains(said), "{found}");
    }
}

#[test]
fn two_recordings_may_be_larger_than_other_questions_and_their_faults_are_named() {
    let router = router();
    let long = recording(1e9) + &" \n".repeat(3 << 20);
    let (status, found) = ask(
        &router,
        "/api/v1/recordings",
        Some(&json!({ "before": recording(2e9), "after": long })),
    );
    assert_eq!(
        (status, &found["error"]["part"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("recordings"))
    );
    assert!(found["error"]["message"].as_str().unwrap().starts_with("after: line 4:"), "{found}");
    let asked = json!({ "before": recording(2e9), "after": recording(3e9) });
    let (_, found) = ask(&router, "/api/v1/recordings", Some(&asked));
    let speed = &found["programs"][0]["figures"][1];
    assert_eq!(
        (&speed["figure"], &speed["change_percent"]),
        (&json!("instructions_per_s"), &json!(50.0))
    );
}

#[test]
fn answers_have_the_fields_that_are_described() {
    let router = router();
    let described = description();
    let question =
        json!({ "machine": { "name": "i7-2600" }, "apps": ["sort", "xz"], "profiles": [] });
    let shipped = Library::shipped().unwrap();
    let machine = corun_machine::preset("xeon-e5520").unwrap().to_toml();
    let profile = shipped.get("xz").unwrap().to_toml();
    let questions = [
        ("session", None),
        ("machines", None),
        ("programs", None),
        ("policies", None),
        ("openapi.json", None),
        ("machine", Some(json!({ "machine": { "file": machine } }))),
        ("mix", Some(json!({ "text": "version = 1\n[[app]]\nprofile = \"xz\"\nthreads = 2\n" }))),
        ("profile", Some(json!({ "text": profile }))),
        ("predict", Some(json!({ "question": question, "cpu": [0, 1], "mask": ["0x3", "0xc"] }))),
        ("predict", Some(json!({ "question": question }))),
        (
            "place",
            Some(json!({ "question": question, "policy": "dio", "seed": 2, "time_limit_s": 1.0 })),
        ),
        ("program", Some(json!({ "question": question, "cpu": [0, 4], "program": 1 }))),
        ("compare", Some(json!({ "question": question, "policies": ["di"], "seeds": 1 }))),
        ("recordings", Some(json!({ "before": recording(1e9), "after": recording(2e9) }))),
        ("sweep", Some(json!({ "parquet": results() }))),
    ];
    for (name, body) in &questions {
        let path = format!("/api/v1/{name}");
        let (status, document) = ask(&router, &path, body.as_ref());
        assert_eq!(status, StatusCode::OK, "{name}: {document}");
        let route = &described["paths"][&path];
        let method = if body.is_some() { "post" } else { "get" };
        let mut found = Vec::new();
        let schema = |of: &Value| of["content"]["application/json"]["schema"].clone();
        if let Some(body) = body {
            differences(&schema(&route[method]["requestBody"]), body, name, &mut found);
        }
        differences(&schema(&route[method]["responses"]["200"]), &document, name, &mut found);
        assert!(found.is_empty(), "{found:#?}");
    }
    let asked = json!({ "question": question, "cpus": [0, 1] });
    let (status, failure) = ask(&router, "/api/v1/predict", Some(&asked));
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let mut found = Vec::new();
    differences(
        &json!({ "$ref": "#/components/schemas/Failure" }),
        &failure,
        "failure",
        &mut found,
    );
    assert!(
        found.is_empty() && failure["error"]["message"].as_str().unwrap().contains("cpus"),
        "{failure}"
    );
}

#[test]
fn pasted_profiles_are_programs_and_hide_those_of_their_name() {
    let router = router();
    let shipped = Library::shipped().unwrap();
    let asked = |profile: &str, apps: [&str; 2]| {
        let question =
            json!({ "machine": { "name": "i7-2600" }, "apps": apps, "profiles": [profile] });
        ask(&router, "/api/v1/predict", Some(&json!({ "question": question, "cpu": [0, 1] })))
    };
    let own = shipped.get("xz").unwrap().to_toml().replacen("name = \"xz\"", "name = \"own\"", 1);
    let (status, found) = asked(&own, ["own", "xz"]);
    assert_eq!(status, StatusCode::OK, "{found}");
    // The same program under another name.
    let slowdown = &found["placement"]["slowdown"];
    assert!(
        (slowdown[0].as_f64().unwrap() - slowdown[1].as_f64().unwrap()).abs() < 1e-6,
        "{slowdown}"
    );
    let sort = shipped.get("sort").unwrap().to_toml();
    let as_xz = sort.replacen("name = \"sort\"", "name = \"xz\"", 1);
    let (_, hidden) = asked(&as_xz, ["xz", "flac"]);
    let (_, shipped) = asked(&own, ["xz", "flac"]);
    assert_ne!(hidden["placement"]["slowdown"], shipped["placement"]["slowdown"]);
}
