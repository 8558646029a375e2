//! `corun partition`: who shares which ways of an LLC, by a policy, as given, or the best there is.

mod document;
mod ground;
mod masks;
mod optimum;
mod to_report;
mod view;

use std::collections::BTreeMap;

use anyhow::anyhow;
use corun_optimal::Goal;
use corun_optimal::partition::Kind;
use corun_policy::{
    BuildOptions, Input, Partition, PolicyEntry, PolicyKind, WaysCurve, build_partitioner, registry,
};

use self::document::{Document, Entry};
use self::ground::Ground;
use crate::cancel::Cancel;
use crate::cli::PartitionArgs;
use crate::failure::{Failure, Outcome};
use crate::output::{check_target, write_file};

/// The name of given masks.
const USER: &str = "user";

pub(super) fn run(arguments: &PartitionArgs) -> Outcome<String> {
    if let Some(path) = &arguments.report {
        check_target(path)?;
    }
    let asked = Asked::of(arguments)?;
    known_parameters(arguments)?;
    let ground = Ground::new(arguments)?;
    let cancel = Cancel::on_signal()?;
    let fits = ground.curves.len() as u64 * u64::from(ground.least_ways) <= u64::from(ground.ways);
    // With --all alone nobody asked for strict partitioning.
    let cluster = arguments.cluster || (arguments.policy.is_none() && !fits);
    let kind = if cluster { Kind::Cluster } else { Kind::Strict };
    let search = |goal, kind| optimum::search(&ground, arguments, goal, kind, &cancel);
    let objective = arguments.objective;
    let chosen = match asked {
        Asked::Masks(masks) => {
            let partition = masks::partition(&masks, &ground, arguments.allow_overlap)?;
            Entry::new(&ground, USER, objective, &partition)
        }
        Asked::Policy(name) => {
            let partition = decide(name, &ground, arguments)?;
            Entry::new(&ground, name, objective, &partition)
        }
        Asked::Search(goal) => search(goal, kind)?,
    };
    let mut others = Vec::new();
    if arguments.all {
        for kind in [Kind::Cluster, Kind::Strict] {
            others.push(or_why_not(optimum::name(Goal::Best, kind), search(Goal::Best, kind))?);
        }
        for entry in policies() {
            let decided = decide(entry.name, &ground, arguments);
            let entry_of = |partition| Entry::new(&ground, entry.name, objective, &partition);
            others.push(or_why_not(entry.name, decided.map(entry_of))?);
        }
        if chosen.policy == USER {
            others.push(chosen.clone());
        }
        let best = others.iter().filter(|entry| entry.proven.is_some());
        if let Some(best) = best.filter_map(|entry| entry.value).next() {
            others.iter_mut().for_each(|entry| entry.measure(objective, best));
        }
    }
    let document = Document::new(&ground, objective, chosen, others);
    let text = document.write(arguments.format)?;
    cancel.check()?;
    if let Some(path) = &arguments.report {
        write_file(path, to_report::report(&document, &ground).render().as_bytes())?;
    }
    Ok(text)
}

/// An entry, or one that says why there is no such partition.
fn or_why_not(name: &str, entry: Outcome<Entry>) -> Outcome<Entry> {
    match entry {
        Err(Failure::Input { message, .. }) => Ok(Entry::without(name, message)),
        other => other,
    }
}

/// What was asked for beside `--all`.
enum Asked<'a> {
    Masks(Vec<u64>),
    Policy(&'a str),
    Search(Goal),
}

impl<'a> Asked<'a> {
    fn of(arguments: &'a PartitionArgs) -> Outcome<Self> {
        if !arguments.masks.is_empty() {
            return Ok(Self::Masks(arguments.masks.clone()));
        }
        let Some(name) = arguments.policy.as_deref() else {
            if arguments.all {
                return Ok(Self::Search(Goal::Best));
            }
            return Err(Failure::input(
                "nothing to partition by: expected a policy, masks or --all",
            )
            .hint("--policy NAME, --masks 0x3,0x7c,.., or --all"));
        };
        match name {
            "optimal" => return Ok(Self::Search(Goal::Best)),
            "worst" => return Ok(Self::Search(Goal::Worst)),
            _ if policies().any(|entry| entry.name == name) => return Ok(Self::Policy(name)),
            _ => {}
        }
        if let Some(entry) = registry().iter().find(|entry| entry.name == name) {
            if entry.kind() == PolicyKind::Partitioning {
                let message = format!(
                    "policy `{name}` decides by what it measures while programs run: there is nothing \
                     to decide beforehand"
                );
                return Err(
                    Failure::input(message).hint(format!("corun compare --policy {name} .."))
                );
            }
            let message = format!("policy `{name}` places programs and does not partition caches");
            return Err(Failure::input(message).hint(format!("corun place --policy {name} ..")));
        }
        let known = ["optimal", "worst"].into_iter().chain(policies().map(|entry| entry.name));
        Err(Failure::unknown("partitioning policy", name, known))
    }
}

/// The policies that partition.
fn policies() -> impl Iterator<Item = &'static PolicyEntry> {
    registry().iter().filter(|entry| entry.partitions_by_curves())
}

/// What a policy decides.
fn decide(name: &str, ground: &Ground, arguments: &PartitionArgs) -> Outcome<Partition> {
    let parameters = parameters(name, arguments);
    let options = BuildOptions { seed: arguments.seed, parameters };
    let mut partitioner =
        build_partitioner(name, &options).map_err(|error| Failure::input(error.to_string()))?;
    let curves: Vec<&WaysCurve> = ground.curves.iter().map(AsRef::as_ref).collect();
    let input = Input {
        curves: &curves,
        ways: ground.ways,
        least_ways: ground.least_ways,
        peak_bytes_per_s: ground.peak_bytes_per_s,
    };
    let mut partition = Partition::default();
    partitioner.partition(&input, &mut partition).map_err(|error| {
        let failure = Failure::input(format!("{name}: {error}"));
        match error {
            corun_policy::PartitionError::TooManyPrograms { .. } => failure.hint(
                "a policy that clusters programs: --policy lfoc, --policy kpart or --policy dunn",
            ),
            _ => failure,
        }
    })?;
    if partition.cluster.len() != ground.curves.len() {
        return Err(anyhow!("{name} left a program out").into());
    }
    Ok(partition)
}

/// # Errors
/// Bad input for a parameter that no partitioning policy has.
fn known_parameters(arguments: &PartitionArgs) -> Outcome {
    let known = || policies().flat_map(|entry| entry.parameters).map(|one| one.name);
    match arguments.set.iter().find(|(key, _)| !known().any(|name| name == key)) {
        Some((key, _)) => Err(Failure::unknown("parameter", key, known())),
        None => Ok(()),
    }
}

/// The parameters that were set for a policy; with `--all`, those that it has.
fn parameters(name: &str, arguments: &PartitionArgs) -> BTreeMap<String, f64> {
    let own = |key: &str| {
        let mut of_policy = policies().filter(|entry| entry.name == name);
        of_policy.any(|entry| entry.parameters.iter().any(|one| one.name == key))
    };
    let mut parameters = BTreeMap::new();
    // PBBCache grants one way short.
    if arguments.model.compat.is_some() && own("one-way-short") {
        parameters.insert("one-way-short".to_owned(), 1.0);
    }
    let set = arguments.set.iter().filter(|(key, _)| own(key) || !arguments.all);
    parameters.extend(set.cloned());
    parameters
}
