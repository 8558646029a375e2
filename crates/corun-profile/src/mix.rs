//! The mix: which programs run together, for compare, run and studies. docs/mix-file.md is the
//! file's reference.

use std::collections::BTreeMap;
use std::path::Path;

use corun_input::{Fault, FileError, PathStep, TomlDocument, TomlSource, read_text};
use serde::{Deserialize, Serialize};

use crate::figures::{Expected, check_count};
use crate::profile::check_name;
use crate::service::Service;

/// The version of the mix file that this build reads and writes.
pub const MIX_FILE_VERSION: u32 = 1;

/// The most threads a mix may have, all copies together: beyond any machine, and small enough to
/// hold.
pub const MAX_MIX_THREADS: u64 = 65_536;

/// A mix file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Version of the schema: [`MIX_FILE_VERSION`], also where absent.
    #[serde(default = "this_version")]
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
    #[serde(rename = "app", default)]
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
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct App {
    /// The profile's name in the library; this, `cmd` or both.
    pub profile: Option<String>,
    /// The command line of a real program; beside `profile` it is the program that was profiled.
    pub cmd: Option<Vec<String>>,
    /// The name shown; the profile's where absent.
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
    pub kill_s: Option<f64>,
    /// Its weight in the scheduler: 1 is that of nice 0.
    #[serde(default = "unit")]
    pub weight: f64,
    /// Is it to be protected from the others?
    #[serde(default)]
    pub important: bool,
    /// The NUMA node (operating-system number) of its memory.
    pub home_node: Option<u32>,
    /// Is it started again when it ends? The method decides where absent.
    pub restart: Option<bool>,
    /// Its length in instructions; the profile's where absent.
    pub instructions: Option<u64>,
    /// Alternates between running and waiting, where given.
    pub io: Option<Io>,
    /// Its threads wait for each other every so often, where given.
    pub barrier: Option<Barrier>,
    /// Answers requests, where given.
    pub service: Option<Service>,
    /// Environment of `cmd`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

fn this_version() -> u32 {
    MIX_FILE_VERSION
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

/// Where the threads of a program wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Barrier {
    /// Instructions of each thread between two barriers, at least [`Self::LEAST_INSTRUCTIONS`].
    pub every_instructions: u64,
    /// How those who come early wait.
    #[serde(default)]
    pub waiting: Waiting,
}

impl Barrier {
    /// Fewest instructions between two barriers: below, a run has more events than anybody waits for.
    pub const LEAST_INSTRUCTIONS: u64 = 1000;
}

/// How a thread waits for the others of its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// In a loop on its CPU.
    #[default]
    Spin,
    /// Asleep.
    Sleep,
}

impl Mix {
    /// Reads a mix file's text; `file` is named in errors.
    ///
    /// # Errors
    /// [`FileError`] with line and field: no TOML, another version, a key missing, unknown or of
    /// the wrong type, or what [`Self::check`] refuses.
    pub fn from_toml(text: &str, file: &str) -> Result<Self, FileError> {
        let document = TomlDocument::parse(text, file)?;
        document.check_version(MIX_FILE_VERSION, false)?;
        let mix: Self = document.read()?;
        mix.check().map_err(|fault| document.locate(&fault))?;
        Ok(mix)
    }

    /// Reads a mix file.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be read, or as [`Self::from_toml`].
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let text = read_text(path)?;
        Self::from_toml(&text, &path.display().to_string())
    }

    /// Reads a mix file, and keeps its text for errors that show only later.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_with_source(path: &Path) -> Result<(Self, TomlSource), FileError> {
        let source = TomlSource::load(path)?;
        Ok((Self::from_toml(source.text(), source.file())?, source))
    }

    /// The mix of programs by name, one copy each, all from the start; a name may stand again.
    ///
    /// # Errors
    /// [`Fault`] when there is no name, or one that no program can have.
    pub fn of_apps<S: AsRef<str>>(names: &[S]) -> Result<Self, Fault> {
        let apps = names.iter().map(|name| App::of_profile(name.as_ref())).collect();
        let mix = Self {
            version: MIX_FILE_VERSION,
            machine: None,
            seeds: None,
            method: Method::default(),
            apps,
        };
        mix.check()?;
        Ok(mix)
    }

    /// The mix as a file says it.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a mix is numbers, texts and lists")
    }

    /// Threads of all copies of all programs.
    pub fn threads(&self) -> u64 {
        self.apps.iter().fold(0, |sum, app| {
            let threads = u64::from(app.count).saturating_mul(u64::from(app.threads));
            u64::saturating_add(sum, threads)
        })
    }

    /// # Errors
    /// The first thing that cannot be, with its place in the mix file: no program, zero seeds,
    /// more than [`MAX_MIX_THREADS`], neither of `profile` and `cmd`, keys that do not go
    /// together, figures that cannot be.
    pub fn check(&self) -> Result<(), Fault> {
        if self.machine.as_ref().is_some_and(String::is_empty) {
            return Err(refused("machine", "found no name, expected a preset or a file"));
        }
        if let Some(seeds) = self.seeds {
            check_count("seeds", u64::from(seeds))?;
        }
        if self.apps.is_empty() {
            return Err(refused("app", "found none, expected at least one"));
        }
        for (index, app) in self.apps.iter().enumerate() {
            app.check()
                .map_err(|fault| fault.under(PathStep::Index(index)).under(PathStep::Key("app")))?;
        }
        let threads = self.threads();
        if threads > MAX_MIX_THREADS {
            let why = format!("found {threads} threads in all, expected at most {MAX_MIX_THREADS}");
            return Err(refused("app", &why));
        }
        Ok(())
    }
}

