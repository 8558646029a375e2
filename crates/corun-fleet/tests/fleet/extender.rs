//! Requests as Kubernetes' scheduler sends them, field by field after the Go types.

use std::collections::BTreeMap;
use std::path::Path;

use corun_fleet::{AgentReport, Extender, PodUsage, Seats, running_pods};
use corun_machine::preset;
use corun_model::ModelOptions;
use corun_profile::Library;
use serde_json::{Value, json};

pub(crate) const NOW: u64 = 1_764_000_000;

pub(crate) fn extender() -> Extender {
    let mut library = Library::default();
    for (name, mpki, mib) in [("stream", 60.0, 64.0), ("needy", 25.0, 12.0), ("quiet", 0.1, 0.2)] {
        let profile =
            corun_profile::Profile { name: name.to_owned(), ..crate::programs::program(mpki, mib) };
        library.insert(profile, name.to_owned()).unwrap();
    }
    let machine = |name: &str| (name.to_owned(), preset(name).unwrap(), Seats::Cores);
    let machines = vec![machine("i7-2600"), machine("2x-gold-6138-4c")];
    Extender::new(machines, &library, ModelOptions::default(), 300).unwrap()
}

/// A node as the API server has it, with what its agent published `age_s` seconds ago.
pub(crate) fn node(name: &str, age_s: i64, programs: &[(&str, u32, Option<f64>)]) -> Value {
    let programs: Vec<Value> = programs
        .iter()
        .enumerate()
        .map(|(at, (profile, cpus, bound))| {
            json!({"pod": format!("default/{profile}-{at}"), "profile": profile, "cpus": cpus, "bound": bound})
        })
        .collect();
    let report = json!({"at": NOW as i64 - age_s, "programs": programs}).to_string();
    json!({
        "metadata": {
            "name": name,
            "uid": "7c4f5a1e-6f0b-4a52-8f6c-3f1d0a6f7c11",
            "resourceVersion": "81234",
            "creationTimestamp": "2026-10-01T08:00:00Z",
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64"},
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "corun.dev/machine": "i7-2600",
                "corun.dev/programs": report,
            },
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {}}}],
        },
        "spec": {"podCIDR": "10.244.0.0/24", "providerID": "kind://n0"},
        "status": {
            "capacity": {"cpu": "8", "memory": "16301740Ki", "pods": "110"},
            "allocatable": {"cpu": "8", "memory": "16301740Ki", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "nodeInfo": {"kernelVersion": "6.1.0", "kubeletVersion": "v1.31.0"},
        }
    })
}

pub(crate) fn pod(notes: Value, cpu: Value) -> Value {
    json!({
        "metadata": {
            "name": "web-7d4b9c6f8-x2x9p",
            "namespace": "default",
            "labels": {"app": "web", "pod-template-hash": "7d4b9c6f8"},
            "annotations": notes,
        },
        "spec": {
            "containers": [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}],
            "restartPolicy": "Always",
            "schedulerName": "corun-scheduler",
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"}
    })
}

pub(crate) fn request(pod: Value, nodes: Vec<Value>) -> Vec<u8> {
    let list = json!({"metadata": {"resourceVersion": "1"}, "items": nodes});
    json!({"Pod": pod, "Nodes": list, "NodeNames": null}).to_string().into_bytes()
}

pub(crate) fn scores(body: &str) -> Vec<(String, i64)> {
    let all: Value = serde_json::from_str(body).unwrap();
    let one =
        |one: &Value| (one["Host"].as_str().unwrap().to_owned(), one["Score"].as_i64().unwrap());
    all.as_array().unwrap().iter().map(one).collect()
}

#[test]
fn the_node_where_least_is_lost_has_ten() {
    let nodes = vec![
        node("busy", 10, &[("stream", 1, None), ("stream", 2, None)]),
        node("calm", 10, &[("quiet", 2, None)]),
    ];
    let pod = pod(json!({"corun.dev/profile": "needy"}), json!("1"));
    let answer = extender().prioritize(&request(pod, nodes), NOW).unwrap();
    let found = scores(&answer.body);
    assert_eq!((found[1].0.as_str(), found[1].1), ("calm", 10), "{found:?}");
    assert!(found[0].1 < 5, "{found:?}");
    assert_eq!(answer.assumed, Vec::<String>::new());
}

