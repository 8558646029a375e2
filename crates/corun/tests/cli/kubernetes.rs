//! Kubernetes' real scheduler with the extender, over 20 simulated nodes, and the shipped manifests at the real API server.
//! `scripts/build-control-plane.sh` builds what this takes; `CORUN_CONTROL_PLANE` says where that is, and without it the test
//! is skipped. It takes some 80 s on two busy cores. What the scheduler asks is kept in
//! `crates/corun-fleet/tests/fleet/requests` (`CORUN_UPDATE=1`), where the extender's own tests read it on every host.

mod learned;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::control_plane::{ControlPlane, Recorder, free_port, until};
use crate::fixture::Fixture;

const MACHINE: &str = "2x-gold-6138-4c";
/// Nodes of 8 CPUs: on the first half streams have 4, on the others something quiet has 5.
const NODES: usize = 20;
const CPUS: u64 = 8;
const OWN: &str = "corun-scheduler";
const OTHER: &str = "default-scheduler";
const AGENT: &str = "system:serviceaccount:corun:corun-agent";
/// Pods of the two schedulers that come at once.
const BURST: usize = 12;

fn packaging(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes");
    folder.join(name).display().to_string()
}

fn corun() -> PathBuf {
    assert_cmd::cargo::cargo_bin!("corun").to_owned()
}

fn name_of(node: usize) -> String {
    format!("n{node:02}")
}

fn is_calm(node: usize) -> bool {
    node > NODES / 2
}

fn now_s() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs()
}

/// A node with what its agent would have published; the first, the eleventh and the twelfth are in one rack.
fn node(number: usize) -> Value {
    let (profile, cpus) = if is_calm(number) { ("quiet", 5) } else { ("stream", 4) };
    let resident =
        json!({"pod": format!("default/{profile}-{number}"), "profile": profile, "cpus": cpus});
    let report = json!({"at": now_s(), "programs": [resident]}).to_string();
    let size = json!({"cpu": CPUS.to_string(), "memory": "32Gi", "pods": "110"});
    let rack = if [1, 11, 12].contains(&number) { "first" } else { "other" };
    let has = if is_calm(number) { "quiet" } else { "streams" };
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name_of(number),
            "labels": {"kubernetes.io/hostname": name_of(number), "rack": rack, "has": has},
            "annotations": {"corun.dev/machine": MACHINE, "corun.dev/programs": report},
        },
        "status": {"capacity": size.clone(), "allocatable": size},
    })
}

fn pod(name: &str, scheduler: &str, cpus: u64, notes: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": notes},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{
                "name": "main",
                "image": "none",
                "resources": {"requests": {"cpu": cpus.to_string(), "memory": "64Mi"}},
            }],
        },
    })
}

fn needy(name: &str) -> Value {
    pod(name, OWN, 2, json!({"corun.dev/profile": "needy"}))
}

/// The same pod, for nodes with a label.
fn among(mut pod: Value, key: &str, value: &str) -> Value {
    pod["spec"]["nodeSelector"] = json!({key: value});
    pod
}

/// A resident: a pod that is on its node from the start.
fn resident(number: usize) -> Value {
    let (profile, cpus) = if is_calm(number) { ("quiet", 5) } else { ("stream", 4) };
    let notes = json!({"corun.dev/profile": profile});
    let mut pod = pod(&format!("{profile}-{number}"), OTHER, cpus, notes);
    pod["spec"]["nodeName"] = json!(name_of(number));
    pod
}

/// The cluster with the shipped manifests, corun's extender and both schedulers.
struct Cluster {
    control: ControlPlane,
    recorder: Recorder,
    extender: Child,
    port: u16,
    fixture: Fixture,
}