impl Default for App {
    /// What a mix file means where it says nothing; no program is chosen yet.
    fn default() -> Self {
        Self {
            profile: None,
            cmd: None,
            name: None,
            count: one(),
            threads: one(),
            start_s: 0.0,
            kill_s: None,
            weight: unit(),
            important: false,
            home_node: None,
            restart: None,
            instructions: None,
            io: None,
            barrier: None,
            service: None,
            env: BTreeMap::new(),
        }
    }
}

impl App {
    /// One copy of a program of the library, from the start.
    pub fn of_profile(name: &str) -> Self {
        Self { profile: Some(name.to_owned()), ..Self::default() }
    }

    /// The name to show: its own, the profile's, or that of the command.
    pub fn shown_name(&self) -> &str {
        let command = || self.cmd.as_ref().and_then(|words| words.first());
        let name = self.name.as_ref().or(self.profile.as_ref()).or_else(command);
        name.map_or("", String::as_str)
    }

    fn check(&self) -> Result<(), Fault> {
        self.check_program()?;
        check_count("count", u64::from(self.count))?;
        check_count("threads", u64::from(self.threads))?;
        Expected::Rate.check("start_s", self.start_s)?;
        if let Some(kill_s) = self.kill_s
            && !(kill_s.is_finite() && kill_s > self.start_s)
        {
            let why = format!("found {kill_s}, expected a number above start_s, {}", self.start_s);
            return Err(refused("kill_s", &why));
        }
        Expected::Positive.check("weight", self.weight)?;
        if let Some(io) = self.io {
            let in_io = |fault: Fault| fault.under(PathStep::Key("io"));
            Expected::Positive.check("cpu_ms", io.cpu_ms).map_err(in_io)?;
            Expected::Positive.check("wait_ms", io.wait_ms).map_err(in_io)?;
        }
        if let Some(barrier) = self.barrier {
            let (found, least) = (barrier.every_instructions, Barrier::LEAST_INSTRUCTIONS);
            if found < least {
                let why = format!("found {found}, expected at least {least}");
                let fault = refused("every_instructions", &why);
                return Err(fault.under(PathStep::Key("barrier")));
            }
            if self.io.is_some() {
                return Err(refused("barrier", "found with io, expected one of the two"));
            }
        }
        if let Some(service) = self.service {
            service.check().map_err(|fault| fault.under(PathStep::Key("service")))?;
            if self.io.is_some() || self.barrier.is_some() {
                return Err(refused("service", "found with io or barrier, expected one of them"));
            }
        }
        Ok(())
    }

    fn check_program(&self) -> Result<(), Fault> {
        if let Some(profile) = &self.profile {
            check_name(profile).map_err(|why| refused("profile", &why))?;
        }
        match (&self.profile, &self.cmd) {
            (None, None) => return Err(refused("profile", "missing: expected profile or cmd")),
            (Some(_), None) if !self.env.is_empty() => {
                return Err(refused("env", "found without cmd, which it goes with"));
            }
            (None, Some(_)) if self.instructions.is_some() => {
                let why = "found without profile: a real program has its own length";
                return Err(refused("instructions", why));
            }
            _ => {}
        }
        if self.cmd.as_ref().is_some_and(|cmd| cmd.first().is_none_or(String::is_empty)) {
            return Err(refused("cmd", "found no program, expected its name or path"));
        }
        if let Some(name) = &self.name {
            check_name(name).map_err(|why| refused("name", &why))?;
        }
        if let Some(name) = self.env.keys().find(|name| name.is_empty() || name.contains('=')) {
            let why = format!("found {name:?}, expected the name of a variable");
            return Err(refused("env", &why));
        }
        self.instructions.map_or(Ok(()), |count| check_count("instructions", count))
    }
}

fn refused(key: &'static str, why: &str) -> Fault {
    Fault::here(why).under(PathStep::Key(key))
}

#[cfg(test)]
#[path = "mix_tests.rs"]
mod tests;