#[test]
fn a_bound_keeps_a_pod_from_nodes_and_nodes_come_back_as_they_were() {
    let nodes = vec![
        node("busy", 10, &[("stream", 3, None)]),
        node("calm", 10, &[("quiet", 2, None)]),
        node("promised", 10, &[("needy", 1, Some(1.0001))]),
    ];
    let notes = json!({"corun.dev/profile": "stream", "corun.dev/slowdown-bound": "1.02"});
    let body = request(pod(notes, json!("500m")), nodes.clone());
    let answer = extender().filter(&body, NOW).unwrap();
    let result: Value = serde_json::from_str(&answer.body).unwrap();
    let mut fields: Vec<&String> = result.as_object().unwrap().keys().collect();
    fields.sort();
    let expected = ["Error", "FailedAndUnresolvableNodes", "FailedNodes", "NodeNames", "Nodes"];
    assert_eq!(fields, expected);
    assert_eq!(result["Nodes"]["items"], json!([nodes[1]]));
    assert!(
        result["FailedNodes"]["busy"].as_str().unwrap().contains("its bound is 1.02"),
        "{result}"
    );
    assert_eq!((&result["NodeNames"], &result["Error"]), (&Value::Null, &json!("")));
    // Without a bound of its own the pod still spares who has one.
    let body = request(pod(json!({"corun.dev/profile": "stream"}), json!("500m")), nodes.clone());
    let answer = extender().filter(&body, NOW).unwrap();
    let result: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(result["Nodes"]["items"], json!([nodes[0], nodes[1]]));
    assert!(result["FailedNodes"]["promised"].as_str().unwrap().contains("a program there"));
}

#[test]
fn what_is_not_known_keeps_no_pod_from_a_node() {
    let extender = extender();
    let mut bare = node("bare", 0, &[]);
    bare["metadata"]["annotations"] = Value::Null;
    let mut broken = node("broken", 0, &[]);
    broken["metadata"]["annotations"]["corun.dev/programs"] = json!("{\"at\": soon");
    let mut other = node("other", 0, &[]);
    other["metadata"]["annotations"]["corun.dev/machine"] = json!("cray-1");
    let nodes = vec![
        node("calm", 10, &[]),
        node("silent", 3_600, &[("stream", 4, None)]),
        node("ahead", -3_600, &[("stream", 4, None)]),
        bare,
        broken,
        other,
        node("full", 5, &[("quiet", 4, None)]),
    ];
    let known = json!({"corun.dev/profile": "needy", "corun.dev/slowdown-bound": "1.5"});
    let body = request(pod(known, json!("1")), nodes.clone());
    let answer = extender.filter(&body, NOW).unwrap();
    let result: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(result["Nodes"]["items"].as_array().unwrap().len(), nodes.len());
    let named = ["silent", "ahead", "bare", "broken", "other", "full"];
    assert_eq!(answer.assumed.len(), named.len(), "{:?}", answer.assumed);
    for (name, assumed) in named.iter().zip(&answer.assumed) {
        assert!(assumed.starts_with(&format!("node {name}")), "{assumed}");
    }
    // A second later the same is unknown, and said in the same words: a log can say it once.
    assert_eq!(extender.filter(&body, NOW + 1).unwrap().assumed, answer.assumed);
    let found = scores(&extender.prioritize(&body, NOW).unwrap().body);
    assert_eq!(found.iter().map(|one| one.1).collect::<Vec<_>>(), [10, 5, 5, 5, 5, 5, 5]);

    // What was written, and not how corun holds it.
    let owing = request(pod(json!({"corun.dev/profile": "quiet"}), json!("-3")), nodes.clone());
    let assumed = extender.filter(&owing, NOW).unwrap().assumed;
    let said = |one: &String| one.contains(": \"-3\" is no number of CPUs: left out");
    assert!(assumed.iter().any(said), "{assumed:?}");
    for (notes, word) in [
        (json!(null), "has no corun.dev/profile"),
        (json!({"corun.dev/profile": "unheard-of"}), "no profile \"unheard-of\""),
        (
            json!({"corun.dev/profile": "quiet", "corun.dev/slowdown-bound": "fast"}),
            "no number above 1",
        ),
    ] {
        let body = request(pod(notes, json!("1")), nodes.clone());
        let answer = extender.filter(&body, NOW).unwrap();
        assert!(answer.assumed.iter().any(|one| one.contains(word)), "{:?}", answer.assumed);
        let result: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(result["Nodes"]["items"].as_array().unwrap().len(), nodes.len());
    }
}

