//! The mix: which programs run together, for compare, run and studies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of the mix file that this build reads and writes.
pub const MIX_FILE_VERSION: u32 = 1;

/// A mix file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Version of the schema: [`MIX_FILE_VERSION`].
    pub version: u32,
    /// A machine preset or file; the command line may say otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// How many seeds, from 1 up, each experiment is repeated with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds: Option<u32>,
    /// When an experiment ends and what counts.
    #[serde(default)]
    pub method: Method,
    /// The programs.
    #[serde(rename = "app")]
    pub apps: Vec<App>,
}

/// When an experiment ends and what counts as a program's completion time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// A program that ends is restarted until the longest has ended three times (DIO, section
    /// 5.1); completion times by geometric mean (thesis, section 5.6).
    #[default]
    #[serde(rename = "restart-3")]
    Restart3,
    /// A fixed time; slowdown by progress made in it (CASC, section 5).
    Window,
    /// The first run of each program alone counts (MLB, section 5).
    FirstRun,
}

/// A program of a mix.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct App {
    /// The profile's name in the library; this or `cmd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The command line of a real program; this or `profile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmd: Option<Vec<String>>,
    /// The name shown; the profile's where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many copies.
    #[serde(default = "one")]
    pub count: u32,
    /// Threads of each copy.
    #[serde(default = "one")]
    pub threads: u32,
    /// When it arrives, in seconds.
    #[serde(default)]
    pub start_s: f64,
    /// When it is killed, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill_s: Option<f64>,
    /// Its weight in the scheduler: 1 is that of nice 0.
    #[serde(default = "unit")]
    pub weight: f64,
    /// Is it to be protected from the others?
    #[serde(default)]
    pub important: bool,
    /// The NUMA node (operating-system number) of its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home_node: Option<u32>,
    /// Is it started again when it ends? The method decides where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<bool>,
    /// Its length in instructions; the profile's where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<u64>,
    /// Alternates between running and waiting, where given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<Io>,
    /// Environment of `cmd`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

fn one() -> u32 {
    1
}

fn unit() -> f64 {
    1.0
}

/// A program that alternates between running and waiting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Io {
    /// CPU time between waits, in ms.
    pub cpu_ms: f64,
    /// Length of a wait, in ms.
    pub wait_ms: f64,
}