impl Cluster {
    fn start() -> Result<Self, String> {
        let fixture = Fixture::new();
        let mut control = ControlPlane::start(fixture.path("cluster"))?;
        let all: Vec<Value> = (1..=NODES).map(node).collect();
        control.create(&all);
        until("simulated nodes", || {
            let nodes = control.json(&["get", "nodes"]);
            // Until then nothing may be scheduled there.
            let tainted = |one: &Value| one["spec"]["taints"].is_array();
            (!nodes["items"].as_array()?.iter().any(tainted)).then_some(())
        });
        until("the namespace's account", || {
            let found = control.asked("admin", &["get", "serviceaccount", "default"]);
            found.status.success().then_some(())
        });
        control.create(&(1..=NODES).map(resident).collect::<Vec<_>>());
        control.kubectl(&["apply", "-k", &packaging("base")]);
        let port = free_port();
        let extender = extender(&fixture, port);
        let recorder = Recorder::before(format!("127.0.0.1:{port}"));
        let path = ["get", "configmap", "corun-scheduler", "-n", "corun"];
        let shipped = control.json(&path)["data"]["scheduler.yaml"].as_str().unwrap().to_owned();
        assert!(shipped.contains("127.0.0.1:8888"), "{shipped}");
        let configuration = shipped.replace("127.0.0.1:8888", &recorder.address);
        control.begin_scheduler("corun", &configuration);
        let plain = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                     leaderElection:\n  leaderElect: false";
        control.begin_scheduler("default", plain);
        Ok(Self { control, recorder, extender, port, fixture })
    }

    /// Ends the extender and starts another one.
    fn extender_again(&mut self) -> String {
        let said = ended(&mut self.extender);
        self.extender = extender(&self.fixture, self.port);
        said
    }

    /// The node that a pod was given.
    fn node_of(&self, pod: &str) -> usize {
        until(&format!("pod {pod}"), || {
            let pod = self.control.json(&["get", "pod", pod]);
            Some(pod["spec"]["nodeName"].as_str()?[1..].parse().unwrap())
        })
    }

    /// Makes a pod, waits for its node and takes it away again.
    fn node_once(&self, pod: Value) -> usize {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        self.control.create(&[pod]);
        let node = self.node_of(&name);
        self.delete(&name);
        node
    }

    /// Takes a pod away without waiting for its end.
    fn delete(&self, pod: &str) {
        let at_once = ["--grace-period=0", "--force", "--wait=false"];
        self.control.kubectl(&[&["delete", "pod", pod][..], &at_once].concat());
    }

    /// The extender's scores for a pod, by the number of the node.
    fn scores(&self, pod: &str) -> Vec<(usize, i64)> {
        let exchange = self.recorder.last("/prioritize", pod).expect("the scheduler asks");
        let answer: Value = serde_json::from_str(&exchange.answer).unwrap();
        let one = |one: &Value| {
            let host = one["Host"].as_str().unwrap();
            (host[1..].parse().unwrap(), one["Score"].as_i64().unwrap())
        };
        answer.as_array().unwrap().iter().map(one).collect()
    }

    /// Writes how the agent whose pod is on this node reaches the API server, as a file of the node's name.
    fn token_of_agent_on(&self, node: &str) {
        let bound = ["--bound-object-kind=Node", &format!("--bound-object-name={node}")];
        let create = ["create", "token", "corun-agent", "-n", "corun"];
        let token = self.control.kubectl(&[&create[..], &bound[..]].concat());
        self.control.write_kubeconfig(node, token.trim());
    }

    /// What an agent's account is answered.
    fn as_agent(&self, who: &str, words: &[&str]) -> (bool, String) {
        let output = self.control.asked(who, words);
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.extender.kill();
        let _ = self.extender.wait();
    }
}

fn extender(fixture: &Fixture, port: u16) -> Child {
    let mut command = Command::new(corun());
    command.args(["fleet", "serve-extender", "--machine", MACHINE, "--profiles"]);
    command.arg(fixture.path("solo.csv")).arg("--listen").arg(format!("127.0.0.1:{port}"));
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    until("the extender", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    child
}

/// Ends a command of corun's, and gives what it said.
fn ended(child: &mut Child) -> String {
    kill_process(Pid::from_child(child), Signal::TERM).unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    said
}

#[test]
fn a_cluster_schedules_by_predictions_and_goes_on_without_corun() {
    let mut cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(why) => {
            println!("skipped: no control plane of Kubernetes: {why}");
            return;
        }
    };
    requests_are_kept(&cluster);
    pods_go_where_the_scores_say(&cluster);
    a_burst_does_not_go_to_one_node(&mut cluster);
    learned::a_pod_that_nobody_recorded_goes_where_it_suits(&mut cluster);
    what_is_not_known_keeps_nobody_from_running(&mut cluster);
    an_extender_that_is_away_keeps_nobody_waiting(&mut cluster);
    two_schedulers_share_the_nodes(&cluster);
    agents_may_do_what_they_must_and_no_more(&cluster);
    agents_that_hold_come_and_go(&cluster);
    an_api_server_that_is_away_is_waited_for(&mut cluster);
    what_was_applied_goes_without_a_trace(&cluster);
    assert_eq!(cluster.control.stopped(), Vec::<String>::new());
}