/// A node whose only pod is told of with one figure of its own.
fn with_figure(name: &str, figure: &str, value: Value) -> Value {
    let mut program = json!({"pod": "d/a", "profile": "quiet", "cpus": 1});
    program[figure] = value;
    let mut node = node(name, 0, &[]);
    node["metadata"]["annotations"]["corun.dev/programs"] =
        json!(json!({"at": NOW, "programs": [program]}).to_string());
    node
}

#[test]
fn a_report_with_figures_that_cannot_be_keeps_no_pod_from_its_node() {
    let nodes = vec![
        with_figure("below-nothing", "bound", json!(-1.0)),
        with_figure("no-time", "bound", json!(1.0)),
        with_figure("unheard", "profile", json!("unheard-of")),
        with_figure("fewer-than-none", "cpus", json!(-3)),
        with_figure("a-word", "cpus", json!("4")),
        with_figure("busy", "used_cpus", json!("busy")),
        with_figure("idle", "used_cpus", json!(-5.0)),
        with_figure("beyond-all", "used_cpus", json!(1e300)),
    ];
    let body = request(pod(json!({"corun.dev/profile": "stream"}), json!("1")), nodes.clone());
    let answer = extender().filter(&body, NOW).unwrap();
    let result: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(result["Nodes"]["items"].as_array().unwrap().len(), nodes.len(), "{result}");
    let said = answer.assumed;
    let expected = [
        "node below-nothing: pod d/a: its bound is -1, no number above 1: no bound",
        "node no-time: pod d/a: its bound is 1, no number above 1: no bound",
        "node unheard: pod d/a: no profile \"unheard-of\": it counts as quiet",
        "node fewer-than-none: corun.dev/programs cannot be read",
        "node a-word: corun.dev/programs cannot be read",
        "node busy: corun.dev/programs cannot be read",
        "node beyond-all: too few CPUs are free by its report",
    ];
    assert_eq!(said.len(), expected.len(), "{said:?}");
    for (line, said) in expected.into_iter().zip(&said) {
        assert!(said.starts_with(line), "{line}: {said}");
    }
}

/// While the API server is away no report comes. A minute more changes nothing; after five nothing is believed.
#[test]
fn reports_are_believed_while_the_api_server_is_away_for_a_minute() {
    let extender = extender();
    let nodes = vec![node("calm", 0, &[]), node("busy", 0, &[("stream", 3, None)])];
    let body = request(pod(json!({"corun.dev/profile": "needy"}), json!("1")), nodes);
    let first = extender.prioritize(&body, NOW).unwrap();
    assert_eq!(scores(&first.body)[0], ("calm".to_owned(), 10));
    // An agent writes at least every 120 s, and may wait 60 s more once the API server is back.
    for later in [60, 120 + 60 + 60, 300] {
        assert_eq!(extender.prioritize(&body, NOW + later).unwrap(), first, "{later}");
    }
    let last = extender.prioritize(&body, NOW + 301).unwrap();
    assert_eq!(scores(&last.body).iter().map(|one| one.1).collect::<Vec<_>>(), [5, 5]);
    assert_eq!(last.assumed.len(), 2, "{:?}", last.assumed);
}

