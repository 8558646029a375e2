//! Who is not answered, and what the API answers whom it does.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::json;

use crate::http;
use crate::live::Busy;
use crate::server::Server;

#[test]
fn only_who_has_the_token_and_asks_this_server_is_answered() {
    let server = Server::start(&["--apps", "sort,xz"]);
    let at = server.address;
    let bearer = server.bearer();
    let with_token = ("Authorization", bearer.as_str());
    let session = "/api/v1/session";
    assert_eq!(http::get(at, session, &[with_token]).status, 200);
    for (why, headers) in [
        ("no token", vec![]),
        ("another token", vec![("Authorization", "Bearer 00000000000000000000000000000000")]),
        ("a part of the token", vec![("Authorization", &bearer[..20])]),
        ("a cookie of another server", vec![("Cookie", "corun-1=00")]),
    ] {
        let refused = http::get(at, session, &headers);
        assert_eq!(refused.status, 401, "{why}");
        assert!(refused.body.starts_with("{\"error\":{"), "{why}: {}", refused.body);
        assert!(refused.body.contains("no token"), "{why}: {}", refused.body);
    }
    // A name that was made to point here, and a page from elsewhere.
    assert_eq!(http::get(at, session, &[with_token, ("Host", "corun.example:80")]).status, 421);
    let elsewhere = ("Origin", "http://corun.example");
    assert_eq!(http::get(at, session, &[with_token, elsewhere]).status, 403);
    assert_eq!(http::get(at, session, &[with_token, ("Origin", "null")]).status, 403);
    let own = format!("http://{at}");
    assert_eq!(http::get(at, session, &[with_token, ("Origin", &own)]).status, 200);
    // The link gives the cookie and takes the token out of the address.
    let opened = http::get(at, &server.link()[own.len()..], &[]);
    assert_eq!(opened.status, 303);
    for word in ["location: /\r\n", "httponly", "samesite=strict"] {
        assert!(opened.head.contains(word), "{word}: {}", opened.head);
    }
    let cookie = opened.head.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap();
    let page = http::get(at, "/", &[("Cookie", cookie)]);
    assert_eq!(page.status, 200);
    for word in ["default-src 'none'", "nosniff", "frame-ancestors 'none'"] {
        assert!(page.head.contains(word), "{word}: {}", page.head);
    }
    assert_eq!(http::get(at, "/?token=0", &[]).status, 401);
    assert_eq!(http::get(at, "/etc/passwd", &[with_token]).status, 404);
    // Whatever is refused is refused as a document.
    let long = format!("/?{}", "x".repeat(20_000));
    for (refused, status) in [
        (http::get(at, session, &[with_token, ("Host", "corun.example:80")]), 421),
        (http::get(at, session, &[with_token, elsewhere]), 403),
        (http::post(at, session, &[with_token], "{}"), 405),
        (http::get(at, "/api/v1/predict", &[with_token]), 405),
        (http::get(at, &long, &[with_token]), 414),
    ] {
        assert_eq!(refused.status, status, "{}", refused.body);
        let fault: serde_json::Value = serde_json::from_str(&refused.body).unwrap();
        assert_eq!(fault["error"]["part"], "request", "{fault}");
    }
}

