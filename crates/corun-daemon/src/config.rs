//! The daemon's configuration file, checked before anything is done. docs/operating.md is its
//! reference.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use corun_app::{Error, Result};
use corun_hosting::{
    AUTO_POLICY, ChosenPolicy, Counters, HostSettings, Placer, PlacerSettings, SPILL_AFTER_S,
    ThreadReading, choose_policy, this_machine,
};
use corun_input::{Fault, TomlDocument, TomlSource};
use corun_linux::Roots;
use corun_live::{GateOptions, PinScope, ProcessSelector, Rule, Target, default_folder};
use corun_policy::Nanoseconds;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

mod check;

use check::refused;

/// Where the configuration is where none is named.
pub const DEFAULT_PATH: &str = "/etc/corun/config.toml";

/// The file, field by field.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where it was read from, for what is found wrong later.
    #[serde(skip)]
    pub(crate) source: TomlSource,
    /// Carry plans out; else only say what would be done.
    pub(crate) apply: bool,
    /// The policy, such as `dio` or `dio+lfoc`; [`AUTO_POLICY`] until the file is loaded, for the one that what is here
    /// allows.
    pub(crate) policy: String,
    /// Why that policy was chosen; none where the file names it.
    #[serde(skip)]
    pub(crate) chosen: Option<&'static str>,
    /// Its parameters; those not given keep their defaults.
    #[serde(deserialize_with = "corun_policy::deserialize_parameters")]
    pub(crate) parameters: BTreeMap<String, f64>,
    /// Where counters come from: `auto`, `perf`, `profiles`, `model`.
    pub(crate) counters: String,
    /// What places threads: `affinity`, `sched-ext`, `auto`.
    pub(crate) backend: String,
    /// With `sched-ext`: seconds that a thread waits for its CPUs before it runs elsewhere; for ever where
    /// the file says `never`.
    #[serde(deserialize_with = "seconds_or_never")]
    pub(crate) spill_after_s: Option<f64>,
    /// With `sched-ext`: count who wakes whom.
    pub(crate) wakers: bool,
    /// How the threads of a process that has many are read: `auto`, `bpf`, `files`.
    pub(crate) threads_by: String,
    /// Folder or file of stored profiles.
    pub(crate) profiles: Option<PathBuf>,
    /// Seconds between two decisions; the policy's own where absent.
    pub(crate) interval_s: Option<f64>,
    /// A description of this machine, with what Linux does not tell.
    pub(crate) machine: Option<PathBuf>,
    /// Where journals are kept.
    pub(crate) journals: Option<PathBuf>,
    /// Seed of policies that draw at random.
    pub(crate) seed: u64,
    /// Stop and restore when a round takes longer than so many seconds.
    pub(crate) stall_s: f64,
    /// A policy whose live form was not evaluated may act.
    pub(crate) untested: bool,
    /// What plans have to pass.
    pub(crate) gate: GateConfig,
    /// How log lines are written.
    pub(crate) log: LogFormat,
    /// Where the metrics are served; none where the file says `off`.
    #[serde(deserialize_with = "address_or_off")]
    pub(crate) metrics: Option<SocketAddr>,
    /// The socket at which `corun serve --daemon` looks on; none where absent.
    pub(crate) viewers: Option<PathBuf>,
    /// With `apply = false`: viewers may hold processes and apply the policy's plan.
    pub(crate) viewers_may_act: bool,
    /// Whom it schedules.
    #[serde(rename = "program")]
    pub(crate) programs: Vec<ProgramRule>,
}

/// What plans have to pass before and after they are carried out.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct GateConfig {
    on: bool,
    noise: f64,
    most_loss: f64,
    rest_s: f64,
    migrations_per_s: f64,
}

impl Default for GateConfig {
    fn default() -> Self {
        let GateOptions { noise, most_loss, rest, migrations_per_s } = GateOptions::default();
        Self { on: true, noise, most_loss, rest_s: rest.0 as f64 / 1e9, migrations_per_s }
    }
}

