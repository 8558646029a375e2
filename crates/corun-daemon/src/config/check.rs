//! What a configuration may say. What it may not is told with file, line and key.

use std::collections::BTreeSet;
use std::time::Duration;

use corun_app::{Error, Result};
use corun_hosting::{AUTO_POLICY, Counters, LEAST_INTERVAL_S, this_machine};
use corun_input::{Fault, PathStep};
use corun_live::LiveError;
use corun_policy::BuildOptions;

use super::{Config, GateConfig, HoldName, ProgramRule};

type Checked<T = ()> = std::result::Result<T, Fault>;

impl Config {
    /// Can all of it be?
    ///
    /// # Errors
    /// The first that cannot, with its place in the file.
    pub(super) fn check(&self) -> Result {
        self.check_values().map_err(|fault| self.source.error(&fault))?;
        for (index, program) in self.programs.iter().enumerate() {
            let at = |key: &str| format!("program[{index}].{key}");
            program.rule().check().map_err(|error| match error {
                LiveError::BadPattern { field, .. } => {
                    let why = error.to_string();
                    let why = why.strip_prefix(&format!("{field}: ")).unwrap_or(&why);
                    self.source.at_field(&at(field), why).into()
                }
                other => self.at(&at("user"), Error::live(other)),
            })?;
        }
        self.check_policy()
    }

    fn check_values(&self) -> Checked {
        self.interval_s.map_or(Ok(()), interval)?;
        self.stall()?;
        self.gate.check().map_err(|fault| fault.under(PathStep::Key("gate")))?;
        self.counters_by_name()?;
        self.placer_by_name()?;
        self.reading_by_name()?;
        if let Some(seconds) = self.spill_after_s.filter(|seconds| *seconds != 0.0) {
            time("spill_after_s", seconds)?;
        }
        self.check_viewers()?;
        if self.programs.is_empty() {
            let why = "found none, expected at least one [[program]]: corun schedules nothing else";
            return refused("program", why);
        }
        let mut names = BTreeSet::new();
        for (index, program) in self.programs.iter().enumerate() {
            let seen = !names.insert(&program.name);
            program.check(seen).map_err(|fault| {
                fault.under(PathStep::Index(index)).under(PathStep::Key("program"))
            })?;
        }
        Ok(())
    }

    fn check_viewers(&self) -> Checked {
        if self.viewers_may_act && self.viewers.is_none() {
            let why = "nothing is shown to viewers, expected viewers = \"/run/corun/viewers.sock\"";
            return refused("viewers_may_act", why);
        }
        if self.viewers_may_act && self.apply {
            let why = "apply = true has the policy act by itself; expected one of them";
            return refused("viewers_may_act", why);
        }
        Ok(())
    }

    /// Does the policy exist, have these parameters, and may it act?
    fn check_policy(&self) -> Result {
        if self.policy == AUTO_POLICY {
            // Policies that may be chosen have different parameters, and may all act.
            if self.parameters.is_empty() {
                return Ok(());
            }
            let why =
                "policy = \"auto\" may choose a policy without them; expected the name of a policy";
            return Err(self.source.at_field("parameters", why).into());
        }
        let at_policy = |failure| self.at("policy", failure);
        corun_app::policy_names(&self.policy).map_err(at_policy)?;
        for (name, value) in &self.parameters {
            let parameters = [(name.clone(), *value)].into();
            let options = BuildOptions { seed: self.seed, parameters };
            corun_app::build_policies_with(&self.policy, &options)
                .map_err(|failure| self.at(&format!("parameters.{name}"), failure))?;
        }
        corun_app::check_live_form(&self.policy, self.untested || !self.apply)
            .map_err(|failure| at_policy(failure.in_settings()))
    }

    /// The longest time that a round may take.
    pub(crate) fn stall(&self) -> Checked<Duration> {
        time("stall_s", self.stall_s)
    }

    /// Bad input with the place of a field in the file.
    pub(crate) fn at(&self, field: &str, failure: Error) -> Error {
        failure.at(|why| self.source.at_field(field, why))
    }

