//! A real control plane of Kubernetes on this host, as `scripts/build-control-plane.sh` builds it: etcd, the API server, the
//! controller manager and schedulers, with nodes that kwok simulates.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How long anything may take on a host with two busy cores.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
const PROGRAMS: [&str; 6] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"];
/// Whoever has this token may do everything.
const TOKEN: &str = "everything";

pub(crate) struct ControlPlane {
    programs: PathBuf,
    pub(crate) folder: PathBuf,
    started: BTreeMap<String, Child>,
    api: u16,
    etcd: u16,
}

/// A port that is free now. The kernel gives it to nobody: neither to those who ask for any port, nor to those who connect.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let given = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let first: u32 = given.split_whitespace().next().unwrap().parse().unwrap();
    let below = first.max(32_768);
    // Processes that test at the same time begin elsewhere.
    let start = 64 * std::process::id();
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut ports = std::iter::repeat_with(|| {
        let at = start + NEXT.fetch_add(1, Ordering::Relaxed);
        u16::try_from(1024 + at % (below - 1024)).unwrap()
    });
    ports.find(is_free).unwrap()
}

/// Asks again and again until there is an answer.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "{what} takes too long");
        std::thread::sleep(Duration::from_millis(100));
    }
}

impl ControlPlane {
    /// Starts all but schedulers.
    ///
    /// # Errors
    /// Why there can be none here.
    pub(crate) fn start(folder: PathBuf) -> Result<Self, String> {
        let Some(programs) = std::env::var_os("CORUN_CONTROL_PLANE").map(PathBuf::from) else {
            return Err("CORUN_CONTROL_PLANE is not set".to_owned());
        };
        let missing = PROGRAMS.iter().find(|name| !programs.join(name).exists());
        if let Some(missing) = missing {
            let shown = programs.display();
            return Err(format!("no {missing} in {shown}"));
        }
        std::fs::create_dir_all(&folder).unwrap();
        let key = folder.join("accounts.key");
        let words = ["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out"];
        let made = Command::new("openssl").args(words).arg(&key).status();
        if !made.is_ok_and(|status| status.success()) {
            return Err("openssl makes no key".to_owned());
        }
        let (api, etcd) = (free_port(), free_port());
        let mut own = Self { programs, folder, started: BTreeMap::new(), api, etcd };
        std::fs::write(own.folder.join("tokens"), format!("{TOKEN},admin,1,system:masters\n"))
            .unwrap();
        own.write_kubeconfig("admin", TOKEN);
        own.begin_etcd();
        own.begin_api_server();
        let admin = own.path("admin");
        let controllers = "deployment-controller,replicaset-controller,daemonset-controller,\
                           serviceaccount-controller,node-lifecycle-controller,\
                           namespace-controller,garbage-collector-controller";
        own.begin(
            "kube-controller-manager",
            "kube-controller-manager",
            &[
                &format!("--kubeconfig={admin}"),
                &format!("--controllers={controllers}"),
                &format!("--service-account-private-key-file={}", key.display()),
                "--leader-elect=false",
                "--secure-port=0",
            ],
        );
        own.begin(
            "kwok",
            "kwok",
            &[&format!("--kubeconfig={admin}"), "--manage-all-nodes=true", "--node-ip=127.0.0.1"],
        );
        Ok(own)
    }

    fn begin_etcd(&mut self) {
        let (client, peer) = (self.etcd, free_port());
        self.begin(
            "etcd",
            "etcd",
            &[
                &format!("--data-dir={}", self.path("etcd.data")),
                &format!("--listen-client-urls=http://127.0.0.1:{client}"),
                &format!("--advertise-client-urls=http://127.0.0.1:{client}"),
                &format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
            ],
        );
    }

    /// Starts the API server, and waits until it answers.
    pub(crate) fn begin_api_server(&mut self) {
        let key = self.path("accounts.key");
        self.begin(
            "kube-apiserver",
            "kube-apiserver",
            &[
                &format!("--etcd-servers=http://127.0.0.1:{}", self.etcd),
                &format!("--secure-port={}", self.api),
                "--bind-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                &format!("--cert-dir={}", self.path("certificates")),
                &format!("--token-auth-file={}", self.path("tokens")),
                "--authorization-mode=Node,RBAC",
                // As kubeadm and the distributions have it.
                "--allow-privileged=true",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--service-account-issuer=https://kubernetes.default.svc",
                &format!("--service-account-key-file={key}"),
                &format!("--service-account-signing-key-file={key}"),
            ],
        );
        until("the API server", || {
            let ready = self.asked("admin", &["get", "--raw", "/readyz"]);
            if let Some(status) = self.started.get_mut("kube-apiserver")?.try_wait().unwrap() {
                panic!("kube-apiserver ended ({status}): {}", self.log("kube-apiserver"));
            }
            (ready.stdout == b"ok").then_some(())
        });
    }

    /// A scheduler by a configuration, to which only how it reaches the API server is added.
    pub(crate) fn begin_scheduler(&mut self, name: &str, configuration: &str) {
        let connection = format!("clientConnection:\n  kubeconfig: {}\n", self.path("admin"));
        let file = self.path(&format!("{name}.yaml"));
        std::fs::write(&file, format!("{}\n{connection}", configuration.trim_end())).unwrap();
        self.begin(name, "kube-scheduler", &[&format!("--config={file}"), "--secure-port=0"]);
    }