/// What is remembered of nodes and pods is what an extender says that remembers nothing.
#[test]
fn what_was_asked_before_changes_no_answer() {
    let remembers = extender();
    for round in 0..40usize {
        let profile = ["needy", "stream", "quiet"][round % 3];
        let cpus = 1 + round as u32 % 2;
        let nodes = vec![
            node("a", round as i64 % 4, &[("stream", 1 + (round / 7 % 2) as u32, None)]),
            node("b", 0, &[(["needy", "quiet"][round / 5 % 2], 2, Some(1.3))]),
        ];
        let body = request(pod(json!({"corun.dev/profile": profile}), json!(cpus)), nodes);
        let fresh = extender();
        for ask in [Extender::filter, Extender::prioritize] {
            let (one, other) = (ask(&remembers, &body, NOW), ask(&fresh, &body, NOW));
            assert_eq!(one.unwrap(), other.unwrap(), "{round}");
        }
    }
}

#[test]
fn names_alone_are_all_kept() {
    let pod = pod(json!({"corun.dev/profile": "needy"}), json!(2));
    let body = json!({"Pod": pod, "Nodes": null, "NodeNames": ["n1", "n2"]}).to_string();
    let extender = extender();
    let result = extender.filter(body.as_bytes(), NOW).unwrap().body;
    let result: Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["NodeNames"], json!(["n1", "n2"]));
    let found = scores(&extender.prioritize(body.as_bytes(), NOW).unwrap().body);
    assert_eq!(found, [("n1".to_owned(), 5), ("n2".to_owned(), 5)]);
}

#[test]
fn what_is_no_request_is_refused() {
    for body in ["", "[]", "{}", "{\"Pod\": 3}", "{\"Pod\": {}, \"Nodes\": {\"items\": [1]}}"] {
        assert!(extender().prioritize(body.as_bytes(), NOW).is_err(), "{body}");
    }
}

#[test]
fn an_agent_says_what_runs_and_the_extender_reads_it() {
    let notes = |profile: &str| json!({"corun.dev/profile": profile});
    let mut ended = pod(notes("stream"), json!("4"));
    ended["status"]["phase"] = json!("Succeeded");
    let mut labelled = pod(json!({}), json!("250m"));
    labelled["metadata"]["labels"]["corun.dev/profile"] = json!("stream");
    let pods = json!({"kind": "PodList", "items": [
        pod(notes("needy"), json!("1500m")), ended, labelled, pod(json!(null), json!("1"))
    ]});
    let mut assumed = Vec::new();
    let pods = running_pods(pods.to_string().as_bytes(), &mut assumed).unwrap();
    assert_eq!(assumed.len(), 1, "{assumed:?}");
    let patch = AgentReport::new("i7-2600", &pods, &BTreeMap::new(), NOW).patch(None);
    let patch: Value = serde_json::from_str(&patch).unwrap();
    let notes = &patch["metadata"]["annotations"];
    assert_eq!(notes["corun.dev/machine"], "i7-2600");
    let report: Value =
        serde_json::from_str(notes["corun.dev/programs"].as_str().unwrap()).unwrap();
    assert_eq!(report["at"], NOW);
    let programs: Vec<(&str, i64)> = report["programs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["profile"].as_str().unwrap(), one["cpus"].as_i64().unwrap()))
        .collect();
    assert_eq!(programs, [("needy", 2), ("stream", 1)]);
    let mut published = node("n0", 0, &[]);
    published["metadata"]["annotations"] = notes.clone();
    let asks = request(pod(json!({"corun.dev/profile": "needy"}), json!("1")), vec![published]);
    assert_eq!(extender().prioritize(&asks, NOW).unwrap().assumed, Vec::<String>::new());
}

/// Four streams that ask for one CPU each, of which one is busy: by the measured load the node is calmer than a node where
/// two run that were not measured.
#[test]
fn measured_load_counts_in_the_place_of_what_was_asked_for() {
    let idle_streams = json!({"items": [{
        "metadata": {"name": "s", "namespace": "d", "uid": "u1", "labels": {"corun.dev/profile": "stream"}},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "3"}}}]},
    }]});
    let pods = running_pods(idle_streams.to_string().as_bytes(), &mut Vec::new()).unwrap();
    let usage = PodUsage { cpus: Some(0.9), llc_mib: Some(4.0), mb_per_s: None };
    let usage = BTreeMap::from([("u1".to_owned(), usage)]);
    let mut published = [node("asked", 0, &[]), node("measured", 0, &[]), node("two", 0, &[])];
    for (node, usage) in published.iter_mut().zip([&BTreeMap::new(), &usage]) {
        let patch = AgentReport::new("i7-2600", &pods, usage, NOW).patch(None);
        let patch: Value = serde_json::from_str(&patch).unwrap();
        node["metadata"]["annotations"] = patch["metadata"]["annotations"].clone();
    }
    published[2] = node("two", 0, &[("stream", 2, None)]);
    let asks = request(pod(json!({"corun.dev/profile": "needy"}), json!("1")), published.to_vec());
    let found = scores(&extender().prioritize(&asks, NOW).unwrap().body);
    let score = |at: usize| found[at].1;
    assert_eq!(score(1), 10, "{found:?}");
    assert!(score(0) < score(2) && score(2) < score(1), "{found:?}");
}