/// Kubernetes' own scheduler takes the emptier nodes, where streams run; corun's those where least is lost.
fn pods_go_where_the_scores_say(cluster: &Cluster) {
    let notes = json!({"corun.dev/profile": "needy"});
    assert!(!is_calm(cluster.node_once(pod("plain", OTHER, 2, notes))));
    let names: Vec<String> = (1..=6).map(|at| format!("needy-{at}")).collect();
    cluster.control.create(&names.iter().map(|name| needy(name)).collect::<Vec<_>>());
    for name in &names {
        let (node, scores) = (cluster.node_of(name), cluster.scores(name));
        // A node without room is not asked about.
        assert!(scores.len() > NODES - names.len(), "{scores:?}");
        assert!(is_calm(node) && scores.contains(&(node, 10)), "{name} is on {node}: {scores:?}");
        assert!(scores.iter().all(|(node, score)| is_calm(*node) || *score < 5), "{scores:?}");
    }
    names.iter().for_each(|name| cluster.delete(name));
    // A stream harms nobody where streams are already; beside the needy it would.
    let stream = pod("one-more", OWN, 2, json!({"corun.dev/profile": "stream"}));
    let node = cluster.node_once(stream);
    assert!(cluster.scores("one-more").contains(&(node, 10)));
}

/// Three needy pods at once, with room for all on each of two nodes. By the reports the first node is the better one for each of
/// them; but no report tells of the pod that went there first.
fn a_burst_does_not_go_to_one_node(cluster: &mut Cluster) {
    // A new extender expects none of the pods before.
    cluster.extender_again();
    for (number, others) in [(15, 0), (16, 1)] {
        let quiet =
            json!({"pod": format!("default/quiet-{number}"), "profile": "quiet", "cpus": 5});
        let other = json!({"pod": "default/elsewhere", "profile": "needy", "cpus": 1});
        let programs: Vec<Value> = [vec![quiet], vec![other; others]].concat();
        let report = json!({"at": now_s(), "programs": programs});
        let (node, note) = (name_of(number), format!("corun.dev/programs={report}"));
        cluster.control.kubectl(&["annotate", "--overwrite", "node", &node, &note]);
        cluster.control.kubectl(&["label", "node", &node, "burst=yes"]);
    }
    let names = ["at-once-1", "at-once-2", "at-once-3"];
    let notes = || json!({"corun.dev/profile": "needy"});
    let pods = names.map(|name| among(pod(name, OWN, 1, notes()), "burst", "yes"));
    cluster.control.create(&pods);
    let taken = names.map(|name| (cluster.node_of(name), cluster.scores(name)));
    let best = |scores: &[(usize, i64)], node| scores.contains(&(node, 10));
    // Who was asked about first goes to the better node, and another one to that which is as good by then.
    assert!(taken.iter().any(|(node, scores)| *node == 15 && !best(scores, 16)), "{taken:?}");
    assert!(taken.iter().any(|(node, scores)| *node == 16 && best(scores, 16)), "{taken:?}");
    names.iter().for_each(|name| cluster.delete(name));
}

/// The requests of three nodes, as fixtures for the extender's own tests.
fn requests_are_kept(cluster: &Cluster) {
    let notes = json!({"corun.dev/profile": "needy", "corun.dev/slowdown-bound": "5"});
    let node = cluster.node_once(among(pod("recorded", OWN, 2, notes), "rack", "first"));
    assert!(is_calm(node));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corun-fleet/tests/fleet/requests");
    for path in ["/filter", "/prioritize"] {
        let exchange = cluster.recorder.last(path, "recorded").unwrap();
        let file = folder.join(format!("{}.json", &path[1..]));
        let request: Value = serde_json::from_str(&exchange.request).unwrap();
        if std::env::var_os("CORUN_UPDATE").is_some() {
            std::fs::write(&file, exchange.request + "\n").unwrap();
        }
        // Another version of Kubernetes may ask otherwise: the fixtures are then recorded anew.
        let kept: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let fields = |one: &Value| one.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(fields(&kept), fields(&request), "{path}");
        let about = |one: &Value| fields(&one["Nodes"]["items"][0]);
        assert_eq!(about(&kept), about(&request), "{path}");
    }
}