    fn begin(&mut self, name: &str, program: &str, words: &[&str]) {
        let log = File::options().create(true).append(true).open(self.path(&format!("{name}.log")));
        let log = log.unwrap();
        let mut command = Command::new(self.programs.join(program));
        command.args(words).current_dir(&self.folder).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        // etcd of Debian is built for a platform that it does not name as its own.
        command.env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH);
        self.started.insert(name.to_owned(), command.spawn().unwrap());
    }

    /// Ends one of the programs.
    pub(crate) fn end(&mut self, name: &str) {
        let mut child = self.started.remove(name).unwrap();
        let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = child.kill();
        child.wait().unwrap();
    }

    /// The last of what a program said.
    pub(crate) fn log(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default();
        let mut lines: Vec<&str> = text.lines().rev().take(20).collect();
        lines.reverse();
        lines.join("\n")
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// How somebody reaches the API server, as a file of that name.
    pub(crate) fn write_kubeconfig(&self, name: &str, token: &str) {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: c, cluster: {{server: \"https://127.0.0.1:{}\", insecure-skip-tls-verify: true}}}}]\n\
             users: [{{name: u, user: {{token: \"{token}\"}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
            self.api
        );
        std::fs::write(self.folder.join(name), text).unwrap();
    }

    /// A command that finds `kubectl` and the API server, as who has that file.
    pub(crate) fn command(&self, who: &str, program: &Path) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command.env("PATH", format!("{}:{path}", self.programs.display()));
        command.env("KUBECONFIG", self.folder.join(who)).env("HOME", &self.folder);
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    /// What comes of a `kubectl` of somebody's.
    pub(crate) fn asked(&self, who: &str, words: &[&str]) -> Output {
        self.command(who, &self.programs.join("kubectl")).args(words).output().unwrap()
    }

    /// What `kubectl` prints for who may do everything.
    pub(crate) fn kubectl(&self, words: &[&str]) -> String {
        let output = self.asked("admin", words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "kubectl {words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.kubectl(&[words, &["-o", "json"]].concat())).unwrap()
    }

    /// Makes these objects.
    pub(crate) fn create(&self, objects: &[Value]) {
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let file = self.path("objects.json");
        std::fs::write(&file, list.to_string()).unwrap();
        self.kubectl(&["create", "-f", &file]);
    }

    /// Puts down which of the programs still runs, for a failure.
    pub(crate) fn stopped(&mut self) -> Vec<String> {
        let ended = self.started.iter_mut().filter_map(|(name, child)| {
            child.try_wait().unwrap().map(|status| format!("{name} ({status})"))
        });
        ended.collect()
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // etcd last: the others ask it to the end.
        for (_, child) in self.started.iter_mut().filter(|(name, _)| *name != "etcd") {
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some(etcd) = self.started.get_mut("etcd") {
            let _ = etcd.kill();
            let _ = etcd.wait();
        }
    }
}

/// A question of a scheduler and its answer.
#[derive(Clone)]
pub(crate) struct Exchange {
    pub(crate) path: String,
    pub(crate) request: String,
    pub(crate) answer: String,
}

/// Stands between a scheduler and the extender, and keeps what they say.
pub(crate) struct Recorder {
    pub(crate) address: String,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

impl Recorder {
    /// Passes questions on to an address. Where nobody answers there, the scheduler hears nothing either.
    pub(crate) fn before(extender: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let exchanges = Arc::new(Mutex::new(Vec::new()));
        let kept = exchanges.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (extender, kept) = (extender.clone(), kept.clone());
                std::thread::spawn(move || pass_on(stream.unwrap(), &extender, &kept));
            }
        });
        Self { address, exchanges }
    }

    /// The last exchange on a path about a pod.
    pub(crate) fn last(&self, path: &str, pod: &str) -> Option<Exchange> {
        let kept = self.exchanges.lock().unwrap();
        let about = |one: &&Exchange| {
            let request: Value = serde_json::from_str(&one.request).unwrap();
            one.path == path && request["Pod"]["metadata"]["name"] == pod
        };
        kept.iter().rev().find(about).cloned()
    }
}

fn pass_on(mut stream: TcpStream, extender: &str, kept: &Mutex<Vec<Exchange>>) -> Option<()> {
    let mut bytes = Vec::new();
    loop {
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            more(&mut stream, &mut bytes)?;
        };
        let text = String::from_utf8(bytes[..head].to_vec()).ok()?;
        let path = text.split(' ').nth(1)?.to_owned();
        let length: usize = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        })?;
        while bytes.len() < head + length {
            more(&mut stream, &mut bytes)?;
        }
        let request = String::from_utf8(bytes[head..head + length].to_vec()).ok()?;
        bytes.drain(..head + length);
        let (status, answer) = asked(extender, &path, &request)?;
        kept.lock().unwrap().push(Exchange { path, request, answer: answer.clone() });
        let length = answer.len();
        write!(
            stream,
            "HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{answer}"
        )
        .ok()?;
    }
}

/// What the extender answers; none where nobody does: the scheduler's connection then ends, too.
fn asked(extender: &str, path: &str, request: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(extender).ok()?;
    let length = request.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: corun\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{request}"
    )
    .ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// Reads some more; none at the end.
fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let mut some = [0; 65536];
    let read = stream.read(&mut some).ok().filter(|read| *read > 0)?;
    bytes.extend_from_slice(&some[..read]);
    Some(())
}