/// What kube-scheduler asked for a pod and three nodes, kept by `crates/corun/tests/cli/kubernetes.rs`: streams are on n01.
#[test]
fn requests_of_the_real_scheduler_are_answered() {
    let recorded = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/requests");
        std::fs::read(folder.join(name)).unwrap()
    };
    let (filter, prioritize) = (recorded("filter.json"), recorded("prioritize.json"));
    let asked: Value = serde_json::from_slice(&filter).unwrap();
    let nodes = asked["Nodes"]["items"].as_array().unwrap();
    let reported_at = |node: &Value| {
        let report = node["metadata"]["annotations"]["corun.dev/programs"].as_str().unwrap();
        serde_json::from_str::<Value>(report).unwrap()["at"].as_u64().unwrap()
    };
    let now_s = reported_at(&nodes[0]) + 60;
    let answer = extender().filter(&filter, now_s).unwrap();
    assert_eq!(answer.assumed, Vec::<String>::new());
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(&answer["Nodes"]["items"], &asked["Nodes"]["items"]);
    assert_eq!(answer["FailedNodes"], json!({}));
    let answer = extender().prioritize(&prioritize, now_s).unwrap();
    assert_eq!(answer.assumed, Vec::<String>::new());
    let mut found = scores(&answer.body);
    found.sort();
    let names: Vec<&str> = found.iter().map(|one| one.0.as_str()).collect();
    assert_eq!(names, ["n01", "n11", "n12"]);
    assert!(found[0].1 < 5 && found[1].1.max(found[2].1) == 10, "{found:?}");
    // An hour later the agents are silent.
    let late = extender().prioritize(&prioritize, now_s + 3_600).unwrap();
    assert!(scores(&late.body).iter().all(|one| one.1 == 5) && late.assumed.len() == 3);
}

/// A pod of a deployment of streams.
fn one_of(replica: usize) -> Value {
    let mut pod = pod(json!({"corun.dev/profile": "stream"}), json!("1"));
    pod["metadata"]["name"] = json!(format!("web-7d4b9c6f8-{replica}"));
    pod["metadata"]["uid"] = json!(format!("uid-{replica}"));
    pod
}

/// The node that the scheduler takes by these scores: of equal ones that with the fewest pods, as Kubernetes' own scores
/// of resources would have it, and of these the first.
fn taken(scores: &[(String, i64)], pods: &BTreeMap<String, usize>) -> String {
    let best = scores.iter().map(|one| one.1).max().unwrap();
    let best = scores.iter().filter(|one| one.1 == best).map(|one| &one.0);
    best.min_by_key(|&name| (pods[name], name)).unwrap().clone()
}

/// Binds a burst of pods of one CPU, of which no report tells, and returns how many of these pods are then on each node.
/// So many are there before, by the reports.
fn burst(extender: &Extender, there: &[(&str, usize)], pods: usize) -> BTreeMap<String, usize> {
    let programs = |count: usize| vec![("stream", 1, None); count];
    let nodes: Vec<Value> =
        there.iter().map(|&(name, count)| node(name, 5, &programs(count))).collect();
    let mut bound: BTreeMap<String, usize> =
        there.iter().map(|&(name, count)| (name.to_owned(), count)).collect();
    for replica in 0..pods {
        let body = request(one_of(replica), nodes.clone());
        let kept = extender.filter(&body, NOW).unwrap();
        let kept: Value = serde_json::from_str(&kept.body).unwrap();
        assert_eq!(kept["Nodes"]["items"].as_array().unwrap().len(), nodes.len());
        let answer = extender.prioritize(&body, NOW + replica as u64 / 10).unwrap();
        assert_eq!(answer.assumed, Vec::<String>::new());
        *bound.get_mut(&taken(&scores(&answer.body), &bound)).unwrap() += 1;
    }
    bound
}