impl GateConfig {
    fn options(&self) -> Option<GateOptions> {
        self.on.then(|| GateOptions {
            noise: self.noise,
            most_loss: self.most_loss,
            rest: Nanoseconds::from_secs_f64(self.rest_s),
            migrations_per_s: self.migrations_per_s,
        })
    }
}

fn address_or_off<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    if text == "off" {
        return Ok(None);
    }
    let expected = || format!("found `{text}`, expected ADDRESS:PORT or off");
    text.parse().map(Some).map_err(|_| D::Error::custom(expected()))
}

fn seconds_or_never<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    match toml::Value::deserialize(from)? {
        toml::Value::Float(seconds) => Ok(Some(seconds)),
        toml::Value::Integer(seconds) => Ok(Some(seconds as f64)),
        toml::Value::String(text) if text == "never" => Ok(None),
        other => {
            let found = format!("found `{other}`, expected seconds or \"never\"");
            Err(D::Error::custom(found))
        }
    }
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON document a line.
    Json,
}

/// A program and how its processes are known; all that is given must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProgramRule {
    pub(crate) name: String,
    pub(crate) profile: Option<String>,
    pub(crate) important: bool,
    pub(crate) pid: Option<u32>,
    pub(crate) user: Option<String>,
    pub(crate) command: Option<String>,
    pub(crate) arguments: Option<String>,
    pub(crate) cgroup: Option<String>,
    pub(crate) unit: Option<String>,
    pub(crate) hold: HoldName,
}

/// What is held where the policy places threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HoldName {
    /// Each thread.
    #[default]
    Threads,
    /// The cgroup that they are in.
    Cgroup,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            source: TomlSource::default(),
            apply: false,
            policy: AUTO_POLICY.to_owned(),
            chosen: None,
            parameters: BTreeMap::new(),
            counters: "auto".to_owned(),
            backend: "affinity".to_owned(),
            spill_after_s: Some(SPILL_AFTER_S),
            wakers: false,
            threads_by: "auto".to_owned(),
            profiles: None,
            interval_s: None,
            machine: None,
            journals: None,
            seed: 1,
            stall_s: 30.0,
            untested: false,
            gate: GateConfig::default(),
            log: LogFormat::Text,
            metrics: Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9748)),
            viewers: None,
            viewers_may_act: false,
            programs: Vec::new(),
        }
    }
}

impl Config {
    /// Reads and checks a file, and chooses the policy where the file leaves that open.
    ///
    /// # Errors
    /// Bad input with its place in the file.
    pub fn load(path: &Path) -> Result<Self> {
        let source = TomlSource::load(path).map_err(|error| {
            Error::from(error).hint("corun check-config --example, which writes one to start from")
        })?;
        let config = Self::from_source(source)?;
        if config.policy != AUTO_POLICY {
            return Ok(config);
        }
        let counters = config.counters_by_name().map_err(|fault| config.source.error(&fault))?;
        let machine = this_machine(config.machine.as_deref())
            .map_err(|failure| config.at("machine", failure))?;
        let ChosenPolicy { name, why } = choose_policy(&Roots::default(), &machine, counters)?;
        Ok(Self { policy: name.to_owned(), chosen: Some(why), ..config })
    }