fn what_is_not_known_keeps_nobody_from_running(cluster: &mut Cluster) {
    cluster.node_once(pod("no-profile", OWN, 1, json!({})));
    cluster.node_once(pod("unheard", OWN, 1, json!({"corun.dev/profile": "unheard-of"})));
    let notes = json!({"corun.dev/profile": "needy", "corun.dev/slowdown-bound": "fast"});
    cluster.node_once(pod("no-number", OWN, 1, notes));
    // A node's report is an hour old, that of another node no report, and a third has none.
    let report = |at: u64| format!("corun.dev/programs={}", json!({"at": at, "programs": []}));
    let annotate = |node: &str, note: &str| {
        cluster.control.kubectl(&["annotate", "--overwrite", "node", node, note]);
    };
    annotate("n11", &report(now_s() - 3600));
    annotate("n12", &report(now_s() + 3600));
    annotate("n13", "corun.dev/programs=soon");
    annotate("n14", "corun.dev/programs-");
    let node = cluster.node_once(needy("some-silent"));
    let scores = cluster.scores("some-silent");
    for silent in 11..=14 {
        assert!(scores.contains(&(silent, 5)), "{scores:?}");
    }
    assert!(node > 14 && scores.contains(&(node, 10)), "{node}: {scores:?}");
    let only = among(needy("only-silent"), "kubernetes.io/hostname", "n11");
    assert_eq!(cluster.node_once(only), 11);
    // A bound that no node of those allowed keeps does keep the pod, and the pod says why.
    let notes = json!({"corun.dev/profile": "needy", "corun.dev/slowdown-bound": "1.01"});
    cluster.control.create(&[among(pod("bounded", OWN, 2, notes), "has", "streams")]);
    until("the reason", || {
        let conditions =
            cluster.control.json(&["get", "pod", "bounded"])["status"]["conditions"].clone();
        let said = conditions.to_string();
        said.contains("corun: it would be").then_some(())
    });
    cluster.control.kubectl(&["delete", "pod", "bounded", "--wait=false"]);
    let said = cluster.extender_again();
    for line in [
        "pod default/no-profile has no corun.dev/profile: every node suits it alike",
        "pod default/unheard: no profile \"unheard-of\": every node suits it alike",
        "pod default/no-number: corun.dev/slowdown-bound is \"fast\", no number above 1: no bound",
        "node n11: its report is more than 300 s old",
        "node n12: its report is more than 300 s ahead of this clock",
        "node n13: corun.dev/programs cannot be read",
        "node n14 has no corun.dev/programs",
    ] {
        assert_eq!(said.matches(line).count(), 1, "no or more than one `{line}` in {said}");
    }
}

fn an_extender_that_is_away_keeps_nobody_waiting(cluster: &mut Cluster) {
    // It does not answer: the scheduler waits for two seconds.
    let pid = Pid::from_child(&cluster.extender);
    kill_process(pid, Signal::STOP).unwrap();
    let silent = cluster.node_once(needy("silent-extender"));
    kill_process(pid, Signal::CONT).unwrap();
    // It is not there.
    ended(&mut cluster.extender);
    let gone = cluster.node_once(needy("no-extender"));
    // Without it the emptier nodes are taken.
    assert!(!is_calm(silent) && !is_calm(gone), "{silent} {gone}");
    cluster.extender = extender(&cluster.fixture, cluster.port);
    assert!(is_calm(cluster.node_once(needy("extender-again"))));
}

/// Both are given pods at once. A node's room is the API server's to give: nobody gets more than there is.
fn two_schedulers_share_the_nodes(cluster: &Cluster) {
    let names: Vec<String> = (0..2 * BURST).map(|at| format!("burst-{at}")).collect();
    let scheduler = |at: usize| if at.is_multiple_of(2) { OWN } else { OTHER };
    let notes = || json!({"corun.dev/profile": "needy"});
    let pods = names.iter().enumerate().map(|(at, name)| pod(name, scheduler(at), 1, notes()));
    cluster.control.create(&pods.collect::<Vec<_>>());
    let mut own = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let node = cluster.node_of(name);
        if at.is_multiple_of(2) {
            own.push((name, node));
        }
    }
    for (name, node) in own {
        let scores = cluster.scores(name);
        let best = scores.iter().map(|one| one.1).max().unwrap();
        assert!(scores.contains(&(node, best)), "{name} is on {node}: {scores:?}");
    }
    let mut taken = vec![0; NODES + 1];
    for pod in cluster.control.json(&["get", "pods"])["items"].as_array().unwrap() {
        let asks = &pod["spec"]["containers"][0]["resources"]["requests"]["cpu"];
        let node: usize = pod["spec"]["nodeName"].as_str().unwrap()[1..].parse().unwrap();
        taken[node] += asks.as_str().unwrap().parse::<u64>().unwrap();
    }
    assert!(taken.iter().all(|cpus| *cpus <= CPUS), "{taken:?}");
    for name in &names {
        cluster.control.kubectl(&["delete", "pod", name, "--wait=false"]);
    }
}

