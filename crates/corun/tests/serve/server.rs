//! `corun serve` as a process of its own.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::http::{self, Answer, Events};

/// A server that ends with the test.
pub(crate) struct Server {
    process: Child,
    folder: TempDir,
    pub(crate) address: SocketAddr,
    token: String,
}

impl Server {
    pub(crate) fn start(words: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut process = Command::new(assert_cmd::cargo::cargo_bin!("corun"))
            .env("XDG_DATA_HOME", folder.path())
            .arg("serve")
            .args(words)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let link = line.split("http://").nth(1).unwrap_or_else(|| panic!("no link: {line}"));
        let (address, token) = link.trim().split_once("/?token=").unwrap();
        Self { process, folder, address: address.parse().unwrap(), token: token.to_owned() }
    }

    pub(crate) fn link(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token)
    }

    pub(crate) fn page(&self, fragment: &str) -> String {
        format!("http://{}/{fragment}", self.address)
    }

    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        let bearer = self.bearer();
        let headers = [("Authorization", bearer.as_str())];
        http::post(self.address, &format!("/api/v1/{path}"), &headers, &body.to_string())
    }

    /// The document that the API answers.
    pub(crate) fn asked(&self, path: &str, body: &Value) -> Value {
        let answer = self.post(path, body);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    /// A folder for files, as long as the server.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs the command, and gives what it prints.
    pub(crate) fn run(&self, words: &[&str]) -> Vec<u8> {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("corun"));
        let output = command.env("XDG_DATA_HOME", self.folder()).args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// What the command prints as JSON.
    pub(crate) fn command(&self, words: &[&str]) -> Value {
        serde_json::from_slice(&self.run(&[words, &["--format", "json"]].concat())).unwrap()
    }

    /// What runs on this machine, look after look.
    pub(crate) fn live(&self) -> Events {
        let bearer = self.bearer();
        Events::open(self.address, "/api/v1/live", &[("Authorization", &bearer)])
    }

    /// Until it has ended by itself.
    pub(crate) fn wait(&mut self) {
        self.process.wait().unwrap();
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Where pictures of the page are kept, for people to look at.
pub(crate) fn pictures() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../serve-pictures")
}