    /// Why the policy in force was chosen; none where the file names it.
    pub fn chosen(&self) -> Option<&'static str> {
        self.chosen
    }

    /// Where a file says that journals are kept, also where other parts of it are no good: undoing must not
    /// wait for a configuration to be mended. The default folder where it does not say.
    ///
    /// # Errors
    /// When the file cannot be read, and when neither it nor the line that begins with `journals` is TOML.
    pub fn journals_of(path: &Path) -> Result<PathBuf> {
        #[derive(Deserialize)]
        struct Journals {
            journals: Option<PathBuf>,
        }
        let source = TomlSource::load(path)?;
        let text = source.text();
        let line = text.lines().find(|line| line.trim_start().starts_with("journals"));
        let document = TomlDocument::parse(text, source.file()).or_else(|error| {
            let line = line.and_then(|line| TomlDocument::parse(line, source.file()).ok());
            line.ok_or(error)
        })?;
        Ok(document.read::<Journals>()?.journals.unwrap_or_else(default_folder))
    }

    fn from_source(source: TomlSource) -> Result<Self> {
        let read = TomlDocument::parse(source.text(), source.file())?.read::<Self>()?;
        let config = Self { source, ..read };
        config.check()?;
        Ok(config)
    }

    /// Is anything changed on this machine, by the policy or as viewers order?
    pub(crate) fn may_act(&self) -> bool {
        self.apply || self.viewers_may_act
    }

    fn counters_by_name(&self) -> Result<Counters, Fault> {
        let expected = "auto, perf, profiles or model";
        named("counters", &self.counters, Counters::named, expected)
    }

    fn placer_by_name(&self) -> Result<Placer, Fault> {
        named("backend", &self.backend, Placer::named, "affinity, sched-ext or auto")
    }

    fn reading_by_name(&self) -> Result<ThreadReading, Fault> {
        named("threads_by", &self.threads_by, ThreadReading::named, "auto, bpf or files")
    }

    /// What its host is made by. `dry_run`: nothing is done.
    ///
    /// # Errors
    /// None that a checked configuration has.
    pub fn host_settings(&self, dry_run: bool) -> Result<HostSettings> {
        let located = |fault: Fault| self.source.error(&fault);
        Ok(HostSettings {
            policy: self.policy.clone(),
            counters: self.counters_by_name().map_err(&located)?,
            profiles: self.profiles.clone(),
            interval_s: self.interval_s,
            dry_run,
            machine: self.machine.clone(),
            journals: self.journals.clone(),
            seed: self.seed,
            set: self.parameters.clone().into_iter().collect(),
            gate: self.gate.options(),
            untested: self.untested,
            placing: PlacerSettings {
                placer: self.placer_by_name().map_err(&located)?,
                spill_after_s: self.spill_after_s.unwrap_or(f64::INFINITY),
                counts_wakers: self.wakers,
                ..PlacerSettings::default()
            },
            reading: self.reading_by_name().map_err(&located)?,
        })
    }

    /// The profile of each program: the one of its name where none is given.
    pub fn profile_names(&self) -> Vec<&str> {
        self.programs.iter().map(|one| one.profile.as_deref().unwrap_or(&one.name)).collect()
    }

    /// Whom it schedules.
    pub fn targets(&self) -> Vec<Target> {
        self.programs.iter().map(ProgramRule::target).collect()
    }
}

/// What a name stands for.
fn named<T>(
    key: &'static str,
    name: &str,
    known: impl Fn(&str) -> Option<T>,
    expected: &str,
) -> Result<T, Fault> {
    known(name).map_or_else(|| refused(key, format!("found `{name}`, expected {expected}")), Ok)
}

impl ProgramRule {
    fn rule(&self) -> Rule {
        Rule {
            pid: self.pid,
            user: self.user.clone(),
            command: self.command.clone(),
            arguments: self.arguments.clone(),
            cgroup: self.cgroup.clone(),
            unit: self.unit.clone(),
        }
    }

    fn target(&self) -> Target {
        Target {
            profile: self.profile.clone(),
            important: self.important,
            pin: match self.hold {
                HoldName::Threads => PinScope::Threads,
                HoldName::Cgroup => PinScope::Cgroup,
            },
            ..Target::new(self.name.as_str(), ProcessSelector::Rule(self.rule()))
        }
    }
}

/// A file to start from: it changes nothing until `apply` is set.
pub const EXAMPLE: &str = include_str!("../config.toml");

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