/// Streams want to be apart: each node ends with as many, whatever its report says. An extender without memory would send
/// all of them to the idle nodes.
#[test]
fn a_burst_of_equal_pods_does_not_go_to_one_node() {
    for (there, pods) in [
        (&[("idle", 0), ("busy", 1)][..], 3),
        (&[("a", 0), ("b", 0), ("c", 2)], 4),
        (&[("a", 0), ("b", 0), ("c", 0)], 6),
    ] {
        let found = burst(&extender(), there, pods);
        assert!(found.values().all(|&count| count == 2), "{there:?}: {found:?}");
    }
}

fn ask(extender: &Extender, replica: usize, nodes: &[Value], now_s: u64) -> Vec<(String, i64)> {
    scores(&extender.prioritize(&request(one_of(replica), nodes.to_vec()), now_s).unwrap().body)
}

/// Each with an extender of its own: neither hears of the other's pod before a report names it, and then both say the same.
#[test]
fn two_schedulers_agree_once_a_report_names_the_pods_of_both() {
    let (one, other) = (extender(), extender());
    let mut nodes = [node("first", 5, &[]), node("second", 5, &[("stream", 1, None)])];
    assert_eq!(ask(&one, 0, &nodes, NOW), ask(&other, 1, &nodes, NOW));
    // Both went to the first node.
    let pod = |replica| json!({"pod": format!("default/web-7d4b9c6f8-{replica}"), "profile": "stream", "cpus": 1});
    let report = json!({"at": NOW + 10, "programs": [pod(0), pod(1)]}).to_string();
    nodes[0]["metadata"]["annotations"]["corun.dev/programs"] = json!(report);
    let scores = ask(&one, 2, &nodes, NOW + 11);
    assert_eq!(ask(&other, 2, &nodes, NOW + 11), scores);
    assert!(scores[0].1 < 10 && scores[1].1 == 10, "{scores:?}");
}

/// Once a report names the pod, on whatever node, or after half a minute, it is not expected any more.
#[test]
fn a_pod_is_expected_until_it_is_reported_and_for_half_a_minute() {
    let extender = extender();
    let nodes = [node("idle", 5, &[]), node("busy", 5, &[("stream", 1, None)])];
    let plain = ask(&extender, 0, &nodes, NOW);
    assert!(plain[0].1 == 10 && plain[1].1 < 10, "{plain:?}");
    // The same pod again does not stand in its own way; another one does.
    assert_eq!(ask(&extender, 0, &nodes, NOW), plain);
    assert_ne!(ask(&extender, 1, &nodes, NOW), plain);
    assert_eq!(ask(&extender, 1, &nodes, NOW + 31), plain);
    // Reported: by the report it runs on the busy node.
    let mut reported = nodes.clone();
    let programs = json!([
        {"pod": "default/stream-0", "profile": "stream", "cpus": 1},
        {"pod": "default/web-7d4b9c6f8-1", "profile": "stream", "cpus": 1},
    ]);
    let report = json!({"at": NOW + 31, "programs": programs}).to_string();
    reported[1]["metadata"]["annotations"]["corun.dev/programs"] = json!(report);
    let known = ask(&extender, 2, &reported, NOW + 32);
    assert_eq!(known, ask(&self::extender(), 2, &reported, NOW + 32));
}

/// More pods than there is room for by the extender's count: the scheduler, which asks, knows that there is room.
#[test]
fn expected_pods_keep_no_pod_from_a_node() {
    let found = burst(&extender(), &[("small", 2), ("busy", 3)], 12);
    assert_eq!(found.values().sum::<usize>(), 2 + 3 + 12);
}
