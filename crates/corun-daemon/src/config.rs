//! The daemon's configuration file, checked before anything is done. docs/operating.md is its
//! reference.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use corun_app::{Error, Result};
use corun_hosting::{
    AUTO_POLICY, ChosenPolicy, Counters, HostSettings, LEAST_INTERVAL_S, Placer, PlacerSettings,
    SPILL_AFTER_S, ThreadReading, choose_policy, this_machine,
};
use corun_linux::Roots;
use corun_live::{GateOptions, PinScope, ProcessSelector, Rule, Target, default_folder};
use corun_policy::{BuildOptions, Nanoseconds};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Where the configuration is where none is named.
pub const DEFAULT_PATH: &str = "/etc/corun/config.toml";

/// The file, field by field.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Carry plans out; else only say what would be done.
    pub(crate) apply: bool,
    /// The policy, such as `dio` or `dio+lfoc`; [`AUTO_POLICY`] until the file is loaded, for the one that what is here
    /// allows.
    pub(crate) policy: String,
    /// Why that policy was chosen; none where the file names it.
    #[serde(skip)]
    pub(crate) chosen: Option<&'static str>,
    /// Its parameters; those not given keep their defaults.
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

    fn check(&self) -> Result<(), String> {
        for (name, share) in [("gate.noise", self.noise), ("gate.most_loss", self.most_loss)] {
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("{name}: found {share}, expected a share from 0 to 1"));
            }
        }
        time("gate.rest_s", self.rest_s)?;
        let most = self.migrations_per_s;
        if !(most > 0.0 && most <= 1e6) {
            let expected = "expected more than 0 and at most 1e6";
            return Err(format!("gate.migrations_per_s: found {most}, {expected}"));
        }
        Ok(())
    }
}

fn address_or_off<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    if text == "off" {
        return Ok(None);
    }
    let expected = || format!("metrics: found `{text}`, expected ADDRESS:PORT or off");
    text.parse().map(Some).map_err(|_| D::Error::custom(expected()))
}

