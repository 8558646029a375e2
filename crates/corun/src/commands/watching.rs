//! Whom a watching command watches and with what, from what was typed.

use std::path::Path;

use corun_app::NO_POLICY;
use corun_daemon::Config;
use corun_hosting::{Counters, HostBuilder, HostSettings, Look, Program, Watch, WatchSettings};
use corun_linux::{Roots, facts};
use corun_live::{ProcessSelector, Rule, Target, commands_of, profile_of};
use corun_policy::{CounterKind, Nanoseconds};

use crate::cli::{FigureArgs, TargetArgs};
use crate::failure::{Failure, Outcome};

/// What a watching host is to be.
pub(super) struct Asked<'a> {
    pub(super) targets: &'a TargetArgs,
    pub(super) figures: &'a FigureArgs,
    pub(super) policy: Option<&'a str>,
    pub(super) seed: u64,
    /// Counters to have, where there are any.
    pub(super) counters: Vec<CounterKind>,
    /// What a program prints that is started is dropped.
    pub(super) out_of_sight: bool,
    /// May a person act on them?
    pub(super) act: bool,
    /// Where the journal of that is kept; the user's folder where absent.
    pub(super) journals: Option<&'a Path>,
    /// Where nobody is named, all programs are watched that this user may look into; else that is an error.
    pub(super) else_all: bool,
}

/// The host that only looks, as it was asked for. Nothing is started yet.
pub(super) fn watch(asked: &Asked<'_>) -> Outcome<Watch> {
    let typed = asked.targets;
    let config = typed.config.as_deref().map(Config::load).transpose()?;
    let own = config.as_ref().map(|config| config.host_settings(true)).transpose()?;
    let policy = asked.policy.or(own.as_ref().map(|own| own.policy.as_str()));
    let policy = policy.filter(|name| *name != NO_POLICY).map(str::to_owned);
    let counters = (asked.figures.counters.map(Counters::from))
        .or(own.as_ref().map(|own| own.counters))
        .unwrap_or(Counters::Auto);
    let host = HostSettings {
        policy: policy.clone().unwrap_or_else(|| NO_POLICY.to_owned()),
        profiles: (asked.figures.profiles.clone())
            .or(own.as_ref().and_then(|own| own.profiles.clone())),
        interval_s: own.as_ref().and_then(|own| own.interval_s),
        machine: own.as_ref().and_then(|own| own.machine.clone()),
        seed: asked.seed,
        // Of the policy that the configuration names.
        set: own
            .filter(|own| policy.as_ref() == Some(&own.policy))
            .map_or(Vec::new(), |own| own.set),
        dry_run: !asked.act,
        journals: asked.journals.map(Path::to_owned),
        ..HostSettings::that_looks(counters)
    };
    let builder = HostBuilder::new(&host)?;
    builder.check_profiles(&typed.profile.iter().map(String::as_str).collect::<Vec<_>>())?;
    let mut targets = match &config {
        Some(config) => config.targets(),
        None if asked.else_all && !typed.is_given() => vec![everybody(typed.profile.clone())],
        None => targets(typed)?,
    };
    if counters == Counters::Model {
        targets.iter_mut().for_each(|target| find_profile(target, &builder));
    }
    let program = (!typed.program.is_empty()).then(|| {
        let program = Program::of_command(&typed.program, typed.profile.as_deref());
        if asked.out_of_sight { program.out_of_sight() } else { program }
    });
    let profiles: Vec<String> = match &config {
        Some(config) => config.profile_names().into_iter().map(str::to_owned).collect(),
        None => targets.iter().filter_map(|one| one.profile.clone()).collect(),
    };
    let has_profile =
        !profiles.is_empty() || program.as_ref().is_some_and(|one| one.profile().is_some());
    if counters == Counters::Model && !has_profile {
        let what = "--counters model computes counts from stored profiles, and nobody's is named \
                    or found by the command line of a --pid";
        return Err(Failure::input(what)
            .hint("--profile NAME, which all of them run (corun profiles lists the names)")
            .hint("--config FILE, with a profile for each"));
    }
    let settings = WatchSettings {
        host,
        policy,
        named: config.is_some() || typed.profile.is_some() || program.is_some(),
        targets,
        profiles,
        program,
        look: Look {
            every: Nanoseconds::from_secs_f64(asked.figures.interval),
            counters: asked.counters.clone(),
        },
        acts: asked.act,
    };
    Watch::new(builder, settings)
}

/// Gives a process that was named by its number the profile that its command line leads to.
fn find_profile(target: &mut Target, builder: &HostBuilder) {
    let ProcessSelector::Rule(Rule { pid: Some(pid), .. }) = &target.processes else { return };
    let commands = commands_of(&Roots::default(), *pid);
    let found = || profile_of(builder.library(), &commands).map(|profile| profile.name.clone());
    target.profile = target.profile.take().or_else(found);
}