/// Rights of the agent's account, with a token as a pod on the node n01 has it.
fn agents_may_do_what_they_must_and_no_more(cluster: &Cluster) {
    let control = &cluster.control;
    for name in ["n01", "n02"] {
        cluster.token_of_agent_on(name);
    }
    let agent = |node: &str, who: &str| {
        let mut command = control.command(who, &corun());
        command.args(["fleet", "agent", "--once", "--machine", MACHINE, "--node", node]);
        let output = command.arg("--root").arg(&control.folder).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = agent("n01", "n01");
    assert_eq!(code, Some(0), "{said}");
    let notes = control.json(&["get", "node", "n01"])["metadata"]["annotations"].clone();
    let report: Value =
        serde_json::from_str(notes["corun.dev/programs"].as_str().unwrap()).unwrap();
    assert!(now_s().abs_diff(report["at"].as_u64().unwrap()) < 60, "{report}");
    assert!(report["programs"].to_string().contains("default/stream-1"), "{report}");
    // Another node than that of its pod.
    let (code, said) = agent("n01", "n02");
    assert!(code == Some(1) && said.contains("changes its own node alone"), "{said}");
    let refused = |words: &[&str], why: &str| {
        let (done, said) = cluster.as_agent("n01", words);
        assert!(!done && said.contains(why), "{words:?}: {said}");
    };
    let patch = |json: &str| {
        let words = ["patch", "node", "n01", "--type=merge", "-p", json];
        refused(&words, "annotations that begin with corun.dev/ alone");
    };
    patch(r#"{"spec": {"unschedulable": true}}"#);
    patch(r#"{"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}"#);
    patch(r#"{"metadata": {"labels": {"has": "gold"}}}"#);
    patch(r#"{"metadata": {"annotations": {"other/note": "x"}}}"#);
    control.kubectl(&["annotate", "node", "n01", "other/kept=yes"]);
    patch(r#"{"metadata": {"annotations": {"other/kept": null}}}"#);
    patch(r#"{"metadata": {"finalizers": ["corun.dev/never"]}}"#);
    for words in [
        &["get", "secrets", "-A"][..],
        &["get", "configmaps", "-A"],
        &["get", "nodes"],
        &["delete", "pod", "stream-1"],
        &["delete", "node", "n01"],
        &["create", "token", "corun-scheduler", "-n", "corun"],
        &["patch", "node", "n01", "--subresource=status", "--type=merge", "-p", "{\"status\": {}}"],
    ] {
        refused(words, "forbidden");
    }
    // The scheduler's account may what Kubernetes' own scheduler may.
    let may = |verb: &str, what: &str, who: &str| {
        let account = format!("--as={who}");
        control.asked("admin", &["auth", "can-i", verb, what, &account]).status.success()
    };
    let scheduler = "system:serviceaccount:corun:corun-scheduler";
    assert!(may("create", "bindings", scheduler) && !may("patch", "nodes", scheduler));
    assert!(!may("get", "secrets", scheduler) && !may("create", "bindings", AGENT));
}

/// The manifests of agents that hold threads, over those of agents that do not, and back.
fn agents_that_hold_come_and_go(cluster: &Cluster) {
    let control = &cluster.control;
    let agent = || control.json(&["get", "daemonset", "corun-agent", "-n", "corun"]);
    let container = |agent: &Value| agent["spec"]["template"]["spec"]["containers"][0].clone();
    let before = agent();
    assert!(before["spec"]["template"]["spec"]["hostPID"].is_null(), "{before}");
    control.kubectl(&["apply", "-k", &packaging("hold")]);
    let holds = agent();
    let security = container(&holds)["securityContext"].clone();
    assert_eq!(security["privileged"], true, "{security}");
    // The kubelet starts no container that is to run as root and must not.
    assert_eq!((&security["runAsUser"], &security["runAsNonRoot"]), (&json!(0), &json!(false)));
    // A container that is privileged has all capabilities: the API server takes no other list beside that.
    assert!(security["capabilities"].is_null(), "{security}");
    until("an agent that holds on a node", || {
        let pods = control.json(&["get", "pods", "-n", "corun", "-l", "app=corun-agent"]);
        let there =
            |one: &Value| one["spec"]["hostPID"] == true && one["status"]["phase"] == "Running";
        pods["items"].as_array()?.iter().any(there).then_some(())
    });
    // The daemon takes the configuration that comes with them, and only logs.
    let volumes = holds["spec"]["template"]["spec"]["volumes"].as_array().unwrap().clone();
    let named = volumes.iter().find(|one| one["name"] == "config").unwrap();
    let map = named["configMap"]["name"].as_str().unwrap();
    let map = control.json(&["get", "configmap", map, "-n", "corun"]);
    let shipped = map["data"]["config.toml"].as_str().unwrap();
    assert!(shipped.contains("apply = false"), "{shipped}");
    // The agent adds a program for each pod.
    let with_pod = format!("{shipped}\n[[program]]\nname = \"default/a\"\ncgroup = \"*pod1*\"\n");
    cluster.fixture.write("hold.toml", &with_pod);
    let checked = cluster.fixture.run(&["check-config", "hold.toml"]).stdout();
    assert!(checked.contains("only logs what it would do"), "{checked}");
    control.kubectl(&["apply", "-k", &packaging("base")]);
    let after = agent();
    let spec = |one: &Value| one["spec"]["template"]["spec"].clone();
    assert_eq!(spec(&after), spec(&before));
}

/// An agent and a scheduler outlive a restart of the API server that takes some seconds, or as many as
/// `CORUN_API_SERVER_AWAY` says.
fn an_api_server_that_is_away_is_waited_for(cluster: &mut Cluster) {
    let mut command = cluster.control.command("n01", &corun());
    command.args(["fleet", "agent", "--machine", MACHINE, "--node", "n01", "--every", "1"]);
    command.arg("--root").arg(&cluster.control.folder).stderr(Stdio::piped());
    let mut agent = command.spawn().unwrap();
    cluster.control.end("kube-apiserver");
    let away_s = std::env::var("CORUN_API_SERVER_AWAY").map_or(5, |one| one.parse().unwrap());
    std::thread::sleep(Duration::from_secs(away_s));
    cluster.control.begin_api_server();
    // A pod that asks for other nodes than the one before makes the agent publish.
    let on_first = among(needy("after"), "kubernetes.io/hostname", "n01");
    cluster.control.create(&[on_first]);
    assert_eq!(cluster.node_of("after"), 1);
    until("the agent's report", || {
        let node = cluster.control.json(&["get", "node", "n01"]);
        let report = node["metadata"]["annotations"]["corun.dev/programs"].as_str()?.to_owned();
        report.contains("default/after").then_some(())
    });
    assert!(is_calm(cluster.node_once(needy("after-that"))));
    let said = ended(&mut agent);
    assert!(said.contains("kubectl get: "), "{said}");
    assert!(said.matches("kubectl get: ").count() <= 5, "{said}");
}

fn what_was_applied_goes_without_a_trace(cluster: &Cluster) {
    let control = &cluster.control;
    let running = |control: &ControlPlane| {
        let pods = control.json(&["get", "pods"]);
        pods["items"].as_array().unwrap().len()
    };
    let before = running(control);
    control.kubectl(&["delete", "-k", &packaging("base"), "--wait=false"]);
    until("the namespace's end", || {
        let namespaces = control.kubectl(&["get", "namespaces", "-o", "name"]);
        (!namespaces.contains("corun")).then_some(())
    });
    let notes = ["corun.dev/machine-", "corun.dev/programs-", "corun.dev/learned-"];
    control.kubectl(&[&["annotate", "nodes", "--all"][..], &notes].concat());
    let kinds = "clusterroles,clusterrolebindings,validatingadmissionpolicies,\
                 validatingadmissionpolicybindings,namespaces,rolebindings";
    let left = control.kubectl(&["get", kinds, "-A", "-o", "name"]);
    assert!(!left.contains("corun"), "{left}");
    assert!(!control.kubectl(&["get", "nodes", "-o", "yaml"]).contains("corun.dev/"));
    assert_eq!(running(control), before);
}
