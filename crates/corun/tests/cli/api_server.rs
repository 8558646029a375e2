//! `corun fleet agent` and an API server that answers, refuses, hangs, or goes away: a stand-in for the server, asked by
//! the real `kubectl`.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::packaging::{documents, packaging};

/// What an API server does with a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
    Answers,
    /// Status 503, as behind a load balancer without a server.
    Refuses,
    /// Closes the connection before it has read the request: the kernel resets it.
    Resets,
    /// Never says anything.
    Hangs,
    /// Ends in the middle of the answer.
    CutsShort,
    /// Answers what is no list of pods.
    Babbles,
}

/// A request: its method, its path without the query, and its body.
type Asked = (String, String, String);

struct Server {
    address: String,
    manner: Arc<Mutex<Manner>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let manner = Arc::new(Mutex::new(manner));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let server = Self { address, manner: manner.clone(), asked: asked.clone() };
        std::thread::spawn(move || {
            let mut hung = Vec::new();
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let how = *manner.lock().unwrap();
                match how {
                    Manner::Hangs => hung.push(stream),
                    // Bytes that nobody has read make the close a reset.
                    Manner::Resets => drop(stream.peek(&mut [0])),
                    _ => {
                        let asked = asked.clone();
                        std::thread::spawn(move || answer(stream, how, &asked));
                    }
                }
            }
        });
        server
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    fn patches(&self) -> Vec<Value> {
        let asked = self.asked();
        let patches = asked.iter().filter(|one| one.0 == "PATCH");
        patches.map(|one| serde_json::from_str(&one.2).unwrap()).collect()
    }
}

/// One request and its answer; the connection closes then. None where the client goes before.
fn answer(mut stream: TcpStream, how: Manner, asked: &Mutex<Vec<Asked>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(found) = line.strip_prefix("content-length:") {
            length = found.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?, words.next()?.split('?').next()?);
    let body = String::from_utf8(body).unwrap();
    asked.lock().unwrap().push((method.to_owned(), path.to_owned(), body));
    let (status, text) = match how {
        Manner::Refuses => ("503 Service Unavailable", "upstream is away".to_owned()),
        Manner::Babbles => ("200 OK", json!({"kind": "PodList", "items": 3}).to_string()),
        _ => object(path),
    };
    let end = if how == Manner::CutsShort { text.len() / 2 } else { text.len() };
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    stream.write_all((head + &text[..end]).as_bytes()).ok()
}

/// What is at a path: what the API server says of itself, one pod, one node.
fn object(path: &str) -> (&'static str, String) {
    let found = match path {
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"]}),
        "/apis" => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []}),
        "/api/v1" => json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [{
            "name": "nodes", "singularName": "node", "namespaced": false, "kind": "Node",
            "verbs": ["get", "patch"],
        }]}),
        "/api/v1/pods" => json!({"kind": "PodList", "apiVersion": "v1", "items": [{
            "metadata": {
                "name": "a", "namespace": "d", "uid": "1", "labels": {"corun.dev/profile": "needy"},
            },
            "spec": {"containers": [{"resources": {"requests": {"cpu": "2"}}}]},
        }]}),
        "/api/v1/nodes/n1" => {
            json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}})
        }
        _ => {
            let none = json!({"kind": "Status", "apiVersion": "v1", "code": 404});
            return ("404 Not Found", none.to_string());
        }
    };
    ("200 OK", found.to_string())
}

/// An agent of the node `n1` that asks a server at an address.
fn agent(fixture: &Fixture, address: &str, words: &[&str]) -> Command {
    let config = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: {address:?}}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\ncurrent-context: c\n\
         users: [{{name: u}}]\n"
    );
    let name = format!("kubeconfig-{}", address.rsplit(':').next().unwrap());
    fixture.write(&name, &config);
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("corun"));
    command.args(["fleet", "agent", "--node", "n1", "--machine", "m", "--root"]);
    command.arg(fixture.path("")).args(words);
    command.env("KUBECONFIG", fixture.path(&name)).env("HOME", fixture.path(""));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn has_kubectl() -> bool {
    let there = Command::new("kubectl").args(["version", "--client"]).output();
    let there = there.is_ok_and(|output| output.status.success());
    if !there {
        println!("skipped: needs kubectl");
    }
    there
}