/// All programs of this user; of root, all there are.
pub(super) fn everybody(profile: Option<String>) -> Target {
    let (name, rule) = match own_user() {
        None => ("all".to_owned(), Rule { command: Some("*".to_owned()), ..Rule::default() }),
        Some(user) => (user.to_string(), Rule { user: Some(user.to_string()), ..Rule::default() }),
    };
    let target = Target::new(name, ProcessSelector::Rule(rule));
    Target { profile, ..target }
}

/// The number of the user whose processes are meant where nobody is named; none for root, who means everybody's.
pub(super) fn own_user() -> Option<u32> {
    let user = rustix::process::geteuid();
    (!user.is_root()).then(|| user.as_raw())
}

/// Whom options name: each `--pid` by itself, and each combination of the other options, named by those of its parts
/// that tell it from the others.
pub(super) fn targets(typed: &TargetArgs) -> Outcome<Vec<Target>> {
    let target = |name: String, rule: Rule| Target {
        profile: typed.profile.clone(),
        ..Target::new(name, ProcessSelector::Rule(rule))
    };
    if !typed.pid.is_empty() {
        let mut targets = Vec::new();
        for &pid in &typed.pid {
            let found = facts(&Roots::default(), pid, pid).map_err(|_| {
                Failure::input(format!("no process has the number {pid}")).hint("pgrep -a NAME")
            })?;
            let of_pid = |(_, rule)| Target {
                name_is_profile: false,
                ..target(found.name.clone(), Rule { pid: Some(pid), ..rule })
            };
            targets.extend(rules(typed).into_iter().map(of_pid));
        }
        return Ok(targets);
    }
    if rules(typed).iter().any(|(_, rule)| *rule != Rule::default()) {
        return Ok(rules(typed).into_iter().map(|(name, rule)| target(name, rule)).collect());
    }
    if !typed.program.is_empty() {
        return Ok(Vec::new());
    }
    Err(Failure::input("nothing to watch")
        .hint("--user NAME, --command PATTERN, --unit UNIT or --pid PID")
        .hint("--config /etc/corun/config.toml, for what the daemon schedules")
        .hint("-- PROGRAM, which is started"))
}

/// One rule for each combination of the options' values, with a name: of an option that is given twice either value holds,
/// of different options all do.
fn rules(typed: &TargetArgs) -> Vec<(String, Rule)> {
    type Set = fn(&mut Rule, String);
    let options: [(&[String], Set); 5] = [
        (&typed.unit, |rule, value| rule.unit = Some(value)),
        (&typed.cgroup, |rule, value| rule.cgroup = Some(value)),
        (&typed.command, |rule, value| rule.command = Some(value)),
        (&typed.user, |rule, value| rule.user = Some(value)),
        (&typed.arguments, |rule, value| rule.arguments = Some(value)),
    ];
    let is_repeated = options.iter().any(|(values, _)| values.len() > 1);
    let mut rules = vec![(String::new(), Rule::default())];
    for (values, set) in options.into_iter().filter(|(values, _)| !values.is_empty()) {
        let tells = values.len() > 1 || !is_repeated && rules[0].0.is_empty();
        let combined = rules.iter().flat_map(|(name, rule)| {
            values.iter().map(move |value| {
                let (mut name, mut rule) = (name.clone(), rule.clone());
                set(&mut rule, value.clone());
                if tells {
                    name.push_str(if name.is_empty() { "" } else { " " });
                    name.push_str(value);
                }
                (name, rule)
            })
        });
        rules = combined.collect();
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(typed: &TargetArgs) -> Vec<String> {
        targets(typed).unwrap().iter().map(|one| one.name.to_string()).collect()
    }

    #[test]
    fn an_option_that_is_given_twice_names_both() {
        let strings = |values: &[&str]| values.iter().map(ToString::to_string).collect();
        let mut typed = TargetArgs { command: strings(&["sort", "xz"]), ..TargetArgs::default() };
        assert_eq!(named(&typed), ["sort", "xz"]);
        typed.user = strings(&["root"]);
        assert_eq!(named(&typed), ["sort", "xz"]);
        let both = targets(&typed).unwrap();
        let rule = |command: &str| Rule {
            command: Some(command.to_owned()),
            user: Some("root".to_owned()),
            ..Rule::default()
        };
        let expected = ["sort", "xz"].map(|command| ProcessSelector::Rule(rule(command)));
        assert_eq!([&both[0].processes, &both[1].processes], [&expected[0], &expected[1]]);
        typed.unit = strings(&["a", "b"]);
        assert_eq!(named(&typed), ["a sort", "a xz", "b sort", "b xz"]);
        typed.command.truncate(1);
        assert_eq!(named(&typed), ["a", "b"]);
        typed.unit.truncate(1);
        assert_eq!(named(&typed), ["a"]);
    }

    #[test]
    fn where_nobody_is_named_there_is_nothing_to_watch() {
        assert!(targets(&TargetArgs::default()).is_err());
    }
}