    /// Why no host could be made, with the place of what is to blame where that is a file or a name that the
    /// configuration gives.
    pub(crate) fn blamed(&self, failure: Error) -> Error {
        if let Some(Err(failure)) = self.machine.as_deref().map(|path| this_machine(Some(path))) {
            return self.at("machine", failure);
        }
        let library = match corun_app::open_library(self.profiles.as_deref()) {
            Err(failure) if self.profiles.is_some() => return self.at("profiles", failure),
            Err(_) => return failure,
            Ok(library) => library,
        };
        if self.counters_by_name() != Ok(Counters::Model) {
            return failure;
        }
        let mut unknown =
            self.profile_names().into_iter().enumerate().filter_map(|(index, name)| {
                library.get(name).err().map(|error| (index, Error::from(error)))
            });
        match unknown.next() {
            Some((index, failure)) => self.at(&self.profile_field(index), failure),
            None => failure,
        }
    }

    /// The field that names the profile of a program.
    pub(crate) fn profile_field(&self, index: usize) -> String {
        let is_given = self.programs.get(index).is_some_and(|program| program.profile.is_some());
        format!("program[{index}].{}", if is_given { "profile" } else { "name" })
    }
}

impl GateConfig {
    fn check(&self) -> Checked {
        for (key, share) in [("noise", self.noise), ("most_loss", self.most_loss)] {
            if !(0.0..=1.0).contains(&share) {
                return refused(key, format!("found {share}, expected a share from 0 to 1"));
            }
        }
        time("rest_s", self.rest_s)?;
        let most = self.migrations_per_s;
        if !(most > 0.0 && most <= 1e6) {
            let why = format!("found {most}, expected more than 0 and at most 1e6");
            return refused("migrations_per_s", why);
        }
        Ok(())
    }
}

impl ProgramRule {
    /// `is_second`: another program has its name.
    fn check(&self, is_second: bool) -> Checked {
        if self.name.is_empty() {
            return refused("name", "missing, expected what it is to be called");
        }
        if self.name.chars().any(char::is_control) {
            let shown = self.name.escape_debug();
            let why = format!("found `{shown}`, expected a name without control characters");
            return refused("name", why);
        }
        if is_second {
            return refused("name", format!("`{}` stands twice", self.name));
        }
        if self.pid == Some(0) {
            return refused("pid", "found 0, expected the number of a process");
        }
        let parts = [
            ("user", &self.user),
            ("command", &self.command),
            ("arguments", &self.arguments),
            ("cgroup", &self.cgroup),
            ("unit", &self.unit),
        ];
        if self.pid.is_none() && parts.iter().all(|(_, part)| part.is_none()) {
            let expected = "expected one at least of pid, user, command, arguments, cgroup, unit";
            let why = format!("`{}` says nothing to know it by: {expected}", self.name);
            return Err(Fault::here(why));
        }
        if let Some((key, _)) = parts.iter().find(|(_, part)| part.as_deref() == Some("")) {
            return refused(key, "found nothing, expected whom it is about");
        }
        let part_of_a_group = self.pid.is_some()
            || [&self.user, &self.command, &self.arguments].iter().any(|part| part.is_some());
        if self.hold == HoldName::Cgroup && part_of_a_group {
            let why = "\"cgroup\" moves all that is in the group: expected to be known by cgroup or unit alone";
            return refused("hold", why);
        }
        Ok(())
    }
}

pub(super) fn refused<T>(key: &'static str, why: impl Into<String>) -> Checked<T> {
    Err(Fault::here(why).under(PathStep::Key(key)))
}

fn interval(seconds: f64) -> Checked {
    time("interval_s", seconds)?;
    // A shorter one would keep a CPU busy with looking.
    if seconds < LEAST_INTERVAL_S {
        let why = format!("found {seconds}, expected at least {LEAST_INTERVAL_S}");
        return refused("interval_s", why);
    }
    Ok(())
}

/// A time that can be waited for.
fn time(key: &'static str, seconds: f64) -> Checked<Duration> {
    let fits = seconds > 0.0 && seconds <= 1e9;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if fits => Ok(time),
        _ => refused(key, format!("found {seconds}, expected more than 0 and at most 1e9")),
    }
}