/// Exit code, and what the agent says.
fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn an_api_server_that_does_not_answer_is_told_and_nothing_is_published() {
    if !has_kubectl() {
        return;
    }
    let fixture = Fixture::new();
    // It takes as long as `kubectl` waits for an answer: the others go meanwhile.
    let silent = Server::start(Manner::Hangs);
    let waiting = agent(&fixture, &silent.address, &["--once"]).spawn().unwrap();
    for (manner, words) in [
        (Manner::Refuses, "kubectl get: "),
        (Manner::Resets, "kubectl get: "),
        (Manner::CutsShort, "kubectl get: "),
        (Manner::Babbles, "no list of pods"),
    ] {
        let server = Server::start(manner);
        let (code, said) = ended(agent(&fixture, &server.address, &["--once"]).spawn().unwrap());
        assert!(code.is_some_and(|code| code != 0), "{manner:?}: {code:?} {said}");
        assert!(said.contains(words) && !said.contains("panicked"), "{manner:?}: {said}");
        assert_eq!(server.patches(), [] as [Value; 0], "{manner:?}");
    }
    // Nobody listens.
    let refused = agent(&fixture, "http://127.0.0.1:1", &["--once"]).spawn().unwrap();
    let (code, said) = ended(refused);
    assert!(code == Some(1) && said.contains("refused"), "{code:?} {said}");
    let (code, said) = ended(waiting);
    assert!(code == Some(1) && said.contains("kubectl get: "), "{code:?} {said}");
}

/// The API server goes away and comes back: the agent says so once, waits, and publishes what runs then.
#[test]
fn an_agent_goes_on_once_the_api_server_is_back() {
    if !has_kubectl() {
        return;
    }
    let fixture = Fixture::new();
    let server = Server::start(Manner::Resets);
    let mut agent = agent(&fixture, &server.address, &["--every", "1"]).spawn().unwrap();
    let mut said = BufReader::new(agent.stderr.take().unwrap());
    let mut heard = String::new();
    while !heard.contains("kubectl get: ") {
        assert!(said.read_line(&mut heard).unwrap() > 0, "{heard}");
    }
    *server.manner.lock().unwrap() = Manner::Answers;
    while server.patches().is_empty() {
        assert_eq!(agent.try_wait().unwrap(), None, "{heard}");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&agent), Signal::TERM).unwrap();
    assert_eq!(agent.wait().unwrap().code(), Some(0));
    said.read_to_string(&mut heard).unwrap();
    assert_eq!(heard.matches("kubectl get: ").count(), 1, "{heard}");
    let report = server.patches()[0]["metadata"]["annotations"]["corun.dev/programs"].clone();
    let report: Value = serde_json::from_str(report.as_str().unwrap()).unwrap();
    assert_eq!(report["programs"][0]["pod"], "d/a", "{report}");
}

/// The verbs and resources of the agent's role are those of the requests that it makes.
#[test]
fn an_agents_role_grants_what_it_asks_for_and_no_more() {
    let Some(all) = documents(&packaging("kubernetes/base/corun.yaml")) else {
        println!("skipped: Python has no module yaml");
        return;
    };
    if !has_kubectl() {
        return;
    }
    let fixture = Fixture::new();
    let server = Server::start(Manner::Answers);
    let (code, said) = ended(agent(&fixture, &server.address, &["--once"]).spawn().unwrap());
    assert_eq!(code, Some(0), "{said}");
    let mut used: BTreeSet<(String, String)> = BTreeSet::new();
    for (method, path, _) in server.asked() {
        let Some(path) = path.strip_prefix("/api/v1/") else { continue };
        let (resource, name) = path.split_once('/').unwrap_or((path, ""));
        let verb = match (method.as_str(), name) {
            ("GET", "") => "list",
            ("GET", _) => "get",
            ("PATCH", _) => "patch",
            _ => panic!("{method} {path}"),
        };
        used.insert((resource.to_owned(), verb.to_owned()));
    }
    let role = all.iter().find(|one| one["kind"] == "ClusterRole").unwrap();
    let words = |list: &Value| {
        let all = list.as_array().unwrap().iter();
        all.map(|one| one.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut granted: BTreeSet<(String, String)> = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        assert_eq!(rule["apiGroups"], json!([""]), "{rule}");
        for resource in words(&rule["resources"]) {
            let verbs = words(&rule["verbs"]).into_iter();
            granted.extend(verbs.map(|verb| (resource.clone(), verb)));
        }
    }
    assert_eq!(granted, used);
}

/// A `kubectl` that never ends: the agent does not wait for it when it is to stop, and does not leave it behind.
#[test]
fn an_agent_that_waits_for_kubectl_stops_when_it_is_told_to() {
    let fixture = Fixture::new();
    let script = "#!/bin/sh\necho $$ >\"$(dirname \"$0\")/pid\"\nexec sleep 100000\n";
    fixture.executable("kubectl", script);
    let path = format!("{}:{}", fixture.path("").display(), std::env::var("PATH").unwrap());
    let mut command = agent(&fixture, "http://127.0.0.1:1", &[]);
    let mut agent = command.env("PATH", path).stderr(Stdio::null()).spawn().unwrap();
    let pid = loop {
        let text = std::fs::read_to_string(fixture.path("pid")).unwrap_or_default();
        if let Ok(pid) = text.trim().parse::<u32>() {
            break pid;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    kill_process(Pid::from_child(&agent), Signal::TERM).unwrap();
    assert_eq!(agent.wait().unwrap().code(), Some(0));
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}