#[test]
fn bad_questions_are_refused_where_they_are_wrong() {
    let server = Server::start(&[]);
    let bearer = server.bearer();
    let headers = [("Authorization", bearer.as_str())];
    let huge = "x".repeat(5 << 20);
    let refused =
        http::post(server.address, "/api/v1/mix", &headers, &json!({ "text": huge }).to_string());
    assert!(refused.status == 413 || refused.status == 0, "{}", refused.status);
    let question =
        |machine: &str, apps: &[&str]| json!({ "machine": { "name": machine }, "apps": apps });
    let on = |apps: &[&str]| question("xeon-x5365", apps);
    let recorded = "version = 99\nname = \"a\"\n";
    for (path, body, part, words) in [
        (
            "predict",
            json!({ "question": question("none-such", &["sort"]) }),
            "machine",
            "none-such",
        ),
        // No file of this machine is read for a page.
        (
            "predict",
            json!({ "question": question("machines/i7-2600.toml", &["sort"]) }),
            "machine",
            "reads no files of this machine",
        ),
        ("predict", json!({ "question": on(&["srot"]) }), "programs", "near it: sort"),
        ("predict", json!({ "question": on(&["sort"; 9]) }), "programs", "8 CPUs"),
        ("predict", json!({ "question": on(&["sort"]), "cpu": [77] }), "placement", "no CPU 77"),
        (
            "predict",
            json!({ "question": on(&["sort"]), "cpu": [0], "mask": ["0xzz"] }),
            "placement",
            "0xzz",
        ),
        (
            "place",
            json!({ "question": on(&["sort"]), "policy": "dioo" }),
            "policy",
            "unknown policy",
        ),
        (
            "place",
            json!({ "question": on(&["sort"]), "policy": "dio", "time_limit_s": 1e9 }),
            "request",
            "time_limit_s",
        ),
        (
            "program",
            json!({ "question": on(&["sort"]), "cpu": [0], "program": 4 }),
            "programs",
            "number 4",
        ),
        (
            "program",
            json!({ "question": on(&["sort"; 3]), "cpu": [0, 1, 4], "mask": [null], "program": 0 }),
            "placement",
            "1 mask for 3 programs",
        ),
        (
            "predict",
            json!({ "question": on(&["sort"]), "cpu": [0], "mask": ["+3"] }),
            "placement",
            "`+3`",
        ),
        ("compare", json!({ "question": on(&["sort"]), "seeds": 100_000 }), "request", "seeds"),
        (
            "compare",
            json!({ "question": on(&["sort"]), "policies": [] }),
            "policy",
            "policies: found none",
        ),
        ("compare", json!({ "question": on(&["sort"; 1025]) }), "programs", "at most 1024"),
        ("mix", json!({ "text": "version = 1\n[[app]]\nprofil = \"sort\"\n" }), "mix", "profil"),
        ("machine", json!({ "machine": { "file": "version = " } }), "machine", "pasted machine"),
        ("profile", json!({ "text": recorded }), "profiles", "version"),
        (
            "predict",
            json!({ "question": { "machine": { "name": "i7-2600" }, "apps": ["a"], "profiles": [recorded] } }),
            "profiles",
            "version",
        ),
    ] {
        let refused = server.post(path, &body);
        assert!(
            (400..500).contains(&refused.status),
            "{path}: {} {}",
            refused.status,
            refused.body
        );
        let fault: serde_json::Value = serde_json::from_str(&refused.body).unwrap();
        assert_eq!(fault["error"]["part"], part, "{path}: {fault}");
        assert!(fault["error"]["message"].as_str().unwrap().contains(words), "{path}: {fault}");
    }
    let broken = http::post(server.address, "/api/v1/predict", &headers, "{");
    assert_eq!(broken.status, 400, "{}", broken.body);
}

#[test]
fn the_api_answers_as_the_commands_do() {
    let server = Server::start(&[]);
    let apps = ["sort", "numpy", "xz", "flac"];
    let question = json!({ "machine": { "name": "xeon-x5365" }, "apps": apps });
    let on = ["--machine", "xeon-x5365", "--apps", "sort,numpy,xz,flac"];
    let predicted = server.asked("predict", &json!({ "question": question, "cpu": [0, 1, 4, 5] }));
    let printed = server.command(&[&["predict", "--place", "0,1,4,5"], &on[..]].concat());
    assert_eq!(predicted["placement"], printed);
    for policy in ["dio", "optimal", "worst"] {
        let mut placed = server.asked("place", &json!({ "question": question, "policy": policy }));
        let mut printed = server.command(&[&["place", "--policy", policy], &on[..]].concat());
        for document in [&mut placed["placement"], &mut printed] {
            document.as_object_mut().unwrap().remove("solver_seconds");
        }
        assert_eq!(placed["placement"], printed, "{policy}");
    }
    // One LLC with memory of its own: placement and ways can be searched for together.
    let question_of_two =
        json!({ "machine": { "name": "xeon-gold-6138" }, "apps": ["sort", "numpy"] });
    let policy = json!({ "question": question_of_two, "policy": "optimal-cluster" });
    let divided = server.asked("place", &policy);
    let words = [
        "place",
        "--policy",
        "optimal-cluster",
        "--machine",
        "xeon-gold-6138",
        "--apps",
        "sort,numpy",
    ];
    assert_eq!(divided["placement"]["mask"], server.command(&words)["mask"]);
    let compared = server
        .asked("compare", &json!({ "question": question, "policies": ["di", "dio"], "seeds": 2 }));
    let printed =
        server.command(&[&["compare", "--policy", "di,dio", "--seeds", "2"], &on[..]].concat());
    assert_eq!(compared["comparison"], printed);
    assert_eq!(
        compared["timelines"].as_array().unwrap().len(),
        printed["policies"].as_array().unwrap().len()
    );
}

#[test]
fn others_can_not_be_served_and_ctrl_c_ends_it() {
    let refused = |words: &[&str], said: &str| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("corun"));
        let output = command.arg("serve").args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(said), "{stderr}");
    };
    refused(&["--listen", "0.0.0.0:0"], "expected a loopback address");
    refused(&["--apps", "srot"], "near it: sort");
    refused(&["--machine", "none-such"], "none-such");
    refused(&["--policy", "doi"], "unknown policy `doi`");
    let busy = Busy::new("busy");
    let pid = busy.pid();
    let mut server = Server::start(&["-p", &pid, "--profile", "sort", "--counters", "model"]);
    let taken: SocketAddr = server.address;
    refused(&["--listen", &taken.to_string()], "cannot listen");
    // An open stream does not hold up the end.
    let mut live = server.live();
    live.next();
    Command::new("kill").args(["-INT", &server.id().to_string()]).status().unwrap();
    server.wait();
    drop(live);
}