fn seconds_or_never<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    match toml::Value::deserialize(from)? {
        toml::Value::Float(seconds) => Ok(Some(seconds)),
        toml::Value::Integer(seconds) => Ok(Some(seconds as f64)),
        toml::Value::String(text) if text == "never" => Ok(None),
        other => {
            let found = format!("spill_after_s: found `{other}`, expected seconds or \"never\"");
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
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::input(format!("{shown}: {error}"))
                .hint("corun check-config --example, which writes one to start from")
        })?;
        let config = Self::from_toml(&text, &shown.to_string())?;
        if config.policy != AUTO_POLICY {
            return Ok(config);
        }
        let counters = config.counters_by_name().map_err(Error::input)?;
        let machine = this_machine(config.machine.as_deref())?;
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
        let shown = path.display();
        let no_good = |why: &dyn std::fmt::Display| Error::input(format!("{shown}: {why}"));
        let text = std::fs::read_to_string(path).map_err(|error| no_good(&error))?;
        let line = text.lines().find(|line| line.trim_start().starts_with("journals"));
        let table = toml::from_str::<toml::Table>(&text)
            .or_else(|error| line.map_or(Err(error), toml::from_str))
            .map_err(|error| no_good(&error))?;
        match table.get("journals") {
            None => Ok(default_folder()),
            Some(toml::Value::String(folder)) => Ok(folder.into()),
            Some(_) => Err(no_good(&"journals: expected a folder's name")),
        }
    }

    fn from_toml(text: &str, file: &str) -> Result<Self> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            let message = error.message().trim().replace('\n', " ");
            Error::input(format!("{file}:{line}: {message}"))
        })?;
        config.check().map_err(|why| Error::input(format!("{file}: {why}")))?;
        if config.policy == AUTO_POLICY {
            // Policies that may be chosen have different parameters, and may all act.
            return Ok(config);
        }
        let options = BuildOptions { seed: config.seed, parameters: config.parameters.clone() };
        corun_app::build_policies_with(&config.policy, &options)?;
        corun_app::check_live_form(&config.policy, config.untested || !config.apply)
            .map_err(Error::in_settings)?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        self.interval_s.map_or(Ok(()), interval)?;
        self.stall()?;
        self.gate.check()?;
        self.counters_by_name()?;
        self.placer_by_name()?;
        self.reading_by_name()?;
        if let Some(seconds) = self.spill_after_s.filter(|seconds| *seconds != 0.0) {
            time("spill_after_s", seconds)?;
        }
        if self.policy == AUTO_POLICY && !self.parameters.is_empty() {
            return Err(
                "parameters: policy = \"auto\" may choose a policy without them; expected \
                        the name of a policy"
                    .into(),
            );
        }
        if self.programs.is_empty() {
            return Err(
                "no [[program]]: expected one at least, corun schedules nothing else".into()
            );
        }
        if self.viewers_may_act && self.viewers.is_none() {
            return Err("viewers_may_act: nothing is shown to viewers, expected viewers = \"/run/corun/viewers.sock\"".into());
        }
        if self.viewers_may_act && self.apply {
            return Err(
                "viewers_may_act: apply = true has the policy act by itself; expected one of them"
                    .into(),
            );
        }
        let mut names = BTreeSet::new();
        for (place, program) in self.programs.iter().enumerate() {
            program.check().map_err(|why| format!("program {}: {why}", place + 1))?;
            if !names.insert(&program.name) {
                return Err(format!("program {}: name `{}` stands twice", place + 1, program.name));
            }
        }
        Ok(())
    }

    /// Is anything changed on this machine, by the policy or as viewers order?
    pub(crate) fn may_act(&self) -> bool {
        self.apply || self.viewers_may_act
    }

    /// The longest time that a round may take.
    pub(crate) fn stall(&self) -> Result<Duration, String> {
        time("stall_s", self.stall_s)
    }

    fn counters_by_name(&self) -> Result<Counters, String> {
        Counters::named(&self.counters).ok_or_else(|| {
            format!("counters: found `{}`, expected auto, perf, profiles or model", self.counters)
        })
    }

    fn placer_by_name(&self) -> Result<Placer, String> {
        Placer::named(&self.backend).ok_or_else(|| {
            format!("backend: found `{}`, expected affinity, sched-ext or auto", self.backend)
        })
    }

    fn reading_by_name(&self) -> Result<ThreadReading, String> {
        ThreadReading::named(&self.threads_by).ok_or_else(|| {
            format!("threads_by: found `{}`, expected auto, bpf or files", self.threads_by)
        })
    }

    /// What its host is made by. `dry_run`: nothing is done.
    ///
    /// # Errors
    /// None that a checked configuration has.
    pub fn host_settings(&self, dry_run: bool) -> Result<HostSettings> {
        Ok(HostSettings {
            policy: self.policy.clone(),
            counters: self.counters_by_name().map_err(Error::input)?,
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
                placer: self.placer_by_name().map_err(Error::input)?,
                spill_after_s: self.spill_after_s.unwrap_or(f64::INFINITY),
                counts_wakers: self.wakers,
                ..PlacerSettings::default()
            },
            reading: self.reading_by_name().map_err(Error::input)?,
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

fn interval(seconds: f64) -> Result<(), String> {
    time("interval_s", seconds)?;
    // A shorter one would keep a CPU busy with looking.
    if seconds < LEAST_INTERVAL_S {
        return Err(format!("interval_s: found {seconds}, expected at least {LEAST_INTERVAL_S}"));
    }
    Ok(())
}

/// A time that can be waited for.
fn time(name: &str, seconds: f64) -> Result<Duration, String> {
    let expected = || format!("{name}: found {seconds}, expected more than 0 and at most 1e9");
    let fits = seconds > 0.0 && seconds <= 1e9;
    Duration::try_from_secs_f64(seconds).ok().filter(|_| fits).ok_or_else(expected)
}

impl ProgramRule {
    fn check(&self) -> Result<(), String> {
        if self.name.is_empty() {
            return Err("name: missing, expected what it is to be called".to_owned());
        }
        if self.name.chars().any(char::is_control) {
            let shown = self.name.escape_debug();
            return Err(format!(
                "name: found `{shown}`, expected a name without control characters"
            ));
        }
        let parts = [&self.user, &self.command, &self.arguments, &self.cgroup, &self.unit];
        if self.pid.is_none() && parts.iter().all(|part| part.is_none()) {
            let expected = "expected one at least of pid, user, command, arguments, cgroup, unit";
            return Err(format!("`{}` says nothing to know it by: {expected}", self.name));
        }
        let names = ["user", "command", "arguments", "cgroup", "unit"];
        if let Some((name, _)) =
            names.iter().zip(parts).find(|(_, part)| part.as_deref() == Some(""))
        {
            return Err(format!(
                "`{}`: {name}: found nothing, expected whom it is about",
                self.name
            ));
        }
        let part_of_a_group = self.pid.is_some()
            || [&self.user, &self.command, &self.arguments].iter().any(|part| part.is_some());
        if self.hold == HoldName::Cgroup && part_of_a_group {
            let expected = "expected to be known by cgroup or unit alone";
            return Err(format!(
                "`{}`: hold = \"cgroup\" moves all that is in the group: {expected}",
                self.name
            ));
        }
        Ok(())
    }

    fn target(&self) -> Target {
        let rule = Rule {
            pid: self.pid,
            user: self.user.clone(),
            command: self.command.clone(),
            arguments: self.arguments.clone(),
            cgroup: self.cgroup.clone(),
            unit: self.unit.clone(),
        };
        Target {
            profile: self.profile.clone(),
            important: self.important,
            pin: match self.hold {
                HoldName::Threads => PinScope::Threads,
                HoldName::Cgroup => PinScope::Cgroup,
            },
            ..Target::new(self.name.as_str(), ProcessSelector::Rule(rule))
        }
    }
}

/// A file to start from: it changes nothing until `apply` is set.
pub const EXAMPLE: &str = include_str!("../config.toml");

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Config::from_toml(text, "c.toml").unwrap_err().report()
    }

    #[test]
    fn the_example_is_a_configuration_that_only_looks() {
        let config = Config::from_toml(EXAMPLE, "example").unwrap();
        assert!(!config.apply);
        let own = Config { programs: config.programs.clone(), ..Config::default() };
        assert_eq!(config, own, "the example shows the defaults");
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place() {
        let program = "[[program]]\nname = \"a\"\ncommand = \"a\"\n";
        for (text, expected) in [
            (format!("polcy = \"dio\"\n{program}"), "c.toml:1: unknown field `polcy`"),
            (format!("apply = 1\n{program}"), "c.toml:1: invalid type"),
            (format!("interval_s = 0\n{program}"), "interval_s: found 0, expected more than 0"),
            (format!("interval_s = 1e-6\n{program}"), "found 0.000001, expected at least 0.01"),
            (format!("stall_s = -1\n{program}"), "stall_s: found -1"),
            (format!("stall_s = 1e20\n{program}"), "expected more than 0 and at most 1e9"),
            (format!("stall_s = inf\n{program}"), "stall_s: found inf"),
            (format!("interval_s = 1e20\n{program}"), "interval_s: found 100000000000000000000"),
            (format!("counters = \"pmu\"\n{program}"), "counters: found `pmu`, expected auto"),
            (
                format!("threads_by = \"ebpf\"\n{program}"),
                "threads_by: found `ebpf`, expected auto",
            ),
            (format!("policy = \"doi\"\n{program}"), "unknown policy `doi`"),
            (
                format!("policy = \"dio\"\nparameters = {{ measur = 1 }}\n{program}"),
                "unknown parameter `measur`",
            ),
            (
                format!("parameters = {{ measure = 1 }}\n{program}"),
                "policy = \"auto\" may choose a policy without them",
            ),
            (
                format!("metrics = \"here\"\n{program}"),
                "c.toml:1: metrics: found `here`, expected ADDRESS:PORT or off",
            ),
            (format!("{program}profile = \"a\u{1b}[2J\"\n"), "c.toml:4: "),
            ("[[program]]\nname = \"a\\u001b[2J\"\npid = 1\n".into(), "a name without control"),
            (format!("gate.noise = 2\n{program}"), "gate.noise: found 2, expected a share"),
            (format!("gate.rest_s = 0\n{program}"), "gate.rest_s: found 0"),
            (format!("gate.migrations_per_s = nan\n{program}"), "gate.migrations_per_s: found NaN"),
            (format!("gate.no = 1\n{program}"), "unknown field `no`"),
            (
                format!("apply = true\npolicy = \"vbsc\"\n{program}"),
                "policy `vbsc` is not known to do well on a real machine",
            ),
            (String::new(), "no [[program]]"),
            ("[[program]]\nname = \"a\"\n".to_owned(), "says nothing to know it by"),
            ("[[program]]\ncommand = \"a\"\n".to_owned(), "name: missing"),
            (format!("{program}{program}"), "name `a` stands twice"),
            (format!("{program}unti = \"b\"\n"), "c.toml:4: unknown field `unti`"),
            (format!("{program}hold = \"cgroup\"\n"), "known by cgroup or unit alone"),
        ] {
            let found = refused(&text);
            assert!(found.contains(expected), "{text}: {found}");
        }
    }
}
